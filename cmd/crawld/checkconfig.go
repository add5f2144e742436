package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/crawld/crawld/internal/app"
	"github.com/crawld/crawld/internal/config"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/planner"
)

// sources are the flags with which run, plan and check-config are told what to
// crawl.
type sources struct {
	config  string
	sensors []string
	data    string
	web     config.Web // of flags; what they do not say is empty
}

func (s *sources) flags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&s.config, "config", "c", "", "configuration file (YAML)")
	cmd.Flags().StringArrayVar(&s.sensors, "sensors", nil,
		"sensor list or glob instead of the configuration's sensor_files; may be repeated")
}

// webFlags have the names and the meaning of those of Prometheus and its exporters.
func (s *sources) webFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&s.web.Listen, "web.listen-address", nil,
		"HTTP address, wins over web.listen; may be repeated")
	f.StringVar(&s.web.ConfigFile, "web.config.file", "",
		"file that can enable TLS and basic auth, in the format of exporter-toolkit")
	f.BoolVar(&s.web.SystemdSocket, "web.systemd-socket", false,
		"take the listening sockets from systemd instead of addresses")
	f.StringVar(&s.web.ExternalURL, "web.external-url", "",
		"URL under which clients reach crawld through a reverse proxy")
	f.StringVar(&s.web.RoutePrefix, "web.route-prefix", "",
		"what the paths of all routes begin with (default: the path of --web.external-url)")
}

// overrideWeb puts what flags say over the keys.
func (s *sources) overrideWeb(w *config.Web) error {
	if len(s.web.Listen) > 0 {
		w.Listen = s.web.Listen
	}
	if s.web.ExternalURL != "" {
		w.ExternalURL = s.web.ExternalURL
	}
	if s.web.RoutePrefix != "" {
		w.RoutePrefix = s.web.RoutePrefix
	}
	if s.web.ConfigFile != "" {
		w.ConfigFile = s.web.ConfigFile
	}
	w.SystemdSocket = w.SystemdSocket || s.web.SystemdSocket
	return w.Check()
}

// load reads the configuration, or the defaults with lists alone, and applies
// the flags: they win over keys.
func (s *sources) load() (config.Config, []string, error) {
	c := config.Default()
	switch {
	case s.config != "":
		loaded, err := config.Load(s.config)
		if err != nil {
			return c, nil, invalid(err)
		}
		c = *loaded
	case len(s.sensors) == 0:
		return c, nil, usage(fmt.Errorf("nothing to crawl: give --config FILE or --sensors LIST"))
	}
	if s.data != "" {
		c.Data = s.data
	}
	if err := s.overrideWeb(&c.Web); err != nil {
		return c, nil, usage(err)
	}
	patterns := c.SensorFiles
	if len(s.sensors) > 0 {
		patterns = s.sensors
	}
	if len(patterns) == 0 {
		return c, nil, invalid(fmt.Errorf(
			"%s: sensor_files: no source of sensors; name a list there or give --sensors", s.config))
	}
	return c, patterns, nil
}

// fleet reads the lists as the daemon does.
func (s *sources) fleet() (config.Config, *fleet.Fleet, []config.Refusal, error) {
	c, patterns, err := s.load()
	if err != nil {
		return c, nil, nil, err
	}
	f, refused, err := c.LoadSensors(patterns)
	if err == nil {
		err = config.CheckGroups(c.Groups, f, refused)
	}
	if err != nil {
		return c, nil, nil, invalid(err)
	}
	par, err := app.Parameters(c)
	if err != nil {
		return c, nil, nil, invalid(fmt.Errorf("%s: %w", s.config, err))
	}
	if err := planner.CheckPolling(f, par.Polling); err != nil {
		return c, nil, nil, invalid(err)
	}
	return c, f, refused, nil
}

func checkConfigCommand() *cobra.Command {
	var s sources
	cmd := &cobra.Command{
		Use:   "check-config",
		Short: "Check configuration and sensor lists with the code that run starts with",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return s.check(cmd) },
	}
	s.flags(cmd)
	outputFlag(cmd, "table", "json")
	return cmd
}

// check reads all that run would read and tells what it found.
func (s *sources) check(cmd *cobra.Command) error {
	c, f, refused, err := s.fleet()
	if err != nil {
		return err
	}
	if err := checkSecrets(cmd.ErrOrStderr(), &c, refused); err != nil {
		return invalid(err)
	}
	warnOfPlanning(cmd.ErrOrStderr(), &c.Planner, f)
	unknown := 0
	for _, sensor := range f.All() {
		if _, limited := sensor.Plan.KnownUntil(); limited {
			unknown++
		}
	}
	report := configReport{s.config, f.Len(), unknown, len(refused),
		len(c.Groups), len(c.Publishers), len(c.Readers), c.Planner.Theta(f.Len()), c.Data}
	if output(cmd) == "json" {
		return printJSON(cmd.OutOrStdout(), report)
	}
	return table(cmd.OutOrStdout(), func(row func(...any)) {
		row("configuration", s.config)
		row("sensors", report.Sensors)
		row("of them without a lasting sleep plan", report.Unknown)
		row("refused", report.Refused)
		row("groups", report.Groups)
		row("publishers", report.Publishers)
		row("readers", report.Readers)
		row("budget per range", report.Budget)
		row("data", report.Data)
	})
}

// checkSecrets reads every file with a key, token or certificate. Warnings go to w, those
// about refused sensors among them.
func checkSecrets(w io.Writer, c *config.Config, refused []config.Refusal) error {
	_, warnings, err := app.Credentials(c)
	if err != nil {
		return err
	}
	for _, warning := range warnings {
		fmt.Fprintln(w, "warning:", warning)
	}
	for _, r := range refused {
		fmt.Fprintln(w, "warning:", r)
	}
	secrets, err := c.Credentials()
	if err == nil {
		err = app.CheckWeb(c.Web)
	}
	if err != nil {
		return err
	}
	for _, warning := range secrets.Warnings {
		fmt.Fprintln(w, "warning:", warning)
	}
	return nil
}

// warnOfPlanning tells what is valid and yet will not do what it says.
func warnOfPlanning(w io.Writer, p *config.Planner, f *fleet.Fleet) {
	if p.End == config.EndFixed && p.Theta(f.Len()) < f.Len() {
		fmt.Fprintf(w, "warning: planner.end fixed crawls every sensor in every range in "+
			"which it wakes: a budget of %d for %d sensors may not do; such ranges are planned "+
			"with carry\n", p.Theta(f.Len()), f.Len())
	}
	if n := coarse(f, p.ResolvedTick(), p.Range); n > 0 {
		fmt.Fprintf(w, "note: %d sensors have awake windows shorter than %d ticks of %v: "+
			"their plans are coarse; a shorter planner.tick is finer\n",
			n, ticksPerWindow, p.ResolvedTick())
	}
}

// ticksPerWindow is from how many ticks in a window on the plan is as good as a
// continuous one.
const ticksPerWindow = 50

// coarse counts the sensors with a shorter one among their next windows within a
// range's length.
func coarse(f *fleet.Fleet, tick, length time.Duration) (n int) {
	const windows = 8
	now := time.Now()
	for _, s := range f.All() {
		at, end := now, now.Add(length)
		for k := 0; k < windows && at.Before(end); k++ {
			w, ok := s.Plan.NextWindow(at)
			if !ok || !w.Start.Before(end) {
				break
			}
			if w.Duration() < ticksPerWindow*tick {
				n++
				break
			}
			at = w.End
		}
	}
	return n
}

type configReport struct {
	Config     string `json:"config"`
	Sensors    int    `json:"sensors"`
	Unknown    int    `json:"unknown_sleep_plan"`
	Refused    int    `json:"refused"`
	Groups     int    `json:"groups"`
	Publishers int    `json:"publishers"`
	Readers    int    `json:"readers"`
	Budget     int    `json:"budget"`
	Data       string `json:"data"`
}

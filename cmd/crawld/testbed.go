package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/testbed"
)

// testbedFlags are what the testbed can be told.
type testbedFlags struct {
	modes   []string
	sensors int
	listen  string
	seed    uint64
	list    bool
}

// listedSpan is how far ahead windows are listed one by one.
const listedSpan = 30 * time.Minute

func testbedCommand() *cobra.Command {
	var f testbedFlags
	cmd := &cobra.Command{
		Use:   "testbed",
		Short: "Run sleeping, difficult and hostile CoAP sensors on loopback to try a daemon on",
		Long: `Testbed opens UDP ports on loopback, one for each sensor: well-behaved ones, as the
demo has them, and one of each mode that is named. It prints a list of them for
crawld run --sensors and serves until it is interrupted:

    crawld testbed --sensors 20 --mode stuck,drip,flood > sensors.txt &
    crawld run --sensors sensors.txt

A text list has no sleep plans; with --output yaml the list has them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.list {
				return listModes(cmd.OutOrStdout())
			}
			specs, err := f.specs(time.Now().Round(0))
			if err != nil {
				return usage(err)
			}
			return runTestbed(cmd, f.seed, specs)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.modes, "mode", nil, "hostile sensors, by name; all = one of each")
	flags.IntVar(&f.sensors, "sensors", 0, "number of well-behaved sensors")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:0",
		"loopback address; with a port not 0, sensors take that one and those after it")
	flags.Uint64Var(&f.seed, "seed", 1, "of the sensors' plans, events and losses")
	flags.BoolVar(&f.list, "list", false, "say what each mode does, and end")
	outputFlag(cmd, "text", "yaml")
	return cmd
}

func listModes(w io.Writer) error {
	return table(w, func(row func(...any)) {
		for _, m := range testbed.Modes() {
			row(m.Name, m.Does)
		}
	})
}

// specs are the sensors that the flags ask for, the hostile ones last.
func (f testbedFlags) specs(now time.Time) ([]testbed.Spec, error) {
	at, err := netip.ParseAddrPort(f.listen)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--listen %q: must be host:port: %w", f.listen, err)
	case !at.Addr().IsLoopback(): // for one datagram some modes send thousands to its source
		return nil, fmt.Errorf("--listen %s: must be a loopback address", f.listen)
	case f.sensors < 0:
		return nil, fmt.Errorf("--sensors %d: must not be negative", f.sensors)
	}
	specs := testbed.Fleet(f.seed, f.sensors+1, now)[:f.sensors] // the last one is dead
	for _, name := range f.modes {
		modes := testbed.Modes()
		if name != "all" {
			m, err := testbed.ModeNamed(name)
			if err != nil {
				return nil, fmt.Errorf("--mode %s: %w", name, err)
			}
			modes = []testbed.Mode{m}
		}
		for _, m := range modes {
			spec := m.Spec
			spec.Name, spec.Plan = m.Name, sleepplan.AlwaysOn()
			specs = append(specs, spec)
		}
	}
	if len(specs) == 0 {
		return nil, errors.New("no sensors: give --sensors, --mode, or --list to see the modes")
	}
	if last := int(at.Port()) + len(specs) - 1; at.Port() != 0 && last > 65535 {
		return nil, fmt.Errorf("--listen %s: %d sensors need ports up to %d", f.listen,
			len(specs), last)
	}
	for i := range specs {
		specs[i].Listen = at
		if at.Port() != 0 {
			specs[i].Listen = netip.AddrPortFrom(at.Addr(), at.Port()+uint16(i))
		}
	}
	return specs, nil
}

// runTestbed prints the list once every sensor serves.
func runTestbed(cmd *cobra.Command, seed uint64, specs []testbed.Spec) (err error) {
	bed := testbed.New(seed)
	defer func() { err = errors.Join(err, bed.Close()) }()
	write := writeListed
	if output(cmd) == "yaml" {
		write = writeListedYAML
	}
	var list strings.Builder
	for _, spec := range specs {
		s, err := bed.Add(spec)
		if err != nil {
			return err
		}
		if err := write(&list, s, time.Now()); err != nil {
			return err
		}
	}
	if output(cmd) == "yaml" {
		fmt.Fprintln(cmd.OutOrStdout(), "sensors:")
	}
	if _, err := io.WriteString(cmd.OutOrStdout(), list.String()); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%d sensors are serving; Ctrl-C ends them\n", len(specs))
	<-cmd.Context().Done()
	return nil
}

// writeListed is a line of a text list.
func writeListed(w io.Writer, s *testbed.Sensor, _ time.Time) error {
	what := s.Name()
	if m, err := testbed.ModeNamed(what); err == nil {
		what += " " + m.Does
	}
	_, err := fmt.Fprintf(w, "%s  # %s\n", s.URI(), what)
	return err
}

// writeListedYAML is an element of a YAML list, which may be written as JSON.
func writeListedYAML(w io.Writer, s *testbed.Sensor, now time.Time) error {
	type window struct {
		Start time.Time `json:"start"`
		End   time.Time `json:"end"`
	}
	l := s.Listing()
	entry := struct {
		ID        string  `json:"id"`
		URI       string  `json:"uri"`
		Weight    float64 `json:"weight"`
		Rate      string  `json:"rate,omitempty"`
		SleepPlan any     `json:"sleep_plan,omitempty"`
	}{ID: l.ID, URI: l.URI, Weight: l.Weight}
	if l.Rate > 0 {
		entry.Rate = fmt.Sprintf("%g/s", l.Rate)
	}
	switch l.Plan.Kind() {
	case sleepplan.KindUnknown:
	case sleepplan.KindAlwaysOn:
		entry.SleepPlan = "always_on"
	default:
		windows := []window{}
		for _, x := range l.Plan.Windows(now, now.Add(listedSpan)) {
			windows = append(windows, window{x.Start, x.End})
		}
		entry.SleepPlan = map[string]any{"windows": windows}
	}
	text, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "  - %s\n", text)
	return err
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/crawld/crawld/internal/app"
	"github.com/crawld/crawld/internal/config"
	"github.com/crawld/crawld/internal/planner"
)

// server is the daemon that a command asks.
type server struct {
	url       string
	data      string
	tokenFile string // "" = no token
}

func (s *server) flags(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&s.url, "server", "",
		"URL of the daemon, such as http://127.0.0.1:9683 (default: its control socket)")
	cmd.PersistentFlags().StringVar(&s.data, "data", config.Default().Data,
		"database file of the daemon: the control socket lies beside it")
}

// dialSocket connects to a control socket, whatever the address.
func dialSocket(path string) func(ctx context.Context, _, _ string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
}

// maxAnswer bounds what is read of a daemon's answer.
const maxAnswer = 64 << 20

// get decodes the JSON answer to a GET of the path.
func (s *server) get(ctx context.Context, path string, into any) error {
	status, body, err := s.ask(ctx, http.MethodGet, path, "", nil)
	switch {
	case err != nil:
		return err
	case status == http.StatusOK:
		return decodeAnswer(body, into)
	case status == http.StatusNotFound:
		return unhealthy(errors.New(answerText(body)))
	}
	return fmt.Errorf("%s: %d %s: %s", path, status, http.StatusText(status), answerText(body))
}

// ask sends a request, with the token if there is one, and reads the answer.
func (s *server) ask(ctx context.Context, method, path, contentType string, send []byte) (
	status int, body []byte, err error) {
	client, base := http.Client{Timeout: 30 * time.Second}, s.url
	if base == "" {
		base = "http://crawld"
		client.Transport = &http.Transport{DialContext: dialSocket(app.SocketPath(s.data))}
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(base, "/")+path,
		bytes.NewReader(send))
	if err != nil {
		return 0, nil, usage(err)
	}
	token, err := s.token()
	if err != nil {
		return 0, nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("no daemon answers: %w; is it running, and is --data or --server right",
			err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, body, err
}

func decodeAnswer(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("the answer is none of a crawld: %w", err)
	}
	return nil
}

// answerText is what the daemon says is wrong.
func answerText(body []byte) string {
	var fault struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &fault) == nil && fault.Error != "" {
		return fault.Error
	}
	return strings.TrimSpace(string(body))
}

func sensorsCommand() *cobra.Command {
	var s server
	cmd := &cobra.Command{
		Use:   "sensors",
		Short: "Ask the running daemon about its sensors",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	s.flags(cmd)
	cmd.AddCommand(sensorsList(&s), sensorsShow(&s))
	return cmd
}

// sensorLine is a sensor as the daemon tells of it.
type sensorLine struct {
	planner.Explanation
	Origin  string     `json:"origin"`
	Expires *time.Time `json:"expires"` // end of its registration; null: it is listed
}

// sensorPage is one page of the daemon's list.
type sensorPage struct {
	Sensors []sensorLine `json:"sensors"`
	Next    string       `json:"next"`
}

func sensorsList(s *server) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List all sensors with state, age and next visit",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := []sensorLine{}
			for from, more := "", true; more; {
				var page sensorPage
				path := "/api/v1/sensors?from=" + url.QueryEscape(from)
				if err := s.get(cmd.Context(), path, &page); err != nil {
					return err
				}
				all = append(all, page.Sensors...)
				from, more = page.Next, page.Next != ""
			}
			if output(cmd) == "json" {
				return printJSON(cmd.OutOrStdout(), all)
			}
			return table(cmd.OutOrStdout(), func(row func(...any)) {
				row("SENSOR", "STATE", "AGE", "LAST", "NEXT", "KIND", "WHY")
				for _, e := range all {
					row(e.ID, e.State, since(e.LastSuccess), dash(e.LastOutcome), until(e.Next),
						dash(e.NextKind), e.Why)
				}
			})
		},
	}
	outputFlag(cmd, "table", "json")
	return cmd
}

func sensorsShow(s *server) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show all that is known and intended of one sensor",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var raw json.RawMessage
			err := s.get(cmd.Context(), "/api/v1/sensors/"+url.PathEscape(args[0]), &raw)
			if err != nil {
				return err
			}
			if output(cmd) == "json" {
				return printJSON(cmd.OutOrStdout(), raw)
			}
			var e sensorLine
			if err := json.Unmarshal(raw, &e); err != nil {
				return err
			}
			return table(cmd.OutOrStdout(), func(row func(...any)) { showSensor(row, e) })
		},
	}
	outputFlag(cmd, "table", "json")
	return cmd
}

func showSensor(row func(...any), e sensorLine) {
	row("sensor", e.ID)
	if e.Expires != nil {
		row("registered until", e.Expires.Format(time.RFC3339))
	}
	row("uri", e.URI)
	row("state", e.State)
	row("sleep plan", e.SleepPlan)
	row("age", since(e.LastSuccess))
	row("last outcome", strings.TrimSpace(dash(e.LastOutcome)+" "+e.LastReason))
	row("next visit", until(e.Next)+" "+e.NextKind)
	row("why", e.Why)
	row("rate", fmt.Sprintf("%.4g/h (prior %.4g/h)", e.Rate*3600, e.RatePrior*3600))
	used := fmt.Sprint(e.Used)
	if e.Cap != nil {
		used += fmt.Sprintf(" of %d", *e.Cap)
	}
	row("crawls used in this range", used)
	if e.Publications != "" {
		row("publications", e.Publications)
	}
	if l := e.Learner; l != nil {
		plan := ""
		if l.Period > 0 {
			plan = fmt.Sprintf(", awake %.4gs every %.6gs", l.Awake, l.Period)
		}
		row("learned plan", fmt.Sprintf("%s, confidence %.2f, %d probes%s", l.State, l.Confidence,
			l.Probes, plan))
	}
	if e.Contradicted {
		row("contradicted", "silent although its sleep plan says awake")
	}
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func since(t *time.Time) string {
	if t == nil {
		return "never"
	}
	return time.Since(*t).Round(time.Second).String()
}

func until(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return "in " + time.Until(*t).Round(100*time.Millisecond).String()
}

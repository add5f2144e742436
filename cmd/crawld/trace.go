package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/crawld/crawld/internal/api"
	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/epcis"
)

// maxTraced is how many objects the events of a file may have, ranges expanded.
const maxTraced = 1_000_000

// traceFlags are what crawld trace is told.
type traceFlags struct {
	server
	events   string // EPCIS document to trace in, without a daemon
	from, to string
	follow   string
}

func traceCommand() *cobra.Command {
	var f traceFlags
	cmd := &cobra.Command{
		Use:   "trace OID",
		Short: "Show the history of an object through its containers",
		Long: `Trace prints what happened to an object and, while it was inside, to its containers; and
the information services that know more. OID is an EPC URI, a GS1 Digital Link, any other
absolute URI, or the id of a sensor. With --events it traces in a file with an EPCIS 2.0
document and asks no daemon. Exit code 4 if nothing is known of the object.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			trace, err := f.trace(cmd.Context(), cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			if err := f.print(cmd, trace); err != nil {
				return err
			}
			if len(trace.Events) == 0 && trace.Withheld == 0 {
				return unhealthy(fmt.Errorf("nothing is known of %s in that time", trace.Object))
			}
			return nil
		},
	}
	f.flags(cmd)
	f.tokenFlag(cmd)
	cmd.Flags().StringVar(&f.events, "events", "",
		"EPCIS 2.0 document (FILE or -) instead of a daemon")
	cmd.Flags().StringVar(&f.from, "from", "", "first instant, RFC 3339")
	cmd.Flags().StringVar(&f.to, "to", "", "instant before which it ends, RFC 3339")
	cmd.Flags().StringVar(&f.follow, "follow", "",
		"follow transformations: forward (what it became) or backward (what it was made of)")
	outputFlag(cmd, "table", "json", "svg")
	return cmd
}

func (f *traceFlags) print(cmd *cobra.Command, trace api.Trace) error {
	out := cmd.OutOrStdout()
	switch output(cmd) {
	case "json":
		return printJSON(out, trace)
	case "svg":
		if len(trace.Events) == 0 {
			return nil // the exit code tells
		}
		return traceTimeline(trace).WriteSVG(out)
	}
	return printTrace(out, trace)
}

// trace asks the daemon, or traces in the document.
func (f *traceFlags) trace(ctx context.Context, in io.Reader, oid string) (api.Trace, error) {
	if f.events != "" {
		return f.offline(ctx, in, oid)
	}
	query := url.Values{}
	for name, value := range map[string]string{"from": f.from, "to": f.to, "follow": f.follow} {
		if value != "" {
			query.Set(name, value)
		}
	}
	path := "/epcs/" + url.PathEscape(oid) + "/trace"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	status, body, err := f.ask(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return api.Trace{}, err
	}
	var trace api.Trace
	switch {
	case status == http.StatusBadRequest:
		return trace, usage(fmt.Errorf("%s", answerText(body)))
	case status != http.StatusOK:
		return trace, fmt.Errorf("%d %s: %s", status, http.StatusText(status), answerText(body))
	}
	return trace, decodeAnswer(body, &trace)
}

// offline traces in the events of a document.
func (f *traceFlags) offline(ctx context.Context, in io.Reader, oid string) (api.Trace, error) {
	var trace api.Trace
	ask, err := f.query(oid)
	if err != nil {
		return trace, err
	}
	text, err := readBounded(f.events, in, maxDocument)
	if err != nil {
		return trace, err
	}
	document, err := epcis.Parse(text, maxTraced)
	if err != nil {
		return trace, invalid(fmt.Errorf("%s: %w", f.events, err))
	}
	var records []discovery.Record
	for _, e := range document.Events {
		records = append(records, discovery.Record{Event: e})
	}
	store := discovery.NewMemory()
	if _, err := store.Publish(ctx, records); err != nil {
		return trace, invalid(fmt.Errorf("%s: %w", f.events, err))
	}
	answer, err := discovery.Trace(ctx, store, ask)
	if err != nil {
		return trace, err
	}
	alone := func(id string) discovery.Source { return discovery.Source{ID: id} }
	return api.NewTrace(answer, alone), nil
}

// query is what the daemon makes of the same flags.
func (f *traceFlags) query(oid string) (discovery.Query, error) {
	q := discovery.Query{From: discovery.Beginning, To: discovery.Forever}
	var err error
	if q.Object, err = epcis.Canonical(oid); err != nil {
		return q, usage(err)
	}
	for _, bound := range []struct {
		name, value string
		into        *int64
	}{{"--from", f.from, &q.From}, {"--to", f.to, &q.To}} {
		if bound.value == "" {
			continue
		}
		t, err := time.Parse(time.RFC3339, bound.value)
		if err != nil {
			return q, usage(fmt.Errorf("%s %q: expected a time such as 2026-05-04T12:00:00Z", bound.name,
				bound.value))
		}
		*bound.into = t.Add(time.Microsecond - time.Nanosecond).UnixMicro()
	}
	directions := map[string]discovery.Follow{"": discovery.Stay, "forward": discovery.Forward,
		"backward": discovery.Backward}
	var known bool
	if q.Follow, known = directions[f.follow]; !known {
		return q, usage(fmt.Errorf("--follow %q: expected forward or backward", f.follow))
	}
	if q.From > q.To {
		return q, usage(errors.New("--from must not lie after --to"))
	}
	return q, nil
}

// shortEPC is a canonical object without what all GS1 Digital Links begin with.
func shortEPC(object string) string { return strings.TrimPrefix(object, "https://id.gs1.org/") }

// printTrace writes what people read: the deeper a container, the further to the right.
func printTrace(w io.Writer, t api.Trace) error {
	err := table(w, func(row func(...any)) {
		row("TIME", "EVENT", "CONTAINER", "SOURCE")
		for _, e := range t.Events {
			container := shortEPC(e.Parent)
			if n := len(e.Path); n > 1 {
				container = shortEPC(e.Path[n-1])
				if e.Parent != "" {
					container += " in " + shortEPC(e.Parent)
				}
			}
			what := strings.Join(strings.Fields(e.Type+" "+e.Action+" "+e.BizStep), " ")
			indent := strings.Repeat("  ", max(0, len(e.Path)-1))
			row(e.Time.Format(time.RFC3339Nano), indent+what, dash(container), dash(e.Source))
		}
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(w)
	return table(w, func(row func(...any)) {
		row("object", t.Object)
		row("life", map[bool]string{true: "ended", false: "goes on"}[t.Finished])
		if len(t.Inside) > 0 {
			row("inside", strings.Join(t.Inside, " in "))
		}
		for _, s := range t.Sources {
			row("ask", strings.TrimSpace(s.ID+" "+s.Type+" "+s.Address))
		}
		for _, w := range t.Warnings {
			row("warning", strings.TrimSpace(w.Code+": "+w.Object+" "+w.EventID+" "+w.Container))
		}
		if t.Withheld > 0 {
			row("withheld", fmt.Sprintf("%d, which this token may not see", t.Withheld))
		}
		if t.Truncated {
			row("truncated", "there may be more: a bound of the trace was met")
		}
	})
}

package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/crawld/crawld/internal/search"
)

// foundLink is a hit of the daemon's. Its names are API.
type foundLink struct {
	Sensor   string       `json:"sensor"`
	URI      string       `json:"uri"`
	Target   *string      `json:"target"`     // null: the description has no links
	Attrs    [][2]*string `json:"attributes"` // pairs of name and value; a flag's value is null
	Age      float64      `json:"age_seconds"`
	State    string       `json:"state"`
	Version  time.Time    `json:"version"`
	Verified time.Time    `json:"verified"`
}

// foundPage is one page of them.
type foundPage struct {
	Hits       []foundLink `json:"hits"`
	Next       string      `json:"next"`
	Unreadable int         `json:"unreadable"`
}

func searchCommand() *cobra.Command {
	var s server
	cmd := &cobra.Command{
		Use:   "search EXPRESSION...",
		Short: "Find links in the descriptions that the running daemon holds",
		Long: `Search lists the links for which all terms hold:

  rt=temperature*  rt!=x    an attribute of the link, or not; * at the end is any rest
  href=/s/*                 where the link leads
  greenhouse "room 4"       words of a title; words that stand together
  age<10m  age>=2h          how long ago the description was last fetched or confirmed
  state=fresh,overdue       of the sensor, any of them
  sensor=roof*              the sensor's id
  label.site=lab            a label of the sensor

An empty expression, '', lists everything. Exit code 4 if a description was left out because
it is damaged.`,
		Example: `  crawld search 'rt=temperature* age<10m'
  crawld search --output csv state=unreachable`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text := strings.Join(args, " ")
			if _, err := search.Parse(text); err != nil {
				return usage(fmt.Errorf("%s\n%w\ntry: %s --help", text, err, cmd.CommandPath()))
			}
			return searchAll(cmd, &s, text)
		},
	}
	s.flags(cmd)
	outputFlag(cmd, "table", "json", "jsonl", "csv")
	return cmd
}

// searchAll asks for all pages.
func searchAll(cmd *cobra.Command, s *server, text string) error {
	all, unreadable := []foundLink{}, 0
	lines := json.NewEncoder(cmd.OutOrStdout())
	lines.SetEscapeHTML(false)
	query := url.Values{"q": {text}, "limit": {"1000"}}
	for more := true; more; {
		var page foundPage
		if err := s.get(cmd.Context(), "/api/v1/search?"+query.Encode(), &page); err != nil {
			return err
		}
		for _, hit := range page.Hits {
			if output(cmd) != "jsonl" {
				all = append(all, hit)
			} else if err := lines.Encode(hit); err != nil {
				return err
			}
		}
		unreadable += page.Unreadable
		query.Set("cursor", page.Next)
		more = page.Next != ""
	}
	if err := printFound(cmd.OutOrStdout(), output(cmd), all); err != nil {
		return err
	}
	if unreadable > 0 {
		return unhealthy(fmt.Errorf("%d descriptions are damaged and were left out: stop the daemon "+
			"and run crawld db check", unreadable))
	}
	return nil
}

func printFound(out io.Writer, form string, all []foundLink) error {
	switch form {
	case "json":
		return printJSON(out, all)
	case "csv":
		return foundCSV(out, all)
	case "table":
		return table(out, func(row func(...any)) {
			row("SENSOR", "STATE", "AGE", "TARGET", "ATTRIBUTES")
			for _, hit := range all {
				row(printable(hit.Sensor), hit.State, since(&hit.Verified), dash(printable(hit.target())),
					printable(hit.attributes()))
			}
		})
	}
	return nil
}

func foundCSV(out io.Writer, all []foundLink) error {
	w := csv.NewWriter(out)
	err := w.Write([]string{"sensor", "uri", "target", "attributes", "age_seconds", "state", "version",
		"verified"})
	for _, hit := range all {
		err = errors.Join(err, w.Write([]string{hit.Sensor, hit.URI, hit.target(), hit.attributes(),
			strconv.FormatFloat(hit.Age, 'f', -1, 64), hit.State, hit.Version.Format(time.RFC3339Nano),
			hit.Verified.Format(time.RFC3339Nano)}))
	}
	w.Flush()
	return errors.Join(err, w.Error())
}

func (f foundLink) target() string {
	if f.Target == nil {
		return ""
	}
	return *f.Target
}

// attributes are name, or name="value", with semicolons between them.
func (f foundLink) attributes() string {
	var list []string
	for _, a := range f.Attrs {
		switch name, value := a[0], a[1]; {
		case name == nil:
		case value == nil:
			list = append(list, *name)
		default:
			quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(*value)
			list = append(list, *name+`="`+quoted+`"`)
		}
	}
	return strings.Join(list, ";")
}

// printable spells out what a terminal would obey: the text is a sensor's.
func printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\u{%x}", r)
		}
	}
	return b.String()
}

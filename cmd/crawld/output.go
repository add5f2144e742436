package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// outputFlag adds --output with the forms that a command has; the first one is
// the default. Results go to stdout in that form, all else to stderr.
func outputFlag(cmd *cobra.Command, forms ...string) {
	cmd.Flags().StringP("output", "o", forms[0], "form of the result: "+strings.Join(forms, ", "))
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if form := output(cmd); !slices.Contains(forms, form) {
			return usage(fmt.Errorf("--output %q: must be one of %s", form, strings.Join(forms, ", ")))
		}
		if check != nil {
			return check(cmd, args)
		}
		return nil
	}
}

func output(cmd *cobra.Command) string {
	form, _ := cmd.Flags().GetString("output")
	return form
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// table writes rows of columns aligned by tabs.
func table(w io.Writer, write func(row func(cells ...any))) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	write(func(cells ...any) {
		for i, c := range cells {
			if i > 0 {
				fmt.Fprint(tw, "\t")
			}
			fmt.Fprint(tw, c)
		}
		fmt.Fprintln(tw)
	})
	return tw.Flush()
}

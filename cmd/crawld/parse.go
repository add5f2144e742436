package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/crawld/crawld/internal/linkformat"
)

// maxDocument bounds what parse reads: far beyond what a sensor may serve.
const maxDocument = 64 << 20

func parseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "parse FILE|-",
		Short: "Check a link-format document (RFC 6690) and print its links",
		Long: `Parse prints a verdict on a link-format document: valid by RFC 6690, recovered
(which rules were needed, where), or invalid (what is wrong at which byte).
Exit code 0 for valid and recovered, 3 for invalid.`,
		Args: cobra.ExactArgs(1),
		RunE: parse,
	}
	outputFlag(cmd, "json", "table")
	return cmd
}

func parse(cmd *cobra.Command, args []string) error {
	body, err := readBounded(args[0], cmd.InOrStdin(), maxDocument)
	if err != nil {
		return err
	}
	res := linkformat.Parse(body)
	if output(cmd) == "json" {
		err = printJSON(cmd.OutOrStdout(), res)
	} else {
		err = parseTable(cmd.OutOrStdout(), res)
	}
	if err == nil && res.Verdict == linkformat.Invalid {
		return invalid(errSilent)
	}
	return err
}

func parseTable(w io.Writer, res linkformat.Result) error {
	return table(w, func(row func(...any)) {
		row("verdict", res.Verdict)
		if res.Err != nil {
			row("error", fmt.Sprintf("byte %d: %s", res.Err.Offset, res.Err.Message))
		}
		for _, n := range res.Recovered {
			row("recovered", fmt.Sprintf("byte %d: rule %s", n.Offset, n.Rule))
		}
		for _, n := range res.Warnings {
			row("warning", fmt.Sprintf("byte %d: %s", n.Offset, n.Rule))
		}
		for _, l := range res.Links {
			row("link", string(l.Append(nil)))
		}
	})
}

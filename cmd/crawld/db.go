package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/crawld/crawld/internal/config"
	"github.com/crawld/crawld/internal/repository"
)

func dbCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "db",
		Short: "Look after the database file",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(dbCheckCommand(), dbCompactCommand(), dbBackupCommand())
	return cmd
}

func dbCheckCommand() *cobra.Command {
	var data string
	var reindex bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check every page, row and hash of a database that no daemon has open",
		Long: `Check opens the file read-only and writes nothing, unless it is told to make the index
of searches anew before it looks. Exit code 0 if all is well, 4 if problems were found, 1
if the file cannot be opened.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if reindex {
				if err := rebuildIndex(cmd, data); err != nil {
					return err
				}
			}
			report, err := repository.Check(data, repository.Options{})
			if err != nil {
				return damaged(err)
			}
			return printReport(cmd, report)
		},
	}
	cmd.Flags().StringVar(&data, "data", config.Default().Data, "database file")
	cmd.Flags().BoolVar(&reindex, "reindex", false, "make the index of searches anew, then check")
	outputFlag(cmd, "table", "json")
	return cmd
}

// rebuildIndex writes to a file that is there: one that is not is not made.
func rebuildIndex(cmd *cobra.Command, data string) error {
	if _, err := os.Stat(data); err != nil {
		return err
	}
	repo, err := repository.Open(data, repository.Options{})
	if err != nil {
		return damaged(err)
	}
	n, err := repo.Reindex(cmd.Context())
	if err = errors.Join(err, repo.Close()); err == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "%d descriptions indexed\n", n)
	}
	return err
}

// damaged tells a file that is damaged, exit code 4, from one that cannot be opened.
func damaged(err error) error {
	if errors.Is(err, repository.ErrCorrupt) {
		return unhealthy(err)
	}
	return err
}

// printReport shows what a check has found; a problem is exit code 4.
func printReport(cmd *cobra.Command, r repository.Report) (err error) {
	if output(cmd) == "json" {
		err = printJSON(cmd.OutOrStdout(), r)
	} else {
		err = checkTable(cmd, r)
	}
	if err == nil && len(r.Problems) > 0 {
		return unhealthy(errSilent)
	}
	return err
}

func checkTable(cmd *cobra.Command, r repository.Report) error {
	return table(cmd.OutOrStdout(), func(row func(...any)) {
		row("file", r.Path)
		row("schema version", r.SchemaVersion)
		row("sensors", r.Sensors)
		row("versions", r.Versions)
		row("bodies", r.Bodies)
		row("visits", r.Visits)
		row("snapshots of groups", r.Snapshots)
		row("rows of the index", r.IndexRows)
		row("events", r.Events)
		row("cells of events and descriptions", r.Cells)
		row("signed documents", r.Documents)
		row("bodies in quarantine", r.Quarantined)
		row("bytes", r.Bytes)
		for _, p := range r.Problems {
			row("problem", p)
		}
		if len(r.Problems) == 0 {
			row("verdict", "clean")
		} else {
			row("verdict", fmt.Sprintf("%d problems", len(r.Problems)))
		}
	})
}

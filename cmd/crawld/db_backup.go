package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/crawld/crawld/internal/app"
	"github.com/crawld/crawld/internal/config"
	"github.com/crawld/crawld/internal/repository"
)

func dbCompactCommand() *cobra.Command {
	var data string
	var keep bool
	cmd := &cobra.Command{
		Use:   "compact",
		Short: "Give the free pages of a database that no daemon has open back to the disk",
		Long: `Compact writes every row into a new file beside the old one, reads all back, and puts
the new one in its place. A database file never shrinks by itself: what is deleted or
replaced leaves pages that are used again, and some are always free.

The disk must have room for the new file beside the old one. Whatever goes wrong, one of
the two is there, whole.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := repository.Compact(data, repository.Options{}, keep)
			if err != nil {
				return damaged(err)
			}
			if output(cmd) == "json" {
				return printJSON(cmd.OutOrStdout(), c)
			}
			return table(cmd.OutOrStdout(), func(row func(...any)) {
				row("file", c.Path)
				row("bytes before", c.Before)
				row("bytes after", c.After)
				if keep {
					row("old file", c.Kept)
				}
			})
		},
	}
	cmd.Flags().StringVar(&data, "data", config.Default().Data, "database file")
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the old file, with .bak after its name")
	outputFlag(cmd, "table", "json")
	return cmd
}

func dbBackupCommand() *cobra.Command {
	var data string
	var force bool
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the database, also of a running daemon, and check the copy",
		Long: `Backup copies the database as of one commit and verifies the copy's every page, row and
hash. A daemon that has it open is asked over its control socket, and goes on crawling;
its folder needs room for one more copy meanwhile. The copy is a database like any other.

Exit code 0 if the copy is sound, 4 if it has problems, 1 if there is none.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := backupTo(cmd, data, args[0], force)
			if err != nil {
				return err
			}
			return printReport(cmd, report)
		},
	}
	cmd.Flags().StringVar(&data, "data", config.Default().Data,
		"database file: the control socket lies beside it")
	cmd.Flags().BoolVar(&force, "force", false, "replace FILE if it exists")
	outputFlag(cmd, "table", "json")
	return cmd
}

// backupTo copies under a name of its own, so that FILE is never half a copy.
func backupTo(cmd *cobra.Command, data, to string, force bool) (r repository.Report, err error) {
	if _, err := os.Lstat(to); err == nil && !force {
		return r, usage(fmt.Errorf("%s exists; --force replaces it", to))
	}
	f, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+".new-*")
	if err != nil {
		return r, err
	}
	defer os.Remove(f.Name())
	err = copyData(cmd, data, f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return r, err
	}
	if r, err = repository.Check(f.Name(), repository.Options{}); err != nil {
		return r, err
	}
	r.Path = to
	return r, os.Rename(f.Name(), to)
}

// copyData asks the daemon or, where none listens, reads the file.
func copyData(cmd *cobra.Command, data string, to io.Writer) error {
	client := http.Client{Transport: &http.Transport{
		DialContext:           dialSocket(app.SocketPath(data)),
		ResponseHeaderTimeout: 11 * time.Minute, // the daemon copies before it answers
	}}
	defer client.CloseIdleConnections()
	const url = "http://crawld/-/backup"
	req, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		_, err = repository.CopyTo(to, data, repository.Options{})
		return err
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		return fmt.Errorf("the daemon answers %s: %s", resp.Status, answerText(text))
	}
	n, err := io.Copy(to, byteBar(cmd, resp.ContentLength, resp.Body))
	if err == nil && n != resp.ContentLength {
		err = fmt.Errorf("%d of %d bytes came: %w", n, resp.ContentLength, io.ErrUnexpectedEOF)
	}
	return err
}

// byteBar shows on a terminal how much of a long copy has come.
func byteBar(cmd *cobra.Command, total int64, from io.Reader) io.Reader {
	errs, is := cmd.ErrOrStderr().(*os.File)
	if !is || !term.IsTerminal(int(errs.Fd())) {
		return from
	}
	bar := progressbar.NewOptions64(total, progressbar.OptionSetWriter(errs),
		progressbar.OptionSetDescription("copying"), progressbar.OptionShowBytes(true),
		progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(barAfter/10))
	r := progressbar.NewReader(from, bar)
	return &r
}

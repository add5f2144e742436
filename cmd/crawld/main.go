// Command crawld keeps a fresh, searchable copy of what sleeping CoAP sensors
// say about themselves. See the README for how to point it at sensors.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // sleep plans name time zones, and a sensor gateway may have no database of them

	"github.com/spf13/cobra"
)

// Exit codes. Scripts rely on them.
const (
	exitOK        = 0
	exitRuntime   = 1
	exitUsage     = 2
	exitInvalid   = 3 // configuration, list or document
	exitUnhealthy = 4 // found, but not well
)

// codeError carries an exit code to main, the only place that exits.
type codeError struct {
	code int
	err  error
}

func (e *codeError) Error() string { return e.err.Error() }
func (e *codeError) Unwrap() error { return e.err }

func invalid(err error) error   { return &codeError{exitInvalid, err} }
func usage(err error) error     { return &codeError{exitUsage, err} }
func unhealthy(err error) error { return &codeError{exitUnhealthy, err} }

// errSilent ends with a code when all there is to say stands on stdout.
var errSilent = errors.New("")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process around it.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(errs, text)
	}
	var coded *codeError
	if errors.As(err, &coded) {
		return coded.code
	}
	return exitRuntime
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "crawld",
		Short:         "Crawl sleeping CoAP sensors at the instants that keep their descriptions fresh",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(fmt.Errorf("%w\ntry: %s --help", err, cmd.CommandPath()))
	})
	root.AddCommand(runCommand(), demoCommand(), testbedCommand(), checkConfigCommand(),
		planCommand(), probeCommand(), sensorsCommand(), searchCommand(), keygenCommand(),
		publishCommand(), traceCommand(), parseCommand(), dbCommand(), simulateCommand(),
		versionCommand())
	wrapArgs(root)
	return root
}

// wrapArgs makes wrong arguments a usage error, with the exit code of one.
func wrapArgs(c *cobra.Command) {
	for _, sub := range c.Commands() {
		wrapArgs(sub)
	}
	check := c.Args
	if check == nil {
		return
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usage(fmt.Errorf("%w\ntry: %s --help", err, cmd.CommandPath()))
		}
		return nil
	}
}

package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is stamped by the linker in packages; go install leaves it empty.
var version string

// versionText falls back to what the go command recorded.
func versionText() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "devel"
	}
	return info.Main.Version
}

func versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := map[string]string{"version": versionText(), "go": runtime.Version(),
				"platform": runtime.GOOS + "/" + runtime.GOARCH}
			if output(cmd) == "json" {
				return printJSON(cmd.OutOrStdout(), v)
			}
			return table(cmd.OutOrStdout(), func(row func(...any)) {
				row("crawld", v["version"], v["go"], v["platform"])
			})
		},
	}
	outputFlag(cmd, "table", "json")
	return cmd
}

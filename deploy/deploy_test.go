package deploy

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/crawld/crawld/internal/config"
)

// directives reads "Key=value" lines; a key may occur more than once.
func directives(unit string) map[string][]string {
	d := map[string][]string{}
	for _, line := range strings.Split(unit, "\n") {
		key, value, is := strings.Cut(line, "=")
		if is && !strings.HasPrefix(line, "#") {
			d[key] = append(d[key], value)
		}
	}
	return d
}

func readUnit(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("crawld.service")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// need skips where a tool is not installed: the unit is for Linux, but it is
// edited elsewhere too.
func need(t *testing.T, tool string) {
	t.Helper()
	if _, err := exec.LookPath(tool); err != nil {
		t.Skipf("%s is not installed", tool)
	}
}

// run returns the output and whether the command succeeded.
func run(t *testing.T, name string, args ...string) (string, bool) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), err == nil
}

func writeUnit(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "crawld.service")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// What the daemon relies on and no tool checks.
func TestUnitSays(t *testing.T) {
	d := directives(readUnit(t))
	for key, want := range map[string]string{
		"Type": "notify", "NotifyAccess": "main", "Restart": "on-failure",
		"RestartPreventExitStatus": "2 3 4", "DynamicUser": "yes", "StateDirectory": "crawld",
		"ExecReload":              "/bin/kill -HUP $MAINPID",
		"RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX AF_NETLINK",
	} {
		if got := d[key]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
	for _, key := range []string{"WatchdogSec", "LimitNOFILE"} {
		if len(d[key]) != 1 {
			t.Errorf("%s is missing", key)
		}
	}
	if slices.Contains(d["ProcSubset"], "pid") {
		t.Error("ProcSubset=pid hides /proc/stat from the metrics of the process")
	}
}

func exposed(t *testing.T, unit string) (string, bool) {
	out, ok := run(t, "systemd-analyze", "security", "--offline=true", "--threshold=15",
		"--no-pager", writeUnit(t, unit))
	at := strings.LastIndex(out, "Overall exposure level")
	if at < 0 {
		t.Skipf("systemd-analyze cannot work offline here: %s", out)
	}
	return strings.TrimSpace(out[at:]), ok
}

func TestExposure(t *testing.T) {
	need(t, "systemd-analyze")
	unit := readUnit(t)
	verdict, ok := exposed(t, unit)
	t.Log(verdict)
	if !ok {
		t.Error("must be at most 1.5")
	}
	// The threshold must bite.
	soft := strings.NewReplacer("CapabilityBoundingSet=", "#", "SystemCallFilter=", "#").Replace(unit)
	if verdict, ok := exposed(t, soft); ok {
		t.Errorf("a unit with all capabilities and system calls passes: %s", verdict)
	}
}

func TestVerify(t *testing.T) {
	need(t, "systemd-analyze")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The daemon is not installed here; any program in its place will do.
	unit := strings.ReplaceAll(readUnit(t), "/usr/bin/crawld", self)
	verify := func(text string) (string, bool) {
		return run(t, "systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
			writeUnit(t, text))
	}
	if out, ok := verify(unit); !ok || strings.Contains(out, "crawld.service") {
		t.Errorf("systemd-analyze verify:\n%s", out)
	}
	if out, ok := verify(strings.Replace(unit, "WatchdogSec=", "WatchdogSecs=", 1)); ok {
		t.Errorf("a misspelt key goes unseen: %s", out)
	}
}

func TestPrometheus(t *testing.T) {
	text, err := os.ReadFile("prometheus.yml")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Global struct {
			Interval string `yaml:"scrape_interval"`
		}
		Jobs []struct {
			Name   string                       `yaml:"job_name"`
			Static []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil {
		t.Fatal(err)
	}
	listen := config.Default().Web.Listen[0]
	if len(c.Jobs) != 1 || len(c.Jobs[0].Static) != 1 ||
		!slices.Equal(c.Jobs[0].Static[0].Targets, []string{listen}) {
		t.Errorf("%+v does not scrape %s, where crawld serves by default", c, listen)
	}
	need(t, "promtool")
	if out, ok := run(t, "promtool", "check", "config", "prometheus.yml"); !ok {
		t.Error(out)
	}
	bad := filepath.Join(t.TempDir(), "bad.yml")
	wrong := bytes.Replace(text, []byte("job_name"), []byte("jobname"), 1)
	if err := os.WriteFile(bad, wrong, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, ok := run(t, "promtool", "check", "config", bad); ok {
		t.Errorf("promtool finds nothing wrong with %s: %s", wrong, out)
	}
}

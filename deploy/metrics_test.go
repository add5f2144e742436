package deploy

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/crawld/crawld/internal/config"
)

// series are the names of metrics in an expression or a file.
var series = regexp.MustCompile(`\b(?:crawld|process|go)_[a-z_0-9]+\b`)

// unknown are the series of a text that a running daemon does not have. Of the collectors for
// Go and for the process those used here are known.
func unknown(t *testing.T, text string) (missing []string, found int) {
	t.Helper()
	golden, err := os.ReadFile("../cmd/crawld/testdata/metrics.golden")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]string{"process_open_fds": "gauge", "go_goroutines": "gauge"}
	for line := range strings.Lines(string(golden)) {
		if f := strings.Fields(line); len(f) >= 2 {
			kinds[f[0]] = f[1]
		}
	}
	for _, name := range series.FindAllString(text, -1) {
		found++
		base := strings.TrimSuffix(name, "_bucket")
		if kinds[name] == "" && kinds[base] != "histogram" || kinds[name] == "histogram" {
			missing = append(missing, name)
		}
	}
	return missing, found
}

// expressions are those of the rules and of the dashboard.
func expressions(t *testing.T) []string {
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct{ List []struct{ Query string } }
	}
	text, err := os.ReadFile("alerts.yml")
	if err == nil {
		err = yaml.Unmarshal(text, &rules)
	}
	if err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile("grafana.json"); err == nil {
		err = json.Unmarshal(text, &board)
	}
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			all = append(all, r.Expr)
		}
	}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	for _, v := range board.Templating.List {
		all = append(all, v.Query)
	}
	return all
}

// Rules and dashboard name metrics that there are.
func TestMetricsExist(t *testing.T) {
	total := 0
	for _, expression := range expressions(t) {
		missing, found := unknown(t, expression)
		if total += found; missing != nil {
			t.Errorf("%s: no such metric: %q", expression, missing)
		}
	}
	if total < 25 {
		t.Errorf("only %d metrics found", total)
	}
	for _, wrong := range []string{"crawld_nothing", "rate(crawld_event_latency_seconds[1h])",
		"crawld_sensors_bucket"} {
		if missing, _ := unknown(t, wrong); len(missing) != 1 {
			t.Errorf("control: %s passes", wrong)
		}
	}
}

// Each alert fires when it should and is quiet when it should be.
func TestAlerts(t *testing.T) {
	need(t, "promtool")
	if out, ok := run(t, "promtool", "check", "rules", "alerts.yml"); !ok {
		t.Fatal(out)
	}
	if out, ok := run(t, "promtool", "test", "rules", "alerts_test.yml"); !ok {
		t.Error(out)
	}
	rules, err := os.ReadFile("alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	cases, err := os.ReadFile("alerts_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		if strings.Count(string(cases), "alertname: "+m[1]) != 2 {
			t.Errorf("%s is not tested both ways", m[1])
		}
	}
	// The tests must bite.
	dir := t.TempDir()
	blunt := strings.Replace(string(rules), `{reason!="low"} == 1`, `{reason!="low"} == 2`, 1)
	for name, text := range map[string]string{"alerts.yml": blunt, "alerts_test.yml": string(cases)} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, ok := run(t, "promtool", "test", "rules", dir+"/alerts_test.yml"); ok {
		t.Errorf("a rule that never fires passes: %s", out)
	}
}

// The socket unit listens where the daemon would.
func TestSocketUnit(t *testing.T) {
	text, err := os.ReadFile("crawld.socket")
	if err != nil {
		t.Fatal(err)
	}
	d := directives(string(text))
	if got := d["ListenStream"]; !slices.Equal(got, config.Default().Web.Listen) {
		t.Errorf("listens on %q", got)
	}
	need(t, "systemd-analyze")
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	service := strings.ReplaceAll(readUnit(t), "/usr/bin/crawld", self)
	for name, unit := range map[string]string{"crawld.socket": string(text),
		"crawld.service": service} {
		if err := os.WriteFile(dir+"/"+name, []byte(unit), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, ok := run(t, "systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
		dir+"/crawld.socket")
	if !ok || strings.Contains(out, "crawld.socket") {
		t.Errorf("systemd-analyze verify:\n%s", out)
	}
}

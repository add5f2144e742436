package config

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

const reference = "../../configs/crawld.yaml"

var byPrefix = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })

func TestReferenceConfigIsTheDefault(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "")
	got, err := Load(reference)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Path, want.SensorFiles = got.Path, got.SensorFiles
	if diff := cmp.Diff(want, *got, byPrefix); diff != "" {
		t.Errorf("(-default +reference)\n%s", diff)
	}
	if f, refused, err := LoadSensors(got.SensorFiles); err != nil || f.Len() != 11 || refused != nil {
		t.Errorf("its sensors: %v, refused %v, %v", f, refused, err)
	}
}

// Each key stands in the reference, with a comment of its own or of its group.
func TestReferenceConfigHasEveryKey(t *testing.T) {
	text, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	uncommented := regexp.MustCompile(`(?m)^# (data: )`).ReplaceAllString(string(text), "$1")
	d := &decoder{problems: problems{file: reference}, seen: map[string]*yaml.Node{}}
	c := Default()
	value{d: d, node: d.tree([]byte(uncommented))}.mapping(c.fields())
	if err := d.err(); err != nil {
		t.Fatal(err)
	}
	keys := []string{"web.listen", "web.config_file", "web.systemd_socket", "web.external_url",
		"web.route_prefix", "networks.allow", "networks.deny", "log.level", "log.format"}
	for prefix, f := range map[string]fields{"": c.fields(), "planner.": c.Planner.fields(),
		"polling.": pollingFields(&c.Polling), "limits.": c.Limits.fields(),
		"directory.": c.Directory.fields(), "store.": c.Store.fields()} {
		for k := range f {
			keys = append(keys, prefix+k)
		}
	}
	for _, k := range keys {
		if d.seen[k] == nil {
			t.Errorf("%s is not in the reference", k)
		}
	}
	if len(d.seen) != len(keys) {
		t.Errorf("%d keys seen, %d expected", len(d.seen), len(keys))
	}
}

func TestParseReadsEveryKey(t *testing.T) {
	got, err := Parse("/etc/c[1]/crawld.yaml", []byte(`
sensor_files: [a*.txt, ../b.yaml, /c.json]
data: /var/x.db
planner: {range: 1d12h, budget: 0.5/sensor, end: carry, guard: 1500ms, candidates: grid, objective: paper,
  step: 2s, tick: 500ms, capacity: 90/min}
polling: {policy: fixed, bootstrap: 1m, min_gap: 1s, max_gap: 0.5d, price: 9s, sd: raw,
  desync: 1s, publish_times: false}
groups:
- {spare: 1, at_least: 1, id: a.b-c_1, members: [x, "coap://h/ y"]}
- {id: all, members: [a.b-c_1, 7]}
publishers:
- {kid: a, key_file: k.jwk, token_file: /t, sources: [{id: s, address: "x:", type: t}]}
readers: [{token_file: r, sources: [s, "u:v"]}, {token_file: q, sources: ["*"]}]
store: {max_size: 2GiB, ballast: 0B}
web: {listen: [":0", "[::1]:1"], config_file: web.yaml, systemd_socket: true,
  external_url: "https://h.example/c", route_prefix: /}
directory: {listen: ["[::]:5683", "10.0.0.1:61616"], default_lifetime: 1h, networks: [fd00::/8]}
networks: {allow: [10.0.0.0/8], deny: ["2001:db8::/32"]}
limits: {body: 1MiB, blocks: 7, block_min: 16, progress: 3s, per_host: 1, per_subnet: 2}
log:
  level: debug
  format: json
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Path:        "/etc/c[1]/crawld.yaml",
		SensorFiles: []string{`/etc/c\[1]/a*.txt`, "/etc/b.yaml", "/c.json"},
		Data:        "/var/x.db",
		Planner: Planner{Range: 36 * time.Hour, Budget: 0.5, BudgetPerSensor: true, End: EndCarry,
			Guard: 1500 * time.Millisecond, Candidates: CandidatesGrid, Objective: ObjectivePaper,
			Step: Step{Duration: 2 * time.Second}, Tick: 500 * time.Millisecond, Capacity: 1.5},
		Polling: Polling{Policy: PolicyFixed, Bootstrap: time.Minute, MinGap: time.Second,
			MaxGap: 12 * time.Hour, Price: 9 * time.Second, SD: SDRaw, Desync: time.Second,
			PublishTimes: PublishFalse},
		Groups: []Group{{ID: "a.b-c_1", Members: []string{"x", "coap://h/ y"}, AtLeast: 1,
			Spare: 1},
			{ID: "all", Members: []string{"a.b-c_1", "7"}, AtLeast: 2}},
		Publishers: []Publisher{{KID: "a", KeyFile: "/etc/c[1]/k.jwk", TokenFile: "/t",
			Sources: []Source{{"s", "x:", "t"}}}},
		Readers: []Reader{{TokenFile: "/etc/c[1]/r", Sources: []string{"s", "u:v"}},
			{TokenFile: "/etc/c[1]/q", All: true}},
		Store: Store{MaxSize: 2 << 30}, // of no ballast
		Web: Web{Listen: []string{":0", "[::1]:1"}, ConfigFile: "/etc/c[1]/web.yaml", SystemdSocket: true,
			ExternalURL: "https://h.example/c", RoutePrefix: "/"},
		Directory: Directory{[]string{"[::]:5683", "10.0.0.1:61616"}, time.Hour,
			[]netip.Prefix{netip.MustParsePrefix("fd00::/8")}},
		Networks: Networks{[]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
			[]netip.Prefix{netip.MustParsePrefix("2001:db8::/32")}},
		Limits: Limits{1 << 20, 7, 16, 3 * time.Second, 1, 2},
		Log:    Log{"debug", "json"},
	}
	if diff := cmp.Diff(want, got, byPrefix); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// People comment out the keys of a section and leave its head.
func TestEmptySectionsMeanDefaults(t *testing.T) {
	got, err := Parse("/crawld.yaml", []byte("sensor_files: [a]\nplanner:\nlimits: {}\nlog: ~\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Path, want.SensorFiles = "/crawld.yaml", []string{"/a"}
	if diff := cmp.Diff(want, *got, byPrefix); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestDataDefault(t *testing.T) {
	for env, want := range map[string]string{
		"": "crawld.db", "/var/lib/crawld": "/var/lib/crawld/crawld.db", "/a:/b": "/a/crawld.db",
	} {
		t.Setenv("STATE_DIRECTORY", env)
		if got := Default().Data; got != want {
			t.Errorf("STATE_DIRECTORY=%q: %q, want %q", env, got, want)
		}
	}
}

func TestTheta(t *testing.T) {
	for _, c := range []struct {
		budget  float64
		per     bool
		sensors int
		want    int
	}{
		{4, true, 10, 40}, {4, true, 0, 1}, {0.5, true, 3, 1}, {0.29, true, 100, 29},
		{0.07, true, 100, 7}, {0.001, true, 10, 1}, {1000, false, 3, 1000}, {1e6, true, 1e6, 1<<31 - 1},
	} {
		p := Planner{Budget: c.budget, BudgetPerSensor: c.per}
		if got := p.Theta(c.sensors); got != c.want {
			t.Errorf("budget %v (per sensor %v), %d sensors: %d, want %d",
				c.budget, c.per, c.sensors, got, c.want)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		p     Planner
		tick  time.Duration
		steps int64
	}{
		{Planner{Range: time.Hour}, 100 * time.Millisecond, 1},
		{Planner{Range: 12 * time.Hour, Step: Step{Ticks: 5}}, 100 * time.Millisecond, 5},
		{Planner{Range: 13 * time.Hour, Step: Step{Duration: 3 * time.Second}}, time.Second, 3},
		{Planner{Range: time.Hour, Tick: time.Minute, Step: Step{Duration: time.Hour}}, time.Minute, 60},
	} {
		if c.p.ResolvedTick() != c.tick || c.p.StepTicks() != c.steps {
			t.Errorf("%+v: tick %v, step %d", c.p, c.p.ResolvedTick(), c.p.StepTicks())
		}
	}
}

func TestValuesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(maxDuration)).Draw(t, "duration"))
		d = d.Truncate(rapid.SampledFrom([]time.Duration{
			1, time.Millisecond, time.Second, time.Minute, time.Hour, 24 * time.Hour}).Draw(t, "unit"))
		if got, err := parseDuration(formatDuration(d)); got != d || err != nil {
			t.Fatalf("%v as %q: %v, %v", d, formatDuration(d), got, err)
		}
		n := rapid.IntRange(0, 1<<30).Draw(t, "size")
		if got, err := parseSize(formatSize(n)); got != n || err != nil {
			t.Fatalf("%d as %q: %v, %v", n, formatSize(n), got, err)
		}
	})
}

func drawConfig(t *rapid.T) Config {
	c := Default()
	c.Path = "/etc/crawld.yaml"
	c.SensorFiles = []string{"/" + rapid.StringMatching(`[a-z "'#:,{}é]{1,9}[a-z]`).Draw(t, "file")}
	c.Data = rapid.StringMatching(`[ -~\n\té]{1,20}`).Draw(t, "data")
	drawPlanner(t, &c.Planner)
	drawPolling(t, &c.Polling)
	drawGroups(t, &c)
	drawParties(t, &c)
	for i := range rapid.IntRange(0, 3).Draw(t, "credentials") {
		c.SensorCredentials = append(c.SensorCredentials, drawCredential(t, i))
	}
	c.Web = Web{Listen: []string{"[::1]:8080", ":0"}[:rapid.IntRange(1, 2).Draw(t, "listen")],
		ConfigFile:    rapid.SampledFrom([]string{"", "/web.yaml"}).Draw(t, "web config"),
		SystemdSocket: rapid.Bool().Draw(t, "socket"), ExternalURL: "http://h/x/", RoutePrefix: "y"}
	if rapid.Bool().Draw(t, "directory") {
		c.Directory = Directory{[]string{":0", "h:1"}[:rapid.IntRange(1, 2).Draw(t, "doors")],
			time.Duration(rapid.IntRange(1, 366*86400).Draw(t, "lifetime")) * time.Second,
			[]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	}
	c.Networks.Deny = []netip.Prefix{
		netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("0.0.0.0/0")}
	c.Store.Ballast = rapid.IntRange(0, 1<<30).Draw(t, "ballast")
	if rapid.Bool().Draw(t, "quota") {
		c.Store.MaxSize = rapid.IntRange(minStore, 1<<30).Draw(t, "max size")
	}
	some := rapid.IntRange(1, 5000)
	c.Limits = Limits{some.Draw(t, "body") + 64, some.Draw(t, "blocks"), 1024, time.Second, 9, 99}
	c.Log = Log{"warn", "console"}
	return c
}

func drawPlanner(t *rapid.T, p *Planner) {
	p.Tick = time.Duration(rapid.IntRange(0, 60).Draw(t, "tick")) * time.Second
	p.Range = p.ResolvedTick() * time.Duration(rapid.IntRange(30, 1000).Draw(t, "range"))
	p.Budget = float64(rapid.IntRange(1, 1e6).Draw(t, "budget"))
	if p.BudgetPerSensor = rapid.Bool().Draw(t, "per sensor"); p.BudgetPerSensor {
		p.Budget /= 64
	}
	if p.GuardAuto = rapid.Bool().Draw(t, "guard auto"); !p.GuardAuto {
		p.Guard = time.Duration(rapid.Int64Range(0, int64(p.Range)-1).Draw(t, "guard"))
	}
	p.Step = Step{Ticks: int64(rapid.IntRange(1, 30).Draw(t, "step"))}
	if rapid.Bool().Draw(t, "step as duration") {
		p.Step = Step{Duration: p.ResolvedTick() * time.Duration(p.Step.Ticks)}
	}
	p.End = rapid.SampledFrom([]string{EndLookahead, EndCarry, EndFixed}).Draw(t, "end")
	p.Objective = rapid.SampledFrom([]string{ObjectiveExact, ObjectivePaper}).Draw(t, "objective")
	p.Candidates = rapid.SampledFrom([]string{CandidatesEnds, CandidatesGrid}).Draw(t, "candidates")
	p.Capacity = rapid.Float64Range(1e-3, maxRate).Draw(t, "capacity")
}

func drawPolling(t *rapid.T, p *Polling) {
	gap := rapid.IntRange(1, 5000)
	*p = Polling{Policy: PolicyFixed, SD: SDRaw, PublishTimes: PublishFalse,
		Bootstrap: time.Duration(gap.Draw(t, "bootstrap")) * time.Millisecond,
		MinGap:    time.Duration(gap.Draw(t, "min")) * time.Millisecond,
		MaxGap:    time.Duration(5000+gap.Draw(t, "max")) * time.Millisecond,
		Desync:    time.Duration(gap.Draw(t, "desync")) * time.Millisecond}
	if rapid.Bool().Draw(t, "priced") {
		p.Price = time.Duration(gap.Draw(t, "price")) * time.Millisecond
	} else {
		p.PollsPerPublication = 0.05 + float64(gap.Draw(t, "load"))/64
	}
}

func drawGroups(t *rapid.T, c *Config) {
	for i := range rapid.IntRange(0, 3).Draw(t, "groups") {
		id := rapid.StringMatching(`[ -~é]{1,9}`)
		g := Group{ID: fmt.Sprintf("g%d", i),
			Members: rapid.SliceOfNDistinct(id, 1, 5, rapid.ID).Draw(t, "members")}
		g.AtLeast = rapid.IntRange(1, len(g.Members)).Draw(t, "at least")
		g.Spare = rapid.IntRange(0, len(g.Members)-g.AtLeast).Draw(t, "spare")
		c.Groups = append(c.Groups, g)
	}
}

// drawParties draws publishers and as many readers.
func drawParties(t *rapid.T, c *Config) {
	text := rapid.StringMatching(`[ -~é]{1,9}`)
	for i := range rapid.IntRange(0, 3).Draw(t, "publishers") {
		p := Publisher{KID: fmt.Sprint(i, text.Draw(t, "kid")), KeyFile: "/" + fmt.Sprint(i),
			TokenFile: "/t", Sources: []Source{{fmt.Sprint("s", i), text.Draw(t, "address"), "EPCIS"}}}
		c.Publishers = append(c.Publishers, p)
		r := Reader{TokenFile: "/r", All: i == 1}
		if !r.All {
			r.Sources = []string{text.Draw(t, "source") + "s"}
		}
		c.Readers = append(c.Readers, r)
	}
}

func TestYAMLParsesToTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		got, err := Parse(c.Path, []byte(c.YAML()))
		if err != nil {
			t.Fatalf("%v\n%s", err, c.YAML())
		}
		if diff := cmp.Diff(c, *got, byPrefix); diff != "" {
			t.Fatalf("(-want +got)\n%s\n%s", diff, c.YAML())
		}
	})
}

// Control for the round trip: a YAML that forgot any one of its lines would be
// caught, as the key falls back to another default or is missed.
func TestYAMLRoundTripCatchesALostLine(t *testing.T) {
	c := Default()
	c.Path, c.SensorFiles, c.Data = "/c.yaml", []string{"/a"}, "x"
	c.Planner = Planner{2 * time.Hour, time.Second, Step{Ticks: 3}, time.Second, false, 5, false,
		EndCarry, CandidatesGrid, ObjectivePaper, 7}
	c.Polling = Polling{Policy: PolicyFixed, Bootstrap: time.Minute, MinGap: time.Second,
		MaxGap: 2 * time.Hour, Price: time.Second, SD: SDRaw, Desync: time.Minute,
		PublishTimes: PublishTrue}
	c.Groups = []Group{{ID: "g", Members: []string{"a", "b"}, AtLeast: 1}}
	c.Publishers = []Publisher{{KID: "k", KeyFile: "/k", TokenFile: "/t",
		Sources: []Source{{"s", "a", "t"}}}}
	c.Readers = []Reader{{TokenFile: "/r", All: true}}
	c.SensorCredentials = []SensorCredential{{ID: "x", PSKIdentity: "i", PSKKeyFile: "/k"}}
	c.Store = Store{1 << 30, 5 << 20}
	c.Directory = Directory{[]string{":5683"}, time.Hour,
		[]netip.Prefix{netip.MustParsePrefix("::/0")}}
	c.Web = Web{Listen: []string{":1"}, ConfigFile: "/w", SystemdSocket: true, ExternalURL: "http://h",
		RoutePrefix: "/r"}
	any4 := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	c.Networks, c.Limits = Networks{any4, any4}, Limits{1024, 2, 16, time.Second, 3, 4}
	c.Log = Log{"warn", "json"}
	lines := strings.SplitAfter(strings.TrimSuffix(c.YAML(), "\n"), "\n")
	for i, line := range lines {
		cut := strings.Join(lines[:i], "") + strings.Join(lines[i+1:], "")
		if got, err := Parse(c.Path, []byte(cut)); err == nil && cmp.Equal(*got, c, byPrefix) {
			t.Errorf("without %q the config is the same", line)
		}
	}
	if got, err := Parse(c.Path, []byte(c.YAML())); err != nil || !cmp.Equal(*got, c, byPrefix) {
		t.Errorf("with all lines it is not: %v", err)
	}
}

func TestRelativePatternsStartFromTheConfig(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[b]*")
	if err := os.MkdirAll(filepath.Join(dir, "s"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "s", "one.txt"), "coap://h\n")
	write(t, filepath.Join(dir, "crawld.yaml"), "sensor_files: ['s/*.txt']\n")
	t.Chdir(dir)
	for _, path := range []string{"crawld.yaml", filepath.Join(dir, "crawld.yaml")} {
		c, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if f, _, err := LoadSensors(c.SensorFiles); err != nil || f.Len() != 1 {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

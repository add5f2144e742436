package sleepplan

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestMain fixes rapid's seed and count unless the command line names them.
func TestMain(m *testing.M) {
	checks := "100"
	if os.Getenv("CRAWLD_CI") != "" {
		checks = "1500"
	}
	for name, value := range map[string]string{
		"rapid.seed": "20260101", "rapid.checks": checks, "rapid.nofailfile": "true",
	} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	flag.Parse()
	os.Exit(m.Run())
}

// at reads an instant; without a zone it is UTC.
func at(text string) time.Time {
	for _, layout := range []string{time.RFC3339, time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC()
		}
	}
	panic("no instant: " + text)
}

func must(p Plan, err error) Plan {
	if err != nil {
		panic(err)
	}
	return p
}

// origin is the middle of the random tests; the zones below change their
// clocks around it.
func origin() time.Time { return at("2026-03-20 00:00") }

var zones = []string{
	"", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo",
	"America/Havana", "Africa/Casablanca",
}

func genInstant(t *rapid.T, label string) time.Time {
	n := rapid.Int64Range(-int64(30*day), int64(30*day)).Draw(t, label)
	if rapid.Bool().Draw(t, label+" on the minute") {
		n -= n % int64(time.Minute)
	}
	return origin().Add(time.Duration(n))
}

func genSlot(t *rapid.T) string {
	start := rapid.IntRange(0, 1439).Draw(t, "start")
	end := (start + rapid.IntRange(1, 1439).Draw(t, "length")) % 1440
	return fmt.Sprintf("%02d:%02d-%02d:%02d", start/60, start%60, end/60, end%60)
}

func genWeekly(t *rapid.T) Plan {
	days := []string{"daily", "mon-fri", "sat,sun", "sun", "fri-mon", "wed"}
	var entries []string
	for range rapid.IntRange(1, 4).Draw(t, "entries") {
		entries = append(entries, rapid.SampledFrom(days).Draw(t, "days")+" "+genSlot(t))
	}
	var except []Exception
	for i := range rapid.IntRange(0, 3).Draw(t, "exceptions") {
		e := Exception{Date: origin().AddDate(0, 0, 3*i-3).Format(time.DateOnly)}
		for range rapid.IntRange(0, 2).Draw(t, "windows") {
			e.Windows = append(e.Windows, genSlot(t))
		}
		except = append(except, e)
	}
	return must(Weekly(entries, rapid.SampledFrom(zones).Draw(t, "zone"), except))
}

func genExplicit(t *rapid.T) Plan {
	var ws []Window
	s := genInstant(t, "first")
	for range rapid.IntRange(1, 8).Draw(t, "windows") {
		e := s.Add(time.Duration(rapid.Int64Range(1, int64(day)).Draw(t, "awake")))
		ws = append(ws, Window{s, e})
		s = e.Add(time.Duration(rapid.Int64Range(0, int64(2*day)).Draw(t, "asleep")))
	}
	return must(Explicit(rapid.Permutation(ws).Draw(t, "order")))
}

func genCycle(t *rapid.T) Plan {
	period := rapid.Int64Range(int64(10*time.Minute), int64(9*day)).Draw(t, "period")
	awake := rapid.Int64Range(1, period).Draw(t, "awake")
	anchor := genInstant(t, "anchor")
	if rapid.Bool().Draw(t, "anchor in year 1") {
		anchor = time.Time{}
	}
	return must(Cycle(time.Duration(period), time.Duration(awake), anchor))
}

func genPlan(t *rapid.T) Plan {
	switch rapid.SampledFrom([]Kind{KindUnknown, KindAlwaysOn, KindCycle, KindWeekly,
		KindWeekly, KindExplicit}).Draw(t, "kind") {
	case KindAlwaysOn:
		return AlwaysOn()
	case KindCycle:
		return genCycle(t)
	case KindWeekly:
		return genWeekly(t)
	case KindExplicit:
		return genExplicit(t)
	}
	return Unknown()
}

// merged joins sorted windows that touch, the slow way.
func merged(ws []Window) []Window {
	for i := 1; i < len(ws); i++ {
		if ws[i-1].End.Equal(ws[i].Start) {
			joined := append(slices.Clone(ws[:i-1]), Window{ws[i-1].Start, ws[i].End})
			return merged(append(joined, ws[i+1:]...))
		}
	}
	return ws
}

// misshapen says what is wrong with windows that should be those of a range.
func misshapen(ws []Window, from, to time.Time) string {
	for i, w := range ws {
		switch {
		case !w.Start.Before(w.End):
			return fmt.Sprintf("window %d is empty: %v", i, w)
		case w.Start.Before(from) || w.End.After(to):
			return fmt.Sprintf("window %d is outside of the range: %v", i, w)
		case i > 0 && !ws[i-1].End.Before(w.Start):
			return fmt.Sprintf("window %d is not after the one before: %v", i, w)
		}
	}
	return ""
}

func TestWindowsComposeOverAnySplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genPlan(t)
		cut := []time.Time{genInstant(t, "a"), genInstant(t, "b"), genInstant(t, "c")}
		slices.SortFunc(cut, time.Time.Compare)
		whole := p.Windows(cut[0], cut[2])
		if bad := misshapen(whole, cut[0], cut[2]); bad != "" {
			t.Fatalf("%v: %s", p, bad)
		}
		parts := append(p.Windows(cut[0], cut[1]), p.Windows(cut[1], cut[2])...)
		if diff := cmp.Diff(whole, merged(parts)); diff != "" {
			t.Fatalf("%v: %v: whole and parts differ (-whole +parts)\n%s", p, cut, diff)
		}
	})
}

func TestMisshapenIsFound(t *testing.T) {
	from, to := origin(), origin().Add(time.Hour)
	mid := from.Add(time.Minute)
	for name, ws := range map[string][]Window{
		"empty":     {{from, from}},
		"outside":   {{from, to.Add(1)}},
		"touching":  {{from, mid}, {mid, to}},
		"disorderd": {{mid, to}, {from, mid.Add(-1)}},
	} {
		if misshapen(ws, from, to) == "" {
			t.Errorf("%s windows pass", name)
		}
	}
}

// TestInstantQueriesAgreeWithWindows asks at random instants and at both sides
// of every edge.
func TestInstantQueriesAgreeWithWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := genPlan(t)
		from := genInstant(t, "from")
		to := from.Add(9 * day)
		ws := p.Windows(from, to)
		asked := []time.Time{from, from.Add(time.Duration(
			rapid.Int64Range(0, int64(9*day)-1).Draw(t, "asked")))}
		for _, w := range ws[:min(len(ws), 40)] {
			asked = append(asked, w.Start, w.Start.Add(1), w.End.Add(-1), w.End)
		}
		for _, x := range asked {
			if x.Before(to) {
				checkInstant(t, p, ws, x, to)
			}
		}
	})
}

func checkInstant(t *rapid.T, p Plan, ws []Window, x, to time.Time) {
	in := slices.IndexFunc(ws, func(w Window) bool { return w.Contains(x) })
	if p.Awake(x) != (in >= 0) {
		t.Fatalf("%v: Awake(%v) = %t, windows %v", p, x, p.Awake(x), ws)
	}
	next, ok := p.NextAwake(x)
	i := slices.IndexFunc(ws, func(w Window) bool { return w.End.After(x) })
	switch {
	case in >= 0 && !next.Equal(x), in < 0 && i >= 0 && !next.Equal(ws[i].Start):
		t.Fatalf("%v: NextAwake(%v) = %v, windows %v", p, x, next, ws)
	case i < 0 && ok && next.Before(to):
		t.Fatalf("%v: NextAwake(%v) = %v, not in the windows", p, x, next)
	case i < 0 && !ok:
		if until, ends := p.KnownUntil(); !ends || until.After(x) {
			t.Fatalf("%v: never awake after %v, yet known until %v", p, x, until)
		}
	}
	w, awake := p.Window(x)
	if nw, found := p.NextWindow(x); found != ok || awake && nw != w || ok && !nw.Contains(next) {
		t.Fatalf("%v: NextWindow(%v) = %v %t", p, x, nw, found)
	}
	if awake != (in >= 0) || awake && !w.Contains(x) {
		t.Fatalf("%v: Window(%v) = %v %t", p, x, w, awake)
	}
	if awake && w.Duration() < lookAround {
		around := p.Windows(w.Start.Add(-1), w.End.Add(1))
		if !slices.Equal(around, []Window{w}) {
			t.Fatalf("%v: Window(%v) = %v, windows %v", p, x, w, around)
		}
	}
}

func TestAppendWindowsLeavesDst(t *testing.T) {
	from := origin()
	for _, p := range kinds() {
		before := Window{from.Add(-time.Hour), from} // touches the first new one
		got := p.AppendWindows([]Window{before}, from, from.Add(3*day))
		want := append([]Window{before}, p.Windows(from, from.Add(3*day))...)
		if !slices.Equal(got, want) {
			t.Errorf("%v: got %v, want %v", p, got, want)
		}
	}
}

// kinds has one plan of every kind, all awake at origin but the unknown one.
func kinds() []Plan {
	return []Plan{
		Unknown(), AlwaysOn(),
		must(Cycle(5*time.Minute, 30*time.Second, at("2026-01-01 00:00:10").Add(-10*time.Second))),
		must(Weekly([]string{"mon-fri 18:00-09:00", "sat  00:00-24:00"}, "Asia/Tokyo",
			[]Exception{{Date: "2026-12-25"}})),
		must(Explicit([]Window{{origin(), origin().Add(day)}, {at("2026-05-01"), at("2026-05-02")}})),
	}
}

func TestKindsAndText(t *testing.T) {
	want := []string{
		"unknown: unknown",
		"always_on: always_on",
		"cycle: cycle 30s/5m0s from 2026-01-01T00:00:00Z",
		"weekly: weekly mon-fri 18:00-09:00, sat 00:00-24:00 (Asia/Tokyo, 1 exception)",
		"windows: 2 windows until 2026-05-02T00:00:00Z",
	}
	for i, p := range kinds() {
		if got := fmt.Sprintf("%v: %v", p.Kind(), p); got != want[i] {
			t.Errorf("got  %s\nwant %s", got, want[i])
		}
		for j, o := range kinds() {
			if p.Equal(o) != (i == j) {
				t.Errorf("%v equals %v: %t", p, o, p.Equal(o))
			}
		}
	}
	if (Plan{}).Kind() != KindUnknown || Kind(9).String() != "kind(9)" {
		t.Error("zero plan or unnamed kind")
	}
}

func TestAlwaysOnAndUnknown(t *testing.T) {
	now := time.Now() // with a monotonic reading and a local zone
	w, ok := AlwaysOn().Window(now)
	if !ok || !w.Start.IsZero() || w.End.Year() != 9999 {
		t.Errorf("always on: %v %t", w, ok)
	}
	if next, ok := AlwaysOn().NextAwake(now); !ok || next != now.UTC() {
		t.Errorf("next awake %v, want %v", next, now.UTC())
	}
	if until, ends := Unknown().KnownUntil(); !ends || !until.IsZero() {
		t.Errorf("unknown is known until %v %t", until, ends)
	}
	if until, ends := AlwaysOn().KnownUntil(); ends {
		t.Errorf("always on is known until %v", until)
	}
	if ws := AlwaysOn().Windows(now, now); ws != nil {
		t.Errorf("an empty range has %v", ws)
	}
}

func TestQueriesDoNotAllocate(t *testing.T) {
	room := make([]Window, 0, 2000)
	from, to := origin(), origin().Add(3*day)
	for _, p := range kinds() {
		allocs := testing.AllocsPerRun(20, func() {
			p.Awake(from)
			p.NextAwake(from.Add(time.Hour))
			p.Window(from)
			p.NextWindow(from.Add(2 * day))
			room = p.AppendWindows(room[:0], from, to)
		})
		if allocs != 0 {
			t.Errorf("%v: %v allocations", p, allocs)
		}
	}
}

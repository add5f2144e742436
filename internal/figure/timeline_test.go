package figure

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/crawld/crawld/internal/sleepplan"
)

var monday = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// at is so many minutes after monday.
func at(minutes float64) time.Time {
	return monday.Add(time.Duration(minutes * float64(time.Minute)))
}

func marks(kind MarkKind, minutes ...float64) []Mark {
	var ms []Mark
	for _, m := range minutes {
		ms = append(ms, Mark{At: at(m), Kind: kind})
	}
	return ms
}

func cycle(t *testing.T, period, awake time.Duration) []sleepplan.Window {
	t.Helper()
	p, err := sleepplan.Cycle(period, awake, monday.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return p.Windows(monday.Add(-24*time.Hour), monday.Add(72*time.Hour))
}

// halfDay has every sign, a sensor that is always on, an unknown one, and names
// from hostile hands.
func halfDay(t *testing.T) *Timeline {
	join := func(parts ...[]Mark) (all []Mark) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	hall := Row{Label: "hall/temperature", Note: "4 crawls, 5 events",
		Awake: cycle(t, 3*time.Hour, 50*time.Minute),
		Marks: join(marks(Event, 70, 100, 245, 250, 430), marks(Planned, 109, 289, 649, 720),
			marks(Crawled, 109, 289), marks(Failed, 469), marks(Changed, 109))}
	hall.Marks[0].Tip = "22.5 > 22"
	always, _ := sleepplan.AlwaysOn().Window(monday)
	return &Timeline{Title: "Twelve hours", From: monday, To: at(720), Legend: true, Rows: []Row{hall,
		{Label: "meter", Note: "always on", Awake: []sleepplan.Window{always},
			Marks: join(marks(Crawled, 0, 180, 360, 540), marks(Event, 12, 13, 14, 15, 500))},
		{Label: "<script>alert(1)</script>", Note: `"&'`, Marks: []Mark{
			{at(300), Failed, `</title><script>alert("tip")</script>`}}},
		{Label: "basement/a sensor with a name that does not fit into the room of the labels",
			Note: "sleep plan unknown, polled every ten minutes", Marks: marks(Crawled, -5, 10, 725)},
	}, Notes: []string{"Windows are those that the operator declared."}}
}

// readings is like Fig. 10 of the EasiCrawl paper: raw readings behind.
func readings(t *testing.T) *Timeline {
	rng := rand.New(rand.NewPCG(7, 8))
	tl := &Timeline{Title: "Crawl plan for four data streams", Legend: true,
		From: at(-90), To: at(48 * 60)}
	for _, name := range []string{"CO", "Humidity", "NO₂", "Temperature"} {
		r := Row{Label: name, Awake: cycle(t, time.Duration(4+rng.IntN(8))*time.Hour, 90*time.Minute)}
		v := 0.0
		for m := -90.0; m < 48*60; m += 2 {
			v += rng.NormFloat64() - v/50
			r.Curve = append(r.Curve, Sample{at(m), v + 3*math.Sin(m/200)})
			if rng.IntN(120) == 0 {
				r.Marks = append(r.Marks, Mark{at(m), Event, ""})
			}
		}
		for _, w := range r.Awake {
			if rng.IntN(2) == 0 {
				r.Marks = append(r.Marks, Mark{w.End.Add(-time.Minute), Planned, ""})
			}
			if rng.IntN(2) == 0 {
				r.Marks = append(r.Marks, Mark{w.End.Add(-time.Minute), Crawled, ""})
			}
		}
		tl.Rows = append(tl.Rows, r)
	}
	return tl
}

func TestTimelineGolden(t *testing.T) {
	for _, format := range Formats() {
		golden(t, "halfday."+extension(format), written(t, halfDay(t), format))
	}
	golden(t, "readings.svg", written(t, readings(t), "svg"))
}

func TestTimelineHostile(t *testing.T) {
	tl := halfDay(t)
	tl.Title, tl.Notes = hostile, []string{hostile}
	svg := written(t, tl, "svg")
	n := wellFormed(t, svg)
	marks := 0
	for _, r := range tl.Rows {
		for _, m := range r.Marks {
			if tl.shows(m.At) {
				marks++
			}
		}
	}
	// Two texts that are cut and the drawing itself have titles, too.
	if n["script"] > 0 || n["title"] != marks+3 {
		t.Errorf("elements %v, %d marks", n, marks)
	}
	for _, text := range []string{svg, written(t, tl, "table")} {
		if strings.ContainsAny(text, "\x00\x1b\u202e") || !utf8.ValidString(text) {
			t.Errorf("%q", text)
		}
	}
}

func TestTimelineRefused(t *testing.T) {
	far, late := time.Unix(1<<60, 0), monday.AddDate(7974, 0, 0)
	for want, change := range map[string]func(tl *Timeline, r *Row){
		`timeline "Twelve hours": no rows`: func(tl *Timeline, _ *Row) { tl.Rows = nil },
		`does not end after its start`:     func(tl *Timeline, _ *Row) { tl.To = tl.From },
		`an instant in the year 10000`:     func(tl *Timeline, _ *Row) { tl.To = late },
		`row "hall/temperature": window 1 from 2026-01-04T`: func(_ *Timeline, r *Row) {
			r.Awake[0], r.Awake[1] = r.Awake[1], r.Awake[0]
		},
		`window 0: an instant in the year -`: func(_ *Timeline, r *Row) {
			r.Awake[0].Start = at(0).AddDate(-9000, 0, 0)
		},
		`window 0 from`:                 func(_ *Timeline, r *Row) { r.Awake[0].End = r.Awake[0].Start },
		`mark 0: no such kind: mark(5)`: func(_ *Timeline, r *Row) { r.Marks[0].Kind = 5 },
		`mark 1: an instant in`:         func(_ *Timeline, r *Row) { r.Marks[1].At = far },
		`reading 0: NaN is no value`: func(_ *Timeline, r *Row) {
			r.Curve = []Sample{{monday, math.NaN()}}
		},
		`reading 1: 2026-01-05T00:00:00Z is before`: func(_ *Timeline, r *Row) {
			r.Curve = []Sample{{at(1), 0}, {at(0), 0}}
		},
	} {
		tl := halfDay(t)
		change(tl, &tl.Rows[0])
		for _, format := range Formats() {
			var b bytes.Buffer
			if err := tl.Write(&b, format); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want %q", format, err, want)
			}
			if b.Len() > 0 {
				t.Errorf("%s: %q: %d bytes were written", format, want, b.Len())
			}
		}
	}
	if err := halfDay(t).Write(io.Discard, "png"); !errors.Is(err, ErrFormat) {
		t.Errorf("png: %v", err)
	}
}

// Equal instants in other zones give equal bytes.
func TestTimelineZones(t *testing.T) {
	there := halfDay(t)
	zone := time.FixedZone("there", 7*3600)
	there.From, there.To = there.From.In(zone), there.To.In(zone)
	for _, r := range there.Rows {
		for i := range r.Awake {
			r.Awake[i].Start, r.Awake[i].End = r.Awake[i].Start.In(zone), r.Awake[i].End.In(zone)
		}
		for i := range r.Marks {
			r.Marks[i].At = r.Marks[i].At.In(zone)
		}
	}
	for _, format := range Formats() {
		if written(t, there, format) != written(t, halfDay(t), format) {
			t.Errorf("%s differs", format)
		}
	}
}

// bars reads the rectangles of a path of shade.
func bars(t *testing.T, path string) [][2]float64 {
	t.Helper()
	var bars [][2]float64
	for _, part := range strings.Split(strings.TrimSuffix(path, "Z"), "Z") {
		var l, r, back float64
		if part == "" {
			continue
		}
		if _, err := fmt.Sscanf(part, "M%f,0H%fV1H%f", &l, &r, &back); err != nil || l != back {
			t.Fatalf("%q: %v", part, err)
		}
		bars = append(bars, [2]float64{l, r})
	}
	return bars
}

// missed looks at every tenth of a pixel: it returns the first that is shaded
// although no window is within a pixel, or not although all around is awake.
func missed(d *drawing, awake []sleepplan.Window, bars [][2]float64) (x float64, found bool) {
	perPixel := time.Duration(float64(d.To.Sub(d.From)) / (d.right - d.left))
	for x := d.left + 1; x < d.right-1; x += 0.1 {
		at := d.From.Add(time.Duration((x - d.left) * float64(perPixel)))
		awakeNear, awakeAll := false, false
		for _, w := range awake {
			awakeNear = awakeNear || w.Start.Before(at.Add(perPixel)) && w.End.After(at.Add(-perPixel))
			awakeAll = awakeAll || !w.Start.After(at.Add(-perPixel)) && !w.End.Before(at.Add(perPixel))
		}
		dark := slices.ContainsFunc(bars, func(b [2]float64) bool { return b[0] <= x && x <= b[1] })
		if dark && !awakeNear || !dark && awakeAll {
			return x, true
		}
	}
	return 0, false
}

func TestShadeAgainstLooking(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	shaded, caught := 0, 0
	for range trials(60, 1000) {
		tl := &Timeline{From: monday, To: at(10 + 1000*rng.Float64())}
		d := &drawing{Timeline: tl, left: 100, right: 400}
		var r Row
		minute := -100.0
		for range rng.IntN(60) {
			length := math.Exp(8*rng.Float64() - 4)
			r.Awake = append(r.Awake, sleepplan.Window{Start: at(minute), End: at(minute + length)})
			minute += length + math.Exp(8*rng.Float64()-4)
		}
		bs := bars(t, d.shade(r))
		if x, bad := missed(d, r.Awake, bs); bad {
			t.Fatalf("at %v of %v: %v of %v", x, d.To, bs, r.Awake)
		}
		shaded += len(bs)
		for i := range bs { // a bar that is lost must be seen
			bs[i] = [2]float64{}
		}
		if _, bad := missed(d, r.Awake, bs); bad {
			caught++
		}
	}
	if shaded < 100 || caught < 10 {
		t.Errorf("%d bars, %d lost ones were seen", shaded, caught)
	}
}

// What is drawn is bounded by the width: a million windows, marks and readings.
func TestTimelineIsBounded(t *testing.T) {
	r := Row{Label: "busy"}
	for i := range trials(100_000, 1_000_000) {
		s := monday.Add(time.Duration(i) * time.Second)
		r.Awake = append(r.Awake, sleepplan.Window{Start: s, End: s.Add(time.Second / 2)})
		r.Marks = append(r.Marks, Mark{At: s, Kind: Event})
		r.Curve = append(r.Curve, Sample{s, float64(i % 7)})
	}
	last := r.Marks[len(r.Marks)-1].At
	svg := written(t, &Timeline{From: monday, To: last, Rows: []Row{r}}, "svg")
	if n := wellFormed(t, svg); len(svg) > 3_000_000 || n["path"] > 10*timelineWidth+10 {
		t.Errorf("%d bytes, elements %v", len(svg), n)
	}
	if !strings.Contains(svg, " more)") {
		t.Error("marks at the same place are not counted")
	}
}

// The curve that is drawn reaches the extremes of the readings, and few points
// stand for many.
func TestCurve(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	var r Row
	for i := range 20_000 {
		r.Curve = append(r.Curve, Sample{monday.Add(time.Duration(i) * time.Second), rng.NormFloat64()})
	}
	tl := &Timeline{From: monday, To: r.Curve[len(r.Curve)-1].At}
	d := &drawing{Timeline: tl, left: 100, right: 900}
	line := d.curve(r, 10, 40)
	low, high := math.Inf(1), math.Inf(-1)
	for i, q := range line {
		low, high = min(low, q[1]), max(high, q[1])
		if i > 0 && q[0] < line[i-1][0] {
			t.Fatalf("point %d goes back: %v", i, line[i-1:i+1])
		}
	}
	if low != 10 || high != 50 || len(line) > 4*801 {
		t.Errorf("%d points from %v to %v", len(line), low, high)
	}
	// Between two readings a mark lies on the line that joins them.
	tl.From, tl.To = at(0), at(10)
	up := d.curve(Row{Curve: []Sample{{at(0), 0}, {at(4), 1}, {at(8), 3}}}, 0, 30)
	for minute, want := range map[float64]float64{0: 30, 2: 25, 4: 20, 6: 10, 8: 0, 10: 0} {
		if y := up.at(d)(at(minute)); math.Abs(y-want) > 1e-9 {
			t.Errorf("after %v min: %v, want %v", minute, y, want)
		}
	}
	tl.From, tl.To = monday, r.Curve[len(r.Curve)-1].At
	if flat := d.curve(Row{Curve: []Sample{{at(1), 5}, {at(2), 5}}}, 10, 40); flat[0][1] != 30 {
		t.Errorf("flat: %v", flat)
	}
	if none := d.curve(Row{Curve: []Sample{{at(-1), 5}}}, 10, 40); none != nil {
		t.Errorf("outside: %v", none)
	}
}

func TestTimeTicks(t *testing.T) {
	wide := func(s string) float64 { return 7 * float64(len(s)) }
	for _, c := range []struct{ from, to, want string }{
		{"2026-01-05T00:00:00Z", "2026-01-05T12:00:00Z",
			"00:00 Mon 5 Jan 2026|02:00|04:00|06:00|08:00|10:00|12:00"},
		{"2026-01-05T22:15:00Z", "2026-01-06T02:00:00Z",
			"22:30 Mon 5 Jan 2026|23:00|23:30|00:00 Tue 6 Jan 2026|00:30|01:00|01:30|02:00"},
		{"2026-01-05T00:00:58.5Z", "2026-01-05T00:01:02Z",
			"00:00:59 Mon 5 Jan 2026|00:01:00|00:01:01|00:01:02"},
		{"2025-12-29T06:00:00Z", "2026-01-06T00:00:00Z",
			"30 Dec 2025|31 Dec|1 Jan 2026|2 Jan|3 Jan|4 Jan|5 Jan|6 Jan"},
		{"2025-12-20T06:00:00Z", "2026-01-20T00:00:00Z",
			"22 Dec 2025|29 Dec|5 Jan 2026|12 Jan|19 Jan"},
		{"2025-09-20T00:00:00Z", "2026-03-20T00:00:00Z",
			"Oct 2025|Nov|Dec|Jan 2026|Feb|Mar"},
		{"2018-09-20T00:00:00Z", "2026-03-20T00:00:00Z",
			"2019|2020|2021|2022|2023|2024|2025|2026"},
		{"0001-01-01T00:00:00Z", "9999-12-31T00:00:00Z",
			"1000|2000|3000|4000|5000|6000|7000|8000|9000"},
	} {
		from, _ := time.Parse(time.RFC3339, c.from)
		to, err := time.Parse(time.RFC3339, c.to)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, tick := range timeTicks(from, to, 800, wide) {
			got = append(got, strings.TrimSpace(tick.label+" "+tick.context))
		}
		if s := strings.Join(got, "|"); s != c.want {
			t.Errorf("%s to %s:\ngot  %s\nwant %s", c.from, c.to, s, c.want)
		}
	}
}

// ranges of all lengths, drawn, have at least one label and none overlap.
func TestTimeTicksFit(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	some := 0
	for range trials(5000, 30_000) {
		from := monday.Add(time.Duration(rng.Int64N(1 << 60)))
		length := math.Exp(rng.Float64() * math.Log(9e18))
		to := from.Add(time.Duration(length))
		if !from.Before(to) {
			continue
		}
		const width = 600.0
		ticks := timeTicks(from, to, width, textWidth)
		for i, tick := range ticks {
			if tick.at.Before(from) || tick.at.After(to) {
				t.Fatalf("%v to %v: %v", from, to, tick)
			}
			if i == 0 {
				continue
			}
			gap := seconds(ticks[i-1].at, tick.at) / seconds(from, to) * width
			if gap < textWidth(tick.label)+8 {
				t.Fatalf("%v to %v: %v and %v are %v apart", from, to, ticks[i-1], tick, gap)
			}
		}
		if len(ticks) > 1 {
			some++
		}
	}
	if some < 4000 {
		t.Errorf("only %d ranges had two ticks", some)
	}
}

// FuzzTimeline draws rows at arbitrary instants: what is not refused is
// well-formed in every format, and nothing lies outside of the drawing.
func FuzzTimeline(f *testing.F) {
	f.Add(int64(0), int64(1), uint64(1), "a", "b")
	f.Add(int64(1767571200), int64(86400e9), uint64(2), hostile, "]]>")
	f.Add(int64(-62135596800), int64(1), uint64(3), "", "\xff")
	f.Add(int64(253402300799), int64(-5), uint64(4), strings.Repeat("wide ", 100), "")
	f.Fuzz(func(t *testing.T, from, length int64, seed uint64, label, tip string) {
		rng := rand.New(rand.NewPCG(seed, 5))
		tl := randomTimeline(rng, time.Unix(from, 0), time.Duration(length), label, tip)
		for _, format := range Formats() {
			var b bytes.Buffer
			if err := tl.Write(&b, format); err != nil {
				if b.Len() > 0 {
					t.Fatalf("%s: %v after %d bytes", format, err, b.Len())
				}
				return
			}
			if format == "svg" {
				wellFormed(t, b.String())
				if far := outside(t, b.String()); len(far) > 0 {
					t.Fatalf("outside: %v\n%s", far, b.String())
				}
			}
		}
	})
}

func randomTimeline(
	rng *rand.Rand, from time.Time, length time.Duration, label, tip string,
) *Timeline {
	tl := &Timeline{Title: label, From: from, To: from.Add(length), Legend: rng.IntN(2) == 0,
		Notes: []string{tip}}
	if rng.IntN(8) == 0 { // longer than a duration
		tl.To = from.AddDate(rng.IntN(9000), 0, 0)
	}
	place := func() time.Time { // around the range, or anywhere
		if rng.IntN(4) == 0 {
			return time.Unix(rng.Int64N(1<<37)-1<<35, rng.Int64N(1e9))
		}
		return from.Add(time.Duration(float64(length) * (1.4*rng.Float64() - 0.2)))
	}
	for range rng.IntN(6) {
		r := Row{Label: label, Note: tip}
		var instants []time.Time
		for range 2 * rng.IntN(10) {
			instants = append(instants, place())
		}
		slices.SortFunc(instants, time.Time.Compare)
		instants = slices.CompactFunc(instants, time.Time.Equal)
		for i := 1; i < len(instants); i += 2 {
			r.Awake = append(r.Awake, sleepplan.Window{Start: instants[i-1], End: instants[i]})
		}
		for _, at := range instants {
			r.Curve = append(r.Curve, Sample{at, magnitude(rng, false)})
		}
		if rng.IntN(2) == 0 {
			r.Curve = nil
		}
		for range rng.IntN(20) {
			r.Marks = append(r.Marks, Mark{place(), MarkKind(rng.IntN(5)), tip})
		}
		tl.Rows = append(tl.Rows, r)
	}
	return tl
}

// The fuzz target's timelines are mostly drawn, not refused.
func TestRandomTimelines(t *testing.T) {
	drawn := 0
	n := trials(600, 10_000)
	for seed := range uint64(n) {
		rng := rand.New(rand.NewPCG(seed, 6))
		length := time.Duration(math.Exp(rng.Float64() * math.Log(9e18)))
		tl := randomTimeline(rng, monday, length, "a", "b")
		var b bytes.Buffer
		if tl.Write(&b, "svg") != nil {
			continue
		}
		drawn++
		wellFormed(t, b.String())
		if far := outside(t, b.String()); len(far) > 0 {
			t.Fatalf("seed %d: %v", seed, far)
		}
		if text := written(t, tl, "table"); !strings.Contains(text, "a  ") {
			t.Fatalf("seed %d: %s", seed, text)
		}
	}
	if drawn < n/2 {
		t.Errorf("only %d of %d were drawn", drawn, n)
	}
}

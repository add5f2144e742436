package figure

import (
	"bytes"
	"encoding/xml"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// magnitude is a random value of any size that figures take.
func magnitude(rng *rand.Rand, positive bool) float64 {
	v := math.Pow(10, float64(rng.IntN(40)-20)) * (1 + 9*rng.Float64())
	switch rng.IntN(12) {
	case 0:
		v = largest
	case 1:
		v = smallest
	case 2:
		v = float64(rng.IntN(20))
	}
	if positive {
		return max(v, smallest)
	}
	return v * float64(rng.IntN(3)-1)
}

func randomAxis(rng *rand.Rand) Axis {
	a := Axis{Label: "label", Log: rng.IntN(2) == 0}
	if rng.IntN(4) == 0 {
		v := magnitude(rng, a.Log)
		a.Min = &v
	}
	if rng.IntN(4) == 0 {
		v := magnitude(rng, a.Log)
		if a.Min == nil || *a.Min < v {
			a.Max = &v
		}
	}
	return a
}

func randomFigure(rng *rand.Rand) *Figure {
	f := &Figure{ID: "random", Title: "t"}
	for range 1 + rng.IntN(5) {
		p := Panel{Title: strconv.Itoa(len(f.Panels)), X: randomAxis(rng), Y: randomAxis(rng)}
		for i := range 1 + rng.IntN(12) {
			s := Series{Name: strconv.Itoa(i), Style: Style(rng.IntN(4))}
			xs := map[float64]bool{}
			for range 1 + rng.IntN([]int{3, 80}[rng.IntN(2)]) {
				xs[magnitude(rng, p.X.Log)] = true
			}
			for _, x := range sorted(xs) {
				y := []float64{magnitude(rng, p.Y.Log), magnitude(rng, p.Y.Log)}
				s.Points = append(s.Points, Over(x, y[:1+rng.IntN(2)]))
			}
			p.Series = append(p.Series, s)
		}
		f.Panels = append(f.Panels, p)
	}
	return f
}

// outside are the places of a drawing's paths and texts that lie outside of its
// view box, for pictures whose transformations only move and turn.
func outside(t *testing.T, svg string) []string {
	t.Helper()
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		return []string{"NaN or Inf"}
	}
	var far []string
	for _, m := range coordinates.FindAllStringSubmatch(svg, -1) {
		for _, number := range m[1:] {
			v, err := strconv.ParseFloat(number, 64)
			if number != "" && (err != nil || math.Abs(v) > 5000) {
				far = append(far, m[0])
			}
		}
	}
	return far
}

var coordinates = regexp.MustCompile(
	`(?:[MLHV]|\b[xy]=")(-?[0-9][0-9.e+-]*)(?:,(-?[0-9][0-9.e+-]*))?`)

// Whatever passes the check can be written in every format.
func TestRandomFigures(t *testing.T) {
	paths := 0
	for seed := range uint64(trials(60, 250)) {
		f := randomFigure(rand.New(rand.NewPCG(seed, 1)))
		for _, format := range Formats() {
			text := written(t, f, format)
			if format != "svg" {
				continue
			}
			paths += wellFormed(t, text)["path"]
			if far := outside(t, text); len(far) > 0 {
				t.Fatalf("seed %d: %v", seed, far)
			}
		}
	}
	if paths < 5_000 {
		t.Errorf("only %d paths were drawn", paths)
	}
	if len(outside(t, `<path d="M1,2L1e+05,3"/>`)) != 1 { // what the test must catch
		t.Error("a place outside is not seen")
	}
}

// Ticks ascend inside the axis, read as what they mark, and are as many as
// asked for.
func TestTicks(t *testing.T) {
	labelled := 0
	for seed := range uint64(trials(20_000, 200_000)) {
		rng := rand.New(rand.NewPCG(seed, 2))
		a := randomAxis(rng)
		v, w := magnitude(rng, a.Log), magnitude(rng, a.Log)
		lo, hi := a.span(min(v, w), max(v, w), 0.05, rng.IntN(2) == 0)
		if !(lo < hi) || a.Log && lo <= 0 {
			t.Fatalf("seed %d: axis from %v to %v", seed, lo, hi)
		}
		want := 3 + rng.IntN(8)
		ticks := a.ticks(lo, hi, want)
		n, before, labels := 0, math.Inf(-1), map[string]bool{}
		for _, tick := range ticks {
			if tick.Value <= before && !tick.IsMinor() || tick.Value < lo || tick.Value > hi {
				t.Fatalf("seed %d: [%v, %v]: %v", seed, lo, hi, ticks)
			}
			before = tick.Value
			if tick.IsMinor() {
				continue
			}
			n++
			read, err := strconv.ParseFloat(tick.Label, 64)
			if err != nil || math.Abs(read-tick.Value) > 1e-6*(hi-lo) && !a.Log ||
				a.Log && math.Abs(read/tick.Value-1) > 1e-6 || labels[tick.Label] {
				t.Fatalf("seed %d: [%v, %v]: %v reads as %q", seed, lo, hi, tick.Value, tick.Label)
			}
			labels[tick.Label] = true
		}
		if n < 1 || n > max(want+1, 9) {
			t.Fatalf("seed %d: [%v, %v]: %d labels, asked for %d", seed, lo, hi, n, want)
		}
		labelled += n
	}
	if labelled < 40_000 {
		t.Errorf("only %d ticks", labelled)
	}
}

func TestTickLabels(t *testing.T) {
	for _, c := range []struct {
		log    bool
		lo, hi float64
		want   string
	}{
		{false, 0, 10, "0 2 4 6 8 10"},
		{false, 0, 0.31, "0 0.05 0.10 0.15 0.20 0.25 0.30"},
		{false, -1, 1, "-1.0 -0.5 0 0.5 1.0"},
		{false, 0, 15000, "0 5000 10000 15000"},
		{false, 0, 2.5e6, "0 0.5e6 1.0e6 1.5e6 2.0e6 2.5e6"},
		{false, 0, 0.0005, "0 100e-6 200e-6 300e-6 400e-6 500e-6"},
		{true, 1, 1000, "1 10 100 1000"},
		{true, 3, 80, "5 10 20 50"},
		{true, 1e-9, 1e9, "1e-9 1e-6 0.001 1 1000 1e6 1e9"},
		{true, 6, 9, "6.0 6.5 7.0 7.5 8.0 8.5 9.0"},
	} {
		var labels []string
		for _, tick := range (Axis{Log: c.log}).ticks(c.lo, c.hi, 7) {
			if !tick.IsMinor() {
				labels = append(labels, tick.Label)
			}
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("%v..%v: got %s, want %s", c.lo, c.hi, got, c.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", math.Copysign(0, -1): "0", 1000: "1000", 1e6: "1000000", -3: "-3", 2.4117: "2.412",
		0.25: "0.2500", 9.99996: "10.00", 12345.6: "12346", 0.00012345: "0.0001234", 1.5e-7: "1.500e-07",
		1e15: "1.000e+15", 99999.5: "100000",
	} {
		if got := number(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
	rng := rand.New(rand.NewPCG(9, 9))
	for range trials(20_000, 200_000) {
		v := magnitude(rng, false)
		for _, text := range []string{number(v), short(v)} {
			got, err := strconv.ParseFloat(text, 64)
			if err != nil || math.Abs(got-v) > 5.001e-4*math.Abs(v) || len(text) > 16 {
				t.Fatalf("%v is written %q", v, text)
			}
		}
	}
}

// Wrapped and shortened texts fit, and wrapping loses no word.
func TestFitting(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	cut := 0
	for range trials(5000, 50_000) {
		var words []string
		for range rng.IntN(12) {
			words = append(words, strings.Repeat("é", 1+rng.IntN(9)))
		}
		text, width := strings.Join(words, " "), 1+rng.IntN(30)
		lines := wrap(text, float64(width), columns)
		if strings.Join(strings.Fields(strings.Join(lines, " ")), " ") != text {
			t.Fatalf("%q became %q", text, lines)
		}
		for i, line := range lines {
			n := utf8.RuneCountInString(line)
			if n > width && strings.Contains(line, " ") {
				t.Fatalf("line %q is wider than %d", line, width)
			}
			if i > 0 { // greedy: the first word had no room in the line before
				first, _, _ := strings.Cut(line, " ")
				if utf8.RuneCountInString(lines[i-1]+" "+first) <= width {
					t.Fatalf("%q could be in the line before: %q", first, lines)
				}
			}
		}
		s := shorten(text, float64(width), columns)
		if n := utf8.RuneCountInString(s); n > max(width, 2) ||
			s != text && !strings.HasSuffix(s, "…") {
			t.Fatalf("%q cut to %d is %q", text, width, s)
		}
		if s != text {
			cut++
		}
	}
	if cut < 1000 {
		t.Errorf("only %d texts were cut", cut)
	}
}

// rows against looking for each x in each series.
func TestRowsAgainstLooking(t *testing.T) {
	cells := 0
	for seed := range uint64(trials(2000, 20_000)) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var p Panel
		for range 1 + rng.IntN(4) {
			s := Series{Style: Points}
			for range rng.IntN(6) {
				s.Points = append(s.Points, At(float64(rng.IntN(6)), rng.Float64()))
			}
			p.Series = append(p.Series, s)
		}
		rows := p.rows()
		for i, s := range p.Series {
			for x := range 6 {
				var want, got []float64
				for _, q := range s.Points {
					if q.X == float64(x) {
						want = append(want, q.Mean)
					}
				}
				for _, r := range rows {
					if r.x == float64(x) && r.points[i] != nil {
						got = append(got, r.points[i].Mean)
					}
				}
				if !equal(got, want) {
					t.Fatalf("seed %d: series %d at %d: got %v, want %v", seed, i, x, got, want)
				}
				cells += len(want)
			}
		}
		for i, r := range rows {
			some := false
			for _, q := range r.points {
				some = some || q != nil
			}
			if !some || i > 0 && r.x < rows[i-1].x {
				t.Fatalf("seed %d: row %d of %v", seed, i, rows)
			}
		}
	}
	if cells < 5000 {
		t.Errorf("only %d cells", cells)
	}
}

// The extremes of a series of bars and error bars stay inside of the axes even
// where the axes are fixed more narrowly.
func TestClipped(t *testing.T) {
	lo, hi := 2.0, 3.0
	f := &Figure{ID: "f", Panels: []Panel{{
		X: Axis{Min: &lo, Max: &hi}, Y: Axis{Min: &lo, Max: &hi}}}}
	for _, style := range []Style{Line, Points, Steps, Bars} {
		s := Series{Name: style.String(), Style: style}
		for x := range 60 {
			s.Points = append(s.Points, Over(float64(x)/10, []float64{0, 2.5, 10}))
		}
		f.Panels[0].Series = append(f.Panels[0].Series, s)
	}
	var b bytes.Buffer
	if err := f.Write(&b, "svg"); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		ViewBox string `xml:"viewBox,attr"`
	}
	if err := xml.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	box := strings.Fields(doc.ViewBox)
	high, _ := strconv.ParseFloat(box[3], 64)
	corner := regexp.MustCompile(`[ML](-?[0-9.]+),(-?[0-9.]+)`)
	for _, m := range corner.FindAllStringSubmatch(b.String(), -1) {
		x, _ := strconv.ParseFloat(m[1], 64)
		y, _ := strconv.ParseFloat(m[2], 64)
		if x < 0 || x > figureWidth || y < 0 || y > high {
			t.Fatalf("%s is outside of %s", m[0], doc.ViewBox)
		}
	}
}

func sorted(set map[float64]bool) []float64 { return slices.Sorted(maps.Keys(set)) }

func equal(a, b []float64) bool { return slices.Equal(a, b) }

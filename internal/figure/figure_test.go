package figure

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata anew")

// trials is a number of random cases, larger where time is set aside.
func trials(quick, full int) int {
	if os.Getenv("CRAWLD_CI") != "" {
		return full
	}
	return quick
}

// written is what v writes in a format.
func written(t *testing.T, v interface {
	Write(io.Writer, string) error
}, format string) string {
	t.Helper()
	var b bytes.Buffer
	if err := v.Write(&b, format); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// golden compares got with a file of testdata, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; after a look at it, go test -update\n%s", name, got)
	}
}

func extension(format string) string {
	if format == "table" {
		return "txt"
	}
	return format
}

// wellFormed counts the elements of an XML document by name.
func wellFormed(t *testing.T, doc string) map[string]int {
	t.Helper()
	count := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(doc)); ; {
		token, err := d.Token()
		if err == io.EOF {
			return count
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		if e, is := token.(xml.StartElement); is {
			count[e.Name.Local]++
		}
	}
}

// curve is a series of several runs around f.
func curve(
	rng *rand.Rand, name string, style Style, xs []float64, f func(x float64) float64,
) Series {
	s := Series{Name: name, Style: style}
	for _, x := range xs {
		runs := make([]float64, 5)
		for i := range runs {
			runs[i] = f(x) * (0.85 + 0.3*rng.Float64())
		}
		s.Points = append(s.Points, Over(x, runs))
	}
	return s
}

func single(name string, style Style, xs []float64, f func(x float64) float64) Series {
	s := Series{Name: name, Style: style}
	for _, x := range xs {
		s.Points = append(s.Points, At(x, f(x)))
	}
	return s
}

func steps(from, to, by float64) []float64 {
	var xs []float64
	for x := from; x <= to; x += by {
		xs = append(xs, x)
	}
	return xs
}

// scales is like Fig. 4 of the EasiCrawl paper: error bars, five series, one of
// which has no value at some x.
func scales() *Figure {
	rng := rand.New(rand.NewPCG(1, 2))
	xs := []float64{10, 20, 50, 100, 150, 200}
	linear := func(a float64) func(float64) float64 { return func(x float64) float64 { return a * x } }
	return &Figure{
		ID: "easicrawl-4", Title: "Expected latency and the number of sensors",
		Source: "EasiCrawl, Fig. 4",
		Panels: []Panel{{
			X: Axis{Label: "Sensors"}, Y: Axis{Label: "Expected latency", Unit: "s"},
			Series: []Series{
				curve(rng, "EasiCrawl, paper mode", Line, xs, linear(31)),
				curve(rng, "EasiCrawl", Line, xs, linear(26)),
				curve(rng, "RandomCrawl", Line, xs, linear(75)),
				curve(rng, "even, sleep-unaware", Line, xs[1:4], linear(98)),
				curve(rng, "even, snapped back", Line, xs, linear(40)),
			}}},
		Facts: []Fact{
			{"RandomCrawl / paper mode at 5 crawls per sensor", 2.4117, "x", "2"},
			{"paper mode / this scheduler at 5 crawls per sensor", 1.06, "x", ""},
			{"crawls", 1000, "", ""},
		},
		Notes: []string{"The paper does not say how its sleep plans were drawn, so ratios are " +
			"compared and not seconds; awake windows last half of the time on average, and every " +
			"run draws new ones."},
	}
}

// stepLength has two panels, a logarithmic axis each, and several styles.
func stepLength() *Figure {
	xs := steps(1, 20, 1)
	decade := []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}
	return &Figure{
		ID: "easicrawl-6", Title: "Expected latency and time to plan over the discretization step",
		Source: "EasiCrawl, Fig. 6",
		Panels: []Panel{{
			Title: "Latency", X: Axis{Label: "Discretization step", Unit: "s"},
			Y: Axis{Label: "Latency above the optimum", Unit: "%", Log: true},
			Series: []Series{
				single("grid of the paper", Line, xs, func(x float64) float64 { return 2.7 * x * x }),
				single("grid and window ends", Line, xs,
					func(x float64) float64 { return 0.001 * math.Pow(x, 2.2) }),
				single("continuous", Steps, xs, func(float64) float64 { return 0.02 }),
			}}, {
			Title: "Time to plan", X: Axis{Label: "Instants", Log: true},
			Y: Axis{Label: "Time", Unit: "ms", Log: true},
			Series: []Series{
				single("grid of the paper", Points, decade, func(x float64) float64 { return 0.002 * x * x }),
				single("one price", Line, decade, func(x float64) float64 { return 0.005 * x }),
			}}},
	}
}

// convergence has bars, crowded curves and a fixed axis.
func convergence() *Figure {
	rng := rand.New(rand.NewPCG(3, 4))
	bell := func(mean, sd float64) func(x float64) float64 {
		return func(x float64) float64 { return 300 * math.Exp(-(x-mean)*(x-mean)/2/sd/sd) / sd / 2.5 }
	}
	top := 1.0
	return &Figure{ID: "easicrawl-9", Title: "Iterations until the arrangement no longer changes",
		Panels: []Panel{{
			Title: "Iterations", X: Axis{Label: "Iterations"}, Y: Axis{Label: "Runs"},
			Series: []Series{
				curve(rng, "50 crawls", Bars, steps(1, 24, 1), bell(7.2, 2.3)),
				single("100 crawls", Bars, steps(1, 24, 1), bell(14, 4)),
				single("200 crawls", Bars, steps(1, 24, 1), bell(18, 3)),
			}}, {
			Title: "Share of the first latency", X: Axis{Label: "Crawls"},
			Y: Axis{Label: "Share", Max: &top},
			Series: []Series{
				curve(rng, "50 crawls", Line, steps(1, 100, 1),
					func(x float64) float64 { return 1.2 / math.Sqrt(x) }),
				curve(rng, "fixed period", Line, steps(1, 100, 1),
					func(x float64) float64 { return 1.2 / math.Pow(x, 0.25) }),
			}}}}
}

func samples() []*Figure { return []*Figure{scales(), stepLength(), convergence()} }

func TestGolden(t *testing.T) {
	for _, f := range samples() {
		for _, format := range Formats() {
			golden(t, f.ID+"."+extension(format), written(t, f, format))
		}
	}
}

// What is read back from CSV and JSON are the figure's numbers.
func TestNumbersSurvive(t *testing.T) {
	for _, f := range samples() {
		rows, err := csv.NewReader(strings.NewReader(written(t, f, "csv"))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		var back Figure
		dec := json.NewDecoder(strings.NewReader(written(t, f, "json")))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&back); err != nil {
			t.Fatal(err)
		}
		var want [][]string
		for i, p := range f.Panels {
			if diff := cmp.Diff([]Axis{p.X, p.Y}, []Axis{back.Panels[i].X, back.Panels[i].Y}); diff != "" {
				t.Errorf("%s: axes (-want +got)\n%s", f.ID, diff)
			}
			for k, s := range p.Series {
				if got := back.Panels[i].Series[k]; !slices.Equal(got.Points, s.Points) ||
					got.Name != s.Name || got.Style != s.Style {
					t.Errorf("%s: JSON has %v, want %v", f.ID, got, s)
				}
				for _, q := range s.Points {
					want = append(want, []string{p.name(i), s.Name, fmt.Sprint(q.X), fmt.Sprint(q.Mean),
						fmt.Sprint(q.Min), fmt.Sprint(q.Max), strconv.Itoa(q.N)})
				}
			}
		}
		if diff := cmp.Diff(want, rows[1:]); diff != "" {
			t.Errorf("%s: CSV (-want +got)\n%s", f.ID, diff)
		}
	}
}

// failing takes so many bytes.
type failing int

func (n *failing) Write(p []byte) (int, error) {
	if len(p) > int(*n) {
		return 0, io.ErrShortWrite
	}
	*n -= failing(len(p))
	return len(p), nil
}

func TestWriteErrorsComeBack(t *testing.T) {
	for _, format := range Formats() {
		for _, room := range []failing{0, 100} {
			if err := scales().Write(&room, format); !errors.Is(err, io.ErrShortWrite) {
				t.Errorf("figure, %s: %v", format, err)
			}
			room = 100
			if err := halfDay(t).Write(&room, format); !errors.Is(err, io.ErrShortWrite) {
				t.Errorf("timeline, %s: %v", format, err)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	ok := func() *Figure {
		return &Figure{ID: "f", Panels: []Panel{{Series: []Series{
			{Name: "a", Points: []Point{At(1, 2), At(2, 3)}}}}}}
	}
	value := func(v float64) *float64 { return &v }
	panel := func(f *Figure) *Panel { return &f.Panels[0] }
	first := func(f *Figure) *Series { return &f.Panels[0].Series[0] }
	point := func(f *Figure, i int) *Point { return &first(f).Points[i] }
	nan, inf := math.NaN(), math.Inf(1)
	for want, change := range map[string]func(*Figure){
		`figure "f": no panels`:                   func(f *Figure) { f.Panels = nil },
		`figure "f": panel "1": no series`:        func(f *Figure) { panel(f).Series = nil },
		`panel "1": series "a": no points`:        func(f *Figure) { first(f).Points = nil },
		`series "a": point 1, x = 2: NaN is no`:   func(f *Figure) { point(f, 1).Mean = nan },
		`series "a": point 0, x = 1: +Inf is no`:  func(f *Figure) { point(f, 0).Max = inf },
		`series "a": point 0, x = 1: -Inf is no`:  func(f *Figure) { point(f, 0).Min = -inf },
		`series "a": point 0: x: NaN is no value`: func(f *Figure) { point(f, 0).X = nan },
		`1e+101 is no value`:                      func(f *Figure) { *point(f, 0) = At(0, 1e101) },
		`mean 2 is not in 3..2`:                   func(f *Figure) { point(f, 0).Min = 3 },
		`point 0, x = 1: 0 runs`:                  func(f *Figure) { *point(f, 0) = Over(1, nil) },
		`point 1: x = 1 after 1`:                  func(f *Figure) { point(f, 1).X = 1 },
		`no such style: style(9)`:                 func(f *Figure) { first(f).Style = 9 },
		`a series without a name`:                 func(f *Figure) { first(f).Name = "" },
		`two series "a"`: func(f *Figure) {
			panel(f).Series = []Series{*first(f), *first(f)}
		},
		`two panels "x"`: func(f *Figure) {
			panel(f).Title = "x"
			f.Panels = []Panel{*panel(f), *panel(f)}
		},
		`x = 1: -2 cannot be drawn on a log`: func(f *Figure) {
			panel(f).Y.Log, *point(f, 0) = true, At(1, -2)
		},
		`x: 0 cannot be drawn on a log`: func(f *Figure) {
			panel(f).X.Log, *point(f, 0) = true, At(0, 2)
		},
		`y axis: min 2 is not below max 2`: func(f *Figure) {
			panel(f).Y.Min, panel(f).Y.Max = value(2), value(2)
		},
		`x axis: 0 cannot be drawn`: func(f *Figure) {
			panel(f).X.Log, panel(f).X.Min = true, value(0)
		},
		`fact "ratio": NaN is no value`: func(f *Figure) {
			f.Facts = []Fact{{Name: "ratio", Value: nan}}
		},
	} {
		f := ok()
		change(f)
		for _, format := range Formats() {
			var b bytes.Buffer
			if err := f.Write(&b, format); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want %q", format, err, want)
			}
			if b.Len() > 0 {
				t.Errorf("%s: %q: %d bytes were written", format, want, b.Len())
			}
		}
	}
	err := ok().Write(io.Discard, "png")
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), `"png": must be one of table`) {
		t.Errorf("png: %v", err)
	}
	if err := ok().Write(io.Discard, "svg"); err != nil { // what all the cases start from
		t.Error(err)
	}
}

// Two writers at once and one after the other write the same.
func TestDeterministic(t *testing.T) {
	for _, format := range Formats() {
		want := written(t, convergence(), format)
		var wg sync.WaitGroup
		got := make([]bytes.Buffer, 4)
		for i := range got {
			wg.Go(func() {
				if err := convergence().Write(&got[i], format); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for i := range got {
			if got[i].String() != want {
				t.Errorf("%s: writer %d differs", format, i)
			}
		}
	}
}

const hostile = "<script>alert('&\"')</script>\x00\x1b[31m\u202e\xff\n]]>"

func TestHostileNames(t *testing.T) {
	f := &Figure{ID: hostile, Title: hostile, Source: hostile, Notes: []string{hostile},
		Facts: []Fact{{hostile, 1, hostile, hostile}}}
	axis := Axis{Label: hostile, Unit: hostile}
	f.Panels = []Panel{{Title: hostile, X: axis, Y: axis,
		Series: []Series{{Name: hostile, Points: []Point{At(1, 2)}},
			{Name: strings.Repeat("long", 200), Points: []Point{At(1, 2)}}}}}
	svg := written(t, f, "svg")
	if n := wellFormed(t, svg); n["script"] > 0 || n["title"] != 1 || n["text"] < 8 {
		t.Errorf("elements %v", n)
	}
	table := written(t, f, "table")
	for _, text := range []string{svg, table} {
		if strings.ContainsAny(text, "\x00\x1b\u202e") || !utf8.ValidString(text) {
			t.Errorf("%q", text)
		}
	}
	if !strings.Contains(table, "<script>alert('&\"')</script>\ufffd\ufffd[31m\ufffd\ufffd ]]>") {
		t.Errorf("%q", table)
	}
	rows, err := csv.NewReader(strings.NewReader(written(t, f, "csv"))).ReadAll()
	if err != nil || rows[1][1] != hostile {
		t.Errorf("%q %v", rows, err)
	}
}

// A figure with nothing to say but numbers has no empty lines and captions.
func TestBare(t *testing.T) {
	f := &Figure{ID: "f", Title: "bare", Panels: []Panel{{Series: []Series{
		{Name: "a", Points: []Point{At(0.5, 1000), At(1000, 1e6), At(1e6, 1.5e-7)}},
		{Name: "b", Style: Points, Points: []Point{At(1000, 0.25), At(0.5, 123456.7), At(1000, -3)}},
	}}}}
	const want = `f: bare

                  a               b
    0.5     1000         123457
   1000  1000000              0.2500
   1000        -             -3
1000000        1.500e-07      -
`
	got := written(t, f, "table")
	if strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("got\n%s\nwant about\n%s", got, want)
	}
	wellFormed(t, written(t, f, "svg"))
}

// Many series go into several blocks, each with the x.
func TestWideTable(t *testing.T) {
	f := &Figure{ID: "f", Panels: []Panel{{X: Axis{Label: "sensors"}}}}
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range 15 {
		f.Panels[0].Series = append(f.Panels[0].Series,
			curve(rng, fmt.Sprintf("algorithm number %d", i), Line, []float64{1, 2}, math.Exp))
	}
	table := written(t, f, "table")
	for _, line := range strings.Split(table, "\n") {
		if utf8.RuneCountInString(line) > tableWidth {
			t.Errorf("%q", line)
		}
	}
	if n := strings.Count(table, "sensors"); n < 2 {
		t.Errorf("%d blocks:\n%s", n, table)
	}
	wellFormed(t, written(t, f, "svg"))
}

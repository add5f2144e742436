package scheduler

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

func TestRulesAsText(t *testing.T) {
	for _, r := range []EndRule{Lookahead, Carry, Fixed} {
		text, err := r.MarshalText()
		var back EndRule
		if err != nil || back.UnmarshalText(text) != nil || back != r || string(text) != r.String() {
			t.Errorf("%v does not come back from %q", r, text)
		}
	}
	for _, r := range []CandidateRule{Ends, Grid} {
		text, err := r.MarshalText()
		var back CandidateRule
		if err != nil || back.UnmarshalText(text) != nil || back != r || string(text) != r.String() {
			t.Errorf("%v does not come back from %q", r, text)
		}
	}
	var end EndRule
	err := end.UnmarshalText([]byte("never"))
	if err == nil || !strings.Contains(err.Error(), `"lookahead"`) {
		t.Errorf("unknown rule: %v", err)
	}
	if _, err := EndRule(9).MarshalText(); err == nil || EndRule(9).String() != "EndRule(9)" {
		t.Errorf("rule 9: %v, %v", EndRule(9), err)
	}
}

func TestInvalidProblemsAreNamed(t *testing.T) {
	spans := func(v ...int32) (s []sleepplan.Span) {
		for k := 0; k < len(v); k += 2 {
			s = append(s, sleepplan.Span{Start: v[k], End: v[k+1]})
		}
		return s
	}
	for want, spoil := range map[string]func(p *Problem, d *Demand){
		"tick":                      func(p *Problem, _ *Demand) { p.Tick = 0 },
		"length of 0":               func(p *Problem, _ *Demand) { p.Length = 0 },
		"length of 134217729":       func(p *Problem, _ *Demand) { p.Length = MaxTicks + 1 },
		"end rule":                  func(p *Problem, _ *Demand) { p.End = 7 },
		"candidate rule":            func(p *Problem, _ *Demand) { p.Candidates = 7 },
		"look-ahead of -1":          func(p *Problem, _ *Demand) { p.Extra = -1 },
		"grid step of 0":            func(p *Problem, _ *Demand) { p.Candidates = Grid },
		"budget -1":                 func(p *Problem, _ *Demand) { p.Budget = -1 },
		"price NaN":                 func(p *Problem, _ *Demand) { p.Price = math.NaN() },
		"capacity -1":               func(p *Problem, _ *Demand) { p.Capacity = -1 },
		"sensor 1: coefficient NaN": func(_ *Problem, d *Demand) { d.Coef = math.NaN() },
		"sensor 1: coefficient +In": func(_ *Problem, d *Demand) { d.Coef = math.Inf(1) },
		"sensor 1: first legal":     func(_ *Problem, d *Demand) { d.From = -1 },
		"sensor 1: source 3":        func(_ *Problem, d *Demand) { d.Source = 3 },
		"sensor 1: backlog of -1":   func(_ *Problem, d *Demand) { d.Backlog = -1 },
		"sensor 1: guard of -1":     func(_ *Problem, d *Demand) { d.Guard = -1 },
		"sensor 1: expected gap":    func(_ *Problem, d *Demand) { d.Gap = 0 },
		"sensor 1: span 0 [5,5)":    func(_ *Problem, d *Demand) { d.Spans = spans(5, 5) },
		"sensor 1: span 1 [4,9)":    func(_ *Problem, d *Demand) { d.Spans = spans(1, 5, 4, 9) },
		"sensor 1: span 1 [1,2)":    func(_ *Problem, d *Demand) { d.Spans = spans(3, 5, 1, 2) },
		"sensor 1: horizon of": func(_ *Problem, d *Demand) {
			d.Source, d.Spans = -MaxTicks, spans(-MaxTicks, 5)
		},
	} {
		p := &Problem{Tick: time.Second, Length: 100, Budget: 1, Demands: make([]Demand, 3)}
		for i := range p.Demands {
			p.Demands[i] = Demand{Coef: 1, Cap: -1, Gap: 10, Spans: spans(10, 20)}
		}
		spoil(p, &p.Demands[1])
		sol, err := Solve(p, 2)
		if sol != nil || !errors.Is(err, ErrProblem) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if _, err := Replan(p, &p.Demands[1], 1); !errors.Is(err, ErrProblem) {
			t.Errorf("%s: re-planned all the same: %v", want, err)
		}
		if _, err := Even(p, nil); !errors.Is(err, ErrProblem) {
			t.Errorf("%s: crawled evenly all the same: %v", want, err)
		}
	}
	p := &Problem{Tick: time.Second, Length: 10, End: Carry}
	if _, err := Count(p, &Demand{Gap: 1}, -1); !errors.Is(err, ErrProblem) {
		t.Errorf("-1 crawls: %v", err)
	}
}

func TestCornerCases(t *testing.T) {
	window := []sleepplan.Span{{Start: 10, End: 20}}
	touching := []sleepplan.Span{{Start: 10, End: 13}, {Start: 13, End: 14}, {Start: 14, End: 20}}
	full := Demand{Coef: 1, Cap: -1, Gap: 50, Known: math.MaxInt64, Spans: window}
	type change = func(p *Problem, d *Demand)
	for name, c := range map[string]struct {
		change change
		want   []int32
	}{
		"one crawl at the end": {func(*Problem, *Demand) {}, []int32{19}},
		"guard":                {func(_ *Problem, d *Demand) { d.Guard = 3 }, []int32{16}},
		"guard above the window": {func(_ *Problem, d *Demand) {
			d.Guard, d.Source, d.Backlog = 30, -1, 5
		}, []int32{10}},
		"guard above, no backlog": {func(_ *Problem, d *Demand) { d.Guard = 30 }, nil},
		"guard of half the window": {func(_ *Problem, d *Demand) {
			d.Guard, d.GuardHalf = 30, true
		}, []int32{14}},
		"touching spans": {func(_ *Problem, d *Demand) {
			d.Spans, d.Guard = touching, 8
		}, []int32{11}},
		"no awake time":         {func(_ *Problem, d *Demand) { d.Spans = nil }, nil},
		"awake afterwards only": {func(p *Problem, _ *Demand) { p.Length = 10 }, nil},
		"straddling": {func(p *Problem, d *Demand) {
			p.Length, d.Guard, p.End = 15, 3, Fixed
		}, []int32{14}},
		"straddling, guarded": {func(p *Problem, d *Demand) {
			p.Length, d.Guard, p.End = 15, 7, Fixed
		}, []int32{12}},
		"cap 0":            {func(_ *Problem, d *Demand) { d.Cap = 0 }, nil},
		"cap 0, fixed end": {func(p *Problem, d *Demand) { d.Cap, p.End = 0, Fixed }, nil},
		"budget 0":         {func(p *Problem, _ *Demand) { p.Budget = 0 }, nil},
		"coefficient 0":    {func(_ *Problem, d *Demand) { d.Coef = 0 }, nil},
		"late":             {func(_ *Problem, d *Demand) { d.From = 100 }, nil},
		"source in the window": {func(_ *Problem, d *Demand) {
			d.From, d.Source = 15, 15
		}, []int32{19}},
		"shared earlier spans": {func(_ *Problem, d *Demand) {
			d.Spans = append([]sleepplan.Span{{Start: -900, End: -800}}, window...)
		}, []int32{19}},
	} {
		for _, end := range []EndRule{Lookahead, Carry} {
			p := &Problem{Tick: time.Second, Length: 40, Extra: 40, End: end, Budget: 1}
			p.Demands = []Demand{full}
			c.change(p, &p.Demands[0])
			sol, err := Solve(p, 1)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if !slices.Equal(sol.Sensors[0].Ticks, c.want) {
				t.Errorf("%s, %v: crawls %v, want %v", name, end, sol.Sensors[0].Ticks, c.want)
			}
			d := &p.Demands[0]
			want := ExpectedLatency(d, c.want, p.Length, p.Tick)
			if got := sol.Sensors[0].Wait; got != want {
				t.Errorf("%s, %v: wait %v, want %v", name, end, got, want)
			}
		}
	}
	sol, err := Solve(&Problem{Tick: time.Second, Length: 5}, 3)
	if err != nil || len(sol.Plan()) != 0 {
		t.Errorf("no sensors: %v", err)
	}
}

func TestGaps(t *testing.T) {
	gaps, mean := Gaps(1000, 12, []float64{1, 4, 0, 1}, []int64{100, 100, 100, 0})
	want := []float64{250, 125, 1000 / 0.3, 1000 / 0.3}
	for i := range want {
		if math.Abs(gaps[i]-want[i]) > 1e-9 {
			t.Errorf("gap %d is %v, want %v", i, gaps[i], want[i])
		}
	}
	if math.Abs(mean-187.5) > 1e-9 {
		t.Errorf("mean %v, want 187.5", mean)
	}
	if _, mean := Gaps(1000, 5, nil, nil); mean != 1000 {
		t.Errorf("mean of none %v", mean)
	}
	if Extra(1000, 187.5) != 1000 || Extra(1000, 600.2) != 1201 {
		t.Errorf("look-ahead %d, %d", Extra(1000, 187.5), Extra(1000, 600.2))
	}
}

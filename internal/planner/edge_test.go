package planner

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/sleepplan"
)

// Looks at a learned window's end lie between the last crawl and the end, go half the way or
// all of it, are worth their price and come to an end; what is kept for them is enough.
func TestEdgeLooks(t *testing.T) {
	looks, none, most := 0, 0, 0
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 7))
		period := time.Duration(1+rng.IntN(24*60)) * time.Minute
		width := time.Duration((.05 + .9*rng.Float64()) * float64(period)).Truncate(time.Second)
		d := newDriver(t, testFleet(t, sleepplan.Unknown()), hidingParameters())
		s := d.p.sensors[0]
		s.Plan, s.edge = cycle(t, period, width, 0), width/time.Duration(4+rng.IntN(200))
		s.rec.Learner = dpt.NewLearner(learningParams(d.p.par.Polling), start, 1)
		d.p.rec.Price = []float64{0.1, 10, 1000, 1e6}[rng.IntN(4)]
		w, _ := s.Plan.NextWindow(start)
		kept := d.p.upkeep(s, start, w.End.Add(time.Second)) - s.rec.Learner.Expected(start,
			w.End.Add(time.Second))
		s.rec.Source = w.End.Add(-s.edge) // the last crawl
		chain := 0
		for now := s.rec.Source; ; chain++ {
			at, why, ok := d.p.edgeLook(s, now)
			if !ok || at.After(w.End) {
				break
			}
			step, sleep := at.Sub(s.rec.Source), period-width
			if rest := w.End.Sub(s.rec.Source); step != rest && step != rest/2 || why == "" {
				t.Fatalf("seed %d: looks after %v of %v: %q", seed, step, rest, why)
			}
			if value := s.coef() * step.Seconds() * sleep.Seconds() / 2; value <= d.p.rec.Price {
				t.Fatalf("seed %d: worth %v, price %v", seed, value, d.p.rec.Price)
			}
			now, s.rec.Source = at, at // it was answered
		}
		if chain > 0 && (kept < 1 || kept < float64(min(chain, maxEdgeLooks)-1)) {
			t.Errorf("seed %d: %d looks, %v kept", seed, chain, kept)
		}
		if looks += chain; chain == 0 {
			none++
		}
		most = max(most, chain)
		if s.edge = 0; chain > 0 {
			if _, _, ok := d.p.edgeLook(s, start); ok {
				t.Fatal("the end of a listed window is looked at")
			}
		}
	}
	if looks < 100 || none < 100 || most > 40 {
		t.Errorf("%d looks, %d windows without, at most %d at one end", looks, none, most)
	}
}

package scheduler

import "math"

// state is where a sensor stands on its curve, in U.
type state struct {
	e          int64 // e(n), see point
	lose, gain int64 // e(n-1)-e(n), 0 or pinned; e(n)-e(n+1), 0 if none or capped
	objective  int64
	n          int32
}

// pinned is the lose of a crawl that the Fixed rule keeps.
const pinned = math.MaxInt64

// worker is the scratch memory of one goroutine. Nothing of it outlives a sensor but
// the instants cut off its arena.
type worker struct {
	graph
	probes int
	arena  []int32 // room for instants, cut off its front
	block  int     // how many instants to allocate at least

	exacts  tables[int64]
	paper   tables[float64]
	penalty penalty
	spread  []int32
}

// settle plans sensor i at an odd multiplier, or for exactly want crawls if that
// is not negative.
func (s *solver) settle(w *worker, i int, mult int64, want int) {
	s.state[i], s.plans[i] = w.plan(s.p, &s.p.Demands[i], s.ahead, mult, want)
}

// plan is one sensor's plan at an odd multiplier clipped at its cap, or of
// exactly want crawls if that is not negative.
//
// It is one build, one PENAL and two layered passes for most sensors; EXACT_N is
// needed only where a cap or a tie cuts a straight piece of the curve.
func (w *worker) plan(p *Problem, d *Demand, ahead float64, mult int64, want int) (
	state, SensorPlan) {
	g := &w.graph
	g.build(p, d, ahead, p.forces(d) && want != 0)
	most, forced := g.most(d), 0
	if g.forced {
		forced = 1
	}
	if most == 0 {
		mult = g.whole | 1 // nothing is worth this; only the look-ahead is chosen
	}
	w.probes++
	at := g.penal(mult)
	n := min(at.n, most)
	if want >= 0 {
		n = min(want-forced, most)
	}
	var path []int32
	if n == at.n {
		g.paths[0] = g.trace(g.paths[0])
		path = g.paths[0]
	} else {
		path, at.e = g.exact(n, mult, &w.probes)
	}
	st := state{n: int32(n + forced), e: at.e}
	pl := SensorPlan{Mult: mult, next: p.Length}
	if most > 0 || g.forced {
		w.marginals(&st, path, n, most)
	}
	w.finish(p, d, path, n, &st, &pl)
	u := p.stake(d)
	lose := st.lose
	if lose == pinned { // the rule keeps it, but it has a value: that of no crawl at all
		lose = cost(g.nodes[0], g.end) - st.e - g.after
	}
	pl.Lose, pl.Gain = float64(lose)*u, float64(st.gain)*u
	return st, pl
}

// most is how many crawls beside a forced one a sensor may make: its cap, or one on
// each candidate. A sensor without events or with a cap of 0 makes none.
func (g *graph) most(d *Demand) int {
	switch {
	case d.Coef == 0 || d.Cap == 0:
		return 0
	case d.Cap > 0 && g.forced:
		return min(g.counted, d.Cap-1)
	case d.Cap > 0:
		return min(g.counted, d.Cap)
	}
	return g.counted
}

// marginals fills in what one crawl less and one more would change.
func (w *worker) marginals(st *state, path []int32, n, most int) {
	w.probes += 2
	fewer, more := w.neighbours(path, n)
	st.lose = fewer - st.e
	if n < most {
		st.gain = st.e - more
	}
	if n == 0 && w.forced {
		st.lose = pinned
	}
}

// finish polishes the plan, except on a grid, which stands for the paper's figures,
// and writes its instants and what it costs.
func (w *worker) finish(p *Problem, d *Demand, path []int32, n int, st *state, pl *SensorPlan) {
	w.place(p, d, path, n)
	// What follows the last crawl stays where it is: the polish balances against it.
	if next := w.nodes[path[n+1]]; !w.forced {
		pl.next = next.x/4 + w.origin
	}
	if p.Candidates == Ends {
		w.polish(w.nodes[path[n+1]])
	}
	var wait int64
	st.objective, wait = w.bill(path[n+1:])
	s := p.Tick.Seconds()
	pl.Wait = float64(wait) * s * s / 4
	pl.Ticks = w.keep(len(w.placed))
	for k := range w.placed {
		pl.Ticks[k] = int32(w.placed[k].x/4 + w.origin)
	}
}

// arenaBlock is how many instants a fleet's solver allocates together: a slice of
// its own for each of a million sensors would cost more than their crawls. A sensor
// planned alone keeps only its own, or each re-plan would hold on to a block.
const arenaBlock = 4096

// keep returns room for n instants that outlives the worker's scratch.
func (w *worker) keep(n int) []int32 {
	if n > len(w.arena) {
		w.arena = make([]int32, max(n, w.block))
	}
	room := w.arena[:n:n]
	w.arena = w.arena[n:]
	return room
}

package sim

import (
	"fmt"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/visit"
)

// Polling lets the daemon's own tracker poll a source whose publications are known, as the
// DPT paper (Park and Heidemann, ISI-TR-660b) does in its section 7.
type Polling struct {
	Policy dpt.Policy
	// Period is the interval of fixed polling, and five times the one at which the other
	// policies begin; 0 = the source's own.
	Period time.Duration
	// MaxGap bounds the gap between polls; 0 = 4 h, or four periods if that is more. After
	// an outage the mean latency is about that.
	MaxGap time.Duration
	Price  time.Duration // of a poll of hz; 0 = not set
	PPE    float64       // polls per publication that hz aims at; 0 = not set
	SD     dpt.SD        // "" = folded
	Hidden bool          // answers show only whether something changed, no publish instants
}

// PollingResult says what a policy cost and gave. Latency is counted of every publication:
// from it to the first poll after it.
type PollingResult struct {
	Policy       string  `json:"policy"`
	Source       string  `json:"source"`
	Publications int     `json:"publications"` // without those that are not counted
	Polls        int     `json:"polls"`
	Hits         int     `json:"hits"`
	PPE          float64 `json:"polls_per_publication"`
	HitRatio     float64 `json:"hit_ratio"` // hits in polls
	Latency      Latency `json:"latency_seconds"`
	// Fallback says which policy was in use at the end, and why, if not Policy.
	Fallback string `json:"fallback,omitempty"`
}

// Latency describes the latencies of the publications of a source.
type Latency struct {
	Median float64 `json:"median"`
	Mean   float64 `json:"mean"`
	P95    float64 `json:"p95"`
	SD     float64 `json:"sd"`
}

const (
	// unjudged publications are not counted, so that a cold start is not: if there are
	// more than twice as many.
	unjudged = 100
	// fixedPhases are those whose mean is given as fixed polling.
	fixedPhases = 10
	// pollingMinGap is the least time between polls.
	pollingMinGap = time.Second
	pollingMaxGap = 4 * time.Hour
	// bootstraps of polling are in a period.
	bootstraps = 5
)

// Replay polls a source: its publications, ascending, are the truth. The first one is the
// tracker's first contact; fixed polling is the mean over ten phases.
func (p Polling) Replay(source string, publications []time.Time) (PollingResult, error) {
	if p.Policy != dpt.Fixed {
		run, err := p.run(source, publications, 0)
		if err != nil {
			return PollingResult{}, err
		}
		return run.result(p.Policy, source), nil
	}
	var phases []PollingResult
	for i := range fixedPhases {
		run, err := p.run(source, publications, (float64(i)+0.5)/fixedPhases)
		if err != nil {
			return PollingResult{}, err
		}
		phases = append(phases, run.result(p.Policy, source))
	}
	return meanResult(phases), nil
}

// run is a replay; phase, 0 .. 1, is that of fixed polling.
func (p Polling) run(source string, publications []time.Time, phase float64) (*pollRun, error) {
	if len(publications) < 2 {
		return nil, fmt.Errorf("polling %s: %d publications, need 2", source, len(publications))
	}
	params, err := p.params(source, publications)
	if err != nil {
		return nil, err
	}
	contact := publications[0]
	if p.Policy == dpt.Fixed {
		contact = contact.Add(-time.Duration(phase * float64(params.Bootstrap)))
	}
	r := &pollRun{source: pollSource{publications: publications, hidden: p.Hidden},
		tracker: dpt.NewTracker(params, contact)}
	if len(publications) > 2*unjudged {
		r.skip = unjudged
	}
	r.follow(contact)
	return r, nil
}

// params are the tracker's.
func (p Polling) params(source string, publications []time.Time) (dpt.Params, error) {
	period := p.Period
	if period == 0 {
		times := make([]float64, len(publications))
		for i, at := range publications {
			times[i] = at.Sub(publications[0]).Seconds()
		}
		period = fromSeconds(periodOf(times))
	}
	if period < bootstraps*time.Millisecond {
		return dpt.Params{}, fmt.Errorf("polling %s: period %v: must be at least %v", source, period,
			bootstraps*time.Millisecond)
	}
	par := dpt.Params{Policy: p.Policy, Bootstrap: period / bootstraps, MaxGap: p.MaxGap, SD: p.SD,
		Price: p.Price, PollsPerPublication: p.PPE}
	if p.Policy == dpt.Fixed {
		par.Bootstrap = period
	}
	if par.MaxGap == 0 {
		par.MaxGap = max(pollingMaxGap, 4*period)
	}
	if p.Policy == dpt.Fixed { // an interval is no gap that could be cut
		par.MaxGap = max(par.MaxGap, period)
	}
	par.MinGap = min(pollingMinGap, par.Bootstrap)
	if p.Hidden {
		par.PublishTimes = dpt.TimesHide
	}
	if err := par.Validate(); err != nil {
		return par, fmt.Errorf("polling %s: %w", source, err)
	}
	return par, nil
}

// pollSource is a sensor that never sleeps and whose answers show what was published.
type pollSource struct {
	publications []time.Time
	hidden       bool
	read         int // of them known
}

// poll is a visit and the publications that were new to it. The log that the answer shows
// begins with the newest publication known before: so nothing was lost in between.
func (s *pollSource) poll(at time.Time) (visit.Outcome, []time.Time) {
	o := visit.Outcome{Visit: visit.Visit{At: at, Kind: visit.Poll}, Result: visit.Unchanged,
		Contact: true, Started: at, Ended: at}
	from := s.read
	for s.read < len(s.publications) && !s.publications[s.read].After(at) {
		s.read++
	}
	if s.read == from {
		return o, nil
	}
	o.Result = visit.Described
	if !s.hidden {
		o.PublishedAt = s.publications[max(from-1, 0):s.read]
	}
	return o, s.publications[from:s.read]
}

// pollRun collects what a tracker's polls find. The first skip publications are not
// judged, nor are the polls before the last of these is known.
type pollRun struct {
	source      pollSource
	tracker     *dpt.Tracker
	skip        int
	polls, hits int
	latencies   []float64 // s
}

// follow polls from the contact on until everything is read.
func (r *pollRun) follow(contact time.Time) {
	for now := contact; ; {
		judged := r.source.read >= r.skip
		o, fresh := r.source.poll(now)
		for i, at := range fresh {
			if r.source.read-len(fresh)+i >= r.skip {
				r.latencies = append(r.latencies, now.Sub(at).Seconds())
			}
		}
		if judged {
			r.polls++
			if len(fresh) > 0 {
				r.hits++
			}
		}
		if r.source.read == len(r.source.publications) {
			return
		}
		r.tracker.Observe(o)
		now, _ = r.tracker.Next(now, 1)
	}
}

func (r *pollRun) result(p dpt.Policy, source string) PollingResult {
	n := len(r.latencies)
	res := PollingResult{Policy: string(p), Source: source, Publications: n, Polls: r.polls,
		Hits: r.hits, PPE: float64(r.polls) / float64(n), Latency: latencyOf(r.latencies)}
	if r.polls > 0 {
		res.HitRatio = float64(r.hits) / float64(r.polls)
	}
	if active, reason := r.tracker.Policy(); reason != "" {
		res.Fallback = string(active) + ": " + reason
	}
	return res
}

func latencyOf(latencies []float64) Latency {
	mean, sd := stat.PopMeanStdDev(latencies, nil)
	return Latency{Median: caseQuantile(latencies, 0.5), Mean: mean,
		P95: caseQuantile(latencies, 0.95), SD: sd}
}

// meanResult is the mean of several phases; polls and hits are rounded.
func meanResult(phases []PollingResult) PollingResult {
	mean := phases[0]
	n := float64(len(phases))
	mean.PPE, mean.HitRatio, mean.Latency = 0, 0, Latency{}
	polls, hits := 0.0, 0.0
	for _, r := range phases {
		polls += float64(r.Polls) / n
		hits += float64(r.Hits) / n
		mean.PPE += r.PPE / n
		mean.HitRatio += r.HitRatio / n
		mean.Latency.Median += r.Latency.Median / n
		mean.Latency.Mean += r.Latency.Mean / n
		mean.Latency.P95 += r.Latency.P95 / n
		mean.Latency.SD += r.Latency.SD / n
	}
	mean.Polls, mean.Hits = int(polls+0.5), int(hits+0.5)
	return mean
}

package scheduler

import (
	"errors"
	"fmt"
	"math"
)

// MaxTicks bounds one sensor's horizon: ticks from its earliest unseen awake
// tick to its sink, plus its backlog. Every sum of U stays below 6 MaxTicks^2 <
// 2^57 and so within an int64; products are compared in 128 bits.
const MaxTicks = 1 << 27

// maxUnit bounds what one U of a sensor may weigh. A U is below 2^60, so that values of
// whole fleets, and the square of their root's sum, stay finite.
const maxUnit = 1e250

// ErrBudget is wrapped when, under the Fixed rule, the budget is below the number
// of sensors that have to be crawled.
var ErrBudget = errors.New("scheduler: the budget is below the number of awake sensors")

// ErrProblem is wrapped by every report of an invalid Problem or Demand.
var ErrProblem = errors.New("scheduler: invalid problem")

// validate checks what holds for the whole fleet.
func (p *Problem) validate() error {
	fault := ""
	switch {
	case p.Tick <= 0:
		fault = fmt.Sprintf("tick of %v must be positive", p.Tick)
	case p.Length < 1 || p.Length > MaxTicks:
		fault = fmt.Sprintf("length of %d ticks must be in 1..%d", p.Length, MaxTicks)
	case p.End > Fixed:
		fault = fmt.Sprintf("no end rule has number %d", p.End)
	case p.Objective > Paper:
		fault = fmt.Sprintf("no objective has number %d", p.Objective)
	case p.Candidates > Grid:
		fault = fmt.Sprintf("no candidate rule has number %d", p.Candidates)
	case p.End == Lookahead && (p.Extra < 0 || p.Extra > MaxTicks):
		fault = fmt.Sprintf("look-ahead of %d ticks must be in 0..%d", p.Extra, MaxTicks)
	case p.Candidates == Grid && p.Step < 1:
		fault = fmt.Sprintf("grid step of %d ticks must be at least 1", p.Step)
	case p.Budget < 0:
		fault = fmt.Sprintf("budget %d must not be negative", p.Budget)
	case !(p.Price >= 0) || math.IsInf(p.Price, 1):
		fault = fmt.Sprintf("price %v must be finite and not negative", p.Price)
	case p.Capacity < 0:
		fault = fmt.Sprintf("capacity %d must not be negative", p.Capacity)
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", ErrProblem, fault)
}

// check returns what is wrong with a demand.
func (p *Problem) check(d *Demand) error {
	needsGap := p.Candidates == Ends || p.End == Lookahead
	switch {
	case !(d.Coef >= 0) || math.IsInf(d.Coef, 1):
		return fmt.Errorf("coefficient %v must be finite and not negative", d.Coef)
	case !(d.Yield >= 0 && d.Yield <= 1):
		return fmt.Errorf("yield %v must be in (0, 1], or 0 for 1", d.Yield)
	case p.unit(d) > maxUnit:
		return fmt.Errorf("coefficient %v is too large for ticks of %v: latencies would overflow",
			d.Coef, p.Tick)
	case p.Objective == Paper && d.Coef > 0 && (!(d.Rate > 0) || math.IsInf(d.Rate, 1)):
		return fmt.Errorf("rate %v must be finite and positive under the paper objective", d.Rate)
	case d.From < 0:
		return fmt.Errorf("first legal tick %d must not be negative", d.From)
	case d.Source > d.From:
		return fmt.Errorf("source %d is after the first legal tick %d", d.Source, d.From)
	case d.Backlog < 0 || d.Backlog > MaxTicks:
		return fmt.Errorf("backlog of %d ticks must be in 0..%d", d.Backlog, MaxTicks)
	case d.Guard < 0:
		return fmt.Errorf("guard of %d ticks must not be negative", d.Guard)
	case needsGap && !(d.Gap > 0 && d.Gap <= 2*MaxTicks):
		return fmt.Errorf("expected gap of %v ticks must be in (0, %d]", d.Gap, 2*MaxTicks)
	}
	for k, s := range d.Spans {
		if s.Start >= s.End {
			return fmt.Errorf("span %d [%d,%d) is empty", k, s.Start, s.End)
		}
		if k > 0 && s.Start < d.Spans[k-1].End {
			return fmt.Errorf("span %d [%d,%d) starts before the end of the one before it, [%d,%d)",
				k, s.Start, s.End, d.Spans[k-1].Start, d.Spans[k-1].End)
		}
	}
	return p.checkHorizon(d)
}

// checkHorizon bounds what the sums of U grow with. It supposes a look-ahead even
// where the sensor's plan is not known that far, so that an error does not come and
// go with what is known.
func (p *Problem) checkHorizon(d *Demand) error {
	far := p.Length
	if p.End == Lookahead {
		far += p.Extra + int64(math.Round(d.Gap/2))
	}
	if h := far - d.origin() + d.Backlog; h > MaxTicks {
		return fmt.Errorf("horizon of %d ticks is beyond %d; use a longer tick, a shorter range "+
			"or a backlog", h, MaxTicks)
	}
	return nil
}

// forces reports whether the end rule makes the sensor's last legal instant a
// crawl. One that may not be crawled at all is left alone.
func (p *Problem) forces(d *Demand) bool { return p.End == Fixed && d.Coef > 0 && d.Cap != 0 }

// legalTime counts the awake and the legal ticks of the range.
func (d *Demand) legalTime(length int64) (awake, legal int64) {
	for k := 0; k < len(d.Spans); {
		var s, e int64
		s, e, k = nextSpan(d.Spans, k)
		if s >= length {
			break
		}
		from := max(s, d.From)
		awake += max(0, min(e, length)-from)
		legal += max(0, min(d.lastLegal(s, e), length-1)-from+1)
	}
	return awake, legal
}

package scheduler

import "time"

// Multiplier is the odd price in U at which a sensor with that coefficient is
// planned when an attempt costs price weighted latency seconds: what Replan takes
// for a sensor that no Solve has seen yet. A coefficient of 0 is never worth a
// crawl at any price. Where a share of the attempts fails, coef is what the rest
// brings: coefficient times Demand.Yield.
func Multiplier(price, coef float64, tick time.Duration) int64 {
	p := Problem{Tick: tick}
	return odd(price, p.unit(&Demand{Coef: coef}))
}

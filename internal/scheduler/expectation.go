package scheduler

import "math"

// The curves of the EasiCrawl paper's Appendix A and of its drafts: what a crawl at t
// costs if the one before it was at 0. Times are seconds, rates events per awake
// second, results seconds summed over the expected events. A periodic sensor is awake
// in [0, awake), asleep for asleep seconds, and so on.
//
// While the sensor sleeps the functions give what a crawl would cost if it were
// possible. The drafts set E_h = 0 there, which can only mean that there is no
// candidate: taken as a weight it makes crawls of sleeping sensors free.

// PaperLatency is equation (5) of the EasiCrawl paper, E[G(t)] = (e^{-lt} - 1 + lt) t,
// for a sensor that never sleeps. The paper takes the time of every event as that of
// the first one, exponential with rate l, where the times of n events are uniform: it
// is lt E[(t-X)+], not the latency l t^2/2. With x = lt its share of the latency is
// 2 (e^{-x} - 1 + x)/x, from 0 for rare events to 2 for many.
func PaperLatency(rate, t float64) float64 { return beyondLine(rate*t) * t }

// PaperSleepingLatency is the first line of equation (6), which is equation (8) of
// the drafts: E_h[G(t)] from equation (5), each awake window counting with what it
// would cost from its start less what it would from its end. As a recursion this is
// right for any penalty; only equation (5) in it is not.
func PaperSleepingLatency(rate, t, awake, asleep float64) float64 {
	return overWindows(t, awake, asleep, func(v float64) float64 { return PaperLatency(rate, v) })
}

// PrintedSleepingLatency is the second line of equation (6) as it is printed,
// l (t-T^L(K))^2 + l Sum_{i=1}^K (2t - T^w) T^w with K the whole cycles before t. It
// puts l t^2 for equation (5), which is the limit for many events and exactly twice
// the latency, and loses a term besides: 2t stands where 2(t - T^L(K-i)) follows from
// the first line. So it is twice PoissonLatency in the first two cycles and more from
// the third on.
func PrintedSleepingLatency(rate, t, awake, asleep float64) float64 {
	k := math.Floor(t / (awake + asleep))
	rest := t - k*(awake+asleep)
	return rate * (rest*rest + k*(2*t-awake)*awake)
}

// FluidLatency is equation (10) of the drafts: equation (5) times the share of time
// awake, as if the sensor were awake a little all the time. They print it for
// E_s[G(t-T^w)] and use it for E_h[G(t)]; it leaves out where in its cycle t stands.
func FluidLatency(rate, t, awake, asleep float64) float64 {
	return awake / (awake + asleep) * PaperLatency(rate, t)
}

// PoissonLatency is what all of these stand for: l Int_0^t a(u) (t-u) du, the expected
// latency of the events of a Poisson process.
func PoissonLatency(rate, t, awake, asleep float64) float64 {
	return overWindows(t, awake, asleep, func(v float64) float64 { return rate * v * v / 2 })
}

// overWindows adds up a penalty of age over the awake windows before t.
func overWindows(t, awake, asleep float64, penalty func(age float64) float64) (sum float64) {
	cycle := awake + asleep
	for k := 0.0; k*cycle < t; k++ {
		sum += penalty(t-k*cycle) - penalty(max(0, t-k*cycle-awake))
	}
	return sum
}

// beyondLine is e^{-x} - 1 + x, by its series where the difference would cancel.
func beyondLine(x float64) float64 {
	if x < 1.0/64 {
		return x * x * (1./2 - x*(1./6-x*(1./24-x*(1./120-x*(1./720-x/5040)))))
	}
	return x + math.Expm1(-x)
}

package dpt

import (
	"cmp"
	"math"
	"slices"
)

const (
	kernelPoints  = 60 // quantiles of the residuals
	laplacePoints = 40
	uniformPoints = 100
	kernelWeight  = .87
	laplaceWeight = .10 // without it rare jitter is found late
	uniformWeight = .03
	restWeight    = .002 // epochs beyond this much chance are left to the tail
	roundHorizon  = 15   // epochs
	tailReach     = 4    // mean excesses over which the exponential tail of gaps is followed
)

// mass is a point of the density of the next publication.
type mass struct {
	at     float64 // ms after the newest publication
	weight float64 // of the publication being here
	worth  float64 // share of the candidates that should lie near
}

// kernel is where in its epoch a publication lies: quantiles of the best filter's
// residuals, ascending, ms. An instant that was rounded down to the clock's resolution
// stands for all that follow up to the next one, so that the points are spread over it
// (in an order without pattern: multiples of the golden section).
func (h *hz) kernel() []float64 {
	sorted := slices.Sorted(slices.Values(h.Filters.best().Residuals))
	points := make([]float64, kernelPoints)
	for i := range points {
		points[i] = quantile(sorted, (float64(i)+.5)/kernelPoints) + h.unseen(i)
	}
	slices.Sort(points)
	return points
}

// unseen is the i-th sample of what the clock's resolution hides.
func (h *hz) unseen(i int) float64 {
	_, share := math.Modf(float64(i) * (math.Sqrt(5) - 1) / 2)
	return share * float64(h.Params.Resolution)
}

// quantile p of the sorted values, interpolated; 0 of none.
func quantile(sorted []int64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	whole, part := math.Modf(p * float64(len(sorted)-1))
	i := int(whole)
	j := min(i+1, len(sorted)-1)
	return float64(sorted[i]) + part*float64(sorted[j]-sorted[i])
}

// rounds are the chances that the next publication is in the first, second, ... epoch
// after the last one.
func (c hzChain) rounds() []float64 {
	chances := make([]float64, 1, roundHorizon)
	chances[0] = c.pss()
	rest := 1 - chances[0]
	for rest >= restWeight && len(chances) < roundHorizon {
		chances = append(chances, rest*c.pfs())
		rest *= 1 - c.pfs()
	}
	return chances
}

// epochDensity is the density of the next publication, seen at the last look. The
// candidates follow the chances; where skip further epochs may be passed over on purpose
// half of them are spread evenly over the epochs.
func (h *hz) epochDensity(skip int) []mass {
	chances := h.Chain.rounds()
	base, now := h.Filters.base(), float64(h.At-h.Last)
	kernel := h.kernel()
	width := 2 * h.Filters.best().Dev
	k := len(chances)
	n := k
	if skip > 0 {
		n = min(k+skip, roundHorizon)
	}
	points := make([]mass, 0, n*(kernelPoints+laplacePoints)+uniformPoints)
	add := func(at, weight, worth float64) {
		if at > now {
			points = append(points, mass{at, weight, worth})
		}
	}
	for i := range n {
		epoch, chance, worth := base+float64(i+1)*h.Lambda, 0.0, 0.0
		if i < k {
			chance = chances[i]
			worth = chance
		}
		if skip > 0 {
			worth = (worth + 1/float64(n)) / 2
		}
		for _, r := range kernel {
			add(epoch+r, chance*kernelWeight/kernelPoints, worth*kernelWeight/kernelPoints)
		}
		for j := range laplacePoints {
			r := laplaceQuantile((float64(j)+.5)/laplacePoints, width) + h.unseen(j)
			add(epoch+r, chance*laplaceWeight/laplacePoints, worth*laplaceWeight/laplacePoints)
		}
	}
	from, to := max(now, base), base+(float64(k)+.5)*h.Lambda
	for j := range uniformPoints {
		u := (float64(j) + .5) / uniformPoints
		add(from+u*(to-from), uniformWeight/uniformPoints, uniformWeight/uniformPoints)
	}
	return normalised(points)
}

// laplaceQuantile is the quantile p of the Laplace distribution of mean 0 and scale b.
func laplaceQuantile(p, b float64) float64 {
	if p < .5 {
		return b * math.Log(2*p)
	}
	return -b * math.Log(2*(1-p))
}

// stretch is a span of ages at which the next publication is equally likely or, in a
// tail, at which its hazard is constant.
type stretch struct {
	from, to float64 // ms after the newest publication
	weight   float64
	tail     float64 // mean of the exponential distribution, 0 = uniform
	root     float64 // integral of the root of the hazard
}

// stretches are the gaps as they were, spread evenly between one and the next longer
// one. Of the longest tenth only the mean is used: what they leave open is how much
// longer still a gap may be.
func (h *hz) stretches() []stretch {
	sorted := slices.Sorted(slices.Values(h.Gaps))
	n := len(sorted)
	long := min(max(n/10, 3), n)
	all := make([]stretch, 0, n)
	from := 0.0
	for i, x := range sorted[:n-long] {
		to := float64(x) + h.unseen(i)
		root := math.Sqrt(max(to-from, 0) / float64(n-i))
		all = append(all, stretch{from, to, 1 / float64(n), 0, root})
		from = to
	}
	excess := 0.0
	for i, x := range sorted[n-long:] {
		excess += (float64(x) + h.unseen(i) - from) / float64(long)
	}
	excess = max(excess, 1)
	return append(all, stretch{
		from, from + tailReach*excess, float64(long) / float64(n), excess,
		tailReach * math.Sqrt(excess),
	})
}

// renewalDensity is the density of the next publication without epochs. Where its hazard
// is h(t) the best looks lie about sqrt(2c/h) apart, so that the candidates are spread as
// its root is. further is how far beyond the longest gap some are wanted, ms.
func (h *hz) renewalDensity(further float64) []mass {
	now := float64(h.At - h.Last)
	all := h.stretches()
	total := 0.0
	for _, s := range all {
		if s.to > now {
			total += s.root
		}
	}
	total = max(total, math.SmallestNonzeroFloat32)
	points := make([]mass, 0, len(all)+planLevels+2*uniformPoints)
	for _, s := range all {
		m := 1 + math.Round(planLevels*s.root/total)
		past := 0.0
		for j := 1.0; j <= m && s.to > now; j++ {
			part := j / m
			if s.tail > 0 {
				part = 1 - math.Exp(-j/m*tailReach)
			}
			if at := s.from + (s.to-s.from)*j/m; at > now {
				points = append(points, mass{at, s.weight * (part - past), s.root / m / total})
			}
			past = part
		}
	}
	if further > 0 && len(points) > 0 {
		to := points[len(points)-1].at + further
		for j := range uniformPoints {
			u := (float64(j) + .5) / uniformPoints
			points = append(points, mass{now + u*(to-now), 0, 1.0 / uniformPoints})
		}
	}
	return normalised(points)
}

// normalised sorts the points and scales both sums to 1; nil if there is no chance left.
func normalised(points []mass) []mass {
	weight, worth := 0.0, 0.0
	for _, p := range points {
		weight += p.weight
		worth += p.worth
	}
	if weight <= 0 || worth <= 0 {
		return nil
	}
	for i := range points {
		points[i].weight /= weight
		points[i].worth /= worth
	}
	slices.SortFunc(points, func(a, b mass) int { return cmp.Compare(a.at, b.at) })
	return points
}

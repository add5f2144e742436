package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// JitterModel holds jitter against the normal and the Laplace distribution, each with its
// likeliest parameters (DPT paper, 5.2 and fig. 10).
type JitterModel struct {
	Periods float64  `json:"periods"` // of the intervals; 0 = around the grid
	Number  int      `json:"number"`
	Normal  Goodness `json:"normal"`
	Laplace Goodness `json:"laplace"`
}

// Goodness is the Kolmogorov-Smirnov distance to one distribution.
type Goodness struct {
	Mean     float64 `json:"mean_seconds"`
	SD       float64 `json:"sd_seconds"`
	Distance float64 `json:"distance"`
	// P is the share of samples drawn from the distribution itself, and fitted alike, that
	// are as far off: the parameters are read off the sample, so that Kolmogorov's own
	// distribution would accept nearly everything.
	P        float64 `json:"p"`
	Rejected bool    `json:"rejected"` // at Significance
}

func jitterModel(periods float64, x []float64) JitterModel {
	x = slices.Sorted(slices.Values(x))
	return JitterModel{
		Periods: periods, Number: len(x),
		Normal:  goodness(x, fitNormal(x), nulls().normal),
		Laplace: goodness(x, fitLaplace(x), nulls().laplace),
	}
}

// continuous is a distribution as gonum has it.
type continuous interface {
	CDF(x float64) float64
	Mean() float64
	StdDev() float64
}

func fitNormal(sorted []float64) continuous {
	mean, variance := stat.PopMeanVariance(sorted, nil)
	return distuv.Normal{Mu: mean, Sigma: math.Sqrt(variance)}
}

// fitLaplace has the median as mean and the mean distance from it as scale.
func fitLaplace(sorted []float64) continuous {
	n := len(sorted)
	d := distuv.Laplace{Mu: (sorted[(n-1)/2] + sorted[n/2]) / 2}
	for _, x := range sorted {
		d.Scale += math.Abs(x-d.Mu) / float64(n)
	}
	return d
}

// distance is the Kolmogorov-Smirnov distance of a sorted sample; a sample without any
// spread is as far from both distributions as can be.
func distance(sorted []float64, d continuous) (most float64) {
	if d.StdDev() == 0 {
		return 1
	}
	n := float64(len(sorted))
	for i, x := range sorted {
		p := d.CDF(x)
		most = max(most, p-float64(i)/n, float64(i+1)/n-p)
	}
	return most
}

// nullDistances are distances times the root of the sample size, for samples of the
// distribution itself; neither location nor scale matters, and beyond some hundred the
// size hardly.
type nullDistances struct{ normal, laplace []float64 }

const (
	nullSamples = 4000
	nullSize    = 400
)

// nulls are drawn once, always from the same seed.
var nulls = sync.OnceValue(func() nullDistances {
	rng := rand.New(rand.NewPCG(1, 0x6b730000))
	draw := func(one func() float64, fit func([]float64) continuous) []float64 {
		all := make([]float64, nullSamples)
		x := make([]float64, nullSize)
		for k := range all {
			for i := range x {
				x[i] = one()
			}
			slices.Sort(x)
			all[k] = distance(x, fit(x)) * math.Sqrt(nullSize)
		}
		slices.Sort(all)
		return all
	}
	return nullDistances{
		normal:  draw(rng.NormFloat64, fitNormal),
		laplace: draw(func() float64 { return drawLaplace(rng, 1) }, fitLaplace),
	}
})

// goodness ranks the distance among those of the null distribution; the sample itself
// counts, so that P is never 0.
func goodness(sorted []float64, d continuous, null []float64) Goodness {
	most := distance(sorted, d)
	below, _ := slices.BinarySearch(null, most*math.Sqrt(float64(len(sorted))))
	p := float64(len(null)-below+1) / float64(len(null)+1)
	return Goodness{Mean: d.Mean(), SD: d.StdDev(), Distance: most, P: p,
		Rejected: p < Significance}
}

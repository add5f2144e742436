package sim

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Significance is the level of the DPT paper's tests.
const Significance = 0.05

// FailureModel is one of the DPT paper's models of failures in a row, and how well it fits
// (its section 5.2).
type FailureModel struct {
	Model    string    `json:"model"`    // none, geometric (independent), two-state
	Expected []float64 `json:"expected"` // intervals with 0 .. 5 failures
	Error    float64   `json:"error"`    // eq. 5 as printed, over all of these
	// ErrorP is how likely so large an error is by the chi-squared distribution with 5
	// degrees of freedom. The paper compares so; but parameters read off the same counts
	// make the error smaller, and rare counts make it larger than that.
	ErrorP float64    `json:"error_p"`
	Test   ChiSquared `json:"test"`
}

// ChiSquared is the test proper. Rare numbers of failures are one class, which expects at
// least five, and the model's parameter is that which is likeliest for the classes, so
// that the statistic is chi-squared distributed if the model is right.
type ChiSquared struct {
	Statistic float64 `json:"statistic"`
	DF        int     `json:"degrees_of_freedom"`
	P         float64 `json:"p"`
	Rejected  bool    `json:"rejected"` // at Significance
	// Untested: there are too few classes. P is 1 then.
	Untested bool `json:"untested,omitempty"`
}

// failureCounts are intervals by their failures, 0 .. LongFailures.
type failureCounts = [LongFailures + 1]int

// chainOf estimates the two-state model from failures in a row up to LongFailures; longer
// ones are outages and say nothing. That cuts the geometric tail, which the likelihood
// takes into account; counting transitions alone would find p_fs too large.
func chainOf(counts failureCounts) (pss, pfs Estimate) {
	succeeded, failed := float64(counts[0]), 0.0
	sum := 0.0
	for h, n := range counts[1:] {
		failed += float64(n)
		sum += float64(n * h)
	}
	all := succeeded + failed
	if failed == 0 {
		return Estimate{1, 1 / all}, Estimate{}
	}
	q := min(cutGeometric(sum/failed), 1-leastPFS)
	_, variance := cutMoments(q)
	pfs = Estimate{Value: 1 - q}
	if variance > 0 {
		pfs.SE = q / math.Sqrt(failed*variance)
	}
	// Of what fails a share q^m fails longer and is not counted.
	counted := 1 - math.Pow(q, LongFailures)
	odds := succeeded / failed * counted
	pss.Value = odds / (1 + odds)
	byPFS := LongFailures * math.Pow(q, LongFailures-1) / counted * pfs.SE
	logit := 0.0
	if succeeded > 0 {
		logit = math.Sqrt(1/succeeded + 1/failed + byPFS*byPFS)
	}
	pss.SE = pss.Value * (1 - pss.Value) * logit
	return pss, pfs
}

// leastPFS is the least p_fs that is believed. With less, most failures would be longer
// than those that are counted.
const leastPFS = 0.05

// cutMoments are mean and variance of a variable with P(i) ~ q^i, i = 0 .. LongFailures-1.
func cutMoments(q float64) (mean, variance float64) {
	var mass, square float64
	weight := 1.0
	for i := range LongFailures {
		mass += weight
		mean += float64(i) * weight
		square += float64(i*i) * weight
		weight *= q
	}
	mean /= mass
	return mean, square/mass - mean*mean
}

// cutGeometric is the q below 1 for which such a variable has the mean.
func cutGeometric(mean float64) float64 {
	low, high := 0.0, 1.0
	for range 60 {
		q := (low + high) / 2
		if m, _ := cutMoments(q); m < mean {
			low = q
		} else {
			high = q
		}
	}
	return (low + high) / 2
}

// failureShares are those of intervals with 0 .. LongFailures failures among these.
type failureShares [LongFailures + 1]float64

func twoStateShares(pss, pfs float64) (p failureShares) {
	p[0] = pss
	weight := (1 - pss) * pfs
	for h := 1; h <= LongFailures; h++ {
		p[h] = weight
		weight *= 1 - pfs
	}
	return normalised(p)
}

func geometricShares(ps float64) (p failureShares) {
	weight := ps
	for h := range p {
		p[h] = weight
		weight *= 1 - ps
	}
	return normalised(p)
}

func normalised(p failureShares) failureShares {
	sum := 0.0
	for _, x := range p {
		sum += x
	}
	for h := range p {
		p[h] /= sum
	}
	return p
}

// failureModels holds the three models of the paper against the counts.
func failureModels(counts failureCounts, pss, pfs float64) []FailureModel {
	all, failures := 0.0, 0.0
	for h, n := range counts {
		all += float64(n)
		failures += float64(n * h)
	}
	none := printed("none", counts, []float64{all, 0, 0, 0, 0, 0})
	none.Test = ChiSquared{P: 1, Untested: true}
	if failures > 0 { // what the model says cannot be is there: no distribution is needed
		none.Test = ChiSquared{Statistic: none.Error, DF: LongFailures, Rejected: true}
	}

	ps := likeliest(func(p float64) float64 { return logLikelihood(counts[:], geometricShares(p)) })
	geometric := printed("geometric", counts, expect(all, geometricShares(ps)))
	geometric.Test = chiSquared(counts, 1, geometric.Expected, geometricShares)

	twoState := printed("two-state", counts, expect(all, twoStateShares(pss, pfs)))
	first := float64(counts[0]) / all // p_ss always fits that class exactly
	twoState.Test = chiSquared(counts, 2, twoState.Expected, func(pfs float64) failureShares {
		p := twoStateShares(0, pfs)
		for h := range p {
			p[h] *= 1 - first
		}
		p[0] = first
		return p
	})
	return []FailureModel{none, geometric, twoState}
}

// printed is a model with the paper's error. Where it expects next to nothing one failure
// is added, as the paper does for the model without failures.
func printed(model string, counts failureCounts, expected []float64) FailureModel {
	m := FailureModel{Model: model, Expected: expected}
	for h, n := range counts {
		e := expected[h]
		if e < 1e-9 {
			e = 1
		}
		m.Error += (e - float64(n)) * (e - float64(n)) / e
	}
	m.ErrorP = distuv.ChiSquared{K: LongFailures}.Survival(m.Error)
	return m
}

func expect(all float64, p failureShares) []float64 {
	e := make([]float64, len(p))
	for h := range p {
		e[h] = all * p[h]
	}
	return e
}

// chiSquared tests a model with that many parameters, one of which is free to fit the
// classes. Classes are made from what is expected, not from what was seen.
func chiSquared(counts failureCounts, parameters int, expected []float64,
	shares func(p float64) failureShares) ChiSquared {
	classes := len(expected)
	for tail := 0.0; classes > 1; classes-- {
		if tail += expected[classes-1]; tail >= 5 {
			break
		}
	}
	t := ChiSquared{DF: classes - 1 - parameters, P: 1, Untested: true}
	if t.DF < 1 {
		t.DF = 0
		return t
	}
	pooled := make([]int, classes)
	all := 0.0
	for h, n := range counts {
		pooled[min(h, classes-1)] += n
		all += float64(n)
	}
	pool := func(p float64) (q failureShares) {
		for h, x := range shares(p) {
			q[min(h, classes-1)] += x
		}
		return q
	}
	best := pool(likeliest(func(p float64) float64 { return logLikelihood(pooled, pool(p)) }))
	for h, n := range pooled {
		e := all * best[h]
		t.Statistic += (e - float64(n)) * (e - float64(n)) / e
	}
	t.P = distuv.ChiSquared{K: float64(t.DF)}.Survival(t.Statistic)
	t.Rejected, t.Untested = t.P < Significance, false
	return t
}

func logLikelihood(counts []int, p failureShares) (sum float64) {
	for h, n := range counts {
		if n > 0 {
			sum += float64(n) * math.Log(max(p[h], 1e-300))
		}
	}
	return sum
}

// likeliest is the p in (0, 1) where a function with one maximum has it.
func likeliest(f func(p float64) float64) float64 {
	low, high := 1e-9, 1-1e-9
	for range 100 { // golden section would save evaluations that cost nothing
		a, b := low+(high-low)/3, high-(high-low)/3
		if f(a) < f(b) {
			low = a
		} else {
			high = b
		}
	}
	return (low + high) / 2
}

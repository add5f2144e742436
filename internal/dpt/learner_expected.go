package dpt

import "time"

// Expected is the number of probes in [from, to) if they go on at the pace of the next
// one. While the sensor is searched for gaps grow.
func (l *Learner) Expected(from, to time.Time) float64 {
	at, _ := l.Next(from, 1)
	growth := 1.0
	if name, _, _ := l.State(); name == "search" {
		growth = gapGrowth
	}
	gap := float64(max(l.s.Due-l.s.Last, l.s.Limits.MinGap))
	return expected(at, to, gap, growth, max(float64(l.s.Limits.MaxGap), gap))
}

package dpt

import "time"

func (l *Learner) Expected(from, to time.Time) float64 { return to.Sub(from).Hours() }

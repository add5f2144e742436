package planner

import (
	"testing"
	"time"

	"github.com/crawld/crawld/internal/fleet"
)

// Gaps between attempts double from the second failure in a row on, and end at the maximum.
func TestRetryGapsDouble(t *testing.T) {
	p := &Planner{}
	p.par.Polling.MinGap, p.par.Polling.MaxGap = 10*time.Second, time.Minute
	for failures, want := range []time.Duration{10, 10, 20, 40, 60, 60} {
		s := &sensor{Sensor: &fleet.Sensor{}, rec: &Record{Failures: failures}}
		if got := p.retryGap(s); got != want*time.Second {
			t.Errorf("%d failures: %v, want %v s", failures, got, int(want))
		}
	}
	s := &sensor{Sensor: &fleet.Sensor{}, rec: &Record{Failures: 1 << 30}}
	if got := p.retryGap(s); got != time.Minute {
		t.Errorf("ever failing: %v", got)
	}
}

// A failure is kept back for while it is half a visit or more, and then forgotten.
func TestRetriesFade(t *testing.T) {
	n := &Snapshot{rec: FleetRecord{Theta: 1000, Attempts: 1000, Failed: 1}}
	for _, want := range []int{999, 1000, 1000} {
		if got := n.budget(); got != want || n.rec.Retries != 1000-want {
			t.Errorf("%v failed of %v: budget %d, %d for retries, want %d", n.rec.Failed,
				n.rec.Attempts, got, n.rec.Retries, want)
		}
		n.rec.Failed /= 2.1
	}
	n.rec.Failed = 100
	if got := n.budget(); got < 900 || got > 904 {
		t.Errorf("a tenth failed: budget %d", got)
	}
}

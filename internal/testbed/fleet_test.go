package testbed

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/linkformat"
	"github.com/crawld/crawld/internal/sleepplan"
)

// share is the part of half an hour from the epoch that a plan is awake.
func share(p sleepplan.Plan) float64 {
	sum := time.Duration(0)
	for _, w := range p.Windows(epoch, epoch.Add(fleetSpan)) {
		sum += w.Duration()
	}
	return sum.Seconds() / fleetSpan.Seconds()
}

// The mix is what the comment of Fleet promises.
func TestFleetMix(t *testing.T) {
	specs := Fleet(1, 40, epoch)
	kinds := map[string]int{}
	awake := map[string][2]float64{
		"always": {1, 1}, "cycle": {0.09, 0.41}, "weekly": {0.15, 0.4}, "irregular": {0.15, 0.45},
		"hidden": {0.15, 0.61},
	}
	var lossy, separate, blocks int
	for i, s := range specs {
		kind, _, _ := strings.Cut(s.Name, "-")
		kinds[kind]++
		if s.Rate < 0.02 || s.Rate > 0.5 || s.Hidden != (kind == "hidden" || i == len(specs)-1) {
			t.Errorf("%s: rate %v, hidden %v", s.Name, s.Rate, s.Hidden)
		}
		if want, ok := awake[kind]; ok && (share(s.Plan) < want[0] || share(s.Plan) > want[1]) {
			t.Errorf("%s: awake for a share of %.3f, want %v", s.Name, share(s.Plan), want)
		}
		if s.Loss > 0 {
			lossy++
			if s.Loss < 0.1 || s.Loss > 0.2 {
				t.Errorf("%s: loss %v", s.Name, s.Loss)
			}
		}
		if s.Separate {
			separate++
		}
		if s.Block == 64 && s.Size >= 300 {
			blocks++
		}
	}
	for kind, n := range map[string]int{
		"always": 8, "cycle": 12, "weekly": 6, "irregular": 6, "hidden": 7, "dead": 1,
	} {
		if kinds[kind] != n {
			t.Errorf("%d %s sensors, want %d: %v", kinds[kind], kind, n, kinds)
		}
	}
	if lossy != 10 || separate != 8 || blocks != 7 {
		t.Errorf("%d lossy, %d separate, %d in blocks; want 10, 8, 7", lossy, separate, blocks)
	}
}

func TestFleetIsDeterministic(t *testing.T) {
	same := func(a, b []Spec) bool {
		for i := range a {
			if a[i].Name != b[i].Name || a[i].Rate != b[i].Rate || !a[i].Plan.Equal(b[i].Plan) {
				return false
			}
		}
		return true
	}
	a := Fleet(1, 40, epoch)
	if !same(a, Fleet(1, 40, epoch)) || same(a, Fleet(2, 40, epoch)) {
		t.Error("Specs must follow from the seed")
	}
	if len(Fleet(1, 0, epoch)) != 0 {
		t.Error("an empty fleet has sensors")
	}
}

// Weekly entries keep their windows across midnight and the turn of the week.
func TestFleetAcrossMidnight(t *testing.T) {
	late := time.Date(2026, 3, 1, 23, 45, 0, 0, time.FixedZone("", -3600)) // a Sunday
	for _, s := range Fleet(3, 40, late) {
		if s.Plan.Kind() != sleepplan.KindWeekly {
			continue
		}
		sum := time.Duration(0)
		for _, w := range s.Plan.Windows(late.Add(-time.Hour), late.Add(2*time.Hour)) {
			if d := w.Duration(); d < 7*time.Second || d > 20*time.Second || w.Start.Before(late) {
				t.Errorf("%s: window %v, want 8 .. 20 s and none before now", s.Name, w)
			}
			sum += w.Duration()
		}
		if got := sum.Seconds() / fleetSpan.Seconds(); math.Abs(got-0.24) > 0.1 {
			t.Errorf("%s: awake for a share of %.3f", s.Name, got)
		}
	}
}

// The daemon's own packages take what the fleet lists and serves.
func TestFleetIsListedAndServed(t *testing.T) {
	b := newBed(t)
	var listed []fleet.Sensor
	for _, spec := range Fleet(1, 40, time.Now()) {
		s := add(t, b, spec)
		l := s.Listing()
		if l.Plan.Equal(sleepplan.Unknown()) != spec.Hidden || l.Rate != spec.Rate || l.Weight != 1 {
			t.Errorf("%s is listed as %+v", s.Name(), l)
		}
		listed = append(listed, l)
		body := s.Body()
		if len(body) < spec.Size || bytes.Contains(body, []byte("\n")) {
			t.Errorf("%s serves %q", s.Name(), body)
		}
		if doc := linkformat.Parse(body); doc.Verdict != linkformat.Valid || len(doc.Links) < 2 {
			t.Errorf("%s serves %q: %+v", s.Name(), body, doc)
		}
	}
	f, err := fleet.New(listed)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range f.All() {
		if at, ok := f.Find(s.ID); !ok || at != i {
			t.Errorf("%s is not found", s.ID)
		}
		if u, err := fleet.ParseURI(s.URI); err != nil || u.String() != s.URI {
			t.Errorf("%s: URI %s is not normalised: %v", s.ID, s.URI, err)
		}
	}
}

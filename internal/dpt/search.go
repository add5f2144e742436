package dpt

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// Golden-ratio spacing. With the mean gap g, probe k follows probe k-1 after
// g*(1/2 + u(k)), where u(k) = frac(u(0) + k/phi), phi = 1.618..., is the golden-ratio
// sequence: the most even one in [0, 1), so that the mean is g over every few probes.
// The instants are sums of the sequence. Modulo any period they are a quadratic Weyl
// sequence, thus equidistributed: a sensor that is awake for a share d of its cycle is
// met after 1/d probes on the average, whatever its period. Jitter of each probe about
// a grid g apart is not enough: its two distances resonate with some periods (49
// probes instead of 10 at one of 132 s and d = .1), and even spacing never meets a sensor
// whose period divides g.
const (
	weyl       = 0x9E3779B97F4A7C15 // 2^64 / phi: u(k) as a 64-bit fraction, exact for every k
	widest     = 1.5                // largest spacing in mean gaps
	gapGrowth  = 1.25               // per unanswered probe
	maxStretch = 1e6                // beyond it a stretched gap would say never
)

// spacing is the distance of probe k >= 1 from probe k-1, in mean gaps.
func spacing(seed uint64, k int) float64 {
	return 0.5 + fraction(seed+uint64(k)*weyl)
}

// fraction reads u as a fraction of 2^64, to the precision of a float64.
func fraction(u uint64) float64 { return float64(u>>11) / (1 << 53) }

// searchGap is the mean gap in ms after k >= 1 probes without an answer. It ends at
// MaxGap/1.5, so that no two probes are further apart than MaxGap.
func (l limits) searchGap(k int) float64 {
	gap := float64(l.Bootstrap) * math.Pow(gapGrowth, float64(min(k-1, 1000)))
	return min(gap, float64(l.MaxGap)/widest)
}

// Search says when a sensor that has not answered yet, or no longer answers, is
// probed next. It serialises to JSON, parameters included.
type Search struct {
	s searchState
}

type searchState struct {
	Limits limits `json:"l"`
	Seed   uint64 `json:"s"`
	Last   int64  `json:"a"`           // start of the last probe, ms; of the search before it
	End    int64  `json:"e"`           // end of the last probe
	Probes int    `json:"k,omitempty"` // probes without an answer
	Found  bool   `json:"f,omitempty"`
}

// NewSearch begins at start. The first probe follows within one Bootstrap interval,
// at a place that seed decides, so that a fleet is not probed all at once. p is as
// Validate accepts it.
func NewSearch(p Params, start time.Time, seed uint64) *Search {
	at := ceilMilli(start)
	return &Search{searchState{Limits: newLimits(p), Seed: mix(seed), Last: at, End: at}}
}

// mix is the finaliser of SplitMix64: neighbouring seeds give unrelated places.
func mix(z uint64) uint64 {
	z += weyl
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// Configure adopts changed parameters and keeps the state of the search.
func (s *Search) Configure(p Params) { s.s.Limits = newLimits(p) }

// Clone is an independent copy.
func (s *Search) Clone() *Search {
	c := *s
	return &c
}

// Next is the instant of the next probe and its reason. The instant is after now, at
// most MaxGap*stretch after now, and at least MinGap after the last probe unless the
// clock was set back. stretch >= 1 lengthens the gap from the last probe. Next
// changes nothing: the answer moves only when an outcome is observed or when it is
// overdue, so keep it rather than asking again until it is due.
func (s *Search) Next(now time.Time, stretch float64) (time.Time, string) {
	l := s.s.Limits
	gap := float64(l.Bootstrap)
	wanted := gap * fraction(s.s.Seed)
	if k := s.s.Probes; k > 0 {
		gap = l.searchGap(k)
		wanted = gap * spacing(s.s.Seed, k)
	}
	at, _ := l.clamp(s.s.Last, s.s.End, s.s.Last+int64(wanted), now, stretch)
	return at, "search: gap " + rounded(gap)
}

// Observe takes what became of a visit. Contact of any kind ends the search; a visit
// that was missed moves the next one on by MinGap only.
func (s *Search) Observe(o visit.Outcome) {
	start, end := instants(o)
	if o.Result == visit.Missed {
		s.s.End = max(s.s.End, end)
		return
	}
	s.s.Last, s.s.End = start, end
	if answered(o) {
		s.s.Found, s.s.Probes = true, 0
		return
	}
	s.s.Probes++
}

// Found reports whether the sensor was in contact since the search began.
func (s *Search) Found() bool { return s.s.Found }

// Expected is the number of probes in [from, to) if none is answered.
func (s *Search) Expected(from, to time.Time) float64 {
	at, _ := s.Next(from, 1)
	l := s.s.Limits
	return expected(at, to, l.searchGap(s.s.Probes+1), gapGrowth, float64(l.MaxGap)/widest)
}

// MarshalJSON writes the state, parameters included, in about 150 bytes.
func (s *Search) MarshalJSON() ([]byte, error) { return json.Marshal(s.s) }

// UnmarshalJSON restores what MarshalJSON wrote. It refuses parameters out of range
// and leaves s as it was then.
func (s *Search) UnmarshalJSON(data []byte) error {
	var st searchState
	if err := json.Unmarshal(data, &st); err != nil {
		return fmt.Errorf("dpt: restore search: %w", err)
	}
	if err := st.Limits.check(); err != nil {
		return fmt.Errorf("dpt: restore search: %w", err)
	}
	if st.Probes < 0 {
		return fmt.Errorf("dpt: restore search: %d probes", st.Probes)
	}
	s.s = st
	return nil
}

package dpt

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// series is a short list of numbers. Its JSON is a string: base64 of their varints,
// about a quarter of the digits' length.
type series []int64

// push appends x and drops the oldest numbers beyond the newest n.
func (s series) push(x int64, n int) series {
	s = append(s, x)
	if over := len(s) - n; over > 0 {
		s = slices.Delete(s, 0, over)
	}
	return s
}

func (s series) MarshalText() ([]byte, error) {
	var data []byte
	for _, x := range s {
		data = binary.AppendVarint(data, x)
	}
	return base64.RawStdEncoding.AppendEncode(nil, data), nil
}

func (s *series) UnmarshalText(text []byte) error {
	data, err := base64.RawStdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("series: %w", err)
	}
	var xs series
	for len(data) > 0 {
		x, n := binary.Varint(data)
		if n <= 0 {
			return errors.New("series: broken number")
		}
		xs, data = append(xs, x), data[n:]
	}
	*s = xs
	return nil
}

// clone is an independent copy.
func (h *hz) clone() *hz {
	c := *h
	for _, s := range []*series{&c.Gaps, &c.Epochs, &c.Looks, &c.By} {
		*s = slices.Clone(*s)
	}
	for i := range c.Filters {
		c.Filters[i].Residuals = slices.Clone(c.Filters[i].Residuals)
	}
	return &c
}

// hzReach bounds spans and sums, ms: about 1000 times farAway, so that it can be added to
// an instant and no state that began with instants within farAway is refused.
const hzReach = 3e17

// check refuses what no hz can have: it is restored from a file.
func (h *hz) check() error {
	if err := h.Params.check(); err != nil {
		return err
	}
	locked := h.Lambda != 0
	switch {
	case h.At < -farAway || h.At > farAway:
		return fmt.Errorf("hz: instant %d ms", h.At)
	case h.Due < h.At+h.Params.MinGap || h.Due > h.At+h.Params.MaxGap:
		return fmt.Errorf("hz: next look %d ms after the last one", h.Due-h.At)
	case h.Count > 0 && (h.Last > h.At || h.Last < -farAway), h.Count == 0 && h.Last != 0:
		return fmt.Errorf("hz: %d publications, the last at %d ms", h.Count, h.Last)
	case min(h.Count, h.Misses, h.Far, h.Outages) < 0 || h.Far > farTries ||
		max(h.Count, h.Misses, h.Outages) > math.MaxInt32:
		return fmt.Errorf("hz: %d publications, %d misses, %d far, %d outages", h.Count, h.Misses,
			h.Far, h.Outages)
	case locked && !(h.Lambda >= 1 && h.Lambda <= 2*float64(farAway)):
		return fmt.Errorf("hz: period %g ms", h.Lambda)
	case locked && (h.Count <= lockGaps || len(h.Gaps) < lockGaps), h.Renewal && !locked:
		return fmt.Errorf("hz: locked after %d publications", h.Count)
	}
	for _, x := range []float64{h.RTT, h.Price, h.PollsSum, h.PubsSum} {
		if !(x >= 0 && x <= hzReach) {
			return fmt.Errorf("hz: sum %g", x)
		}
	}
	if h.PollsSum > 0 && h.PubsSum < leastCount { // each hit has a publication
		return fmt.Errorf("hz: %g polls for %g publications", h.PollsSum, h.PubsSum)
	}
	return errors.Join(h.checkGaps(), h.checkFilters(), h.checkPlan())
}

func (h *hz) checkGaps() error {
	n := len(h.Gaps)
	if n != len(h.Epochs) || n >= memory || h.Window < 0 || h.Window > n {
		return fmt.Errorf("hz: %d gaps of %d epochs, window %d", n, len(h.Epochs), h.Window)
	}
	for i, x := range h.Gaps {
		d := h.Epochs[i]
		if x < 1 || x > 2*farAway || d < broken || d > maxEpochs {
			return fmt.Errorf("hz: gap of %d ms, %d epochs", x, d)
		}
		if d == broken && i >= n-h.Window {
			return fmt.Errorf("hz: window %d with a broken gap", h.Window)
		}
	}
	return nil
}

func (h *hz) checkFilters() error {
	for _, f := range h.Filters {
		if !(math.Abs(f.Offset) <= hzReach) || !(f.Dev >= 0 && f.Dev <= hzReach) {
			return fmt.Errorf("hz: phase %g ms, deviation %g ms", f.Offset, f.Dev)
		}
		if len(f.Residuals) > memory {
			return fmt.Errorf("hz: %d residuals", len(f.Residuals))
		}
		for _, r := range f.Residuals {
			if r < -hzReach || r > hzReach {
				return fmt.Errorf("hz: residual %d ms", r)
			}
		}
	}
	c := h.Chain
	for _, n := range []float64{c.SS, c.SF, c.FS, c.FF} {
		if !(n >= leastCount && n <= 1e4) {
			return fmt.Errorf("hz: count %g", n)
		}
	}
	return nil
}

func (h *hz) checkPlan() error {
	n := len(h.Looks)
	if n != len(h.By) || n > planLevels+1 {
		return fmt.Errorf("hz: %d looks with %d chances", n, len(h.By))
	}
	for i, x := range h.Looks {
		if x < 0 || x > farAway || h.By[i] < 0 || h.By[i] > 1000 || i > 0 && x <= h.Looks[i-1] {
			return fmt.Errorf("hz: look %d after %d ms, chance %d", i, x, h.By[i])
		}
	}
	if !slices.IsSorted(h.By) { // each look adds to what may have been found by then
		return fmt.Errorf("hz: chances %d", h.By)
	}
	return nil
}

package dpt

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// hzStep is one fuzzed look: what it shows and when.
type hzStep struct {
	kind byte // hit with or without instants, or miss; of the first of each, most
	wait byte // looks when due (0), late, or before it
	span byte // how far the instants lie apart
	odd  byte // what is wrong with them
}

// at is when the look is made.
func (s hzStep) at(h *hz) int64 {
	switch {
	case s.wait == 255:
		return h.At - int64(s.span)<<(s.odd%32) // the clock was set back
	case s.wait == 254:
		return h.due() + 365*86400_000
	case s.wait >= 192:
		return h.At + int64(s.wait-192)*100
	}
	return h.due() + int64(s.wait%64)*int64(s.wait)*700
}

// published are the instants that a hit at the given instant shows.
func (s hzStep) published(h *hz, at int64) []int64 {
	step := int64(1) << (s.span % 40)
	step += step / 8 * int64(s.span/40)
	x := at - int64(s.odd)*7
	var xs []int64
	for range s.kind >> 3 % 8 {
		xs = append(xs, x)
		x -= step
	}
	slices.Reverse(xs)
	if len(xs) == 0 {
		return xs
	}
	switch s.odd % 16 {
	case 1:
		xs = append(xs, xs...)
	case 2:
		slices.Reverse(xs)
	case 3:
		xs = append(xs, at+step)
	case 4:
		xs[0] = h.Last
	case 5:
		xs[0] = h.Last - step
	case 6:
		xs = []int64{math.MinInt64, -1, math.MaxInt64}
	case 7:
		for i := range xs { // the sensor counts from its start
			xs[i] = int64(i) * step
		}
	}
	return xs
}

// checkHZ holds a state against what must always be true of it.
func checkHZ(h *hz) error {
	gap, growth := h.pace()
	period, spread, mode := h.stats()
	switch {
	case h.due() < h.At+h.Params.MinGap || h.due() > h.At+h.Params.MaxGap:
		return fmt.Errorf("next look %d ms after the last (%s)", h.due()-h.At, h.why())
	case h.why() == "" || mode == "":
		return fmt.Errorf("why %q, mode %q", h.why(), mode)
	case !(gap > 0) || math.IsInf(gap, 0) || !(growth >= 1 && growth <= 2):
		return fmt.Errorf("gap %g, growth %g (%s)", gap, growth, h.why())
	case !(period >= 0 && spread >= 0) || math.IsInf(period+spread, 0):
		return fmt.Errorf("period %g, spread %g (%s)", period, spread, h.why())
	}
	if !slices.IsSorted(h.By) {
		return fmt.Errorf("chances %d", h.By)
	}
	return h.check()
}

// driveHZ feeds the steps and checks after each; every state is written and restored. It
// counts the modes that it has seen.
func driveHZ(h *hz, data []byte, seen map[string]int) error {
	for ; len(data) >= 4; data = data[4:] {
		s := hzStep{data[0], data[1], data[2], data[3]}
		at := min(max(s.at(h), -farAway), farAway)
		switch s.kind % 8 {
		case 0, 1, 2:
			h.miss(at, int64(s.span)*int64(s.odd))
		case 3:
			h.hit(at, nil, false)
		default:
			h.hit(at, s.published(h, at), true)
		}
		if err := checkHZ(h); err != nil {
			return err
		}
		_, _, mode := h.stats()
		seen[mode]++
		written, err := json.Marshal(h)
		if err != nil {
			return err
		}
		r := new(hz)
		if err := json.Unmarshal(written, r); err != nil {
			return fmt.Errorf("%w in %s", err, written)
		}
		if again, _ := json.Marshal(r); !bytes.Equal(again, written) {
			return fmt.Errorf("wrote %s, then %s", written, again)
		}
		if len(written) > 6000 {
			return fmt.Errorf("a state of %d bytes", len(written))
		}
		if h = r; s.wait == 253 {
			h.configure(fuzzHZParams(s.span))
		}
	}
	return nil
}

func fuzzHZParams(kind byte) hzParams {
	p := hzTestParams(300_000)
	switch kind % 6 {
	case 1:
		p.Target = .2
	case 2:
		p.Price, p.MaxGap = 3_000_000, 3600_000
	case 3:
		p.MinGap, p.Bootstrap, p.MaxGap, p.Price = 60_000, 60_000, 60_000, 1
	case 4:
		p.MinGap, p.MaxGap, p.Target = 1, int64(maxMaxGap/1e6), 5
	case 5:
		p.Target, p.MaxGap = 1.2, int64(maxMaxGap/1e6)
	}
	return p
}

// hzSteps are steps of which most make sense.
func hzSteps(rng *rand.Rand, n int) []byte {
	data := make([]byte, 0, 4*n)
	for range n {
		s := []byte{4 + byte(rng.IntN(2))<<3 + 8, 0, 18, 0}
		if rng.IntN(3) == 0 {
			s[0] = 0
		}
		if rng.IntN(8) == 0 {
			binary.LittleEndian.PutUint32(s, rng.Uint32())
		}
		data = append(data, s...)
	}
	return data
}

func FuzzHZ(f *testing.F) {
	for kind := range byte(6) {
		f.Add(kind, hzSteps(rand.New(rand.NewPCG(uint64(kind), 12)), 40))
	}
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		h := newHZ(fuzzHZParams(kind), 1_709_251_200_123)
		if err := driveHZ(h, data, map[string]int{}); err != nil {
			t.Fatal(err)
		}
	})
}

// TestHZRandomSteps is FuzzHZ on random steps.
func TestHZRandomSteps(t *testing.T) {
	seen := map[string]int{}
	for i := range trials(60, 300) {
		rng := rand.New(rand.NewPCG(uint64(i), 13))
		h := newHZ(fuzzHZParams(byte(i)), rng.Int64N(1<<41))
		if err := driveHZ(h, hzSteps(rng, 60), seen); err != nil {
			t.Fatalf("steps %d: %v", i, err)
		}
	}
	for _, mode := range []string{"bootstrap", "locked", "renewal", "outage", "refused"} {
		if seen[mode] < 30 {
			t.Errorf("seen %v", seen)
		}
	}
}

// FuzzHZRestore: a state that passes check goes on without a fault, whatever it is.
func FuzzHZRestore(f *testing.F) {
	for i := range uint64(8) {
		data, _ := json.Marshal(randomHZ(rand.New(rand.NewPCG(i, 10))))
		f.Add(data, hzSteps(rand.New(rand.NewPCG(i, 14)), 10))
	}
	f.Fuzz(func(t *testing.T, state, steps []byte) {
		h := new(hz)
		if json.Unmarshal(state, h) != nil || h.check() != nil {
			return
		}
		if err := driveHZ(h, steps[:min(len(steps), 80)], map[string]int{}); err != nil {
			t.Fatalf("%v from %s", err, state)
		}
	})
}

// TestHZCheck: a state with one wrong value is refused.
func TestHZCheck(t *testing.T) {
	good := trained(targeted(1.3), hzDelay, 1, 60)
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(h *hz){
		"due before the last look": func(h *hz) { h.Due = h.At },
		"due too late":             func(h *hz) { h.Due = h.At + h.Params.MaxGap + 1 },
		"instant":                  func(h *hz) { h.At, h.Due = farAway+1, farAway+5000 },
		"publication later":        func(h *hz) { h.Last = h.At + 1 },
		"no publications":          func(h *hz) { h.Count = 0 },
		"few publications":         func(h *hz) { h.Count = 2 },
		"misses":                   func(h *hz) { h.Misses = -1 },
		"period":                   func(h *hz) { h.Lambda = .5 },
		"negative period":          func(h *hz) { h.Lambda = -1 },
		"renewal unlocked":         func(h *hz) { h.Renewal, h.Lambda = true, 0 },
		"price":                    func(h *hz) { h.Price = -1 },
		"round trip":               func(h *hz) { h.RTT = math.Inf(1) },
		"gap":                      func(h *hz) { h.Gaps[3] = 0 },
		"epochs":                   func(h *hz) { h.Epochs[3] = maxEpochs + 1 },
		"broken window":            func(h *hz) { h.Epochs[len(h.Epochs)-1] = broken },
		"lists":                    func(h *hz) { h.Epochs = h.Epochs[1:] },
		"window":                   func(h *hz) { h.Window = len(h.Gaps) + 1 },
		"phase":                    func(h *hz) { h.Filters[1].Offset = math.NaN() },
		"deviation":                func(h *hz) { h.Filters[2].Dev = -1 },
		"residual":                 func(h *hz) { h.Filters[3].Residuals[0] = math.MaxInt64 },
		"residuals":                func(h *hz) { h.Filters[0].Residuals = make(series, memory+1) },
		"counts":                   func(h *hz) { h.Chain.FS = 0 },
		"looks":                    func(h *hz) { h.Looks[1] = h.Looks[0] },
		"chances":                  func(h *hz) { h.By[0] = 1001 },
		"falling chances":          func(h *hz) { h.By[0], h.By[len(h.By)-1] = h.By[len(h.By)-1], h.By[0] },
		"plan":                     func(h *hz) { h.By = h.By[1:] },
		"gaps":                     func(h *hz) { h.Params.MinGap = 0 },
		"target":                   func(h *hz) { h.Params.Target = .01 },
		"price and target":         func(h *hz) { h.Params.Price = 5 },
	} {
		h := good.clone()
		if spoil(h); h.check() == nil {
			t.Errorf("%s: passes", name)
		}
	}
	for _, text := range []string{`"?"`, `"gA"`, `[1]`} {
		if err := json.Unmarshal([]byte(text), new(series)); err == nil {
			t.Errorf("series %s passes", text)
		}
	}
}

// TestHZOddStates: of states with random values those that pass check go on without a
// fault.
func TestHZOddStates(t *testing.T) {
	passed := 0
	for i := range trials(600, 2000) {
		rng := rand.New(rand.NewPCG(uint64(i), 15))
		h := oddStates[i%len(oddStates)].clone()
		for range 1 + rng.IntN(3) {
			spoil(h, rng)
		}
		if h.check() != nil {
			continue
		}
		passed++
		before, _ := json.Marshal(h)
		if err := driveHZ(h, hzSteps(rng, 12), map[string]int{}); err != nil {
			t.Fatalf("state %d: %v from %s", i, err, before)
		}
	}
	if passed < trials(180, 600) {
		t.Errorf("only %d states pass", passed)
	}
}

var oddStates = func() (hs []*hz) {
	for i := range uint64(20) {
		rng := rand.New(rand.NewPCG(i, 16))
		h := newHZ(fuzzHZParams(byte(i)), 0)
		train(h, irregularSources[i%4].publications(rng, 4+int(i)*4))
		if i%2 == 0 {
			h = randomHZ(rng)
		}
		hs = append(hs, h)
	}
	return hs
}()

// spoil sets one value to a number of any size.
func spoil(h *hz, rng *rand.Rand) {
	x := math.Exp(48 * rng.Float64())
	if rng.IntN(3) == 0 {
		x = math.Exp(-20 * rng.Float64())
	}
	if rng.IntN(4) == 0 {
		x = -x
	}
	n := int64(x)
	one := func(s series) {
		if len(s) > 0 {
			s[rng.IntN(len(s))] = n
		}
	}
	f := &h.Filters[rng.IntN(len(h.Filters))]
	switch rng.IntN(18) {
	case 0:
		h.Lambda = x
	case 1:
		f.Offset = x
	case 2:
		f.Dev = x
	case 3:
		one(f.Residuals)
	case 4:
		f.Residuals = nil
	case 5:
		one(h.Gaps)
	case 6:
		one(h.Epochs)
	case 7:
		h.Window = int(n % memory)
	case 8:
		h.Price = x
	case 9:
		h.RTT = x
	case 10:
		h.Chain.SS, h.Chain.FS = math.Abs(x), 1/math.Abs(x)
	case 11:
		h.Chain.SF, h.Chain.FF = math.Abs(x), math.Abs(x)
	case 12:
		one(h.Looks)
	case 13:
		h.Renewal = !h.Renewal
	case 14:
		h.Misses, h.Count = int(n), int(n)
	case 15:
		h.At += n
		h.Due += n
	case 16:
		h.Last -= n
	case 17:
		h.Params.Price, h.Params.Target = 0, x
	}
}

package dpt

import (
	"bufio"
	"compress/gzip"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// trace reads the publish instants of a file in testdata, ms. Its clock shows whole
// seconds; a part of a second is drawn for each, or a look on the full second would see
// everything at once.
func trace(t *testing.T, name string, seed uint64) []int64 {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 17))
	var instants []float64
	lines := bufio.NewScanner(z)
	lines.Scan() // the column's name
	for lines.Scan() {
		s, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		instants = append(instants, 1000*(float64(s)+rng.Float64()))
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return wholeMillis(instants)
}

// TestHZTraces compares on real sensors, in % of the period: with DPT-N at its load, and
// with what an independent implementation of the rule came to (median, mean, load). The
// mean is not judged here: nearly all of it is the wait after gaps of a day to a fortnight,
// and by how much the last look overshot their end is luck.
func TestHZTraces(t *testing.T) {
	load := .03
	if trials(0, 1) == 0 {
		load = .06 // too short for the controller to make up for its beginning
	}
	for _, c := range []struct {
		name   string
		period float64 // ms
		rows   [][3]float64
	}{
		{"uci_occ_detection", 60_000,
			[][3]float64{{.57, 191, 1.56}, {.96, 192, 1.16}, {1.33, 192, 1.07}}},
		{"uci_occ_estimation", 30_500,
			[][3]float64{{1.57, 661, 1.33}, {2.45, 662, 1.18}, {4.41, 664, 1.04}}},
	} {
		items := trace(t, c.name, 1)
		items = items[:trials(2500, len(items))]
		percent := 100_000 / c.period
		for _, row := range c.rows {
			f := hzFollow(newHZ(traceParams(c.period, row[2]), items[0]-1000), items, 100).figures()
			t.Logf("%s: %.2f/%.0f/%.3f, p95 %.2f %%; before %v", c.name, f.median*percent,
				f.mean*percent, f.ppe, f.p95*percent, row)
			if f.median*percent > 1.1*row[0] || math.Abs(f.ppe-row[2]) > load {
				t.Errorf("%s: median %.2f %%, %.3f polls per publication; before %v", c.name,
					f.median*percent, f.ppe, row)
			}
		}
		p := traceParams(c.period, 0)
		dptn := hzFollow(&trackerRule{Tracker: NewTracker(Params{
			Policy: DPTN, Bootstrap: span(p.Bootstrap), MinGap: span(p.MinGap), MaxGap: span(p.MaxGap),
		}, time.UnixMilli(items[0]-1000)), now: items[0] - 1000}, items, 100).figures()
		f := hzFollow(newHZ(traceParams(c.period, dptn.ppe), items[0]-1000), items, 100).figures()
		t.Logf("%s: %.2f/%.0f/%.3f, p95 %.2f %%; DPT-N %.2f/%.0f/%.3f, p95 %.2f %%", c.name,
			f.median*percent, f.mean*percent, f.ppe, f.p95*percent, dptn.median*percent,
			dptn.mean*percent, dptn.ppe, dptn.p95*percent)
		if f.median > .6*dptn.median || f.p95 > dptn.p95 || f.ppe > max(dptn.ppe, 1)+.05 {
			t.Errorf("%s: %v, DPT-N %v", c.name, f, dptn)
		}
	}
}

// traceParams scale the least gap and the bootstrap with the period, as 1 s and 60 s do
// with 300 s.
func traceParams(period, target float64) hzParams {
	return hzParams{
		Target: target, Bootstrap: int64(period / 5), MinGap: int64(period / 300),
		MaxGap: 4 * 3600_000,
	}
}

package sim

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"
)

func TestReadTrace(t *testing.T) {
	for _, c := range []struct {
		text, want string // seconds after 1000, or the error
		duplicates int
		unordered  bool
	}{
		{"1000.5\n1001.25\n", "0.5 1.25", 0, false},
		{"t,temp\n1000.5,20\n1002,\n", "0.5 2", 0, false},
		{"\ufefft\n1000.5\n", "0.5", 0, false},
		{"\ufeff1000.5\n1003", "0.5 3", 0, false},
		{"1002.5,a\r\n\r\n1000,b,c\r\n", "0 2.5", 0, true},
		{"1000.5\n1000.5\n1001\n1000.5\n", "0.5 1", 2, true},
		{"\"1000.5\", \"x\"y\"\n", `parse error on line 1, column 11: bare "`, 0, false},
		{" 1.0005e3 ,1\n", "0.5", 0, false},
		{"", "no publications", 0, false},
		{"time\n", "no publications", 0, false},
		{"time\nnone\n", `line 2, column 1: unix seconds "none": invalid syntax`, 0, false},
		{"1000\n,5\n", `line 2, column 1: unix seconds "": invalid syntax`, 0, false},
		{"1000\n\n \"x\n", `line 3`, 0, false},
		{"-1\n", `line 1, column 1: unix seconds "-1": must lie in 0 .. 2534`, 0, false},
		{"NaN\n", `line 1, column 1: unix seconds "NaN": must lie`, 0, false},
		{"1000\n1e400\n", `line 2, column 1: unix seconds "1e400": value out of range`, 0, false},
		{"\x1f\x8b nothing", "gzip: invalid header", 0, false},
	} {
		for _, text := range []string{c.text, gzipped(c.text)} {
			tr, err := ReadTrace("a.csv", strings.NewReader(text), 1)
			got := ""
			for _, at := range tr.Instants {
				got += fmt.Sprintf(" %v", at.Sub(time.Unix(1000, 0)).Seconds())
			}
			if err != nil {
				got = " " + err.Error()
			}
			if text == c.text || !strings.HasPrefix(c.text, "\x1f") {
				if !strings.Contains(got, c.want) || err == nil && (got != " "+c.want ||
					tr.Duplicates != c.duplicates || tr.Unordered != c.unordered) {
					t.Errorf("%q: got%s, %d duplicates, unordered %v", c.text, got, tr.Duplicates,
						tr.Unordered)
				}
				if err != nil && !strings.HasPrefix(err.Error(), "trace a.csv: ") {
					t.Errorf("%q: the error names no file: %v", c.text, err)
				}
			}
		}
	}
}

// Whole seconds get a uniform part of a second from the seed, others stay as they are.
func TestDequantised(t *testing.T) {
	var text strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&text, "%d\n", 1_700_000_000+60*i)
	}
	a, err := ReadTrace("a", strings.NewReader(text.String()), 1)
	if err != nil || !a.WholeSeconds {
		t.Fatalf("whole seconds %v, %v", a.WholeSeconds, err)
	}
	same, _ := ReadTrace("a", strings.NewReader(text.String()), 1)
	other, _ := ReadTrace("a", strings.NewReader(text.String()), 2)
	if !slices.Equal(a.Instants, same.Instants) || slices.Equal(a.Instants, other.Instants) {
		t.Error("a seed must give the same instants, another one others")
	}
	var parts []float64
	for i, at := range a.Instants {
		part := at.Sub(time.Unix(int64(1_700_000_000+60*i), 0)).Seconds()
		if part < 0 || part >= 1 {
			t.Fatalf("row %d moved by %v s", i, part)
		}
		parts = append(parts, part)
	}
	mean, sd := stat.MeanStdDev(parts, nil)
	if math.Abs(mean-0.5) > 0.01 || math.Abs(sd-math.Sqrt(1.0/12)) > 0.01 {
		t.Errorf("parts of mean %.3f and deviation %.3f", mean, sd)
	}
	b, err := ReadTrace("b", strings.NewReader(text.String()+"1800000000.25\n"), 1)
	if err != nil || b.WholeSeconds || b.Instants[1].Nanosecond() != 0 {
		t.Errorf("one fraction: whole seconds %v, second instant %v, %v", b.WholeSeconds,
			b.Instants[1], err)
	}
}

// repeated is an endless file.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

func TestTraceBounds(t *testing.T) {
	endless := map[string]string{
		"rows": strings.Repeat("1\n", 1000), "columns": strings.Repeat("7,", 1000),
		"bytes": "1," + strings.Repeat("x", 1000) + "\n",
	}
	for name, text := range endless {
		_, err := ReadTrace("a", &repeated{text: text}, 1)
		if !errors.Is(err, ErrTraceSize) {
			t.Errorf("endless %s: %v", name, err)
		}
		t.Log(err)
	}
}

func FuzzReadTrace(f *testing.F) {
	for _, text := range []string{"t,x\n1000,1\n1060.5,2\n", "1\n2\n2\n", "\"1\n", "\ufeff9e99\n"} {
		f.Add([]byte(text))
		f.Add([]byte(gzipped(text)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		tr, err := ReadTrace("a", bytes.NewReader(data), 1)
		if err != nil {
			return
		}
		for i, at := range tr.Instants {
			if at.Year() < 1970 || at.Year() > 9999 || i > 0 && !at.After(tr.Instants[i-1]) {
				t.Fatalf("instant %d of %d is %v after %v", i, len(tr.Instants), at, tr.Instants[i-1])
			}
		}
		fit, err := FitTraffic(tr)
		if err != nil {
			return
		}
		if _, err := fit.Traffic().Publish(1, Epoch, 10); err != nil {
			t.Fatalf("fitted %+v: %v", fit, err)
		}
	})
}

// TestFitAnything is the latter half of the fuzz target over odd traces: bursts, ties,
// one long gap, no jitter, drift.
func TestFitAnything(t *testing.T) {
	fits := 0
	for i := range int(seedsOf(300, 3000)) {
		rng := rand.New(rand.NewPCG(uint64(i), 9))
		now, instants := 0.0, []time.Time(nil)
		step, spread := math.Exp(10*rng.Float64()), rng.IntN(4)
		for range 20 + rng.IntN(200) {
			switch x := rng.Float64(); {
			case spread == 1 && x < 0.3:
				now += rng.ExpFloat64() * step
			case spread == 2 && x < 0.6:
				now += 1e-6
			case spread == 3 && x < 0.02:
				now += 1e7
			default:
				now += step
			}
			instants = append(instants, Epoch.Add(fromSeconds(now)))
		}
		fit, err := FitTraffic(Trace{Name: "odd", Instants: slices.Compact(instants)})
		if err != nil {
			continue
		}
		fits++
		if _, err := fit.Traffic().Publish(1, Epoch, 10); err != nil {
			t.Errorf("seed %d: %v", i, err)
		}
	}
	t.Logf("%d fits", fits)
	if fits < 150 {
		t.Errorf("only %d traces were fitted", fits)
	}
}

// shipped reads a trace of the repository.
func shipped(t *testing.T, name string) Trace {
	t.Helper()
	file, err := os.Open("../../docs/data/traces/" + name + ".csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	tr, err := ReadTrace(name, file, 1)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

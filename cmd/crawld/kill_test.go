package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/mutant"
	"github.com/crawld/crawld/internal/testbed"
)

// Some hundred descriptions a second, in ranges so short that plans are saved
// between them.
const killConfig = `sensor_files: [list.yaml]
planner: {range: 2s, budget: 15/sensor}
log: {level: debug, format: json}
groups:
  - {id: three, members: [s00, s01, s02, s03, s04, s05, s06, s07], at_least: 3}
  - {id: chain, members: [three, s08], at_least: 1}
`

const killedSensors = 40

// stored is a description of which the daemon has said that it is stored.
type stored struct{ sensor, hash string }

// victim is a data file whose daemon is killed again and again.
type victim struct {
	site
	binary string
	rng    *rand.Rand
	shown  map[stored]bool // by any daemon so far
	logged int             // of them by their logs

	snapshots int // of groups, when last looked
}

func newVictim(t *testing.T, binary string) *victim {
	t.Helper()
	bed, list := newBed(t), "sensors:\n"
	for i := range killedSensors {
		s, err := bed.Add(testbed.Spec{Name: fmt.Sprintf("s%02d", i), Rate: 20})
		if err != nil {
			t.Fatal(err)
		}
		list += fmt.Sprintf("  - {id: %s, uri: %q, rate: 20/s, sleep_plan: always_on}\n",
			s.Name(), s.URI())
	}
	v := &victim{site: newSite(t, killConfig), binary: binary, rng: rand.New(rand.NewPCG(1, 2)),
		shown: map[stored]bool{}}
	v.write("list.yaml", list)
	return v
}

// kill starts the daemon and kills it at a random moment; it returns how long the
// daemon took to be ready.
func (v *victim) kill() (ready time.Duration) {
	v.t.Helper()
	began := time.Now()
	d := v.run(v.binary)
	ready = time.Since(began)
	storedLines := func() (all []stored) {
		for _, l := range d.lines() {
			if l.Msg == "stored" {
				all = append(all, stored{l.Sensor, l.Hash})
			}
		}
		return all
	}
	enough, asked := 20+v.rng.IntN(200), 0
	ok := eventually(func() bool {
		for range 5 {
			v.look(d, fmt.Sprintf("s%02d", asked%killedSensors))
			asked++
		}
		return len(storedLines()) >= enough
	})
	if !ok {
		v.t.Fatalf("too little is stored:\n%s", d.text())
	}
	d.kill()
	for _, s := range storedLines() {
		v.shown[s] = true
		v.logged++
	}
	return ready
}

// look reads what the daemon shows as the version in force.
func (v *victim) look(d *process, sensor string) {
	v.t.Helper()
	shown := decoded[struct {
		Latest *struct{ Hash string }
	}](v.t, d.client, "/api/v1/sensors/"+sensor+"?visits=0")
	if shown.Latest != nil {
		v.shown[stored{sensor, shown.Latest.Hash}] = true
	}
}

// lost opens the file that the daemon left and returns what was shown as stored
// and is not there whole.
func (v *victim) lost() (missing []stored) {
	v.t.Helper()
	r, report := v.left()
	defer r.Close()
	v.snapshots = report.Snapshots
	have := map[stored]bool{}
	for i := range killedSensors {
		sensor := fmt.Sprintf("s%02d", i)
		for before, more := (time.Time{}), true; more; {
			page, err := r.Versions(sensor, before, 0)
			if err != nil {
				v.t.Fatal(err)
			}
			for _, version := range page {
				have[stored{sensor, version.Hash}], before = true, version.At
			}
			more = len(page) > 0
		}
	}
	for s := range v.shown {
		if _, err := r.Body(s.hash); err != nil || !have[s] {
			missing = append(missing, s)
		}
	}
	return missing
}

// Whatever the daemon has shown or logged as stored is there after SIGKILL, whole,
// in a sound file; and it is ready again soon.
func TestKillLosesNothingStored(t *testing.T) {
	t.Parallel()
	v := newVictim(t, binary(t))
	kills := 5
	if os.Getenv("CRAWLD_CI") != "" {
		kills = 25
	}
	slowest := time.Duration(0)
	for i := range kills {
		slowest = max(slowest, v.kill())
		if missing := v.lost(); len(missing) > 0 {
			t.Fatalf("kill %d: of %d stored descriptions %d are lost: %v",
				i+1, len(v.shown), len(missing), missing)
		}
	}
	if v.logged == 0 || len(v.shown) < killedSensors || v.snapshots < 10 {
		t.Errorf("only %d descriptions were shown, %d logged, %d snapshots of groups", len(v.shown),
			v.logged, v.snapshots)
	}
	t.Logf("%d kills, %d descriptions stored, none lost, ready again within %v",
		kills, len(v.shown), slowest.Round(time.Millisecond))
}

// The control: a daemon that says so before it has stored is caught.
func TestKillCatchesEarlyAcknowledgement(t *testing.T) {
	t.Parallel()
	v := newVictim(t, earlyBinary(t))
	for i := range 5 {
		v.kill()
		if missing := v.lost(); len(missing) > 0 {
			t.Logf("kill %d: %d of %d lost", i+1, len(missing), len(v.shown))
			return
		}
	}
	t.Error("five kills did not show that descriptions were acknowledged before their commit")
}

var early struct {
	sync.Once
	path string
	err  error
}

// earlyBinary is a daemon that acknowledges before it has stored.
func earlyBinary(t *testing.T) string {
	t.Helper()
	early.Do(func() {
		early.path, early.err = build("crawld-early", "-overlay", earlyAcknowledgement(t))
	})
	if early.err != nil {
		t.Fatal(early.err)
	}
	return early.path
}

// earlyAcknowledgement writes an overlay for the go command in which the
// repository acknowledges a group, and commits it a moment later.
func earlyAcknowledgement(t *testing.T) string {
	t.Helper()
	file := filepath.Join("..", "..", "internal", "repository", "commit.go")
	overlay, err := mutant.Overlay(t.TempDir(), file,
		mutant.Change{Old: `		var err error
		if len(todo) > 0 {
			err = r.named(r.carryOut(inOrder(todo)))
		}
		for _, o := range group {
			if o.err != nil {
				o.done(o.err)
			} else {
				o.done(err)
			}
		}
`, New: `		for _, o := range group {
			o.done(o.err)
		}
		time.Sleep(50 * time.Millisecond)
		if len(todo) > 0 {
			_ = r.named(r.carryOut(inOrder(todo)))
		}
`}, mutant.Change{Old: "\t\"syscall\"\n", New: "\t\"syscall\"\n\t\"time\"\n"})
	if err != nil {
		t.Fatal(err)
	}
	return overlay
}

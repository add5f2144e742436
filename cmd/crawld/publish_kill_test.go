package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/repository"
)

// publishers publish at the same time, events of 20 objects, while their daemon is killed.
const killPublishers = 8

// market is a data file whose daemon is killed again and again while events are published.
type market struct {
	shop
	binary string
	rng    *rand.Rand
	at     time.Time // of all events
	sent   int       // publications by all so far

	mu    sync.Mutex
	acked map[string]bool // ids of events that were said to be stored
	open  []string        // signed documents that were not answered
	twice int             // events that were said to be new twice
}

func newMarket(t *testing.T, binary string) *market {
	return &market{shop: newShop(t), binary: binary, rng: rand.New(rand.NewPCG(3, 4)),
		at: time.Now().Truncate(time.Second), acked: map[string]bool{}}
}

// publish sends until the daemon is gone, each time two events, and takes down what it says.
func (m *market) publish(d *process, publisher, round int) {
	for i := 0; ; i++ {
		id := fmt.Sprintf("urn:x:%d-%d-%d", round, publisher, i)
		jws := m.sign("acme", epcisDocument(m.t, observed(id+"a", m.at, objectsOf(id)...),
			observed(id+"b", m.at, objectsOf(id)...)))
		if !m.answered(d, jws) {
			return
		}
	}
}

func objectsOf(id string) []string {
	list := make([]string, 20)
	for i := range list {
		list[i] = fmt.Sprintf("%s:%d", id, i)
	}
	return list
}

// answered sends a publication and notes what came of it; false: no answer came.
func (m *market) answered(d *process, jws string) bool {
	status, body, err := d.send(acmeToken, "application/jose", jws)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.open = append(m.open, jws)
		return false
	}
	m.sent++
	var report publishReport
	if err := json.Unmarshal([]byte(body), &report); err != nil || status >= http.StatusBadRequest {
		m.t.Errorf("%d %s", status, body)
	}
	for _, e := range report.Events {
		if e.Stored && m.acked[e.EventID] {
			m.twice++
		}
		m.acked[e.EventID] = true
	}
	return true
}

// kill starts the daemon, publishes again what was not answered, then more, and kills it at
// a random moment.
func (m *market) kill(round int) {
	m.t.Helper()
	d := m.run(m.binary)
	again := m.open
	m.open = nil
	for _, jws := range again {
		if !m.answered(d, jws) {
			m.t.Fatalf("no answer:\n%s", d.text())
		}
	}
	before := m.sent
	var wg sync.WaitGroup
	for i := range killPublishers {
		wg.Go(func() { m.publish(d, i, round) })
	}
	enough := 20 + m.rng.IntN(100)
	ok := eventually(func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.sent >= before+enough
	})
	d.kill()
	wg.Wait()
	if !ok {
		m.t.Fatalf("too little is published:\n%s", d.text())
	}
}

// lost opens the file that the daemon left and returns the events that were acknowledged
// and are not there whole, and how many are there more than once.
func (m *market) lost() (missing []string, twice int) {
	m.t.Helper()
	r, _ := m.left()
	defer r.Close()
	have := map[string]int{}
	for cursor, more := "", true; more; {
		page, next, err := r.Events(discovery.Beginning, discovery.Forever, cursor, 500)
		if err != nil {
			m.t.Fatal(err)
		}
		for _, record := range page {
			have[record.Event.ID]++
			if !m.whole(r, record) {
				missing = append(missing, record.Event.ID)
			}
		}
		cursor, more = next, next != ""
	}
	for id := range m.acked {
		if have[id] == 0 {
			missing = append(missing, id)
		}
	}
	for _, n := range have {
		twice += n - 1
	}
	return missing, twice
}

// whole tells whether each object of an event has one cell of it.
func (m *market) whole(r *repository.Repository, record discovery.Record) bool {
	for _, object := range record.Event.EPCs {
		cells, err := discovery.Newest(r, object, discovery.Beginning, discovery.Forever, 10)
		if err != nil {
			m.t.Fatal(err)
		}
		of := func(c discovery.Cell) bool { return c.EventID == record.Event.ID }
		if len(slices.DeleteFunc(cells, func(c discovery.Cell) bool { return !of(c) })) != 1 {
			return false
		}
	}
	return len(record.Event.EPCs) == 20
}

// Whatever the daemon has said is stored is there after SIGKILL, whole and once, also when
// what was not answered is published again.
func TestKillWhilePublishing(t *testing.T) {
	t.Parallel()
	m := newMarket(t, binary(t))
	kills := 3
	if os.Getenv("CRAWLD_CI") != "" {
		kills = 25
	}
	unanswered := 0
	for i := range kills {
		m.kill(i)
		if missing, twice := m.lost(); len(missing) > 0 || twice > 0 || m.twice > 0 {
			t.Fatalf("kill %d: of %d events %d are lost, %d are there twice, %d were new twice", i+1,
				len(m.acked), len(missing), twice, m.twice)
		}
		unanswered += len(m.open)
	}
	if len(m.acked) < 20*kills || unanswered < kills {
		t.Errorf("only %d events acknowledged, %d publications cut off", len(m.acked), unanswered)
	}
	t.Logf("%d kills, %d events acknowledged, %d publications cut off and published again",
		kills, len(m.acked), unanswered)
}

// The control: a daemon that answers before it has stored is caught.
func TestKillCatchesEarlyPublishAnswer(t *testing.T) {
	t.Parallel()
	m := newMarket(t, earlyBinary(t))
	for i := range 5 {
		m.kill(i)
		if missing, _ := m.lost(); len(missing) > 0 {
			t.Logf("kill %d: %d of %d lost", i+1, len(missing), len(m.acked))
			return
		}
	}
	t.Error("five kills did not show that events were acknowledged before their commit")
}

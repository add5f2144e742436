package repository

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/epcis"
)

// numberedRecords are the n-th publication of the kill test: two events about 20 objects,
// and every seventh declares the error of the one before it.
func numberedRecords(n int64) (records []discovery.Record) {
	var objects []string
	for i := range int64(20) {
		objects = append(objects, fmt.Sprintf("urn:object:%d", (n*7+i*31)%4000))
	}
	pack := newEvent(epcis.Event{Kind: epcis.Aggregation, Action: epcis.Add, EPCs: objects,
		Parent: fmt.Sprintf("urn:box:%d", n%64)}, n)
	ship := newEvent(epcis.Event{Kind: epcis.Object, Action: epcis.Observe, EPCs: objects,
		ID: fmt.Sprintf("urn:ship:%d", n)}, n)
	records = []discovery.Record{{Event: pack, Publisher: "p", Recorded: epoch},
		{Event: ship, Publisher: "p", Recorded: epoch}}
	if n%7 == 0 {
		wrong := records[1]
		wrong.Event.Error = &epcis.ErrorDeclaration{Time: epoch}
		records = append(records, wrong)
	}
	return records
}

// publishNext is storeNext for events: all that it acknowledges it then publishes again.
func publishNext(r *Repository, mode string, seq *atomic.Int64) error {
	n := seq.Add(1)
	if mode == "publish early" {
		fmt.Printf("%d\n", n)
	}
	stored, err := r.Publish(context.Background(), numberedRecords(n))
	if err != nil || slices.Contains(stored, false) {
		return fmt.Errorf("publication %d: stored %v, %w", n, stored, err)
	}
	if mode == "publish early" {
		return nil
	}
	fmt.Printf("%d\n", n)
	stored, err = r.Publish(context.Background(), numberedRecords(n))
	if err != nil || slices.Contains(stored, true) {
		return fmt.Errorf("replay of %d: stored %v, %w", n, stored, err)
	}
	return nil
}

// lostEvents looks for publications that were acknowledged and are not there whole, and for
// events that are there twice. That each has its cells, and no cell is without its event, is
// what Check verifies.
func lostEvents(t *testing.T, path string, acked []int64) (missing []string) {
	t.Helper()
	sound(t, path)
	r, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	have := map[string]int{}
	for cursor, more := "", true; more; more = cursor != "" {
		var page []discovery.Record
		page, cursor, err = r.Events(discovery.Beginning, discovery.Forever, cursor, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range page {
			key := fmt.Sprint(record.Event.EventID(), record.Event.Error != nil)
			if have[key]++; have[key] > 1 {
				t.Errorf("event %s is there twice", key)
			}
		}
	}
	for _, n := range acked {
		for _, record := range numberedRecords(n) {
			key := fmt.Sprint(record.Event.EventID(), record.Event.Error != nil)
			if have[key] == 0 {
				missing = append(missing, key)
			}
		}
	}
	return missing
}

func TestKillLosesNothingPublished(t *testing.T) {
	t.Parallel()
	path := dataFile(t)
	rnd := rand.New(rand.NewPCG(3, 4))
	var acked []int64
	for i := range int64(rounds(5, 25)) {
		acked = append(acked, killed(t, "publish", path, i*1_000_000, 1+rnd.IntN(100))...)
		if missing := lostEvents(t, path, acked); len(missing) > 0 {
			t.Fatalf("kill %d: of %d acknowledged publications are lost: %v", i, len(acked), missing)
		}
	}
	t.Logf("%d publications acknowledged, none lost", len(acked))
}

// The control: a child that acknowledges before it publishes must be caught.
func TestKillCatchesEarlyPublication(t *testing.T) {
	t.Parallel()
	path := dataFile(t)
	for i := range int64(8) {
		acked := killed(t, "publish early", path, i*1_000_000, 30)
		if len(lostEvents(t, path, acked)) > 0 {
			return
		}
	}
	t.Error("eight kills did not show that events were acknowledged before their commit")
}

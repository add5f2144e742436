package repository

import (
	"context"
	"fmt"
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
	r := left(t, path)
	defer r.Close()
	have := map[string]int{}
	for cursor, more := "", true; more; more = cursor != "" {
		page, next, err := r.Events(discovery.Beginning, discovery.Forever, cursor, 0)
		if err != nil {
			t.Fatal(err)
		}
		cursor = next
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
	missing := lostAfterKills(t, "publish", rounds(5, 25), 100, lostEvents)
	if len(missing) > 0 {
		t.Fatalf("acknowledged, but lost: %v", missing)
	}
}

// The control: a child that acknowledges before it publishes must be caught.
func TestKillCatchesEarlyPublication(t *testing.T) {
	t.Parallel()
	if len(lostAfterKills(t, "publish early", 8, 60, lostEvents)) == 0 {
		t.Error("eight kills did not show that events were acknowledged before their commit")
	}
}

package repository

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/crawld/crawld/internal/search"
	"github.com/crawld/crawld/internal/visit"
)

// spoil flips a bit of a stored body while the file is open.
func spoil(t *testing.T, r *Repository, body string) {
	t.Helper()
	sum := sha256.Sum256([]byte(body))
	err := r.wait(t.Context(), &op{apply: func(t *transaction) error {
		row := bytes.Clone(t.bodies.Get(sum[:hashLen]))
		row[len(row)-1] ^= 1
		return t.bodies.Put(sum[:hashLen], row)
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// onRecord is what the bucket has, once all that is queued is committed.
func onRecord(t *testing.T, r *Repository) (keys []string) {
	t.Helper()
	if err := r.wait(t.Context(), &op{apply: func(*transaction) error { return nil }}); err != nil {
		t.Fatal(err)
	}
	err := r.view(func(tx *bbolt.Tx) error {
		if b := tx.Bucket([]byte("quarantine")); b != nil {
			return b.ForEach(func(k, _ []byte) error {
				keys = append(keys, hex.EncodeToString(k))
				return nil
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// ward is a repository beside a slow twin of its quarantine.
type ward struct {
	*testing.T
	r              *Repository
	path           string
	at             time.Time
	damaged, found map[string]bool // bodies; found since they were damaged

	served, refused, healed, reopened int
}

func (w *ward) fetch(sensor, body string, unchanged bool) {
	w.at = w.at.Add(time.Second)
	write := described(sensor, body, w.at)
	if unchanged { // as one that is fetched in full and has the known hash
		write.Outcome.Result = visit.Unchanged
	}
	store(w, w.r, write)
	if w.found[body] {
		w.healed++
	}
	delete(w.damaged, body)
	delete(w.found, body)
}

func (w *ward) read(body string) {
	w.Helper()
	got, err := w.r.Body(hashOf(body))
	if !w.damaged[body] {
		if w.served++; err != nil || string(got) != body {
			w.Fatalf("%s: %q, %v", body, got, err)
		}
		return
	}
	w.found[body] = true
	if w.refused++; !errors.Is(err, ErrHash) || got != nil {
		w.Fatalf("%s: served %q, %v", body, got, err)
	}
}

// compare holds what the repository tells against the twin.
func (w *ward) compare(bodies, sensors []string) {
	w.Helper()
	var want []string
	for body := range w.found {
		want = append(want, hashOf(body)[:2*hashLen])
	}
	slices.Sort(want)
	w.r.countDamaged()
	inForce := 0
	for _, s := range sensors {
		if latest, ok, err := w.r.Latest(s); err != nil {
			w.Fatal(err)
		} else if ok && slices.Contains(want, latest.Hash[:2*hashLen]) {
			inForce++
		}
	}
	if len(w.r.Troubles()) != min(1, inForce) || w.r.quarantine.inForce.Load() != int64(inForce) {
		w.Fatalf("%v, but %d are in force", w.r.Troubles(), inForce)
	}
	if got := w.r.Quarantined(); !slices.Equal(got, want) || w.r.Stats().Quarantined != len(want) {
		w.Fatalf("in quarantine %v, want %v", got, want)
	}
	for _, body := range bodies {
		if w.r.Damaged(hashOf(body)) != w.found[body] {
			w.Fatalf("%s: damaged is not %v", body, w.found[body])
		}
	}
	for _, s := range sensors {
		versions, err := w.r.Versions(s, time.Time{}, 5)
		if err != nil {
			w.Fatal(err)
		}
		for _, v := range versions {
			if v.Damaged != slices.Contains(want, v.Hash[:2*hashLen]) {
				w.Fatalf("%s: version %s is marked %v", s, v.Hash, v.Damaged)
			}
		}
	}
}

func (w *ward) reopen() {
	w.Helper()
	if err := w.r.Close(); err != nil {
		w.Fatal(err)
	}
	var err error
	if w.r, err = Open(w.path, Options{}); err != nil {
		w.Fatal(err)
	}
	w.reopened++
}

// Reads, damage, fetches and restarts at random: a damaged body is never served, is in
// quarantine from its first read until it is stored again, and its versions are marked.
func TestQuarantine(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 2))
	w := &ward{T: t, path: dataFile(t), at: epoch, damaged: map[string]bool{},
		found: map[string]bool{}}
	var err error
	if w.r, err = Open(w.path, Options{}); err != nil {
		t.Fatal(err)
	}
	sensors, bodies := []string{"a", "b", "c"}, []string{}
	for i := range 6 {
		bodies = append(bodies, fmt.Sprintf("</%d>;title=\"body\"", i))
		w.fetch(pick(rnd, sensors), bodies[i], false)
	}
	for range rounds(500, 20000) {
		body := pick(rnd, bodies)
		switch n := rnd.IntN(20); {
		case n < 4 && !w.damaged[body]:
			spoil(t, w.r, body)
			w.damaged[body] = true
		case n < 7:
			w.fetch(pick(rnd, sensors), body, rnd.IntN(2) == 0)
		case n == 7:
			w.reopen()
		default:
			w.read(body)
		}
		w.compare(bodies, sensors)
	}
	if got := onRecord(t, w.r); len(got) != len(w.found) {
		t.Errorf("on record: %v, found %v", got, w.found)
	}
	for _, body := range bodies {
		w.fetch("a", body, false)
	}
	w.compare(bodies, sensors)
	if got := onRecord(t, w.r); len(got) > 0 {
		t.Errorf("on record although all is well: %v", got)
	}
	// Terms of damaged descriptions could not be taken out of the index.
	_, err = w.r.Reindex(t.Context())
	if err = errors.Join(err, w.r.Close()); err != nil {
		t.Fatal(err)
	}
	sound(t, w.path)
	if min(w.served, w.refused, w.healed, w.reopened) < 10 {
		t.Errorf("%d served, %d refused, %d healed, %d restarts", w.served, w.refused, w.healed,
			w.reopened)
	}
}

// A description that was damaged when the index was made is found once it has come again,
// and until then every search says that it lacks one.
func TestQuarantineAndIndex(t *testing.T) {
	path, _ := sample(t)
	r, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	find := func(hits, unreadable int) {
		t.Helper()
		q := search.Query{Attrs: []search.Attr{{Name: "href", Value: "/c"}}}
		found, err := r.Search(q, nil, "", 0)
		if err != nil || len(found.Hits) != hits || found.Unreadable != unreadable {
			t.Errorf("%+v, %v", found, err)
		}
	}
	find(1, 0)
	spoil(t, r, "</c>")
	if _, err := r.Reindex(t.Context()); err != nil {
		t.Fatal(err)
	}
	find(0, 1)
	w := described("b", "</c>", epoch.Add(2*time.Hour))
	w.Outcome.Result = visit.Unchanged
	store(t, r, w)
	find(1, 0)
}

// Whoever meets a damaged body tells: a search, and the making of a group's snapshot. Check
// counts what is in quarantine, and what is damaged is a problem as ever.
func TestQuarantineByOthers(t *testing.T) {
	for name, meet := range map[string]func(r *Repository) error{
		"search": func(r *Repository) error {
			found, err := r.Search(search.Query{Sensor: "b"}, nil, "", 0)
			if err == nil && found.Unreadable != 1 {
				err = fmt.Errorf("%+v", found)
			}
			return err
		},
		"group": func(r *Repository) error {
			return r.SetGroups(t.Context(), []Group{{ID: "g", AtLeast: 1, Members: []Member{
				{ID: "a", URI: "coap://[::1]/"}, {ID: "b", URI: "coap://[::1]/"}}}}, epoch)
		},
	} {
		path, _ := sample(t)
		r, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		spoil(t, r, "</c>")
		if err := meet(r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		r.Survey(t.Context())
		if !r.Damaged(hashOf("</c>")) || len(onRecord(t, r)) != 1 || len(r.Troubles()) != 1 {
			t.Errorf("%s: %v, on record %v", name, r.Quarantined(), onRecord(t, r))
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		report, err := Check(path, Options{})
		if err != nil || report.Quarantined != 1 || len(report.Problems) != 1 {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
	}
}

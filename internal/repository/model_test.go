package repository

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/crawld/crawld/internal/visit"
)

const modelKeep = 5

// model is the repository as maps.
type model struct {
	sensors map[string]*modelSensor
	bodies  map[string]string // by hash
	plans   map[int64]string
	fleet   string
}

type modelSensor struct {
	versions map[int64]Version
	visits   map[int64]visit.Outcome
	inForce  *Version
	verified time.Time
	etag     []byte
	record   string
}

func newModel() *model {
	return &model{sensors: map[string]*modelSensor{}, bodies: map[string]string{},
		plans: map[int64]string{}}
}

func (m *model) sensor(id string) *modelSensor {
	if m.sensors[id] == nil {
		m.sensors[id] = &modelSensor{versions: map[int64]Version{}, visits: map[int64]visit.Outcome{}}
	}
	return m.sensors[id]
}

func (m *model) store(w Write) {
	s, o := m.sensor(w.Outcome.Sensor), w.Outcome
	at := o.Ended.Truncate(time.Microsecond)
	if o.Result == visit.Described || o.Result == visit.Unchanged {
		if o.Body != nil {
			hash := hashOf(string(o.Body))
			m.bodies[hash] = string(o.Body)
			if s.inForce == nil || s.inForce.Hash != hash {
				v := Version{Sensor: o.Sensor, At: at, Hash: hash, Size: len(o.Body), Format: o.Format,
					ETag: o.NewETag, Verdict: o.Verdict, Links: o.Links}
				for s.versions[v.At.UnixMicro()].Hash != "" {
					v.At = v.At.Add(time.Microsecond)
				}
				s.versions[v.At.UnixMicro()] = v
				s.inForce = &v
			}
		}
		if s.inForce != nil && (o.Hash == "" || o.Hash == s.inForce.Hash) {
			s.verified = at
			if o.NewETag != nil || o.Result == visit.Described {
				s.etag = o.NewETag
			}
		}
	}
	us := at.UnixMicro()
	for s.visits[us].Sensor != "" {
		us++
	}
	o.Body = nil
	s.visits[us] = o
	for _, old := range slices.Sorted(maps.Keys(s.visits)) {
		if len(s.visits) > modelKeep && old != us {
			delete(s.visits, old)
		}
	}
	if w.Record != nil {
		s.record = string(w.Record)
	}
}

func (m *model) plan(at time.Time, plan string) {
	m.plans[at.UnixMicro()] = plan
	for i, us := range newestFirst(m.plans) {
		if us > at.UnixMicro() || i >= keepPlans && us != at.UnixMicro() {
			delete(m.plans, us)
		}
	}
}

func newestFirst[V any](rows map[int64]V) []int64 {
	keys := slices.Sorted(maps.Keys(rows))
	slices.Reverse(keys)
	return keys
}

// differs compares all answers of the repository with the model's.
func (m *model) differs(r *Repository, rnd *rand.Rand) error {
	for id, s := range m.sensors {
		if err := s.differs(r, id, rnd); err != nil {
			return fmt.Errorf("sensor %q: %w", id, err)
		}
	}
	for hash, body := range m.bodies {
		if got, err := r.Body(hash); err != nil || string(got) != body {
			return fmt.Errorf("body %s: got %q, %v", hash, got, err)
		}
	}
	var got, want []string
	err := r.States(func(id string, record []byte) error {
		got = append(got, id+"="+string(record))
		return nil
	})
	for _, id := range slices.Sorted(maps.Keys(m.sensors)) {
		if rec := m.sensors[id].record; rec != "" {
			want = append(want, id+"="+rec)
		}
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		return fmt.Errorf("states: %s %w", d, err)
	}
	start, plan, ok, err := r.Plan()
	if starts := newestFirst(m.plans); ok != (len(starts) > 0) || err != nil ||
		ok && (start.UnixMicro() != starts[0] || string(plan) != m.plans[starts[0]]) {
		return fmt.Errorf("plan: got %v %q %v %w", start, plan, ok, err)
	}
	if fleet, err := r.Fleet(); err != nil || string(fleet) != m.fleet {
		return fmt.Errorf("fleet: got %q, want %q: %w", fleet, m.fleet, err)
	}
	if st := r.Stats(); st.Sensors != len(m.sensors) || st.Bodies != len(m.bodies) {
		return fmt.Errorf("stats %+v: want %d sensors, %d bodies", st, len(m.sensors), len(m.bodies))
	}
	return nil
}

func (s *modelSensor) differs(r *Repository, id string, rnd *rand.Rand) error {
	latest, ok, err := r.Latest(id)
	if err != nil || ok != (s.inForce != nil) {
		return fmt.Errorf("latest: %v, %w", ok, err)
	}
	if ok {
		v := *s.inForce
		v.ETag = s.etag
		if d := cmp.Diff(Latest{v, s.verified}, latest); d != "" {
			return errors.New("latest: " + d)
		}
	}
	limit, before := 1+rnd.IntN(6), epoch.Add(time.Duration(rnd.IntN(1000))*time.Microsecond)
	var want []Version
	for _, us := range newestFirst(s.versions) {
		if us < before.UnixMicro() && len(want) < limit {
			want = append(want, s.versions[us])
		}
	}
	versions, err := r.Versions(id, before, limit)
	if d := cmp.Diff(want, versions); d != "" || err != nil {
		return fmt.Errorf("versions before %v: %s %w", before, d, err)
	}
	var wantVisits []visit.Outcome
	for _, us := range newestFirst(s.visits) {
		wantVisits = append(wantVisits, s.visits[us])
	}
	visits, err := r.Visits(id, 0)
	if d := cmp.Diff(wantVisits, visits, cmpopts.EquateEmpty()); d != "" || err != nil {
		return fmt.Errorf("visits: %s %w", d, err)
	}
	return nil
}

// subject is what the model is held against: the repository, or a mutant of it.
type subject struct {
	*Repository
	store func(Write) error
	close func() error
}

func faithful(r *Repository) subject {
	return subject{r, func(w Write) error { return r.Store(context.Background(), w) }, r.Close}
}

// randomWrite takes few values, so that they meet: ids that are prefixes of each
// other, one microsecond twice, the clock set back, one body for many.
func randomWrite(rnd *rand.Rand) Write {
	ids := []string{"a", "a\x00", "a\x00\xff", "a\x00\x01", "b", strings.Repeat("\x00", maxSensor)}
	at := epoch.Add(time.Duration(rnd.IntN(1000)) * time.Microsecond)
	w := described(ids[rnd.IntN(len(ids))], "", at)
	o := &w.Outcome
	o.Result = visit.Results()[rnd.IntN(len(visit.Results()))]
	o.Body = bytes.Repeat([]byte(fmt.Sprintf("</%d>,", rnd.IntN(4))), rnd.IntN(3)*20)
	o.Hash = hashOf(string(o.Body))
	o.NewETag = [][]byte{nil, {1}, {2, 3}}[rnd.IntN(3)]
	o.Format, o.Links = rnd.IntN(3)-1, rnd.IntN(300)
	if o.Result != visit.Described && rnd.IntN(2) == 0 {
		o.Body = nil
	}
	if o.Result == visit.Unchanged && o.Body == nil && rnd.IntN(2) == 0 {
		o.Hash = ""
	}
	if rnd.IntN(2) == 0 {
		w.Record = fmt.Appendf(nil, "record %d", rnd.IntN(1000))
	}
	return w
}

// step does one random thing to both.
func step(s subject, m *model, rnd *rand.Rand) error {
	ctx := context.Background()
	at := epoch.Add(time.Duration(rnd.IntN(12)) * time.Hour)
	text := fmt.Sprint(rnd.IntN(1000))
	switch rnd.IntN(10) {
	case 0:
		m.plan(at, text)
		return s.PutPlan(ctx, at, []byte(text))
	case 1:
		m.fleet = text
		return s.PutFleet(ctx, []byte(text))
	case 2:
		m.fleet = text
		m.plan(at, text)
		m.sensor("a").record, m.sensor("saved").record = text, text
		return s.Save(ctx, []byte(text), &PlanRow{at, []byte(text)},
			map[string][]byte{"a": []byte(text), "saved": []byte(text)})
	case 3:
		results := make(chan error, 40)
		for range cap(results) {
			w := randomWrite(rnd)
			m.store(w)
			s.StoreAsync(w, func(err error) { results <- err })
		}
		var all error
		for range cap(results) {
			all = errors.Join(all, <-results)
		}
		return all
	default:
		w := randomWrite(rnd)
		m.store(w)
		return s.store(w)
	}
}

// history runs random steps on a new file, reopening it now and then, and
// returns where repository and model part.
func history(t *testing.T, seed uint64, of func(*Repository) subject) error {
	rnd := rand.New(rand.NewPCG(seed, 7))
	path := dataFile(t)
	m := newModel()
	for reopened := range 4 {
		r, err := Open(path, Options{KeepVisits: modelKeep})
		if err != nil {
			return err
		}
		s := of(r)
		err = m.differs(r, rnd)
		for range 25 {
			if err == nil {
				err = step(s, m, rnd)
			}
		}
		if err == nil && reopened%2 == 0 {
			err = m.differs(r, rnd)
		}
		if err = errors.Join(err, s.close()); err != nil {
			return err
		}
		sound(t, path)
	}
	return nil
}

func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(rounds(12, 60)) {
		if err := history(t, seed, faithful); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// The control: a repository that acknowledges before it commits, and loses at
// close what it has not committed, must be told from the model.
func TestModelCatchesEarlyAcknowledgement(t *testing.T) {
	t.Parallel()
	mutant := func(r *Repository) subject {
		var pending []Write
		return subject{r, func(w Write) error {
			if pending = append(pending, w); len(pending) < 4 {
				return nil
			}
			for _, w := range pending {
				if err := r.Store(context.Background(), w); err != nil {
					return err
				}
			}
			pending = nil
			return nil
		}, r.Close}
	}
	if err := history(t, 1, mutant); err == nil {
		t.Error("acknowledging before the commit was not noticed")
	}
}

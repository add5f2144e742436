package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/linkformat"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/search"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// modelVisits is how many visits the repository of the model check keeps of a sensor.
const modelVisits = 4

var modelBodies = []string{`</a>;rt="warm"`, `</a>;rt="cold",</b>;rt="warm cold"`, `</c>;if="x"`, ``}

// told is what a model knows of one sensor.
type told struct {
	versions []oneVersion // as they were made
	verified time.Time
	visits   int
	source   time.Time // that the planner should hold
	stored   time.Time // the same as of its last stored record
}

// oneVersion is a description and when it was first seen.
type oneVersion struct {
	at   time.Time
	body string
}

// ring is planner and repository as the loop joins them, beside a model that remembers
// everything in maps.
type ring struct {
	t     *rapid.T
	path  string
	repo  *repository.Repository
	p     *planner.Planner
	par   planner.Parameters
	fleet *fleet.Fleet
	now   time.Time
	plans map[uint64][]byte
	model map[string]*told
	lie   bool                // the model forgets a version: it must be noticed
	begun planner.FleetRecord // as it was last saved
}

func modelParameters() planner.Parameters {
	return planner.Parameters{Range: 10 * time.Minute, Tick: 100 * time.Millisecond, Step: 1,
		GuardAuto: true, PerSensor: 3, Capacity: 2, Polling: dpt.Params{Policy: dpt.DPTN,
			Bootstrap: time.Minute, MinGap: 5 * time.Second, MaxGap: 10 * time.Minute}}
}

// list draws a listing of some of eight sensors, whose plans, caps and rates change too.
func (r *ring) list() {
	var list []fleet.Sensor
	for i := range 8 {
		kind := rapid.IntRange(0, 5).Draw(r.t, "listed as")
		s := fleet.Sensor{ID: fmt.Sprintf("s%d", i), URI: fmt.Sprintf("coap://192.0.2.%d/", i+1),
			Weight: 1, MaxCrawls: fleet.NoCap, Rate: 1.0 / 120, Plan: sleepplan.AlwaysOn()}
		switch kind {
		case 0:
			continue
		case 1:
			s.Plan = sleepplan.Unknown()
		case 2, 3:
			plan, err := sleepplan.Cycle(time.Duration(kind)*time.Minute, 20*time.Second, r.now)
			if err != nil {
				r.t.Fatal(err)
			}
			s.Plan = plan
		case 4:
			s.MaxCrawls, s.Rate = 1, 1.0/30
		}
		list = append(list, s)
	}
	if len(list) == 0 {
		return // a daemon without sensors is refused by its configuration
	}
	f, err := fleet.New(list)
	if err != nil {
		r.t.Fatal(err)
	}
	r.fleet = f
}

// open starts the planner with what the repository holds.
func (r *ring) open() {
	var err error
	if r.repo, err = repository.Open(r.path, repository.Options{KeepVisits: modelVisits}); err != nil {
		r.t.Fatal(err)
	}
	saved := planner.Saved{Sensors: map[string][]byte{}}
	if saved.Fleet, err = r.repo.Fleet(); err != nil {
		r.t.Fatal(err)
	}
	if _, saved.Plan, _, err = r.repo.Plan(); err != nil {
		r.t.Fatal(err)
	}
	err = r.repo.States(func(id string, record []byte) error {
		saved.Sensors[id] = record
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if r.p, err = planner.New(r.fleet, r.par, saved, r.now); err != nil {
		r.t.Fatal(err)
	}
	r.begun = planner.FleetRecord{}
	for id, m := range r.model {
		m.source = time.Time{}
		if _, listed := r.fleet.Find(id); listed && !m.stored.IsZero() {
			m.source = m.stored
			if m.source.After(r.now) {
				m.source = r.now
			}
		}
	}
}

// restart ends the process, in an orderly way or not.
func (r *ring) restart(orderly bool) {
	if orderly {
		r.save()
	}
	if err := r.repo.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.open()
}

func (r *ring) save() {
	rec := r.p.Running()
	var row *repository.PlanRow
	if plan := r.plans[rec.Version]; plan != nil {
		row = &repository.PlanRow{Start: rec.Range, Plan: plan}
	}
	if err := r.repo.Save(context.Background(), r.p.FleetRecord(), row, nil); err != nil {
		r.t.Fatal(err)
	}
	r.begun = rec
}

// reload lists other sensors.
func (r *ring) reload() {
	old := r.fleet
	r.list()
	r.p.Replace(r.fleet, r.now)
	for id, m := range r.model {
		_, was := old.Find(id)
		if _, is := r.fleet.Find(id); !was || !is {
			m.source = time.Time{}
		}
	}
}

// jump sets the clock.
func (r *ring) jump() {
	by := rapid.SampledFrom([]time.Duration{time.Hour, -time.Hour, 365 * 24 * time.Hour,
		-365 * 24 * time.Hour, 90 * time.Second}).Draw(r.t, "jump")
	r.now = r.now.Add(by)
	r.p.Jump(by, r.now)
	for _, m := range r.model {
		if m.source.After(r.now) {
			m.source = m.source.Add(by)
		}
	}
}

// crawl goes on to the next visits and makes them.
func (r *ring) crawl() {
	for range rapid.IntRange(1, 12).Draw(r.t, "turns") {
		if snap, ok := r.p.Problem(r.now); ok {
			plan, err := snap.Solve(1)
			if err != nil {
				r.t.Fatal(err)
			}
			if r.plans[plan.Version()], err = plan.Encode(); err != nil {
				r.t.Fatal(err)
			}
			r.p.Adopt(plan, r.now)
		}
		if rec := r.p.Running(); !rec.Range.Equal(r.begun.Range) || rec.Version != r.begun.Version {
			r.save()
		}
		v, ok, wake := r.p.Next(r.now)
		switch {
		case !ok:
			r.now = wake
		case !v.Deadline.After(r.now):
			r.take(planner.Missed(v, r.now), "")
		default:
			r.visit(v)
		}
	}
}

func (r *ring) visit(v visit.Visit) {
	body := rapid.SampledFrom(modelBodies).Draw(r.t, "body")
	sum := sha256.Sum256([]byte(body))
	o := visit.Outcome{Visit: v, Started: r.now, Ended: r.now.Add(time.Second), Contact: true,
		Format: 40, Code: "2.05", Hash: hex.EncodeToString(sum[:]), Verdict: "valid"}
	switch rapid.IntRange(0, 5).Draw(r.t, "outcome") {
	case 0:
		o.Result, o.Reason = visit.Asleep, "timeout"
		o.Contact, o.Hash = false, ""
	case 1:
		o.Result, o.Reason, o.Hash = visit.Failed, "block", ""
	case 2:
		o.Result, o.Body = visit.Unchanged, []byte(body)
		if m := r.model[v.Sensor]; v.Known != "" && len(m.versions) > 0 && v.Known != o.Hash {
			body = m.versions[len(m.versions)-1].body // a 2.03 confirms what is in force
			o.Code, o.Hash, o.Body = "2.03", v.Known, nil
		} else if v.Known == "" {
			o.Result = visit.Described
		}
	default:
		o.Result, o.Body = visit.Described, []byte(body)
	}
	if rapid.IntRange(0, 9).Draw(r.t, "store") == 0 && o.Result.Success() {
		r.unstored(o)
		return
	}
	r.take(o, body)
}

// unstored is a success that the repository could not commit.
func (r *ring) unstored(o visit.Outcome) {
	r.now = o.Ended
	r.p.Observe(o, r.now)
	o.Result, o.Reason = visit.Failed, planner.NotStored
	r.p.Observe(o, r.now)
}

// take hands an outcome to planner, repository and model.
func (r *ring) take(o visit.Outcome, body string) {
	r.now = o.Ended
	rec := r.p.Observe(o, r.now)
	if rec == nil {
		return // passed while the daemon was down, and the sensor has left meanwhile
	}
	err := r.repo.Store(context.Background(), repository.Write{Outcome: o, Record: rec.Encode()})
	if err != nil {
		r.t.Fatal(err)
	}
	m := r.model[o.Sensor]
	m.visits++
	if o.Result.Success() {
		m.source, m.verified = o.Started, o.Ended
		if n := len(m.versions); n == 0 || m.versions[n-1].body != body {
			m.versions = append(m.versions, oneVersion{o.Ended, body})
		}
		if r.lie && len(m.versions) > 2 {
			m.versions = m.versions[1:]
		}
	}
	m.stored = m.source
}

// check compares all that can be asked with the model. It returns the first difference.
func (r *ring) check() error {
	for id, m := range r.model {
		if err := errors.Join(r.checkHistory(id, m), r.checkPlan(id, m)); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
	}
	if st := r.p.Status(r.now); st.Remaining < 0 || st.Remaining > 0 && st.Spent+st.Remaining > st.Theta {
		return fmt.Errorf("%d spent, %d planned, budget %d", st.Spent, st.Remaining, st.Theta)
	}
	for _, text := range []string{"rt=warm", "rt!=warm", "if=x", ""} {
		if err := r.checkSearch(text); err != nil {
			return err
		}
	}
	return nil
}

func (r *ring) checkHistory(id string, m *told) error {
	versions, err := r.repo.Versions(id, time.Time{}, 1000)
	if err != nil {
		return err
	}
	want := slices.Clone(m.versions) // by instant, newest first; clocks may have been set back
	slices.Reverse(want)
	slices.SortStableFunc(want, func(a, b oneVersion) int { return b.at.Compare(a.at) })
	var hashes, wanted []string
	for _, v := range versions {
		hashes = append(hashes, v.Hash)
	}
	for _, v := range want {
		sum := sha256.Sum256([]byte(v.body))
		wanted = append(wanted, hex.EncodeToString(sum[:]))
	}
	if diff := cmp.Diff(wanted, hashes); diff != "" {
		return fmt.Errorf("history (-model +store):\n%s", diff)
	}
	visits, err := r.repo.Visits(id, 1000)
	if err != nil || len(visits) != min(m.visits, modelVisits) {
		return fmt.Errorf("%d visits kept of %d: %v", len(visits), m.visits, err)
	}
	latest, ok, err := r.repo.Latest(id)
	if err != nil || ok != (len(m.versions) > 0) {
		return fmt.Errorf("described %v: %v", ok, err)
	}
	if !ok {
		return nil
	}
	body, err := r.repo.Body(latest.Hash)
	if want := m.versions[len(m.versions)-1].body; err != nil || string(body) != want ||
		!latest.Verified.Equal(m.verified.Truncate(time.Microsecond)) {
		return fmt.Errorf("in force %q of %v, want %q of %v: %v", body, latest.Verified, want, m.verified, err)
	}
	return nil
}

// checkPlan holds a sensor's record to freshness, window, cap and range.
func (r *ring) checkPlan(id string, m *told) error {
	rec := r.p.Record(id)
	i, listed := r.fleet.Find(id)
	if (rec != nil) != listed {
		return fmt.Errorf("planned %v, listed %v", rec != nil, listed)
	}
	if !listed {
		return nil
	}
	if !rec.Source.Equal(m.source) {
		return fmt.Errorf("last success %v, want %v", rec.Source, m.source)
	}
	s, end := r.fleet.At(i), r.p.Status(r.now).End
	_, hides := s.Plan.KnownUntil()
	for k, at := range rec.Instants {
		if !at.Before(end) || k > 0 && !rec.Instants[k-1].Before(at) || !hides && !s.Plan.Awake(at) {
			return fmt.Errorf("planned at %v, range ends %v", rec.Instants, end)
		}
	}
	if s.MaxCrawls >= 0 && rec.Used+len(rec.Instants) > s.MaxCrawls && len(rec.Instants) > 0 {
		return fmt.Errorf("%d made, %d planned, cap %d", rec.Used, len(rec.Instants), s.MaxCrawls)
	}
	return nil
}

// checkSearch compares a search with a scan of the model.
func (r *ring) checkSearch(text string) error {
	q, err := search.Parse(text)
	if err != nil {
		return err
	}
	found, err := r.repo.Search(q, nil, "", 1000)
	if err != nil {
		return err
	}
	var got, want []string
	for _, h := range found.Hits {
		got = append(got, fmt.Sprint(h.Sensor, " ", h.Number, " ", h.Link.Target))
	}
	for i := range 8 {
		id := fmt.Sprintf("s%d", i)
		m := r.model[id]
		if len(m.versions) == 0 {
			continue
		}
		doc := linkformat.Parse([]byte(m.versions[len(m.versions)-1].body))
		for n, l := range doc.Links {
			if q.Matches(l) {
				want = append(want, fmt.Sprint(id, " ", n, " ", l.Target))
			}
		}
		if len(doc.Links) == 0 && q.OfSensor() {
			want = append(want, fmt.Sprint(id, " ", -1, " "))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("%q (-model +found):\n%s", text, diff)
	}
	return nil
}

// modelSteps plays one sequence. lie has the model forget, as the control.
func modelSteps(t *rapid.T, dir string, lie bool) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	r := &ring{t: t, path: filepath.Join(dir, "crawld.db"), par: modelParameters(), lie: lie,
		now: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC), plans: map[uint64][]byte{}, model: map[string]*told{}}
	for i := range 8 {
		r.model[fmt.Sprintf("s%d", i)] = &told{}
	}
	for r.fleet == nil {
		r.list()
	}
	r.open()
	defer func() { err = errors.Join(err, r.repo.Close()) }()
	for range rapid.IntRange(1, 12).Draw(t, "steps") {
		switch rapid.IntRange(0, 7).Draw(t, "step") {
		case 0:
			r.reload()
		case 1:
			r.restart(true)
		case 2:
			r.restart(false)
		case 3:
			r.jump()
		default:
			r.crawl()
		}
		if err := r.check(); err != nil {
			return err
		}
	}
	return nil
}

// Whatever is listed, crawled, lost, restarted and set in whatever order: plan, freshness,
// history and search are those of a model that remembers everything.
func TestRingAgainstModel(t *testing.T) {
	if os.Getenv("CRAWLD_CI") != "" {
		checks := flag.Lookup("rapid.checks").Value
		defer checks.Set(checks.String())
		n := "1000"
		if os.Getenv("CRAWLD_SOAK") != "" {
			n = "2000"
		}
		if err := checks.Set(n); err != nil {
			t.Fatal(err)
		}
	}
	sequences := 0
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		sequences++
		if err := modelSteps(t, filepath.Join(dir, strconv.Itoa(sequences)), false); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%d sequences", sequences)
}

// A model that forgets a version is one that the store does not agree with.
func TestModelNoticesALostVersion(t *testing.T) {
	dir := t.TempDir()
	for seed := range 300 {
		err := rapid.Custom(func(t *rapid.T) error {
			return modelSteps(t, filepath.Join(dir, strconv.Itoa(seed)), true)
		}).Example(seed)
		if err != nil && strings.Contains(err.Error(), "history (-model +store)") {
			t.Logf("noticed in sequence %d", seed)
			return
		}
	}
	t.Error("not noticed in 300 sequences")
}

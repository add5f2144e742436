package repository

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.etcd.io/bbolt"

	"github.com/crawld/crawld/internal/linkformat"
	"github.com/crawld/crawld/internal/visit"
)

// groupTwin is what groups must come to, told from all that was stored.
type groupTwin struct {
	groups    []Group
	versions  map[string]twinVersion // by sensor
	snapshots map[string][]Snapshot  // by group, oldest first
	bodies    map[string]string      // of snapshots, by group and instant
}

type twinVersion struct {
	at    time.Time
	hash  string
	text  string // as it stands in a snapshot
	links int
}

// twinBodies are descriptions and what becomes of them in a snapshot; H is the host.
var twinBodies = []struct {
	body   string
	format int
	text   string
	links  int
}{
	{"", 40, "", 0},
	{`</a>;rt="x",<b>;obs`, 40,
		`<coap://H/a>;rt="x";anchor="coap://H",<coap://H/b>;obs;anchor="coap://H"`, 2},
	{`</c>;ct=40;rel=item;anchor="/d"`, 40, `<coap://H/c>;ct=40;rel=item;anchor="coap://H/d"`, 1},
	{`</e> ; if=s`, 40, `<coap://H/e>;if=s;anchor="coap://H"`, 1},
	{`no links`, 40, `<coap://H/x>;sz=8;ct=40;anchor="coap://H"`, 1},
	{`[{"n":"t","v":1}]`, 110, `<coap://H/x>;sz=17;ct=110;anchor="coap://H"`, 1},
	{`plain`, -1, `<coap://H/x>;sz=5;anchor="coap://H"`, 1},
}

func (m *groupTwin) store(o visit.Outcome, body int) {
	b := twinBodies[body]
	if v, known := m.versions[o.Sensor]; known && v.hash == o.Hash {
		return
	}
	host := "[2001:db8::" + o.Sensor[1:] + "]"
	m.versions[o.Sensor] = twinVersion{o.Ended, o.Hash, strings.ReplaceAll(b.text, "H", host), b.links}
}

// republish makes the snapshots that are due at that instant, the groups being in an order
// in which members come first.
func (m *groupTwin) republish(at time.Time, order []int) {
	for _, i := range order {
		g := m.groups[i]
		var last Snapshot
		if all := m.snapshots[g.ID]; len(all) > 0 {
			last = all[len(all)-1]
		}
		var s Snapshot
		var texts []string
		news := 0
		for _, member := range g.Members {
			p := Part{ID: member.ID, Group: member.Group}
			text, links := "", 0
			if all := m.snapshots[member.ID]; member.Group && len(all) > 0 {
				newest := all[len(all)-1]
				p.At, p.Hash, links = newest.At, newest.Hash, newest.Links
				text = m.bodies[fmt.Sprint(member.ID, newest.At)]
			} else if v, known := m.versions[member.ID]; !member.Group && known {
				p.At, p.Hash, text, links = v.at, v.hash, v.text, v.links
			} else {
				continue
			}
			s.Parts, s.Links = append(s.Parts, p), s.Links+links
			if text != "" {
				texts = append(texts, text)
			}
			if !slices.Contains(last.Parts, p) {
				news++
			}
		}
		if news < g.AtLeast {
			continue
		}
		body := strings.Join(texts, ",")
		s.At = at
		if !last.At.IsZero() && !at.After(last.At) {
			s.At = last.At.Add(time.Microsecond)
		}
		for _, p := range s.Parts {
			if p.Group && p.At.After(s.At) {
				s.At = p.At
			}
		}
		s.Sensor, s.Hash, s.Size, s.Format, s.Verdict = g.ID, hashOf(body), len(body), 40, "valid"
		m.snapshots[g.ID] = append(m.snapshots[g.ID], s)
		m.bodies[fmt.Sprint(g.ID, s.At)] = body
	}
}

// differs compares what the repository has with the twin's.
func (m *groupTwin) differs(r *Repository) error {
	for id, all := range m.snapshots {
		want := slices.Clone(all)
		slices.Reverse(want)
		got, err := r.Snapshots(id, time.Time{}, 0)
		opts := cmp.Options{cmpopts.IgnoreFields(Snapshot{}, "Event"), cmpopts.EquateEmpty()}
		if d := cmp.Diff(want[:min(len(want), maxPage)], got, opts); d != "" || err != nil {
			return fmt.Errorf("group %s: %s %w", id, d, err)
		}
		for _, s := range want {
			body, err := r.Body(s.Hash)
			if err != nil || string(body) != m.bodies[fmt.Sprint(id, s.At)] {
				return fmt.Errorf("group %s at %v: body %q, %w", id, s.At, body, err)
			}
			parsed := linkformat.Parse(body)
			if parsed.Verdict != linkformat.Valid || len(parsed.Links) != s.Links {
				return fmt.Errorf("group %s: %s is %s with %d links, not %d", id, body, parsed.Verdict,
					len(parsed.Links), s.Links)
			}
		}
	}
	return incomplete(r, m.groups)
}

// incomplete tells groups whose condition holds although they have not been republished.
func incomplete(r *Repository, groups []Group) error {
	var all error
	for _, g := range groups {
		status, ok, err := r.Group(g.ID)
		if err != nil || !ok || status.New >= g.AtLeast {
			all = errors.Join(all, fmt.Errorf("group %s: %v %w, %d of %d new", g.ID, ok, err,
				status.New, g.AtLeast))
		}
	}
	return all
}

// randomGroups draws groups of sensors s0 .. s5 and of each other, members first.
func randomGroups(rnd *rand.Rand) []Group {
	groups := make([]Group, rnd.IntN(5))
	for i := range groups {
		g := Group{ID: fmt.Sprintf("g%d", i)}
		for s := range 6 {
			if rnd.IntN(2) == 0 {
				g.Members = append(g.Members, Member{ID: fmt.Sprintf("s%d", s),
					URI: fmt.Sprintf("coap://[2001:db8::%d%%25eth0]/x", s)})
			}
		}
		for j := range i {
			if rnd.IntN(2) == 0 {
				g.Members = append(g.Members, Member{ID: fmt.Sprintf("g%d", j), Group: true})
			}
		}
		if len(g.Members) == 0 {
			g.Members = []Member{{ID: "s0", URI: "coap://[2001:db8::0]/x"}}
		}
		g.AtLeast = 1 + rnd.IntN(len(g.Members))
		groups[i] = g
	}
	return groups
}

// groupHistory runs random writes against repository and twin and returns where they part.
func groupHistory(t *testing.T, seed uint64, mutate func(*groupTwin)) (made, nested int,
	err error) {
	rnd := rand.New(rand.NewPCG(seed, 9))
	path := dataFile(t)
	m := &groupTwin{versions: map[string]twinVersion{}, snapshots: map[string][]Snapshot{},
		bodies: map[string]string{}}
	for range 3 {
		r, err := Open(path, Options{})
		if err != nil {
			return 0, 0, err
		}
		err = m.steps(r, rnd, mutate)
		if err = errors.Join(err, r.Close()); err != nil {
			return 0, 0, err
		}
		sound(t, path)
	}
	for _, all := range m.snapshots {
		made += len(all)
		for _, s := range all {
			if slices.ContainsFunc(s.Parts, func(p Part) bool { return p.Group }) {
				nested++
			}
		}
	}
	return made, nested, nil
}

func (m *groupTwin) steps(r *Repository, rnd *rand.Rand, mutate func(*groupTwin)) error {
	ctx := context.Background()
	var order []int
	replace := func(at time.Time) error {
		m.groups = randomGroups(rnd)
		order = order[:0]
		for i := range m.groups {
			order = append(order, i)
		}
		m.republish(at, order)
		given := slices.Clone(m.groups)
		rnd.Shuffle(len(given), func(i, j int) { given[i], given[j] = given[j], given[i] })
		return r.SetGroups(ctx, given, at)
	}
	err := replace(epoch)
	for n := 0; n < 60 && err == nil; n++ {
		at := epoch.Add(time.Duration(rnd.IntN(500)) * time.Microsecond) // it jumps
		if rnd.IntN(15) == 0 {
			err = replace(at)
		} else {
			err = r.Store(ctx, m.write(rnd, at, order))
		}
		if mutate != nil {
			mutate(m)
		}
		if err == nil && n%10 == 0 {
			err = m.differs(r)
		}
	}
	return errors.Join(err, m.differs(r))
}

// write draws an outcome and lets the twin have it.
func (m *groupTwin) write(rnd *rand.Rand, at time.Time, order []int) Write {
	sensor, i := fmt.Sprintf("s%d", rnd.IntN(7)), rnd.IntN(len(twinBodies))
	w := described(sensor, twinBodies[i].body, at)
	w.Outcome.Format = twinBodies[i].format
	if w.Outcome.Result = visit.Results()[rnd.IntN(4)]; w.Outcome.Result.Success() {
		if v, known := m.versions[sensor]; known && !at.After(v.at) {
			w.Outcome.Ended = v.at.Add(time.Hour) // no two versions at one instant: not tested here
		}
		m.store(w.Outcome, i)
		m.republish(w.Outcome.Ended, order)
	}
	return w
}

func TestGroupsTwin(t *testing.T) {
	t.Parallel()
	made, nested := 0, 0
	for seed := range uint64(rounds(12, 100)) {
		n, k, err := groupHistory(t, seed, nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		made, nested = made+n, nested+k
	}
	if made < 250 || nested < 50 {
		t.Errorf("only %d snapshots, %d with groups in them", made, nested)
	}
}

// The control: a snapshot too few is noticed.
func TestGroupsTwinCatchesALostSnapshot(t *testing.T) {
	t.Parallel()
	_, _, err := groupHistory(t, 1, func(m *groupTwin) {
		for id, all := range m.snapshots {
			if len(all) == 3 {
				m.snapshots[id] = all[:2]
			}
		}
	})
	if err == nil {
		t.Error("a lost snapshot was not noticed")
	}
}

// Writes that share transactions leave no group behind.
func TestGroupsInSharedTransactions(t *testing.T) {
	t.Parallel()
	var told []Republication
	r := open(t, dataFile(t), Options{OnRepublish: func(p Republication) { told = append(told, p) }})
	if err := r.SetGroups(t.Context(), numberedGroups(), epoch); err != nil {
		t.Fatal(err)
	}
	const writes = 2000
	results := make(chan error, writes)
	for n := range int64(writes) {
		r.StoreAsync(numbered(n), func(err error) { results <- err })
	}
	for range writes {
		if err := <-results; err != nil {
			t.Fatal(err)
		}
	}
	if err := incomplete(r, numberedGroups()); err != nil {
		t.Error(err)
	}
	stored := 0
	for _, g := range numberedGroups() {
		list, err := r.Snapshots(g.ID, time.Time{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		stored += len(list)
	}
	if len(told) != stored || stored < 4 {
		t.Errorf("%d snapshots, told of %d", stored, len(told))
	}
}

// numberedGroups are of the sensors of the kill test.
func numberedGroups() []Group {
	sensors := func(from, to int) (list []Member) {
		for i := from; i < to; i++ {
			list = append(list, Member{ID: fmt.Sprintf("urn:dev:%d", i), URI: "coap://h/"})
		}
		return list
	}
	return []Group{
		{ID: "low", Members: sensors(0, 8), AtLeast: 3},
		{ID: "high", Members: sensors(8, 16), AtLeast: 1},
		{ID: "all", Members: []Member{{ID: "low", Group: true}, {ID: "high", Group: true}}, AtLeast: 2},
		{ID: "every", Members: sensors(0, 16), AtLeast: 16},
	}
}

// After a kill no outcome is there without the snapshots that it completes: the file is
// sound, and no group's condition holds.
func TestKillLeavesGroupsWhole(t *testing.T) {
	t.Parallel()
	path := dataFile(t)
	rnd := rand.New(rand.NewPCG(1, 3))
	for i := range int64(rounds(5, 25)) {
		killed(t, "groups", path, i*1_000_000, 1+rnd.IntN(200))
		if err := afterKill(t, path); err != nil {
			t.Fatalf("kill %d: %v", i, err)
		}
	}
}

func afterKill(t *testing.T, path string) error {
	t.Helper()
	sound(t, path)
	r, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	g, err := newGrouping(numberedGroups())
	if err != nil {
		t.Fatal(err)
	}
	r.groups.Store(g)
	return incomplete(r, numberedGroups())
}

// The control: a child that makes its snapshots in a transaction of their own is caught.
func TestKillCatchesLateSnapshots(t *testing.T) {
	t.Parallel()
	path := dataFile(t)
	for i := range int64(8) {
		killed(t, "late", path, i*1_000_000, 60)
		if afterKill(t, path) != nil {
			return
		}
	}
	t.Error("eight kills left no group behind")
}

// A member whose body is damaged is left out, and does not count.
func TestGroupWithDamagedMember(t *testing.T) {
	path := dataFile(t)
	r := open(t, path, Options{})
	store(t, r, described("a", "</a>", epoch), described("b", "</b>", epoch))
	hash := hashOf("</a>")
	sum, err := parseHash(hash)
	if err != nil {
		t.Fatal(err)
	}
	var good []byte
	damage := func(row func(old []byte) []byte) {
		t.Helper()
		err := r.db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte("bodies"))
			good = bytes.Clone(b.Get(sum[:hashLen]))
			return b.Put(sum[:hashLen], row(good))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	damage(func(old []byte) []byte { return append(bytes.Clone(old), 'x') })
	whole := good
	member := func(id string) Member { return Member{ID: id, URI: "coap://" + id + "/"} }
	groups := []Group{{ID: "both", Members: []Member{member("a"), member("b")}, AtLeast: 2},
		{ID: "any", Members: []Member{member("a"), member("b")}, AtLeast: 1}}
	if err := r.SetGroups(t.Context(), groups, epoch); err != nil {
		t.Fatal(err)
	}
	if list, err := r.Snapshots("both", time.Time{}, 0); err != nil || len(list) != 0 {
		t.Errorf("made of a damaged body: %+v, %v", list, err)
	}
	list, err := r.Snapshots("any", time.Time{}, 0)
	if err != nil || len(list) != 1 || len(list[0].Parts) != 1 || list[0].Parts[0].ID != "b" {
		t.Fatalf("%+v, %v", list, err)
	}
	if r.Stats().HashMismatches != 2 {
		t.Errorf("%+v", r.Stats())
	}
	damage(func([]byte) []byte { return whole })
	store(t, r, described("b", "</b2>", epoch.Add(time.Second)))
	if list, err = r.Snapshots("both", time.Time{}, 0); err != nil || len(list) != 1 {
		t.Errorf("after it was healed: %+v, %v", list, err)
	}
}

// What is too large is told and leaves the outcomes alone.
func TestGroupTooLarge(t *testing.T) {
	var told []Republication
	r := open(t, dataFile(t), Options{OnRepublish: func(p Republication) { told = append(told, p) }})
	g := Group{ID: "g", AtLeast: 3}
	for _, id := range []string{"a", "b", "c"} {
		g.Members = append(g.Members, Member{ID: id, URI: "coap://" + id + "/"})
	}
	if err := r.SetGroups(t.Context(), []Group{g}, epoch); err != nil {
		t.Fatal(err)
	}
	for _, m := range g.Members {
		w := described(m.ID, m.ID+strings.Repeat("x", maxSnapshot/2), epoch)
		w.Outcome.Format = 0
		store(t, r, w)
	}
	if len(told) != 1 || told[0].Err == nil || told[0].Sensor != "g" ||
		!strings.Contains(told[0].Err.Error(), `group "g": its members' descriptions have more than`) {
		t.Errorf("%+v", told)
	}
	if list, err := r.Snapshots("g", time.Time{}, 0); err != nil || len(list) != 0 {
		t.Errorf("%d snapshots, %v", len(list), err)
	}
	store(t, r, described("c", "</c>", epoch.Add(time.Second)), described("b", "</b>", epoch))
	if len(told) != 3 || told[2].Err != nil || len(told[2].Parts) != 3 {
		t.Errorf("then %d: %+v", len(told), told[len(told)-1].Err)
	}
}

// The event behind a snapshot is the newest publication that its last member tells, if that
// can be true.
func TestGroupEvent(t *testing.T) {
	var told []Republication
	r := open(t, dataFile(t), Options{OnRepublish: func(p Republication) { told = append(told, p) }})
	groups := []Group{{ID: "g", AtLeast: 1, Members: []Member{{ID: "a", URI: "coap://a/"}}},
		{ID: "h", AtLeast: 1, Members: []Member{{ID: "g", Group: true}}}}
	if err := r.SetGroups(t.Context(), groups, epoch); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct{ published, want time.Duration }{
		{-time.Minute, 0},                   // the first description tells no event
		{9 * time.Second, 9 * time.Second},  // newer than the last success
		{9 * time.Second, 20 * time.Second}, // shown before, or the sensor's clock is wrong
		{time.Hour, 30 * time.Second},       // in the future
		{35 * time.Second, 35 * time.Second},
	} {
		at := epoch.Add(time.Duration(i*10) * time.Second)
		w := described("a", fmt.Sprintf("</%d>", i), at)
		w.Outcome.PublishedAt = []time.Time{epoch.Add(c.published - time.Second), epoch.Add(c.published)}
		told = nil
		store(t, r, w)
		if len(told) != 2 || told[0].Sensor != "g" || told[1].Sensor != "h" {
			t.Fatalf("%d: told %+v", i, told)
		}
		for _, p := range told {
			if !p.Event.Equal(epoch.Add(c.want)) || p.At.Before(at) {
				t.Errorf("%d: group %s at %v, event %v, want %v", i, p.Sensor, p.At.Sub(epoch),
					p.Event.Sub(epoch), c.want)
			}
		}
	}
}

func TestSetGroupsRefuses(t *testing.T) {
	r := open(t, dataFile(t), Options{})
	a, self := []Member{{ID: "a"}}, []Member{{ID: "g", Group: true}}
	one := Group{ID: "g", Members: a, AtLeast: 1}
	for says, groups := range map[string][]Group{
		`group "": sensor id of 0 bytes`:      {{Members: a, AtLeast: 1}},
		`group "g": given twice`:              {one, one},
		`group "g": at least 0 of 1 members`:  {{ID: "g", Members: a}},
		`group "g": at least 2 of 1 members`:  {{ID: "g", Members: a, AtLeast: 2}},
		`group "g": is a member of itself`:    {{ID: "g", Members: self, AtLeast: 1}},
		`group "h": at least -1 of 0 members`: {{ID: "h", AtLeast: -1}},
	} {
		err := r.SetGroups(t.Context(), groups, epoch)
		if err == nil || !strings.Contains(err.Error(), says) || len(r.Groups()) != 0 {
			t.Errorf("%v, want %s; groups %v", err, says, r.Groups())
		}
	}
}

// Check tells a snapshot whose parts, body or row are gone.
func TestCheckFindsWrongSnapshots(t *testing.T) {
	remove := func(bucket string, nth int) func(tx *bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			c := tx.Bucket([]byte(bucket)).Cursor()
			k, _ := c.First()
			for range nth {
				k, _ = c.Next()
			}
			return tx.Bucket([]byte(bucket)).Delete(bytes.Clone(k))
		}
	}
	for _, c := range []struct {
		edit func(tx *bbolt.Tx) error
		says string
	}{
		{remove("versions", 0), `its part "a"`},
		{remove("snapshots", 0), `its part "g"`},
		{remove("bodies", 0), "is not stored"},
		{remove("bodies", 1), "is not stored"},
		{func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("snapshots")).Put(rowKey(sensorKey("g"), 1), []byte{1, 2})
		}, "a row of snapshots cannot be read"},
	} {
		path := dataFile(t)
		r, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		groups := []Group{{ID: "g", AtLeast: 1, Members: []Member{{ID: "a", URI: "coap://a/"}}},
			{ID: "h", AtLeast: 1, Members: []Member{{ID: "g", Group: true}}}}
		if err := r.SetGroups(t.Context(), groups, epoch); err != nil {
			t.Fatal(err)
		}
		store(t, r, described("a", "</a>", epoch))
		err = errors.Join(r.db.Update(c.edit), r.Close())
		report, err2 := Check(path, Options{})
		if all := strings.Join(report.Problems, "\n"); err != nil || err2 != nil ||
			!strings.Contains(all, c.says) {
			t.Errorf("want %q, got %q, %v %v", c.says, all, err, err2)
		}
	}
}

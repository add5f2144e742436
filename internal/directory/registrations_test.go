package directory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/linkformat"
	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/sleepplan"
)

// trials is the number of random steps, larger where time is set aside.
func trials(quick, full int) int {
	if os.Getenv("CRAWLD_CI") != "" {
		return full
	}
	return quick
}

// model is what registrations should be: a map, and the rules in one line each.
type model struct {
	held      map[string]held // by "endpoint/sector"
	next      uint64
	forgetful bool // the negative control: registering anew does not renew the lifetime
}

type held struct {
	number  uint64
	source  string
	base    string
	expires time.Time
}

func (m *model) register(key, source, base string, expires, now time.Time) error {
	h, again := m.held[key]
	if again && h.source != source && h.expires.After(now) {
		return ErrForbidden
	}
	if !again {
		h.number, m.next = m.next, m.next+1
	}
	if again && m.forgetful {
		expires = h.expires
	}
	m.held[key] = held{h.number, source, base, expires}
	return nil
}

func (m *model) find(number uint64) (key string, h held, ok bool) {
	for key, h := range m.held {
		if h.number == number {
			return key, h, true
		}
	}
	return "", held{}, false
}

func (m *model) owned(number uint64, source string, now time.Time) (string, held, error) {
	key, h, ok := m.find(number)
	switch {
	case !ok || !h.expires.After(now):
		return key, h, ErrUnknown
	case h.source != source:
		return key, h, ErrForbidden
	}
	return key, h, nil
}

// history plays random registrations, updates, removals, expiries and restarts against the
// model and returns where they part.
func history(t *testing.T, seed uint64, steps int, forgetful bool) (
	counts map[string]int, fault string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	path := filepath.Join(t.TempDir(), "crawld.db")
	repo, err := repository.Open(path, repository.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = repo.Close() }()
	regs, err := LoadRegistrations(repo)
	if err != nil {
		t.Fatal(err)
	}
	none, _ := fleet.New(nil)
	m := &model{held: map[string]held{}, next: 1, forgetful: forgetful}
	now, counts := time.Unix(1e9, 0), map[string]int{}
	ctx := context.Background()
	for step := range steps {
		now = now.Add(time.Duration(rng.IntN(30)) * time.Second)
		peer := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(rng.IntN(3))}), 5683)
		lifetime := time.Duration(1+rng.IntN(300)) * time.Second
		number := uint64(1 + rng.IntN(int(m.next)))
		if all := regs.All(); len(all) > 0 && rng.IntN(5) > 0 {
			number = all[rng.IntN(len(all))].Number
		}
		var got, want error
		op := []string{"register", "register", "update", "remove", "expire", "restart"}[rng.IntN(6)]
		switch op {
		case "register":
			g := Registering{Endpoint: fmt.Sprint("e", rng.IntN(5)), Base: baseOf(peer),
				Sector: []string{"", "d"}[rng.IntN(2)], Lifetime: lifetime, Source: peer,
				Payload: []byte("</x>"), Links: linkformat.Parse([]byte("</x>"))}
			var reg repository.Registration
			reg, got = regs.Register(ctx, g, none, now)
			key := g.Endpoint + "/" + g.Sector
			want = m.register(key, peer.Addr().String(), g.Base, expiry(now, lifetime), now)
			if got == nil && reg.Number != m.held[key].number {
				return counts, fmt.Sprintf("step %d: number %d", step, reg.Number)
			}
		case "update":
			_, got = regs.Update(ctx, Updating{Number: number, Lifetime: lifetime, Source: peer}, now)
			var key string
			var h held
			if key, h, want = m.owned(number, peer.Addr().String(), now); want == nil {
				h.expires, h.base = expiry(now, lifetime), baseOf(peer)
				m.held[key] = h
			}
		case "remove":
			got = regs.Remove(ctx, number, peer.Addr(), now)
			var key string
			if key, _, want = m.owned(number, peer.Addr().String(), now); want == nil {
				delete(m.held, key)
			}
		case "expire":
			_, _, got = regs.Expire(ctx, now)
			for key, h := range m.held {
				if !h.expires.After(now) {
					delete(m.held, key)
				}
			}
		case "restart":
			if rng.IntN(5) > 0 {
				continue
			}
			if err := repo.Close(); err != nil {
				t.Fatal(err)
			}
			if repo, err = repository.Open(path, repository.Options{}); err != nil {
				t.Fatal(err)
			}
			if regs, err = LoadRegistrations(repo); err != nil {
				t.Fatal(err)
			}
		}
		if !errors.Is(got, want) || got != nil && want == nil {
			return counts, fmt.Sprintf("step %d: %s: %v, want %v", step, op, got, want)
		}
		counts[op+fmt.Sprint(want == nil)]++
		if diff := cmp.Diff(m.list(), list(regs)); diff != "" {
			return counts, fmt.Sprintf("step %d: %s: (-want +got)\n%s", step, op, diff)
		}
	}
	return counts, ""
}

func (m *model) list() (all []string) {
	for key, h := range m.held {
		all = append(all, fmt.Sprint(h.number, key, h.source, h.base, h.expires))
	}
	slices.Sort(all)
	return all
}

func list(b *Registrations) (all []string) {
	for _, r := range b.All() {
		all = append(all, fmt.Sprint(r.Number, r.Endpoint+"/"+r.Sector, r.Source, r.Base, r.Expires))
	}
	slices.Sort(all)
	return all
}

func TestRegistrationsAreAMap(t *testing.T) {
	counts, fault := history(t, 1, trials(2000, 40000), false)
	if fault != "" {
		t.Fatal(fault)
	}
	for _, kind := range []string{"registertrue", "registerfalse", "updatetrue", "updatefalse",
		"removetrue", "removefalse", "expiretrue", "restarttrue"} {
		if counts[kind] < 20 {
			t.Errorf("only %d of %s", counts[kind], kind)
		}
	}
	if _, fault := history(t, 1, 2000, true); fault == "" {
		t.Error("a model that is wrong is not found out")
	}
}

// Every endpoint and sector has its own id, none is longer than a fleet allows.
func TestSensorIDsAreDistinct(t *testing.T) {
	names := []string{"a", "a?d=b", "a/b", "a%2Fb", "b", "?", "a?d=", "rd:a", "é", "a b",
		string(make([]byte, maxName))}
	seen := map[string][2]string{}
	for _, ep := range names {
		for _, d := range append([]string{""}, names...) {
			id := SensorID(ep, d)
			if was, twice := seen[id]; twice {
				t.Errorf("%q: %q and %q, %q", id, was, ep, d)
			}
			seen[id] = [2]string{ep, d}
			if _, err := fleet.New([]fleet.Sensor{{ID: id, URI: "coap://127.0.0.1",
				Plan: sleepplan.Unknown()}}); err != nil {
				t.Error(err)
			}
		}
	}
}

// What the network says never takes the place of a listed sensor, whatever its id is.
func TestListedSensorsAreNotShadowed(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	ids := []string{"a", "b", "rd:a", "rd:b", "rd:a?d=b", "a?d=b"}
	cases := 0
	for range trials(2000, 20000) {
		var sensors []fleet.Sensor
		for _, id := range ids {
			if rng.IntN(2) == 0 {
				sensors = append(sensors, fleet.Sensor{ID: id, Plan: sleepplan.AlwaysOn(),
					URI: fmt.Sprintf("coap://10.0.0.%d/", rng.IntN(3))})
			}
		}
		listed, err := fleet.New(sensors)
		if err != nil {
			t.Fatal(err)
		}
		b := &Registrations{byNumber: map[uint64]repository.Registration{}}
		for n := range uint64(4) {
			source := fmt.Sprintf("10.0.0.%d", rng.IntN(3))
			b.byNumber[n] = repository.Registration{Number: n, Source: source, Base: "coap://" + source,
				Endpoint: ids[rng.IntN(len(ids))], Sector: fmt.Sprint(n)}
		}
		f, err := b.Join(listed)
		if err != nil {
			t.Fatal(err)
		}
		if d := fleet.Compare(listed, f); len(d.Changed)+len(d.Removed) > 0 {
			t.Fatalf("%+v", d)
		} else if len(d.Added) > 0 {
			cases++
		}
		for _, reg := range b.byNumber {
			i, taken := listed.Find(reg.Endpoint)
			bound := Bind(reg, listed)
			if foreign := taken && literal(listed.At(i).URI) != reg.Source; foreign && !bound.Shadowed {
				t.Fatalf("%+v counts although %+v is listed", reg, listed.At(i))
			}
		}
	}
	if cases < 100 {
		t.Errorf("only %d fleets had registered sensors", cases)
	}
}

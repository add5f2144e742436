package directory

import (
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

// book are registrations in a file beside the model of them.
type book struct {
	t    *testing.T
	rng  *rand.Rand
	path string
	repo *repository.Repository
	regs *Registrations
	m    *model
	now  time.Time
}

func newBook(t *testing.T, seed uint64, forgetful bool) *book {
	t.Helper()
	b := &book{t: t, rng: rand.New(rand.NewPCG(seed, 3)), now: time.Unix(1e9, 0),
		path: filepath.Join(t.TempDir(), "crawld.db"),
		m:    &model{held: map[string]held{}, next: 1, forgetful: forgetful}}
	b.open()
	return b
}

func (b *book) open() {
	b.t.Helper()
	var err error
	if b.repo, err = repository.Open(b.path, repository.Options{}); err == nil {
		b.regs, err = LoadRegistrations(b.repo)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// register is a random registration from there, as it came out and as it should.
func (b *book) register(from netip.AddrPort, lifetime time.Duration) (got, want error) {
	none, _ := fleet.New(nil)
	g := Registering{Endpoint: fmt.Sprint("e", b.rng.IntN(5)), Base: baseOf(from),
		Sector: []string{"", "d"}[b.rng.IntN(2)], Lifetime: lifetime, Source: from,
		Payload: []byte("</x>"), Links: linkformat.Parse([]byte("</x>"))}
	reg, got := b.regs.Register(b.t.Context(), g, none, b.now)
	key := g.Endpoint + "/" + g.Sector
	want = b.m.register(key, from.Addr().String(), g.Base, expiry(b.now, lifetime), b.now)
	if got == nil && reg.Number != b.m.held[key].number {
		return fmt.Errorf("number %d", reg.Number), want
	}
	return got, want
}

func (b *book) update(number uint64, from netip.AddrPort, lifetime time.Duration) (
	got, want error) {
	_, got = b.regs.Update(b.t.Context(),
		Updating{Number: number, Lifetime: lifetime, Source: from}, b.now)
	key, h, want := b.m.owned(number, from.Addr().String(), b.now)
	if want == nil {
		h.expires, h.base = expiry(b.now, lifetime), baseOf(from)
		b.m.held[key] = h
	}
	return got, want
}

func (b *book) remove(number uint64, from netip.AddrPort) (got, want error) {
	got = b.regs.Remove(b.t.Context(), number, from.Addr(), b.now)
	key, _, want := b.m.owned(number, from.Addr().String(), b.now)
	if want == nil {
		delete(b.m.held, key)
	}
	return got, want
}

func (b *book) expire() error {
	_, _, err := b.regs.Expire(b.t.Context(), b.now)
	for key, h := range b.m.held {
		if !h.expires.After(b.now) {
			delete(b.m.held, key)
		}
	}
	return err
}

func (b *book) restart() {
	b.t.Helper()
	if err := b.repo.Close(); err != nil {
		b.t.Fatal(err)
	}
	b.open()
}

// step does one random thing to both; "" is nothing this time.
func (b *book) step() (op string, got, want error) {
	b.t.Helper()
	b.now = b.now.Add(time.Duration(b.rng.IntN(30)) * time.Second)
	from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(b.rng.IntN(3))}), 5683)
	lifetime := time.Duration(1+b.rng.IntN(300)) * time.Second
	number := uint64(1 + b.rng.IntN(int(b.m.next)))
	if all := b.regs.All(); len(all) > 0 && b.rng.IntN(5) > 0 {
		number = all[b.rng.IntN(len(all))].Number
	}
	op = []string{"register", "register", "update", "remove", "expire", "restart"}[b.rng.IntN(6)]
	switch op {
	case "register":
		got, want = b.register(from, lifetime)
	case "update":
		got, want = b.update(number, from, lifetime)
	case "remove":
		got, want = b.remove(number, from)
	case "expire":
		got = b.expire()
	case "restart":
		if b.rng.IntN(5) > 0 {
			return "", nil, nil
		}
		b.restart()
	}
	return op, got, want
}

// history plays random registrations, updates, removals, expiries and restarts against the
// model and returns where they part.
func history(t *testing.T, seed uint64, steps int, forgetful bool) (
	counts map[string]int, fault string) {
	t.Helper()
	b := newBook(t, seed, forgetful)
	defer func() { _ = b.repo.Close() }()
	counts = map[string]int{}
	for step := range steps {
		op, got, want := b.step()
		if op == "" {
			continue
		}
		if !errors.Is(got, want) || got != nil && want == nil {
			return counts, fmt.Sprintf("step %d: %s: %v, want %v", step, op, got, want)
		}
		counts[op+fmt.Sprint(want == nil)]++
		if diff := cmp.Diff(b.m.list(), list(b.regs)); diff != "" {
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

package directory

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// MaxRegistrations bounds them in all: each joins the fleet, which is planned anew for
	// it, and keeps about 1 KB in memory.
	MaxRegistrations = 10000

	maxPayload = 64 << 10 // of a registration, as of a crawled description

	// requestRate is what one source may ask per second, requestBurst at once: a client
	// nearby reads 64 KB in blocks of 16 bytes that fast. What is above gets no answer.
	requestRate, requestBurst = 2000, 4000
	// registerRate and registerBurst are the same for what changes a registration or has a
	// sensor crawled: a commissioning tool brings a house at once, then little.
	registerRate, registerBurst = 1, 50

	// echoLife is how old an Echo may be (RFC 9175 section 2.3): a sensor answers at once.
	echoLife = time.Minute
	// provenLife is how long an address that has shown an Echo is believed: an exchange
	// lifetime (RFC 7252 section 4.8.2), so that the blocks of one answer need one proof.
	provenLife = 247 * time.Second
	// amplification is the longest answer to an unproven address, in lengths of its request.
	amplification = 3

	// maxPeers bounds every table with a row per address.
	maxPeers = 8192
)

// table maps keys to values for a time, in bounded memory: it forgets what has not been
// touched in two generations, one of which ends with its age or when it is full.
type table[K comparable, V any] struct {
	young, old map[K]V
	since      time.Time
	life       time.Duration // of a value, at least; a full table forgets sooner
	limit      int           // rows of a generation
}

func newTable[K comparable, V any](life time.Duration, limit int) *table[K, V] {
	return &table[K, V]{young: map[K]V{}, life: life, limit: limit}
}

func (t *table[K, V]) turn(now time.Time) {
	if age := now.Sub(t.since); age >= 2*t.life || age < 0 {
		t.young, t.old, t.since = map[K]V{}, nil, now
	} else if age >= t.life || len(t.young) >= t.limit {
		t.young, t.old, t.since = map[K]V{}, t.young, now
	}
}

func (t *table[K, V]) get(key K, now time.Time) (V, bool) {
	t.turn(now)
	if v, ok := t.young[key]; ok {
		return v, true
	}
	v, ok := t.old[key]
	return v, ok
}

func (t *table[K, V]) put(key K, v V, now time.Time) {
	t.turn(now)
	delete(t.old, key)
	t.young[key] = v
}

func (t *table[K, V]) remove(key K) {
	delete(t.young, key)
	delete(t.old, key)
}

// gate knows what addresses have proven and used up.
type gate struct {
	key [32]byte // of the Echo values, new with every start

	mu        sync.Mutex
	proven    *table[netip.Addr, time.Time]
	requests  *table[netip.Addr, *rate.Limiter]
	registers *table[netip.Addr, *rate.Limiter]
}

func newGate() *gate {
	g := &gate{
		proven:    newTable[netip.Addr, time.Time](provenLife, maxPeers),
		requests:  newTable[netip.Addr, *rate.Limiter](time.Minute, maxPeers),
		registers: newTable[netip.Addr, *rate.Limiter](time.Minute, maxPeers),
	}
	_, _ = rand.Read(g.key[:]) // never fails
	return g
}

// sourceOf is whom a limit holds for: an IPv6 network has addresses without number.
func sourceOf(a netip.Addr) netip.Addr {
	if a.Is6() {
		p, _ := a.WithZone("").Prefix(64)
		return p.Addr()
	}
	return a
}

// allow takes one from what the source may ask now.
func (g *gate) allow(t *table[netip.Addr, *rate.Limiter], a netip.Addr, perSecond, burst int,
	now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := sourceOf(a)
	l, ok := t.get(key, now)
	if !ok {
		l = rate.NewLimiter(rate.Limit(perSecond), burst)
	}
	t.put(key, l, now)
	return l.AllowN(now, 1)
}

func (g *gate) mayAsk(a netip.Addr, now time.Time) bool {
	return g.allow(g.requests, a, requestRate, requestBurst, now)
}

func (g *gate) mayRegister(a netip.Addr, now time.Time) bool {
	return g.allow(g.registers, a, registerRate, registerBurst, now)
}

// echo is a value that only who receives at the address can send back: the time in seconds,
// and a MAC over it and the address.
func (g *gate) echo(a netip.Addr, now time.Time) string {
	return g.sealed(a, uint32(now.Unix()))
}

func (g *gate) sealed(a netip.Addr, second uint32) string {
	value := binary.BigEndian.AppendUint32(nil, second)
	mac := hmac.New(sha256.New, g.key[:])
	mac.Write(value)
	address := a.As16()
	mac.Write(address[:])
	return string(mac.Sum(value)[:12])
}

// proves takes in the Echo of a request, "" if it has none, and reports whether its sender
// receives what is sent to the address.
func (g *gate) proves(a netip.Addr, echo string, now time.Time) bool {
	fresh := false
	if len(echo) == 12 {
		second := binary.BigEndian.Uint32([]byte(echo))
		age := now.Sub(time.Unix(int64(second), 0))
		fresh = age >= 0 && age < echoLife && hmac.Equal([]byte(echo), []byte(g.sealed(a, second)))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if fresh {
		g.proven.put(a, now, now)
		return true
	}
	at, ok := g.proven.get(a, now)
	return ok && now.Sub(at) < provenLife
}

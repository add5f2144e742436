package directory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/linkformat"
	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// Prefix begins the sensor ids of all registered endpoints that are not listed.
const Prefix = "rd:"

// SensorID is the id under which a registered endpoint is crawled. Every pair has its own.
func SensorID(endpoint, sector string) string {
	id := Prefix + url.PathEscape(endpoint)
	if sector != "" {
		id += "?d=" + url.PathEscape(sector)
	}
	return id
}

// Registrations are all that hold. What they say has been committed. The methods are safe
// for concurrent use.
type Registrations struct {
	repo *repository.Repository

	changing sync.Mutex // held while a change is committed

	mu       sync.RWMutex // guards what follows
	byNumber map[uint64]repository.Registration
	bySensor map[string]uint64 // by SensorID
	last     uint64            // highest number ever given
}

// LoadRegistrations reads what the repository holds. With an error that wraps
// repository.ErrCorrupt come the registrations that can be read.
func LoadRegistrations(repo *repository.Repository) (*Registrations, error) {
	all, last, err := repo.Registrations()
	if err != nil && !errors.Is(err, repository.ErrCorrupt) {
		return nil, err
	}
	b := &Registrations{repo: repo, last: last, byNumber: map[uint64]repository.Registration{},
		bySensor: map[string]uint64{}}
	for _, reg := range all {
		b.byNumber[reg.Number] = reg
		b.bySensor[SensorID(reg.Endpoint, reg.Sector)] = reg.Number
	}
	return b, err
}

// Len is how many there are, expired ones that Expire has not removed among them.
func (b *Registrations) Len() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.byNumber)
}

// All are the registrations in order of their numbers.
func (b *Registrations) All() []repository.Registration {
	b.mu.RLock()
	defer b.mu.RUnlock()
	all := make([]repository.Registration, 0, len(b.byNumber))
	for _, reg := range b.byNumber {
		all = append(all, reg)
	}
	slices.SortFunc(all, func(x, y repository.Registration) int {
		return cmp.Compare(x.Number, y.Number)
	})
	return all
}

// Get returns a registration; false if there is none of that number.
func (b *Registrations) Get(number uint64) (repository.Registration, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	reg, ok := b.byNumber[number]
	return reg, ok
}

// Sensor returns the registration that is crawled under that id.
func (b *Registrations) Sensor(id string) (repository.Registration, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	reg, ok := b.byNumber[b.bySensor[id]] // there is no number 0
	return reg, ok
}

// Register takes a registration in and returns it when it is durable, with the description
// that came with it unless the sensor is a listed one: that is to be fetched from the sensor
// itself. The same endpoint and sector keep their number. ErrForbidden: the name belongs to
// another address. ErrFull: there are MaxRegistrations.
func (b *Registrations) Register(ctx context.Context, g Registering, listed *fleet.Fleet,
	now time.Time) (repository.Registration, error) {
	b.changing.Lock()
	defer b.changing.Unlock()
	reg := repository.Registration{Endpoint: g.Endpoint, Sector: g.Sector, Base: g.Base,
		Explicit: g.Explicit, Lifetime: g.Lifetime, Expires: expiry(now, g.Lifetime),
		Source: g.Source.Addr().String(), Attrs: g.Attrs}
	b.mu.RLock()
	number, again := b.bySensor[SensorID(g.Endpoint, g.Sector)]
	before, count, last := b.byNumber[number], len(b.byNumber), b.last
	b.mu.RUnlock()
	switch {
	case again && before.Source != reg.Source && before.Expires.After(now):
		return reg, fmt.Errorf("ep: %w: another one has it until %s", ErrForbidden,
			before.Expires.UTC().Format(time.RFC3339))
	case !again && count >= MaxRegistrations:
		return reg, fmt.Errorf("%w: %d registrations", ErrFull, count)
	}
	if elsewhere := b.elsewhere(reg); elsewhere >= maxElsewhere {
		return reg, fmt.Errorf("base: %w: others registered it %d times", ErrFull, elsewhere)
	}
	if reg.Number = number; !again {
		reg.Number = last + 1
	}
	bound := Bind(reg, listed)
	if bound.Shadowed {
		return reg, fmt.Errorf("ep: %w: it is a listed sensor's", ErrForbidden)
	}
	var described *repository.Write
	if !g.Simple && !bound.Listed {
		described = &repository.Write{Outcome: g.outcome(bound, now)}
	}
	return reg, b.put(ctx, reg, described)
}

// maxElsewhere bounds how often one address can be registered by others: each registration
// has it looked for, and it may not be there.
const maxElsewhere = 16

// elsewhere counts the other registrations of the same base address that did not come from
// there; none if the endpoint registers itself.
func (b *Registrations) elsewhere(reg repository.Registration) (n int) {
	host := literal(reg.Base)
	if host == reg.Source {
		return 0
	}
	for _, other := range b.All() {
		same := other.Endpoint == reg.Endpoint && other.Sector == reg.Sector
		if !same && literal(other.Base) == host && other.Source != host {
			n++
		}
	}
	return n
}

// outcome is what the endpoint said of itself, as a visit would have found it.
func (g Registering) outcome(bound Bound, now time.Time) visit.Outcome {
	return visit.Outcome{
		Visit: visit.Visit{Sensor: bound.Sensor, URI: bound.Base, At: now, Deadline: now,
			Kind: visit.Announced, Why: "the endpoint registered its links"},
		Result: visit.Described, Contact: true, Body: g.Payload, Format: linkFormat,
		Verdict: string(g.Links.Verdict), Links: len(g.Links.Links), Started: now, Ended: now,
		DatagramsReceived: 1, BytesReceived: len(g.Payload)}
}

func (b *Registrations) put(ctx context.Context, reg repository.Registration,
	w *repository.Write) error {
	if err := b.repo.PutRegistration(ctx, reg, w); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.byNumber[reg.Number] = reg
	b.bySensor[SensorID(reg.Endpoint, reg.Sector)] = reg.Number
	b.last = max(b.last, reg.Number)
	return nil
}

func expiry(now time.Time, lifetime time.Duration) time.Time {
	return now.Add(lifetime).Round(0).UTC()
}

// owned returns a registration that holds and belongs to the address.
func (b *Registrations) owned(number uint64, source netip.Addr,
	now time.Time) (repository.Registration, error) {
	reg, ok := b.Get(number)
	switch {
	case !ok || !reg.Expires.After(now):
		return reg, ErrUnknown
	case reg.Source != source.String():
		return reg, fmt.Errorf("%w: another one registered it", ErrForbidden)
	}
	return reg, nil
}

// Update renews a registration: its lifetime begins anew. A base that was never given
// follows the port that the update came from (RFC 9176 section 5.3.1).
func (b *Registrations) Update(ctx context.Context, u Updating,
	now time.Time) (repository.Registration, error) {
	b.changing.Lock()
	defer b.changing.Unlock()
	reg, err := b.owned(u.Number, u.Source.Addr(), now)
	if err != nil {
		return reg, err
	}
	if u.Lifetime > 0 {
		reg.Lifetime = u.Lifetime
	}
	switch {
	case u.Base != "":
		reg.Base, reg.Explicit = u.Base, true
	case !reg.Explicit:
		reg.Base = baseOf(u.Source)
	}
	if reg.Attrs, err = replaced(reg.Attrs, u.Attrs); err != nil {
		return reg, err
	}
	reg.Expires = expiry(now, reg.Lifetime)
	return reg, b.put(ctx, reg, nil)
}

// replaced are the attributes after an update: of the names that it has only its own stay.
func replaced(have, given []repository.RegistrationAttr) ([]repository.RegistrationAttr, error) {
	var all []repository.RegistrationAttr
	for _, a := range have {
		named := func(g repository.RegistrationAttr) bool { return g.Name == a.Name }
		if !slices.ContainsFunc(given, named) {
			all = append(all, a)
		}
	}
	if all = append(all, given...); len(all) > maxAttributes {
		return nil, faultf(given[0].Name, "more than %d attributes", maxAttributes)
	}
	return all, nil
}

// Remove ends a registration of that address.
func (b *Registrations) Remove(ctx context.Context, number uint64, source netip.Addr,
	now time.Time) error {
	b.changing.Lock()
	defer b.changing.Unlock()
	if _, err := b.owned(number, source, now); err != nil {
		return err
	}
	return b.drop(ctx, number)
}

// Expire removes the registrations whose lifetime is over. It returns how many, and when the
// next one ends; zero if there is none.
func (b *Registrations) Expire(ctx context.Context, now time.Time) (
	n int, next time.Time, err error) {
	b.changing.Lock()
	defer b.changing.Unlock()
	var gone []uint64
	for _, reg := range b.All() {
		if !reg.Expires.After(now) {
			gone = append(gone, reg.Number)
		} else if next.IsZero() || reg.Expires.Before(next) {
			next = reg.Expires
		}
	}
	return len(gone), next, b.drop(ctx, gone...)
}

func (b *Registrations) drop(ctx context.Context, numbers ...uint64) error {
	if err := b.repo.DropRegistrations(ctx, numbers...); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range numbers {
		reg := b.byNumber[n]
		delete(b.byNumber, n)
		delete(b.bySensor, SensorID(reg.Endpoint, reg.Sector))
	}
	return nil
}

// Bound is a registration with the sensor that it stands for.
type Bound struct {
	repository.Registration
	Sensor   string // id
	Listed   bool   // the operator listed that sensor
	Shadowed bool   // the name is a listed sensor's, the address is not: it counts for nothing
}

// Own tells whether who registered the endpoint is the endpoint: only then is what it sends a
// sign that the sensor is awake.
func (b Bound) Own() bool { return literal(b.Base) == b.Source }

// Bind finds the sensor of a registration. An endpoint that has the id and the address of a
// listed sensor is that sensor; one that has its id alone is none.
func Bind(reg repository.Registration, listed *fleet.Fleet) Bound {
	own := Bound{Registration: reg, Sensor: SensorID(reg.Endpoint, reg.Sector)}
	if i, taken := listed.Find(reg.Endpoint); taken {
		same := literal(listed.At(i).URI) == reg.Source && literal(reg.Base) == reg.Source
		return Bound{Registration: reg, Sensor: reg.Endpoint, Listed: same, Shadowed: !same}
	}
	_, own.Shadowed = listed.Find(own.Sensor)
	return own
}

// literal is the IP address in a URI, "" if it has a name or a zone there.
func literal(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return ""
	}
	a, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return ""
	}
	return a.Unmap().String()
}

// Bound are all registrations that count, by sensor.
func (b *Registrations) Bound(listed *fleet.Fleet) map[string][]Bound {
	all := map[string][]Bound{}
	for _, reg := range b.All() {
		if bound := Bind(reg, listed); !bound.Shadowed {
			all[bound.Sensor] = append(all[bound.Sensor], bound)
		}
	}
	return all
}

// Join is the fleet of the listed sensors and the registered ones beside them. Nothing is
// known of a registered sensor's sleep.
func (b *Registrations) Join(listed *fleet.Fleet) (*fleet.Fleet, error) {
	sensors := make([]fleet.Sensor, 0, listed.Len()+b.Len())
	for _, s := range listed.All() {
		sensors = append(sensors, *s)
	}
	for id, bound := range b.Bound(listed) {
		if bound[0].Listed {
			continue
		}
		labels := map[string]string{"ep": bound[0].Endpoint}
		if bound[0].Sector != "" {
			labels["d"] = bound[0].Sector
		}
		sensors = append(sensors, fleet.Sensor{ID: id, URI: bound[0].Base, Weight: 1,
			MaxCrawls: fleet.NoCap, Rate: fleet.DefaultRate, Labels: labels,
			Plan: sleepplan.Unknown()})
	}
	return fleet.New(sensors)
}

// Endpoints are a sensor's endpoints as lookups show them: one for each of its
// registrations or, where it has none, the listed sensor itself.
func Endpoints(s *fleet.Sensor, bound []Bound, verified time.Time) []Endpoint {
	if len(bound) == 0 {
		return []Endpoint{{Name: s.ID, Base: listedBase(s.URI), Verified: verified}}
	}
	all := make([]Endpoint, 0, len(bound))
	for _, r := range bound {
		all = append(all, Endpoint{Name: r.Endpoint, Sector: r.Sector, Base: r.Base,
			Number: r.Number, Lifetime: r.Lifetime, Attrs: r.Attrs, Verified: verified})
	}
	return all
}

// listedBase is scheme and authority of a listed URI. The zone of an address is left out: it
// names an interface of this host (RFC 6874 section 1).
func listedBase(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return uri // a fleet's URIs have been parsed
	}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil && a.Zone() != "" {
		port := u.Port()
		u.Host = "[" + a.WithZone("").String() + "]"
		if port != "" {
			u.Host += ":" + port
		}
	}
	return "coap://" + u.Host
}

// ParseLinks are a stored description's links; one in another format is a link to where it
// was fetched.
func ParseLinks(s *fleet.Sensor, format int, verdict string, body []byte) []linkformat.Link {
	if verdict != "" {
		return linkformat.Parse(body).Links
	}
	u, err := url.Parse(s.URI)
	if err != nil {
		return nil
	}
	l := linkformat.Link{Target: u.RequestURI()}
	if format >= 0 {
		l.Attrs = []linkformat.Attr{token("ct", fmt.Sprint(format))}
	}
	return []linkformat.Link{l}
}

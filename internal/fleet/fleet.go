// Package fleet holds what the operator listed: the sensors, their parameters
// and their sleep plans. A Fleet is sorted by id, immutable after New, and can
// be compared with another one, so that a reload touches only what changed.
package fleet

import (
	"fmt"
	"iter"
	"maps"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/crawld/crawld/internal/sleepplan"
)

// DefaultPath is fetched when a sensor's URI names no path (RFC 6690 section 4).
const DefaultPath = "/.well-known/core"

// DefaultRate is the prior event rate of a sensor that declares none: one an hour.
const DefaultRate = 1.0 / 3600

// NoCap is the MaxCrawls of a sensor without a cap.
const NoCap = -1

// Sensor is one listed sensor. Values are as validated by New.
type Sensor struct {
	ID         string            // unique; default: the URI as listed
	URI        string            // normalised by ParseURI
	Weight     float64           // omega >= 0, default 1
	MaxCrawls  int               // gamma >= 0 per time range, or NoCap
	Rate       float64           // lambda >= 0, events per awake second
	RateFixed  bool              // Rate is not a prior but the truth
	Labels     map[string]string // never nil after New
	Plan       sleepplan.Plan
	AckTimeout time.Duration // ACK_TIMEOUT of RFC 7252; 0 = 2 s
	MaxRetrans int           // MAX_RETRANSMIT of RFC 7252; 0 = 4, negative = none
	Polling    Polling       // what differs from the fleet's
	Credential string        // id of what a secure URI's sensor is met with; "" = none
}

// Equal reports whether two listings say the same of a sensor.
func (s *Sensor) Equal(o *Sensor) bool {
	return s.ID == o.ID && s.URI == o.URI && s.Weight == o.Weight && s.MaxCrawls == o.MaxCrawls &&
		s.Rate == o.Rate && s.RateFixed == o.RateFixed && maps.Equal(s.Labels, o.Labels) &&
		s.AckTimeout == o.AckTimeout && s.MaxRetrans == o.MaxRetrans &&
		s.Polling == o.Polling && s.Credential == o.Credential && s.Plan.Equal(o.Plan)
}

// Fleet is an immutable set of sensors, sorted by id.
type Fleet struct {
	sensors []*Sensor
}

// New sorts and checks the sensors. It returns an error that names the first
// sensor whose id is empty or taken, whose URI ParseURI refuses, or whose
// numbers are out of range.
func New(sensors []Sensor) (*Fleet, error) {
	f := &Fleet{sensors: make([]*Sensor, 0, len(sensors))}
	for i := range sensors {
		s := sensors[i]
		if s.ID == "" {
			s.ID = s.URI
		}
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("sensor %q: %w", s.ID, err)
		}
		f.sensors = append(f.sensors, &s)
	}
	sort.SliceStable(f.sensors, func(i, j int) bool { return f.sensors[i].ID < f.sensors[j].ID })
	for i := 1; i < len(f.sensors); i++ {
		if f.sensors[i].ID == f.sensors[i-1].ID {
			return nil, fmt.Errorf("sensor %q: listed twice", f.sensors[i].ID)
		}
	}
	return f, nil
}

func (s *Sensor) check() error {
	u, err := ParseURI(s.URI)
	if err != nil {
		return err
	}
	s.URI = u.String()
	switch {
	case s.ID == "" || len(s.ID) > 512:
		return fmt.Errorf("id must have 1 to 512 bytes, has %d", len(s.ID))
	case !(s.Weight >= 0 && s.Weight <= 1e9):
		return fmt.Errorf("weight %v: must lie in 0 .. 1e9", s.Weight)
	case !(s.Rate >= 0 && s.Rate <= 1e6):
		return fmt.Errorf("rate %v/s: must lie in 0 .. 1e6 events per second", s.Rate)
	case s.MaxCrawls < NoCap:
		return fmt.Errorf("max_crawls %d: must not be negative", s.MaxCrawls)
	case s.AckTimeout < 0 || s.AckTimeout > 5*time.Minute:
		return fmt.Errorf("ack_timeout %v: must lie in 0 .. 5m", s.AckTimeout)
	}
	if s.Labels == nil {
		s.Labels = map[string]string{}
	}
	return nil
}

// Len is the number of sensors.
func (f *Fleet) Len() int { return len(f.sensors) }

// At returns the i-th sensor by id. The sensor must not be changed.
func (f *Fleet) At(i int) *Sensor { return f.sensors[i] }

// All yields the sensors in order of their ids.
func (f *Fleet) All() iter.Seq2[int, *Sensor] { return slices.All(f.sensors) }

// Find returns the index of the sensor with that id, or false.
func (f *Fleet) Find(id string) (int, bool) {
	i := sort.Search(len(f.sensors), func(i int) bool { return f.sensors[i].ID >= id })
	return i, i < len(f.sensors) && f.sensors[i].ID == id
}

// Diff is what a reload changes, as sorted ids.
type Diff struct {
	Added, Removed, Changed []string
	Unchanged               int
}

// Compare tells how to get from old to new. A nil fleet is an empty one.
func Compare(old, new *Fleet) Diff {
	var d Diff
	var a, b []*Sensor
	if old != nil {
		a = old.sensors
	}
	if new != nil {
		b = new.sensors
	}
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].ID < b[0].ID:
			d.Removed = append(d.Removed, a[0].ID)
			a = a[1:]
		case len(a) == 0 || b[0].ID < a[0].ID:
			d.Added = append(d.Added, b[0].ID)
			b = b[1:]
		default:
			if a[0].Equal(b[0]) {
				d.Unchanged++
			} else {
				d.Changed = append(d.Changed, a[0].ID)
			}
			a, b = a[1:], b[1:]
		}
	}
	return d
}

// The schemes that ParseURI takes (RFC 7252 section 6, RFC 8323 section 8).
const (
	SchemeUDP  = "coap"
	SchemeDTLS = "coaps"
	SchemeTCP  = "coap+tcp"
	SchemeTLS  = "coaps+tcp"
)

// defaultPorts of the schemes, RFC 7252 section 6 and RFC 8323 section 8.
var defaultPorts = map[string]string{
	SchemeUDP: "5683", SchemeTCP: "5683", SchemeDTLS: "5684", SchemeTLS: "5684",
}

// Secure tells whether a normalised URI's sensor is met under DTLS or TLS.
func Secure(uri string) bool { return strings.HasPrefix(uri, "coaps") }

// ErrTransport is wrapped by ParseURI's error for schemes that crawld knows but
// does not speak: it never tries them over plain UDP instead.
var ErrTransport = fmt.Errorf("this transport is not supported yet")

// maxOption is the longest Uri-Host, Uri-Path or Uri-Query (RFC 7252 section 5.10).
const maxOption = 255

// unreserved are the characters of a zone (RFC 6874 section 2; url.URL writes no
// others that url.Parse reads again).
const unreserved = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"

// ParseURI checks a sensor's address and normalises it: scheme and host in
// lower case, the scheme's own port left out, DefaultPath where no path is given. The zone of
// an IPv6 address keeps its case, as it names an interface. What String makes of
// the result is its own normal form. The error says what is wrong and what would
// be right.
func ParseURI(raw string) (*url.URL, error) {
	if strings.TrimSpace(raw) == "" {
		return nil, fmt.Errorf("uri is missing; expected coap://host[:port][/path]")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("uri %q: %w", raw, unwrapURL(err))
	}
	for _, check := range []func(*url.URL) error{checkScheme, checkHost, checkOptions} {
		if err := check(u); err != nil {
			return nil, fmt.Errorf("uri %q: %w", raw, err)
		}
	}
	if strings.Contains(raw, "#") { // an empty fragment leaves no trace in u
		return nil, fmt.Errorf("uri %q: a coap URI has no fragment", raw)
	}
	normalise(u)
	return u, nil
}

func checkScheme(u *url.URL) error {
	switch u.Scheme { // in lower case since url.Parse
	case SchemeUDP, SchemeDTLS, SchemeTCP, SchemeTLS:
		return nil
	case "coap+ws", "coaps+ws":
		return fmt.Errorf("%s: %w; the sensor is refused, never tried in plain", u.Scheme, ErrTransport)
	}
	return fmt.Errorf("scheme must be coap, coaps, coap+tcp or coaps+tcp")
}

func checkHost(u *url.URL) error {
	host, port := u.Hostname(), u.Port()
	switch {
	case u.Opaque != "" || host == "":
		return fmt.Errorf("host is missing; expected coap://host[:port][/path]")
	case strings.Contains(host, ":") && !strings.HasPrefix(u.Host, "["):
		return fmt.Errorf("an IPv6 address needs brackets, as in coap://[2001:db8::1]/")
	case len(host) > maxOption || !utf8.ValidString(host):
		return fmt.Errorf("host must be UTF-8 of at most %d bytes", maxOption)
	case u.User != nil:
		return fmt.Errorf("a coap URI has no user part")
	}
	if _, zone, _ := strings.Cut(host, "%"); strings.HasPrefix(u.Host, "[") &&
		strings.Trim(zone, unreserved) != "" {
		return fmt.Errorf("zone %q must be an interface's name or number", zone)
	}
	if port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("port must lie in 1 .. 65535")
		}
	}
	return nil
}

// checkOptions holds path and query against what fits into the options of a
// request: RFC 7252 section 5.10.1 forbids the dot segments too.
func checkOptions(u *url.URL) error {
	for _, part := range strings.Split(u.EscapedPath(), "/") {
		segment, err := url.PathUnescape(part)
		switch {
		case err != nil:
			return err
		case len(segment) > maxOption:
			return fmt.Errorf("a path segment is longer than 255 bytes (RFC 7252 section 5.10.1)")
		case segment == "." || segment == "..":
			return fmt.Errorf("a path segment must not be %q (RFC 7252 section 5.10.1)", segment)
		}
	}
	for _, part := range strings.Split(u.RawQuery, "&") {
		parameter, err := url.PathUnescape(part)
		switch {
		case err != nil:
			return err
		case len(parameter) > maxOption:
			return fmt.Errorf("a query parameter is longer than 255 bytes (RFC 7252 section 5.10.1)")
		}
	}
	return nil
}

// normalise expects what the checks let through.
func normalise(u *url.URL) {
	host, port := u.Hostname(), strings.TrimLeft(u.Port(), "0")
	if strings.Contains(host, ":") {
		address, zone, zoned := strings.Cut(host, "%")
		if host = strings.Map(lower, address); zoned {
			host += "%" + zone
		}
		u.Host = "[" + host + "]"
	} else {
		host = strings.Map(lower, host)
		u.Host = host
	}
	if port != "" && port != defaultPorts[u.Scheme] {
		u.Host += ":" + port
	}
	if u.Path == "" || u.Path == "/" {
		u.Path, u.RawPath = DefaultPath, ""
	}
}

// lower leaves letters beyond ASCII alone: RFC 3986 section 6.2.2.1 knows no
// case of theirs, and some grow by it.
func lower(r rune) rune {
	if 'A' <= r && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}

func unwrapURL(err error) error {
	if e, ok := err.(*url.Error); ok {
		return e.Err
	}
	return err
}

package directory

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/linkformat"
	"github.com/crawld/crawld/internal/repository"
)

const (
	maxName       = 63 // bytes of ep and d (RFC 9176 section 5)
	maxAttributes = 16 // of a registration, beside its parameters
	maxLifetime   = 1<<32 - 1
)

// Registering is a request to register that has been understood.
type Registering struct {
	Endpoint string // ep
	Sector   string // d, "" = none
	Base     string // coap://address[:port], given or where the request came from
	Explicit bool   // Base was given
	Lifetime time.Duration
	Attrs    []repository.RegistrationAttr
	Source   netip.AddrPort

	Simple  bool // no payload: the links are to be fetched from Base
	Payload []byte
	Links   linkformat.Result
}

// Updating is a request to renew a registration. What is not given stays.
type Updating struct {
	Number   uint64
	Lifetime time.Duration // 0 = not given
	Base     string        // "" = not given
	Attrs    []repository.RegistrationAttr
	Source   netip.AddrPort
}

// fault names the parameter that is wrong.
type fault struct{ name, what string }

func (f *fault) Error() string { return f.name + ": " + f.what }

func faultf(name, format string, args ...any) *fault {
	return &fault{printable(name), fmt.Sprintf(format, args...)}
}

// printable makes a name from the network fit for a diagnostic payload.
func printable(s string) string {
	s = strings.ToValidUTF8(s[:min(len(s), maxName)], "?")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// registering reads the parameters of a registration (RFC 9176 section 5).
func (s *Server) registering(r *request, peer netip.AddrPort) (Registering, *fault) {
	g := Registering{Base: baseOf(peer), Lifetime: s.o.DefaultLifetime, Source: peer}
	for i, p := range r.params {
		var f *fault
		switch p.name {
		case "ep":
			g.Endpoint, f = p.text()
		case "d":
			g.Sector, f = p.text()
		case "lt":
			g.Lifetime, f = p.lifetime()
		case "base":
			g.Base, f = p.base(s.o.Networks)
			g.Explicit = true
		default:
			g.Attrs, f = p.attribute(g.Attrs)
		}
		if f == nil {
			f = p.once(r.params[:i])
		}
		if f != nil {
			return g, f
		}
	}
	if g.Endpoint == "" {
		return g, faultf("ep", "is missing")
	}
	return g, nil
}

// updating reads the parameters of an update (RFC 9176 section 5.3.1).
func (s *Server) updating(r *request, peer netip.AddrPort) (Updating, *fault) {
	u := Updating{Source: peer}
	for i, p := range r.params {
		var f *fault
		switch p.name {
		case "ep", "d":
			f = faultf(p.name, "cannot be changed; remove the registration and register anew")
		case "lt":
			u.Lifetime, f = p.lifetime()
		case "base":
			u.Base, f = p.base(s.o.Networks)
		default:
			u.Attrs, f = p.attribute(u.Attrs)
		}
		if f == nil {
			f = p.once(r.params[:i])
		}
		if f != nil {
			return u, f
		}
	}
	return u, nil
}

// once refuses a parameter that has come before. An attribute may repeat.
func (p param) once(before []param) *fault {
	if !slices.Contains([]string{"ep", "d", "lt", "base"}, p.name) {
		return nil
	}
	if slices.ContainsFunc(before, func(b param) bool { return b.name == p.name }) {
		return faultf(p.name, "is given twice")
	}
	return nil
}

func (p param) text() (string, *fault) {
	switch {
	case p.value == "" || len(p.value) > maxName:
		return "", faultf(p.name, "must have 1 to %d bytes, has %d", maxName, len(p.value))
	case !utf8.ValidString(p.value) || strings.ContainsFunc(p.value, unicode.IsControl):
		return "", faultf(p.name, "must be UTF-8 without control characters")
	}
	return p.value, nil
}

func (p param) lifetime() (time.Duration, *fault) {
	n, err := strconv.ParseUint(p.value, 10, 64)
	if err != nil || n < 1 || n > maxLifetime || p.value[0] == '+' {
		return 0, faultf(p.name, "must be a number of seconds in 1 .. %d", uint32(maxLifetime))
	}
	return time.Duration(n) * time.Second, nil
}

// base reads a base URI: scheme, address and port, so that every reference can be resolved
// against it, and nothing is dialled that a name leads to.
func (p param) base(networks []netip.Prefix) (string, *fault) {
	u, err := fleet.ParseURI(p.value)
	if err != nil {
		return "", faultf(p.name, "%s", printable(err.Error()))
	}
	if given, err := url.Parse(p.value); err != nil || strings.Trim(given.Path, "/") != "" ||
		given.RawQuery != "" || given.ForceQuery {
		return "", faultf(p.name, "must be coap://address[:port] without path and query")
	}
	a, err := netip.ParseAddr(u.Hostname())
	switch {
	case err != nil || a.Zone() != "":
		return "", faultf(p.name, "the host must be an IP address without zone, no name")
	case !contains(networks, a.Unmap()) || a.IsMulticast() || a.IsUnspecified():
		return "", faultf(p.name, "address %s lies outside of the directory's networks", a)
	}
	return "coap://" + u.Host, nil
}

// baseOf is the base of a registration that names none: where it came from.
func baseOf(peer netip.AddrPort) string {
	host := peer.Addr().String()
	if peer.Port() != 5683 {
		return "coap://" + net.JoinHostPort(host, strconv.Itoa(int(peer.Port())))
	}
	if peer.Addr().Is6() {
		host = "[" + host + "]"
	}
	return "coap://" + host
}

// taken are names that mean something else in a lookup or in its answers.
var taken = []string{"href", "anchor", "page", "count", "rt", "rel", "age", "base", "ep", "d", "lt"}

// attribute adds an attribute of the endpoint. It is written into link format, so it must
// read back as it was.
func (p param) attribute(have []repository.RegistrationAttr) (
	[]repository.RegistrationAttr, *fault) {
	a := repository.RegistrationAttr{Name: p.name, Value: p.value, HasValue: p.hasValue}
	l := linkformat.Link{Attrs: []linkformat.Attr{endpointAttr(a)}}
	back := linkformat.Parse(l.Append(nil))
	ok := back.Verdict == linkformat.Valid && len(back.Links) == 1 && len(back.Links[0].Attrs) == 1 &&
		back.Links[0].Attrs[0].Name == p.name && back.Links[0].Attrs[0].Value == p.value
	switch {
	case !ok || len(p.name) > maxName || !utf8.ValidString(p.value):
		return have, faultf(p.name, "cannot be an attribute")
	case slices.Contains(taken, strings.ToLower(p.name)):
		return have, faultf(p.name, "has a meaning of its own here")
	case len(have) == maxAttributes:
		return have, faultf(p.name, "more than %d attributes", maxAttributes)
	}
	return append(have, a), nil
}

func endpointAttr(a repository.RegistrationAttr) linkformat.Attr {
	return linkformat.Attr{Name: a.Name, Value: a.Value, HasValue: a.HasValue, Quoted: a.HasValue}
}

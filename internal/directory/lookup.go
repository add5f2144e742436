package directory

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plgd-dev/go-coap/v3/message/codes"

	"github.com/crawld/crawld/internal/linkformat"
	"github.com/crawld/crawld/internal/repository"
)

// MaxCount is the most links that one answer holds: at 100 bytes each a hundred blocks.
const MaxCount = 1000

// Query is what a lookup asks for. All filters must hold.
type Query struct {
	Filters   []Filter
	Endpoints bool // of endpoints, not of resources
	Skip      int  // matches to pass over
	Count     int  // of the following ones, at most; 0 = all, at most MaxCount
}

// Filter is a search criterion (RFC 9176 section 6.1): an attribute with a value, at the end
// of which a * stands for any rest.
type Filter struct{ Name, Value string }

// OfLinks tells whether only a link of a description can meet the filter and whether such
// links are indexed. Endpoints have rt=core.rd-ep, and what they registered.
func (f Filter) OfLinks(endpoints map[string][]Bound) bool {
	if f.Name != "rt" && f.Name != "if" && f.Name != "ct" || f.Value == "" ||
		linkformat.Match((&Endpoint{}).Link(time.Time{}), f.Name, f.Value) {
		return false
	}
	named := func(a repository.RegistrationAttr) bool { return strings.EqualFold(a.Name, f.Name) }
	for _, all := range endpoints {
		for _, b := range all {
			if slices.ContainsFunc(b.Attrs, named) {
				return false
			}
		}
	}
	return true
}

// Endpoint is a sensor with a description, listed or registered.
type Endpoint struct {
	Name     string // ep: as registered, or the id that the operator gave
	Sector   string // d
	Base     string // coap://address[:port]
	Number   uint64 // of its registration; 0 = listed only
	Lifetime time.Duration
	Attrs    []repository.RegistrationAttr
	Verified time.Time // last instant at which its links were as they are here
}

// Found is a link that matches: of a resource absolute, of an endpoint as Endpoint.Link.
type Found struct {
	Link     linkformat.Link
	Endpoint *Endpoint
}

// Lookup finds what matches, in an order that does not change between pages. It wraps
// ErrTooMany where Query.Count is 0 and more than MaxCount links match, ErrBusy where
// looking would take too long.
type Lookup func(ctx context.Context, q Query) ([]Found, error)

// Link is the endpoint in the answer of a lookup (RFC 9176 section 6.3). A listed sensor has
// no registration: its target is its base. The attribute age is ours: seconds since
// its links were verified.
func (e *Endpoint) Link(now time.Time) linkformat.Link {
	l := linkformat.Link{Target: e.Base, Attrs: []linkformat.Attr{quoted("ep", e.Name)}}
	if e.Sector != "" {
		l.Attrs = append(l.Attrs, quoted("d", e.Sector))
	}
	l.Attrs = append(l.Attrs, quoted("base", e.Base), quoted("rt", "core.rd-ep"))
	if e.Number > 0 {
		l.Target = pathRegister + "/" + strconv.FormatUint(e.Number, 10)
		l.Attrs = append(l.Attrs,
			quoted("lt", strconv.FormatInt(int64(e.Lifetime/time.Second), 10)))
	}
	for _, a := range e.Attrs {
		l.Attrs = append(l.Attrs, endpointAttr(a))
	}
	return withAttr(l, e.age(now))
}

func (e *Endpoint) age(now time.Time) linkformat.Attr {
	return quoted("age", strconv.FormatInt(int64(max(now.Sub(e.Verified), 0)/time.Second), 10))
}

func withAttr(l linkformat.Link, a linkformat.Attr) linkformat.Link {
	l.Attrs = append(l.Attrs[:len(l.Attrs):len(l.Attrs)], a)
	return l
}

// Match appends what of an endpoint matches the query, its links being as it describes
// itself. A resource matches a criterion if it or its endpoint does, an endpoint if it or one
// of its resources does (RFC 9176 section 6.1).
func (q Query) Match(dst []Found, e *Endpoint, described []linkformat.Link, now time.Time) []Found {
	self := e.Link(now)
	resources := make([]linkformat.Link, len(described))
	for i, l := range described {
		resources[i] = l.Absolute(e.Base)
	}
	if q.Endpoints {
		for _, f := range q.Filters {
			if !f.any(append(resources[:len(resources):len(resources)], self)) {
				return dst
			}
		}
		return append(dst, Found{self, e})
	}
	for _, l := range resources {
		if q.matches(l, self) {
			dst = append(dst, Found{withAttr(l, e.age(now)), e})
		}
	}
	return dst
}

func (q Query) matches(l, endpoint linkformat.Link) bool {
	for _, f := range q.Filters {
		if !f.any([]linkformat.Link{l, endpoint}) {
			return false
		}
	}
	return true
}

func (f Filter) any(all []linkformat.Link) bool {
	for _, l := range all {
		if linkformat.Match(l, f.Name, f.Value) {
			return true
		}
	}
	return false
}

// lookup is GET /rd-lookup/res and /rd-lookup/ep.
func (s *Server) lookup(ctx context.Context, r *request, _ netip.AddrPort, _ time.Time) answer {
	if r.accept >= 0 && r.accept != linkFormat {
		return done(codes.NotAcceptable)
	}
	q, fault := query(r)
	if fault != nil {
		return say(codes.BadRequest, "%s", fault)
	}
	found, err := s.o.Lookup(ctx, q)
	if err != nil {
		return s.failed(r, err)
	}
	var body []byte
	for i, f := range found {
		if i > 0 {
			body = append(body, ',')
		}
		body = f.Link.Append(body)
	}
	return links(body)
}

// query reads the parameters of a lookup (RFC 9176 section 6.2). A page counts from 0 and
// needs a count.
func query(r *request) (Query, *fault) {
	q := Query{Endpoints: r.path == pathEndpoints}
	page, paged := 0, false
	for i, p := range r.params {
		var f *fault
		switch p.name {
		case "page":
			paged = true
			page, f = p.number(0, 1<<30)
		case "count":
			q.Count, f = p.number(1, MaxCount)
		case "":
			f = faultf("query", "a criterion without a name")
		default:
			q.Filters = append(q.Filters, Filter{p.name, p.value})
		}
		for _, before := range r.params[:i] {
			if f == nil && before.name == p.name && (p.name == "page" || p.name == "count") {
				f = faultf(p.name, "is given twice")
			}
		}
		if f != nil {
			return q, f
		}
	}
	if paged && q.Count == 0 {
		return q, faultf("page", "needs a count beside it")
	}
	q.Skip = page * q.Count
	return q, nil
}

func (p param) number(low, high int) (int, *fault) {
	n, err := strconv.Atoi(p.value)
	if err != nil || n < low || n > high || strings.HasPrefix(p.value, "+") {
		return 0, faultf(p.name, "must be a number in %d .. %d", low, high)
	}
	return n, nil
}

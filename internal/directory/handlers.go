package directory

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/plgd-dev/go-coap/v3/message/codes"
	"go.uber.org/zap"

	"github.com/crawld/crawld/internal/linkformat"
)

// handler serves one method of one path.
type handler struct {
	changes bool // it changes a registration or has a sensor crawled
	serve   func(ctx context.Context, r *request, peer netip.AddrPort, now time.Time) answer
}

// route finds the handler, or says why there is none.
func (s *Server) route(r *request) (*handler, answer) {
	byMethod := map[codes.Code]*handler{}
	switch path := label(r.path); path {
	case pathCore:
		byMethod[codes.GET] = &handler{serve: s.core}
	case pathResources, pathEndpoints:
		byMethod[codes.GET] = &handler{serve: s.lookup}
	case pathSimple:
		byMethod[codes.POST] = &handler{true, s.simple}
	case pathRegister:
		byMethod[codes.POST] = &handler{true, s.register}
	case pathLocation:
		byMethod[codes.POST] = &handler{true, s.update}
		byMethod[codes.DELETE] = &handler{true, s.remove}
	default:
		return nil, done(codes.NotFound)
	}
	if h := byMethod[r.code]; h != nil {
		return h, answer{}
	}
	return nil, done(codes.MethodNotAllowed)
}

// announced is what RFC 9176 section 4.1 has clients look for.
var announced = []linkformat.Link{
	{Target: pathRegister, Attrs: []linkformat.Attr{token("rt", "core.rd"), token("ct", "40")}},
	{Target: pathResources, Attrs: []linkformat.Attr{
		token("rt", "core.rd-lookup-res"), token("ct", "40")}},
	{Target: pathEndpoints, Attrs: []linkformat.Attr{
		token("rt", "core.rd-lookup-ep"), token("ct", "40")}},
}

func token(name, value string) linkformat.Attr {
	return linkformat.Attr{Name: name, Value: value, HasValue: true}
}

func quoted(name, value string) linkformat.Attr {
	return linkformat.Attr{Name: name, Value: value, HasValue: true, Quoted: true}
}

// core is /.well-known/core with the query filter of RFC 6690 section 4.1.
func (s *Server) core(_ context.Context, r *request, _ netip.AddrPort, _ time.Time) answer {
	if r.accept >= 0 && r.accept != linkFormat {
		return done(codes.NotAcceptable)
	}
	var found []linkformat.Link
	for _, l := range announced {
		if matchesAll(l, r.params) {
			found = append(found, l)
		}
	}
	return links(linkformat.Format(found))
}

func matchesAll(l linkformat.Link, params []param) bool {
	for _, p := range params {
		if !linkformat.Match(l, p.name, p.value) {
			return false
		}
	}
	return true
}

// register is POST /rd (RFC 9176 section 5).
func (s *Server) register(ctx context.Context, r *request, peer netip.AddrPort,
	_ time.Time) answer {
	g, fault := s.registering(r, peer)
	if fault != nil {
		return say(codes.BadRequest, "%s", fault)
	}
	if r.format >= 0 && r.format != linkFormat {
		return say(codes.UnsupportedMediaType, "Content-Format %d: want %d, link format", r.format,
			linkFormat)
	}
	g.Links = linkformat.Parse(r.payload)
	if g.Links.Verdict == linkformat.Invalid {
		return say(codes.BadRequest, "payload: %v", g.Links.Err)
	}
	g.Payload = r.payload
	number, err := s.o.Register(ctx, g)
	if err != nil {
		return s.failed(r, err)
	}
	a := done(codes.Created)
	a.location = []string{"rd", strconv.FormatUint(number, 10)}
	return a
}

// simple is POST /.well-known/rd (RFC 9176 section 5.1). Success is told when the sender's
// links have been fetched.
func (s *Server) simple(ctx context.Context, r *request, peer netip.AddrPort,
	_ time.Time) answer {
	if len(r.payload) > 0 {
		return say(codes.BadRequest, "payload: must be empty, the links are fetched from the sender")
	}
	for _, p := range r.params {
		if p.name == "base" {
			return say(codes.BadRequest, "base: has no place in a simple registration")
		}
	}
	g, fault := s.registering(r, peer)
	if fault != nil {
		return say(codes.BadRequest, "%s", fault)
	}
	g.Simple = true
	number, err := s.o.Register(ctx, g)
	if err == nil {
		err = s.o.Announce(ctx, number)
	}
	if err != nil {
		return s.failed(r, err)
	}
	return done(codes.Changed)
}

// update is POST /rd/<number> (RFC 9176 section 5.3.1).
func (s *Server) update(ctx context.Context, r *request, peer netip.AddrPort,
	_ time.Time) answer {
	number, ok := location(r.path)
	if !ok {
		return done(codes.NotFound)
	}
	if len(r.payload) > 0 {
		return say(codes.BadRequest, "payload: must be empty; register again to change the links")
	}
	u, fault := s.updating(r, peer)
	if fault != nil {
		return say(codes.BadRequest, "%s", fault)
	}
	u.Number = number
	if err := s.o.Update(ctx, u); err != nil {
		return s.failed(r, err)
	}
	return done(codes.Changed)
}

// remove is DELETE /rd/<number> (RFC 9176 section 5.3.2).
func (s *Server) remove(ctx context.Context, r *request, peer netip.AddrPort,
	_ time.Time) answer {
	number, ok := location(r.path)
	if !ok {
		return done(codes.NotFound)
	}
	if err := s.o.Remove(ctx, number, peer.Addr()); err != nil {
		return s.failed(r, err)
	}
	return done(codes.Deleted)
}

// location is the number in /rd/<number>, in its one spelling.
func location(path string) (uint64, bool) {
	text := strings.TrimPrefix(path, pathRegister+"/")
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil && strconv.FormatUint(n, 10) == text
}

// failed is what a client is told of an error.
func (s *Server) failed(r *request, err error) answer {
	var named *fault
	switch {
	case errors.As(err, &named):
		return say(codes.BadRequest, "%v", named)
	case errors.Is(err, ErrUnknown):
		return done(codes.NotFound)
	case errors.Is(err, ErrForbidden):
		return say(codes.Forbidden, "%v", err)
	case errors.Is(err, ErrTooMany):
		return say(codes.BadRequest, "count: %v", err)
	case errors.Is(err, ErrFull), errors.Is(err, ErrBusy):
		a := say(codes.ServiceUnavailable, "%v", err)
		a.maxAge = 60
		return a
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return done(codes.ServiceUnavailable)
	}
	s.o.Log.Error("directory request failed", zap.String("path", label(r.path)), zap.Error(err))
	return done(codes.InternalServerError)
}

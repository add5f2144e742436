package coapclient

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/crawld/crawld/internal/sessionfile"
)

// Limits bound what one visit may cost. A zero field takes DefaultLimits' value.
type Limits struct {
	Body      int           // bytes of one body
	Blocks    int           // blocks of one body
	MinBlock  int           // bytes, smallest block size accepted for a body of several blocks
	Progress  time.Duration // longest time without a new block once the sensor has answered
	Datagrams int           // datagrams sent without a new block
	PerHost   int           // visits at once to one IP address
	PerSubnet int           // visits at once to one IPv4 /24 or IPv6 /64
}

// DefaultLimits are bounds that every well-behaved sensor stays within.
func DefaultLimits() Limits {
	return Limits{
		Body:      64 << 10,
		Blocks:    1024,
		MinBlock:  64,
		Progress:  10 * time.Second,
		Datagrams: 70,
		PerHost:   64,
		PerSubnet: 256,
	}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	for _, f := range []struct{ v, d *int }{
		{&l.Body, &d.Body}, {&l.Blocks, &d.Blocks}, {&l.MinBlock, &d.MinBlock},
		{&l.Datagrams, &d.Datagrams}, {&l.PerHost, &d.PerHost}, {&l.PerSubnet, &d.PerSubnet},
	} {
		if *f.v <= 0 {
			*f.v = *f.d
		}
	}
	if l.Progress <= 0 {
		l.Progress = d.Progress
	}
	return l
}

// Networks says where a name may lead. A literal address is allowed as listed
// unless Deny holds it. An empty Allow means everything but loopback, link-local
// and unspecified addresses. Multicast is never allowed, for names and literals.
type Networks struct {
	Allow, Deny []netip.Prefix
}

// Options configure a Client. The zero value is usable.
type Options struct {
	Limits     Limits
	Networks   Networks
	Sockets    int           // UDP sockets over both families; 0 = one each
	ReadBuffer int           // SO_RCVBUF in bytes; 0 = 4 MiB; the kernel may grant less
	PrefBlock  int           // block size to ask for: 16, 32 .. 1024; 0 = sensor's choice
	Resolver   *net.Resolver // nil = net.DefaultResolver
	Transcript bool          // fill visit.Outcome.Transcript

	Credentials []Credential      // of secure sensors, by visit.Visit.Credential
	Sessions    *sessionfile.File // what lets a visit do without a handshake; nil = nothing kept
}

// The default loses nothing in a burst of 5000 answers.
const defaultReadBuffer = 4 << 20

func (o Options) check() (Options, error) {
	o.Limits = o.Limits.withDefaults()
	if o.ReadBuffer <= 0 {
		o.ReadBuffer = defaultReadBuffer
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.Sockets < 0 {
		return o, fmt.Errorf("coapclient: sockets %d: must not be negative", o.Sockets)
	}
	if _, ok := szxOf(o.PrefBlock); o.PrefBlock != 0 && !ok {
		return o, fmt.Errorf("coapclient: block size %d: must be 16, 32, 64, ... 1024", o.PrefBlock)
	}
	return o, nil
}

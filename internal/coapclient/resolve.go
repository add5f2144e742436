package coapclient

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// nameLifetime is how long a resolved name is used before it is asked again.
const nameLifetime = 5 * time.Minute

type resolved struct {
	addr    netip.Addr
	expires time.Time
}

// resolve finds the address of a target and checks that it may be contacted.
func (c *Client) resolve(
	ctx context.Context, t target, deadline time.Time,
) (netip.AddrPort, *failure) {
	if !t.named {
		if why := c.opts.Networks.refuseLiteral(t.addr); why != "" {
			return netip.AddrPort{}, failf(ReasonNetwork, "address %v: %s", t.addr, why)
		}
		return netip.AddrPortFrom(t.addr, t.port), nil
	}
	c.mu.Lock()
	r, ok := c.names[t.host]
	c.mu.Unlock()
	if ok && time.Now().Before(r.expires) {
		return netip.AddrPortFrom(r.addr, t.port), nil
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	addrs, err := c.opts.Resolver.LookupNetIP(ctx, "ip", t.host)
	if err != nil {
		if why := withoutDescriptor(err); exhausted(why) {
			f := failf(ReasonExhausted, "resolve %q: %v", t.host, why)
			return netip.AddrPort{}, f
		}
		if ctx.Err() != nil {
			return netip.AddrPort{}, stopped(ctx)
		}
		return netip.AddrPort{}, failf(ReasonResolve, "resolve %q: %v", t.host, err)
	}
	return c.choose(t, addrs)
}

// exhausted tells errors that say something of this machine and nothing of the sensor: it is
// as if its turn had not come.
func exhausted(err error) bool {
	for _, e := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS,
	} {
		// A net.DNSError keeps the text of its cause only.
		if errors.Is(err, e) || err != nil && strings.HasSuffix(err.Error(), e.Error()) {
			return true
		}
	}
	return false
}

// withoutDescriptor is why a lookup may have failed although its error does not say so: who
// cannot open the table of hosts finds no host.
func withoutDescriptor(lookup error) error {
	f, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	return errors.Join(lookup, f.Close())
}

// choose takes the first address that is allowed and has a socket.
func (c *Client) choose(t target, addrs []netip.Addr) (netip.AddrPort, *failure) {
	why := "no address"
	for _, a := range addrs {
		a = a.Unmap()
		if why = c.opts.Networks.refuseName(a); why != "" {
			continue
		}
		if why = "no socket for this address family"; c.socketsFor(a) == nil {
			continue
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.names[t.host] = resolved{a, time.Now().Add(nameLifetime)}
		c.armSweeper()
		return netip.AddrPortFrom(a, t.port), nil
	}
	return netip.AddrPort{}, failf(ReasonNetwork, "name %q leads to %v: %s", t.host, addrs, why)
}

// refuseLiteral says why an address that the operator listed is not contacted,
// "" if it is.
func (n Networks) refuseLiteral(a netip.Addr) string {
	switch {
	case a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "one sensor has a unicast address"
	case a.IsUnspecified():
		return "the unspecified address names no sensor"
	case contains(n.Deny, a):
		return "denied by the configured networks"
	}
	return ""
}

// refuseName is the same for an address that a name led to.
func (n Networks) refuseName(a netip.Addr) string {
	if why := n.refuseLiteral(a); why != "" {
		return why
	}
	if len(n.Allow) > 0 {
		if !contains(n.Allow, a) {
			return "not within the allowed networks"
		}
		return ""
	}
	if a.IsLoopback() || a.IsLinkLocalUnicast() {
		return "names may not lead to loopback or link-local addresses unless allowed"
	}
	return ""
}

func contains(nets []netip.Prefix, a netip.Addr) bool {
	a = a.WithZone("")
	return slices.ContainsFunc(nets, func(p netip.Prefix) bool { return p.Contains(a) })
}

// zoned gives a link-local address the zone name under which the kernel will
// report its datagrams: the interface's name, also where a number was listed.
func zoned(a netip.Addr) (netip.Addr, error) {
	if a.Zone() == "" {
		return a, nil
	}
	if i, err := strconv.Atoi(a.Zone()); err == nil {
		ifc, err := net.InterfaceByIndex(i)
		if err != nil {
			return a, err
		}
		return a.WithZone(ifc.Name), nil
	}
	if _, err := net.InterfaceByName(a.Zone()); err != nil {
		return a, errors.Join(errors.New("zone "+a.Zone()), err)
	}
	return a, nil
}

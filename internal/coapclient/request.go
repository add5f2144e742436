package coapclient

import (
	"bytes"
	"errors"
	"math/bits"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/plgd-dev/go-coap/v3/udp/coder"

	"github.com/crawld/crawld/internal/fleet"
)

// defaultPorts of the schemes, RFC 7252 section 6 and RFC 8323 section 8.
var defaultPorts = map[string]uint16{
	fleet.SchemeUDP: 5683, fleet.SchemeTCP: 5683, fleet.SchemeDTLS: 5684, fleet.SchemeTLS: 5684,
}

const (
	// optionEcho is the Echo option of RFC 9175 section 2.2.1.
	optionEcho message.OptionID = 252

	maxOptionString = 255 // Uri-Host, Uri-Path and Uri-Query, RFC 7252 section 5.10
)

// target is what a URI says, decomposed by RFC 7252 section 6.4.
type target struct {
	scheme    string
	host      string
	named     bool // host is a name, sent as Uri-Host
	addr      netip.Addr
	port      uint16
	path      [][]byte
	query     [][]byte
	wellKnown bool // the path is /.well-known/core
}

func parseTarget(uri string) (target, *failure) {
	if t, ok := plainTarget(uri); ok {
		return t, nil
	}
	u, err := url.Parse(uri)
	if err != nil || !normalised(u) {
		if u, err = fleet.ParseURI(uri); err != nil {
			return target{}, failf(ReasonTransport, "%v", err)
		}
	}
	t := target{scheme: u.Scheme, host: u.Hostname(), port: defaultPorts[u.Scheme],
		wellKnown: u.Path == fleet.DefaultPath}
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return t, failf(ReasonTransport, "uri %q: port must lie in 1 .. 65535", uri)
		}
		t.port = uint16(n)
	}
	if t.addr, err = netip.ParseAddr(t.host); err != nil {
		t.named = true
	} else if t.addr, err = zoned(t.addr.Unmap()); exhausted(err) {
		return t, failf(ReasonExhausted, "uri %q: %v", uri, err)
	} else if err != nil {
		return t, failf(ReasonNetwork, "uri %q: %v", uri, err)
	}
	t.path, err = unescape(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	if err == nil && u.RawQuery != "" {
		t.query, err = unescape(u.RawQuery, "&")
	}
	if err == nil && len(t.host) > maxOptionString {
		err = errors.New("host longer than 255 bytes")
	}
	if err != nil {
		return t, failf(ReasonFormat, "uri %q: %v", uri, err)
	}
	return t, nil
}

// plainTarget reads what nearly every sensor's URI looks like, a literal address
// with the default path, at a tenth of url.Parse's cost. Anything else is left to
// the long way, which gives the same.
func plainTarget(uri string) (target, bool) {
	rest, isCoAP := strings.CutPrefix(uri, "coap://")
	host, isDefault := strings.CutSuffix(rest, fleet.DefaultPath)
	if !isCoAP || !isDefault || strings.Contains(host, "%") {
		return target{}, false
	}
	t := target{scheme: fleet.SchemeUDP, host: host, port: defaultPorts[fleet.SchemeUDP],
		wellKnown: true}
	if ap, err := netip.ParseAddrPort(host); err == nil {
		t.addr, t.port = ap.Addr().Unmap(), ap.Port()
	} else if t.addr, err = netip.ParseAddr(host); err != nil || !t.addr.Is4() {
		return target{}, false
	}
	t.path = wellKnownPath
	return t, t.port != 0
}

// wellKnownPath is fleet.DefaultPath in segments; it is only read.
var wellKnownPath = [][]byte{[]byte(".well-known"), []byte("core")}

// normalised tells what fleet.ParseURI need not look at again: it has passed
// nearly every URI that comes here, and costs as much as the rest of this file.
func normalised(u *url.URL) bool {
	return defaultPorts[u.Scheme] != 0 && u.Host != "" && u.Path != "" && u.Path != "/" &&
		u.User == nil && u.Fragment == "" && u.Opaque == ""
}

func unescape(s, sep string) ([][]byte, error) {
	parts := bytes.Split([]byte(s), []byte(sep))
	for i, p := range parts {
		if bytes.IndexByte(p, '%') >= 0 {
			v, err := url.PathUnescape(string(p))
			if err != nil {
				return nil, err
			}
			parts[i] = []byte(v)
		}
		if len(parts[i]) > maxOptionString {
			return nil, errors.New("a path segment or query parameter is longer than 255 bytes")
		}
	}
	return parts, nil
}

// request is what varies between the requests of one visit.
type request struct {
	non    bool
	mid    uint16
	token  message.Token
	etag   []byte
	accept bool // only link format
	block  *block
	echo   []byte

	scratch [5]byte // option values that are made here
}

// encode writes the GET into buf, which grows as needed. opts is scratch.
func (t *target) encode(q *request, opts message.Options, buf []byte) (
	message.Options, []byte, error,
) {
	opts = opts[:0]
	add := func(id message.OptionID, v []byte) {
		opts = append(opts, message.Option{ID: id, Value: v})
	}
	if t.named {
		add(message.URIHost, []byte(t.host))
	}
	if q.etag != nil {
		add(message.ETag, q.etag)
	}
	for _, s := range t.path {
		add(message.URIPath, s)
	}
	for _, s := range t.query {
		add(message.URIQuery, s)
	}
	if q.accept {
		q.scratch[4] = byte(message.AppLinkFormat)
		add(message.Accept, q.scratch[4:])
	}
	if q.block != nil {
		n, _ := message.EncodeUint32(q.scratch[:4], q.block.value()) // 4 bytes always suffice
		add(message.Block2, q.scratch[:n])
	}
	if q.echo != nil {
		add(optionEcho, q.echo)
	}
	m := message.Message{
		Code: codes.GET, Type: message.Confirmable, MessageID: int32(q.mid),
		Token: q.token, Options: opts,
	}
	if q.non {
		m.Type = message.NonConfirmable
	}
	n, err := coder.DefaultCoder.Encode(m, buf)
	if errors.Is(err, message.ErrTooSmall) {
		buf = make([]byte, n)
		n, err = coder.DefaultCoder.Encode(m, buf)
	}
	if err != nil {
		return opts, buf, err
	}
	return opts, buf[:n], nil
}

// block is a Block2 option, RFC 7959 section 2.2.
type block struct {
	num  int
	more bool
	szx  uint8 // 0 .. 6 = 16 .. 1024 bytes; 7 is for TCP only
}

func (b block) size() int   { return 16 << b.szx }
func (b block) offset() int { return b.num * b.size() }

func (b block) value() uint32 {
	v := uint32(b.num)<<4 | uint32(b.szx)
	if b.more {
		v |= 8
	}
	return v
}

func blockOf(v uint32) block { return block{int(v >> 4), v&8 != 0, uint8(v & 7)} }

// szxOf is the exponent of a block size of 16, 32, ... 1024 bytes.
func szxOf(size int) (uint8, bool) {
	if size < 16 || size > 1024 || bits.OnesCount(uint(size)) != 1 {
		return 0, false
	}
	return uint8(bits.TrailingZeros(uint(size)) - 4), true
}

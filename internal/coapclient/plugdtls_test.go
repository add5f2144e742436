package coapclient

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/testbed"
	"github.com/crawld/crawld/internal/visit"
)

// plugDTLS is a server of other make with the key theKey of crawld. It serves path.
type plugDTLS struct {
	at         netip.AddrPort
	path       string
	connection bool // it knows Connection IDs
	givesUp    bool // it may end a handshake that has lost datagrams
}

const noRPK = "raw public keys (RFC 7250) are not supported"

var plugSecure = []plugtest{
	{id: "DTLS_01", does: "pre-shared key", secure: func(t *testing.T, p *plugDTLS) {
		out := p.visit(t, pskCredential(), p.at, 10*time.Second)
		is(t, out, visit.Described, "", true)
	}},
	{id: "DTLS_02", does: "pre-shared key, wrong", secure: func(t *testing.T, p *plugDTLS) {
		wrong := pskCredential()
		wrong.Key = []byte("another key of 16")
		is(t, p.visit(t, wrong, p.at, 100*time.Millisecond), visit.Failed, ReasonAuth, true)
	}},
	{id: "DTLS_03", does: "pre-shared key in a lossy context", secure: lossySecure},
	{id: "DTLS_04", does: "raw public key", why: noRPK},
	{id: "DTLS_05", does: "raw public key, wrong", why: noRPK},
	{id: "DTLS_06", does: "raw public key in a lossy context", why: noRPK},
	{id: "DTLS_07", does: "raw public key, cipher suites", why: noRPK},
}

func (p *plugDTLS) visit(t *testing.T, k Credential, at netip.AddrPort,
	patience time.Duration) visit.Outcome {
	t.Helper()
	v := visitTo("coaps://" + at.String() + p.path)
	v.Credential, v.AckTimeout = k.ID, patience
	return fetch(t, newClient(t, Options{Credentials: []Credential{k}}), v)
}

// lossySecure loses a tenth of the datagrams, each time others, so that each flight of the
// handshake is lost in some of the visits.
func lossySecure(t *testing.T, p *plugDTLS) {
	const visits = 8
	var lost, done atomic.Int64
	t.Run("visits", func(t *testing.T) {
		for seed := range uint64(visits) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				air := testbed.Air{Loss: .1}
				proxy, err := testbed.NewProxy(seed, p.at, air, air)
				if err != nil {
					t.Fatal(err)
				}
				defer proxy.Close()
				out := p.visit(t, pskCredential(), proxy.Addr(), 200*time.Millisecond)
				up, down := proxy.Counts()
				lost.Add(int64(up.Lost + down.Lost))
				if p.givesUp && out.Reason == ReasonClosed {
					t.Log(out.Error)
					return
				}
				is(t, out, visit.Described, "", true)
				done.Add(1)
			})
		}
	})
	t.Logf("%d datagrams lost in %d visits, %d succeeded", lost.Load(), visits, done.Load())
	if lost.Load() < visits/2 || done.Load() < visits/2 {
		t.Error("that is no lossy context, or too lossy a one")
	}
}

var plugDTLSPeers = map[string]func(t *testing.T) *plugDTLS{
	"libcoap-openssl": func(t *testing.T) *plugDTLS { return libcoapDTLS(t, "coap-server-openssl") },
	"libcoap-gnutls": func(t *testing.T) *plugDTLS {
		p := libcoapDTLS(t, "coap-server-gnutls")
		p.givesUp = true
		return p
	},
	"Californium": func(t *testing.T) *plugDTLS {
		_, at := californium(t)
		return &plugDTLS{at: at, path: "/test", connection: true}
	},
}

func libcoapDTLS(t *testing.T, program string) *plugDTLS {
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte(",crawld,"+string(theKey)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, secure := libcoapServer(t, program, "-k", string(theKey), "-d", "10", "-i", users)
	p := &plugDTLS{at: netip.MustParseAddrPort(secure), path: "/.well-known/core"}
	v := visitTo("coaps://" + secure + p.path)
	v.Credential = "psk"
	await(t, newClient(t, Options{Credentials: []Credential{pskCredential()}}), v)
	return p
}

// TestPlugtestsDTLS runs the rows of DTLS against every peer that is installed. Where it
// knows Connection IDs (RFC 9146), each later visit is one datagram each way.
func TestPlugtestsDTLS(t *testing.T) {
	for name, start := range plugDTLSPeers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t)
			for _, row := range plugSecure {
				if row.secure != nil {
					t.Run(row.id, func(t *testing.T) {
						t.Parallel()
						row.secure(t, p)
					})
				}
			}
			if p.connection {
				t.Run("ConnectionID", func(t *testing.T) {
					t.Parallel()
					oneDatagram(t, p)
				})
			}
		})
	}
}

func oneDatagram(t *testing.T, p *plugDTLS) {
	sessions, _ := newSessions(t)
	c := newClient(t, Options{Credentials: []Credential{pskCredential()}, Sessions: sessions})
	v := visitTo("coaps://" + p.at.String() + p.path)
	v.Sensor, v.Credential, v.AckTimeout = "peer", "psk", 10*time.Second
	is(t, fetch(t, c, v), visit.Described, "", true)
	for range 5 {
		out := fetch(t, c, v)
		is(t, out, visit.Described, "", true)
		if out.DatagramsSent != 1 || out.DatagramsReceived != 1 {
			t.Errorf("%d+%d datagrams", out.DatagramsSent, out.DatagramsReceived)
		}
	}
	if n := c.Stats().Handshakes; n != 1 {
		t.Errorf("%d handshakes in 6 visits", n)
	}
}

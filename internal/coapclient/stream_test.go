package coapclient

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/plgd-dev/go-coap/v3/mux"
	coapnet "github.com/plgd-dev/go-coap/v3/net"
	"github.com/plgd-dev/go-coap/v3/options"
	"github.com/plgd-dev/go-coap/v3/tcp"
	"github.com/plgd-dev/go-coap/v3/tcp/coder"

	"github.com/crawld/crawld/internal/visit"
)

// goCoAPStream is a server of go-coap on TCP, or on TLS with a configuration.
func goCoAPStream(t *testing.T, secure *tls.Config, large []byte) (uri string) {
	t.Helper()
	router := mux.NewRouter()
	serve := func(path string, format message.MediaType, body []byte) {
		err := router.Handle(path, mux.HandlerFunc(func(w mux.ResponseWriter, r *mux.Message) {
			if tag, err := r.Options().GetBytes(message.ETag); err == nil && string(tag) == "v1" {
				_ = w.SetResponse(codes.Valid, message.TextPlain, nil, message.Option{ID: message.ETag,
					Value: []byte("v1")})
				return
			}
			_ = w.SetResponse(codes.Content, format, bytes.NewReader(body),
				message.Option{ID: message.ETag, Value: []byte("v1")})
		}))
		if err != nil {
			t.Fatal(err)
		}
	}
	serve("/.well-known/core", message.AppLinkFormat, []byte(links))
	serve("/large", message.AppOctets, large)
	server := tcp.NewServer(options.WithMux(router), idle)
	done := make(chan error)
	var address string
	if secure == nil {
		l, err := coapnet.NewTCPListener("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address = "coap+tcp://" + l.Addr().String()
		go func() { done <- server.Serve(l) }()
		t.Cleanup(func() { _ = l.Close() })
	} else {
		l, err := coapnet.NewTLSListener("tcp4", "127.0.0.1:0", secure)
		if err != nil {
			t.Fatal(err)
		}
		address = "coaps+tcp://" + l.Addr().String()
		go func() { done <- server.Serve(l) }()
		t.Cleanup(func() { _ = l.Close() })
	}
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return address
}

func TestGoCoAPOverTCP(t *testing.T) {
	body := bodyOf(60_000, 0)
	base := goCoAPStream(t, nil, body)
	c := newClient(t, Options{})
	out := fetch(t, c, visitTo(base+"/.well-known/core"))
	described(t, out, links)
	if out.Format != 40 || out.Links != 2 || string(out.NewETag) != "v1" || out.DatagramsSent < 2 {
		t.Errorf("%+v", out)
	}
	v := visitTo(base + "/.well-known/core")
	v.ETag, v.Known = out.NewETag, out.Hash
	is(t, fetch(t, c, v), visit.Unchanged, "", true)
	described(t, fetch(t, c, visitTo(base+"/large")), string(body))
	is(t, fetch(t, newClient(t, Options{Limits: Limits{Body: 1000}}), visitTo(base+"/large")),
		visit.Failed, ReasonLimit, true)
	is(t, fetch(t, c, visitTo(base+"/none")), visit.Refused, ReasonCode, true)
}

func TestGoCoAPOverTLS(t *testing.T) {
	theirs, ours := newAuthority(t, "sensors"), newAuthority(t, "crawlers")
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		server := func(lasts time.Duration) string {
			return goCoAPStream(t, &tls.Config{Certificates: []tls.Certificate{theirs.issue(t, lasts)},
				ClientCAs: ours.pool(), ClientAuth: tls.RequireAndVerifyClientCert,
				NextProtos: []string{"coap"}, MaxVersion: version}, nil)
		}
		base, expired := server(time.Hour), server(-time.Minute)
		good := certCredential(ours.issue(t, time.Hour), theirs)
		stranger := certCredential(newAuthority(t, "crawlers").issue(t, time.Hour), theirs)
		stranger.ID = "stranger"
		root := certCredential(ours.issue(t, time.Hour), newAuthority(t, "sensors"))
		root.ID = "root"
		c := newClient(t, Options{Credentials: []Credential{good, stranger, root, pskCredential()}})
		ask := func(base, id string) visit.Outcome {
			v := visitTo(base + "/.well-known/core")
			v.Credential = id
			return fetch(t, c, v)
		}
		described(t, ask(base, "cert"), links)
		for _, id := range []string{"stranger", "root"} {
			out := ask(base, id)
			is(t, out, visit.Failed, ReasonAuth, true)
			if out.RetryAfter != authPause {
				t.Errorf("%s: again after %v", id, out.RetryAfter)
			}
		}
		is(t, ask(expired, "cert"), visit.Failed, ReasonAuth, true)
		is(t, ask(base, "psk"), visit.Failed, ReasonAuth, false)
		is(t, ask(base, ""), visit.Failed, ReasonAuth, false)
	}
}

func TestLibcoapOverTCP(t *testing.T) {
	plain, secure := libcoapServer(t, "coap-server-openssl", "-k", string(theKey), "-d", "10")
	c := newClient(t, Options{})
	out := await(t, c, visitTo("coap+tcp://"+plain+"/.well-known/core"))
	is(t, out, visit.Described, "", true)
	is(t, fetch(t, c, visitTo("coap+tcp://"+plain+"/none")), visit.Refused, ReasonCode, true)
	body := storeLarge(t, secure)
	out = fetch(t, c, visitTo("coap+tcp://"+plain+"/example_data"))
	described(t, out, string(body))
	t.Logf("%d bytes in %d blocks", len(out.Body), out.Blocks)
}

// streamPeer accepts one connection after another and hands each to a script.
func streamPeer(t testing.TB, script func(conn net.Conn)) (uri string) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				script(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	return "coap+tcp://" + l.Addr().String()
}

// asked reads our CSM and the request, and returns the token.
func asked(conn net.Conn) []byte {
	r := bufio.NewReader(conn)
	for {
		b, _, err := readFrame(r, 1<<20)
		if err != nil || b == nil {
			return nil
		}
		if b[1] == byte(codes.GET) {
			return b[4 : 4+int(b[0]&15)]
		}
	}
}

// streamed is a frame as go-coap writes it.
func streamed(token []byte, code codes.Code, payload []byte, opts ...message.Option) []byte {
	m := message.Message{Code: code, Token: token, Payload: payload, Options: opts}
	n, err := coder.DefaultCoder.Size(m)
	if err != nil {
		panic(err)
	}
	b := make([]byte, n)
	if _, err := coder.DefaultCoder.Encode(m, b); err != nil {
		panic(err)
	}
	return b
}

// TestHostileStreams: whatever a peer on TCP does, the visit ends in bounds.
func TestHostileStreams(t *testing.T) {
	flood := func(conn net.Conn, b []byte) {
		for {
			if _, err := conn.Write(b); err != nil {
				return
			}
		}
	}
	size2 := func(n uint32) message.Option {
		b := make([]byte, 4)
		n2, _ := message.EncodeUint32(b, n)
		return message.Option{ID: message.Size2, Value: b[:n2]}
	}
	for name, test := range map[string]struct {
		script func(conn net.Conn)
		reason string
		result visit.Result
	}{
		"closes at once": {func(net.Conn) {}, ReasonClosed, visit.Failed},
		"says nothing":   {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, ReasonTimeout, visit.Failed},
		"garbage":        {func(c net.Conn) { flood(c, bytes.Repeat([]byte{0xff}, 4096)) }, ReasonBlock, visit.Failed},
		"zeros":          {func(c net.Conn) { flood(c, make([]byte, 4096)) }, ReasonLimit, visit.Failed},
		"huge length":    {func(c net.Conn) { asked(c); flood(c, []byte{0xf8, 0xff, 0xff, 0xff, 0xff}) }, ReasonLimit, visit.Failed},
		"too large":      {func(c net.Conn) { flood(c, streamed(asked(c), codes.Content, make([]byte, 1<<20))) }, ReasonLimit, visit.Failed},
		"announces":      {func(c net.Conn) { flood(c, streamed(asked(c), codes.Content, []byte("x"), size2(1<<30))) }, ReasonLimit, visit.Failed},
		"other tokens":   {func(c net.Conn) { asked(c); flood(c, streamed([]byte("12345678"), codes.Content, make([]byte, 4000))) }, ReasonLimit, visit.Failed},
		"pings":          {func(c net.Conn) { asked(c); flood(c, streamed([]byte("1"), codePing, nil)) }, ReasonLimit, visit.Failed},
		"requests":       {func(c net.Conn) { asked(c); flood(c, bytes.Repeat(streamed([]byte("12345678"), codes.GET, nil), 1000)) }, ReasonLimit, visit.Failed},
		"aborts":         {func(c net.Conn) { asked(c); _, _ = c.Write(streamed(nil, codeAbort, nil)) }, ReasonClosed, visit.Failed},
		"critical": {func(c net.Conn) {
			asked(c)
			flood(c, streamed(nil, codeCSM, nil, message.Option{ID: 9, Value: []byte{1}}))
		}, ReasonCritical, visit.Failed},
		"not found":       {func(c net.Conn) { flood(c, streamed(asked(c), codes.NotFound, nil)) }, ReasonCode, visit.Refused},
		"half a response": {func(c net.Conn) { b := streamed(asked(c), codes.Content, make([]byte, 500)); _, _ = c.Write(b[:300]) }, ReasonClosed, visit.Failed},
		"one byte a time": {func(c net.Conn) {
			for _, b := range streamed(asked(c), codes.Content, []byte(links)) {
				_, _ = c.Write([]byte{b})
			}
			_, _ = io.Copy(io.Discard, c)
		}, "", visit.Described},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			uri := streamPeer(t, test.script)
			c := newClient(t, Options{Limits: Limits{Progress: 2 * time.Second}})
			v := visitTo(uri)
			v.AckTimeout = 100 * time.Millisecond
			out := fetch(t, c, v)
			is(t, out, test.result, test.reason, true)
			if most := streamBodies*(64<<10) + 2*streamSlack; out.BytesReceived > most {
				t.Errorf("%d bytes were read, at most %d", out.BytesReceived, most)
			}
		})
	}
}

func TestStreamUnreachable(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	is(t, fetch(t, newClient(t, Options{}), visitTo("coap+tcp://"+l.Addr().String())), visit.Asleep,
		ReasonICMP, false)
}

// The frames that we write are those that go-coap writes, and the other way round.
func TestFramesTwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		token := make([]byte, rng.IntN(9))
		payload := make([]byte, []int{0, 1, 11, 12, 13, 254, 255, 256, 268, 300, 65_530, 70_000}[rng.IntN(12)]+rng.IntN(6))
		whole := streamed(token, codes.Content, payload)
		b, f, err := readFrame(bufio.NewReader(bytes.NewReader(whole)), 1<<20)
		if err != nil || f != nil {
			t.Fatal(err, f)
		}
		rest := b[4:]
		mine := append(frameHead(len(rest)-len(token), len(token), codes.Code(b[1])), rest...)
		if !bytes.Equal(mine, whole) {
			t.Fatalf("token %d, payload %d bytes: %x, want %x", len(token), len(payload),
				mine[:min(len(mine), 20)], whole[:min(len(whole), 20)])
		}
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add(streamed([]byte("12345678"), codes.Content, []byte(links)))
	f.Add(streamed(nil, codeCSM, nil))
	f.Add([]byte{0xf8, 0xff, 0xff, 0xff, 0xff, 0x45})
	f.Add([]byte{0xe0, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bufio.NewReader(bytes.NewReader(data))
		for {
			b, fail, err := readFrame(r, 1000)
			if err != nil || fail != nil {
				return
			}
			if len(b) > 1000+12 || len(b) < 4+int(b[0]&15) {
				t.Fatalf("%d bytes, token of %d", len(b), b[0]&15)
			}
			_ = criticalOption(b[4+int(b[0]&15):])
		}
	})
}

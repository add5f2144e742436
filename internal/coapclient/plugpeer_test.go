package coapclient

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/plgd-dev/go-coap/v3/mux"
	"github.com/plgd-dev/go-coap/v3/udp"
)

// plugPeer is a server of other make with resources of the plugtest lists.
type plugPeer struct {
	name      string
	resources map[string]string // path of each that it offers
	bodies    map[string]string // where they are known
	links     map[string]int    // number of links for a query, where it filters
	rows      int               // number of rows that apply
	without   map[string]string // rows that it cannot do, and why
	start     func(t *testing.T, p *plugPeer) netip.AddrPort
	change    func(t *testing.T, p *plugRun) // what "validate" serves
}

var plugLarge = strings.Repeat("large", 340)

// plugBodies are what our own resources serve.
var plugBodies = map[string]string{"test": "test", "segments": "segments",
	"separate": "separate", "large": plugLarge, "query": "/query?first=1&second=2"}

var plugResources = map[string]string{"test": "/test", "segments": "/seg1/seg2/seg3",
	"query": "/query", "separate": "/separate", "large": "/large", "validate": "/validate",
	"path": "/path", "core": "/.well-known/core"}

var plugPeers = []plugPeer{
	{
		name: "libcoap",
		resources: map[string]string{"test": "/test", "segments": "/seg1/seg2/seg3",
			"query": "/test", "separate": "/async?1", "large": "/example_data",
			"core": "/.well-known/core"},
		bodies: map[string]string{"test": "test", "segments": "segments", "separate": "done"},
		links:  map[string]int{"?rt=Type1": 0, "?rt=*": 1, "?rt=Type2": 0, "?href=/link1": 0},
		rows:   22, start: startLibcoap,
		without: map[string]string{
			"CORE_21": "its example server gives ETags and compares none",
			"LINK_09": "its example server has no links to links",
		},
	},
	{
		name: "go-coap", resources: plugResources, bodies: plugBodies,
		links: map[string]int{"": 4},
		rows:  24, start: startGoCoAP, change: getChange,
	},
	{
		name: "node-coap", resources: plugResources, bodies: plugBodies,
		links: map[string]int{"": 5, "?rt=Type1": 2, "?rt=*": 3, "?rt=Type2": 2, "?if=If*": 3,
			"?sz=*": 1, "?href=/link1": 1, "?href=/link*": 2},
		rows: 23, start: startNodeCoAP, change: getChange,
		without: map[string]string{"BLOCK_06": "it sends blocks of 16 bytes empty"},
	},
	{
		name: "aiocoap", resources: plugResources, bodies: plugBodies,
		links: map[string]int{"": 11, "?rt=Type1": 2, "?rt=*": 11, "?rt=Type2": 2, "?if=If*": 3,
			"?sz=*": 1, "?href=/link1": 1, "?href=/link*": 2},
		rows: 24, start: startAiocoap, change: getChange,
	},
	{
		name: "Californium", resources: plugResources, bodies: plugBodies,
		links: map[string]int{"": 12, "?rt=Type1": 2, "?rt=*": 3, "?rt=Type2": 2, "?if=If*": 3,
			"?sz=*": 1, "?href=/link1": 1, "?href=/link*": 2},
		rows: 24, start: startCalifornium, change: getChange,
	},
}

func getChange(t *testing.T, p *plugRun) {
	t.Helper()
	if out := fetch(t, p.c, plugVisit(p.base+"/change")); !out.Result.Success() {
		t.Fatal(out.Error)
	}
}

// command starts a program that ends with the test.
func command(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// startLibcoap starts libcoap's example server and creates what it lacks.
func startLibcoap(t *testing.T, _ *plugPeer) netip.AddrPort {
	at, _ := libcoapServer(t, "coap-server-notls", "-d", "10")
	c := newClient(t, Options{})
	waitFor(t, func() bool { return fetch(t, c, plugVisit("coap://"+at+"/time")).Contact })
	put(t, at, "/test", "test")
	put(t, at, "/seg1/seg2/seg3", "segments")
	return netip.MustParseAddrPort(at)
}

func put(t *testing.T, address, path, body string) {
	t.Helper()
	conn, err := udp.Dial(address, idle)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = conn.Close()
		<-conn.Done()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, err := conn.Put(ctx, path, message.TextPlain, strings.NewReader(body))
	if err != nil || r.Code()>>5 != 2 {
		t.Fatalf("PUT %s: %v %v", path, r, err)
	}
}

// startGoCoAP serves the resources with go-coap.
func startGoCoAP(t *testing.T, _ *plugPeer) netip.AddrPort {
	router, version := mux.NewRouter(), atomic.Uint32{}
	handle := func(path string, h func(w mux.ResponseWriter, r *mux.Message)) {
		if err := router.Handle(path, mux.HandlerFunc(h)); err != nil {
			t.Fatal(err)
		}
	}
	text := func(w mux.ResponseWriter, body string, opts ...message.Option) {
		_ = w.SetResponse(codes.Content, message.TextPlain, strings.NewReader(body), opts...)
	}
	for path, body := range map[string]string{"/test": "test", "/seg1/seg2/seg3": "segments",
		"/large": plugLarge} {
		handle(path, func(w mux.ResponseWriter, _ *mux.Message) { text(w, body) })
	}
	handle("/query", func(w mux.ResponseWriter, r *mux.Message) {
		q, _ := r.Queries()
		text(w, "/query?"+strings.Join(q, "&"))
	})
	handle("/separate", separately)
	handle("/validate", func(w mux.ResponseWriter, r *mux.Message) {
		tag := message.Option{ID: message.ETag, Value: []byte{byte(version.Load())}}
		sent, err := r.Options().GetBytes(message.ETag)
		if err == nil && bytes.Equal(sent, tag.Value) {
			_ = w.SetResponse(codes.Valid, message.TextPlain, nil, tag)
			return
		}
		text(w, fmt.Sprint("version ", tag.Value), tag)
	})
	handle("/change", func(w mux.ResponseWriter, _ *mux.Message) {
		version.Add(1)
		text(w, "changed")
	})
	for path, doc := range map[string]string{
		"/.well-known/core": `</test>;rt="Type1 Type2",</link1>;rt="Type1",</large>;sz="1700",` +
			`</path>;ct=40`,
		"/path": "</path/sub1>,</path/sub2>",
	} {
		handle(path, func(w mux.ResponseWriter, _ *mux.Message) {
			_ = w.SetResponse(codes.Content, message.AppLinkFormat, strings.NewReader(doc))
		})
	}
	return serveGoCoAP(t, router)
}

// separately answers in a message of its own; the library acknowledges meanwhile.
func separately(w mux.ResponseWriter, r *mux.Message) {
	conn, token, typ := w.Conn(), r.Token(), r.Type()
	token = append(message.Token(nil), token...)
	go func() {
		m := conn.AcquireMessage(conn.Context())
		defer conn.ReleaseMessage(m)
		m.SetCode(codes.Content)
		m.SetType(typ)
		m.SetToken(token)
		m.SetContentFormat(message.TextPlain)
		m.SetBody(bytes.NewReader([]byte("separate")))
		_ = conn.WriteMessage(m)
	}()
}

package app

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
)

const (
	// maxConnections is open at once on all addresses together. A connection costs some
	// 20 KiB and a descriptor.
	maxConnections = 512
	// maxControl is the same for the control socket.
	maxControl = 32
)

// connections bounds how many connections are open. When there are as many, a new one takes
// the place of another: of the one that is longest without a request under way, else of the
// one whose request is oldest. So clients that open connections and send little, or read
// slowly, hurt each other, and a request that is sent at once is answered.
//
// A listener that stops accepting instead (golang.org/x/net/netutil) would let a few hundred
// slow clients keep everybody out.
type connections struct {
	most    int
	evicted prometheus.Counter

	mu      sync.Mutex
	waiting *list.List // of *connection, without a request under way, longest first
	busy    *list.List // of *connection, the oldest request first
	reserve *os.File   // a descriptor to give up when there are no others; nil = given up
}

// connection is one of connections.
type connection struct {
	net.Conn
	all *connections
	// Guarded by all.mu.
	place    *list.Element // nil once closed
	requests int           // under way; over HTTP/2 there may be several
}

func newConnections(most int, evicted prometheus.Counter) *connections {
	c := &connections{most: most, evicted: evicted, waiting: list.New(), busy: list.New()}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refill()
	return c
}

// affordable is how many connections there may be: most, or a quarter of what descriptors
// the process may have, so that the rest is left to database, sensors and lists.
func affordable(most int) int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return most
	}
	return max(4, int(min(uint64(most), limit.Cur/4)))
}

// bounded makes a listener's connections count.
func (c *connections) bounded(l net.Listener) net.Listener { return &boundedListener{l, c} }

type boundedListener struct {
	net.Listener
	all *connections
}

// patience is how long Accept waits at a time for a client when there is no descriptor left.
// A listener that is closed meanwhile waits for it.
const patience = 100 * time.Millisecond

// Accept makes room where the process has no descriptor left. If it cannot, the error is the
// listener's: net/http waits before it tries again.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		switch {
		case err == nil:
			return l.all.add(conn), nil
		case !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE):
			return nil, err
		case !l.pending():
		case !l.all.makeRoom():
			return nil, err
		}
	}
}

// pending waits a moment for a client: accept(2) without a descriptor fails at once, before
// it looks whether there is one, and nobody need go for a client that has not come.
func (l *boundedListener) pending() bool {
	listener, is := l.Listener.(syscall.Conn)
	if !is {
		return true
	}
	raw, err := listener.SyscallConn()
	if err != nil {
		return true // Accept says why
	}
	ready := true
	err = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(patience.Milliseconds()))
		ready = n > 0 || err != nil && err != unix.EINTR
	})
	return ready || err != nil
}

// add takes a new connection in and closes another one if there are too many.
func (c *connections) add(conn net.Conn) net.Conn {
	n := &connection{Conn: conn, all: c}
	c.mu.Lock()
	n.place = c.waiting.PushBack(n)
	var old *connection
	if c.open() > c.most {
		old = c.oldest(n)
	}
	c.refill()
	c.mu.Unlock()
	c.evict(old)
	return n
}

// makeRoom frees a descriptor: that in reserve, else that of a connection without a request.
func (c *connections) makeRoom() bool {
	c.mu.Lock()
	if c.reserve != nil {
		_ = c.reserve.Close() // only read, and of nothing
		c.reserve = nil
		c.mu.Unlock()
		return true
	}
	var old *connection
	if first := c.waiting.Front(); first != nil {
		old = first.Value.(*connection)
	}
	c.mu.Unlock()
	c.evict(old)
	return old != nil
}

// evict closes a connection that may be nil. What was sent is dropped, because a peer that
// does not read could hold on to the kernel's memory for minutes.
func (c *connections) evict(old *connection) {
	if old == nil {
		return
	}
	c.evicted.Inc()
	if tcp, is := old.Conn.(*net.TCPConn); is {
		_ = tcp.SetLinger(0)
	}
	_ = old.Close()
}

// oldest is the connection that n takes the place of. It must be called with mu held.
func (c *connections) oldest(n *connection) *connection {
	for _, l := range []*list.List{c.waiting, c.busy} {
		if first := l.Front(); first != nil && first.Value != n {
			return first.Value.(*connection)
		}
	}
	return nil
}

func (c *connections) open() int { return c.waiting.Len() + c.busy.Len() }

// refill takes a descriptor in reserve where there is one. It must be called with mu held.
func (c *connections) refill() {
	if c.reserve == nil {
		c.reserve, _ = os.Open(os.DevNull)
	}
}

// close gives the descriptor in reserve back.
func (c *connections) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reserve == nil {
		return nil
	}
	return c.reserve.Close()
}

// Close may be called more than once.
func (n *connection) Close() error {
	err := n.Conn.Close()
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	if n.place != nil {
		n.list().Remove(n.place)
		n.place = nil
		n.all.refill()
	}
	return err
}

// list is where n stands. It must be called with mu held.
func (n *connection) list() *list.List {
	if n.requests > 0 {
		return n.all.busy
	}
	return n.all.waiting
}

// request counts one more request under way, or one less.
func (n *connection) request(more int) {
	n.all.mu.Lock()
	defer n.all.mu.Unlock()
	before := n.list()
	n.requests += more
	if after := n.list(); n.place != nil && after != before {
		before.Remove(n.place)
		n.place = after.PushBack(n)
	}
}

type connectionKey struct{}

// remember puts a connection into the context of its requests. It is a ConnContext of
// http.Server.
func remember(ctx context.Context, conn net.Conn) context.Context {
	if secure, is := conn.(*tls.Conn); is {
		conn = secure.NetConn()
	}
	if n, is := conn.(*connection); is {
		return context.WithValue(ctx, connectionKey{}, n)
	}
	return ctx
}

// counted tells the connections of requests under way.
func counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, is := r.Context().Value(connectionKey{}).(*connection); is {
			n.request(1)
			defer n.request(-1)
		}
		next.ServeHTTP(w, r)
	})
}

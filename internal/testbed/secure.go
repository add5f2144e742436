package testbed

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/pion/dtls/v3"
)

// Security makes a sensor speak DTLS 1.2 (coaps://): with pre-shared keys or, where there
// are none, with a certificate. With Spec.TCP it speaks TLS, with a certificate.
type Security struct {
	Credential  string            // as the operator lists the sensor
	Keys        map[string][]byte // by identity
	Certificate tls.Certificate
	Clients     *x509.CertPool // who signs the clients' certificates; nil = none is asked for

	ConnectionID bool // takes part in RFC 9146
	Resumption   bool // resumes sessions, RFC 5246 section 7.3
}

// radio is what an endpoint hears and sends messages with.
type radio interface {
	ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error)
	WriteToUDPAddrPort(b []byte, to netip.AddrPort) (int, error)
	SetReadDeadline(t time.Time) error
	Close() error
}

const (
	// idBytes is the length of the Connection IDs of all secure sensors.
	idBytes = 4
	// arrivals is how many messages wait for the endpoint.
	arrivals = 64
)

// secureRadio has DTLS between the sensor's port and its endpoint. What comes while the
// sensor sleeps, and what is lost, is so below DTLS, where it meets handshakes too:
//
//	port <-> pump, one path per client <-> DTLS server <-> endpoint
type secureRadio struct {
	s        *Sensor
	port     *net.UDPConn
	server   net.Listener
	messages chan arrival
	closed   chan struct{}
	running  sync.WaitGroup

	mu       sync.Mutex // guards what follows
	chance   *rand.Rand
	deadline time.Time
	paths    map[netip.AddrPort]*net.UDPConn // of a client, towards the server
	clients  map[netip.AddrPort]netip.AddrPort
	conns    map[netip.AddrPort]net.Conn // newest association of a client
	all      []net.Conn
}

type arrival struct {
	message []byte
	from    netip.AddrPort
}

func newSecureRadio(s *Sensor, port *net.UDPConn) (*secureRadio, error) {
	r := &secureRadio{s: s, port: port, messages: make(chan arrival, arrivals),
		closed: make(chan struct{}), chance: rand.New(rand.NewPCG(s.loss.Uint64(), 1)),
		paths: map[netip.AddrPort]*net.UDPConn{}, clients: map[netip.AddrPort]netip.AddrPort{},
		conns: map[netip.AddrPort]net.Conn{}}
	var err error
	r.server, err = dtls.ListenWithOptions("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)},
		s.spec.Security.options()...)
	if err != nil {
		return nil, err
	}
	r.running.Go(r.pump)
	r.running.Go(r.accept)
	return r, nil
}

func (s *Security) options() []dtls.ServerOption {
	var list []dtls.ServerOption
	if s.Keys != nil {
		list = append(list, dtls.WithCipherSuites(dtls.TLS_PSK_WITH_AES_128_CCM_8),
			dtls.WithPSK(func(identity []byte) ([]byte, error) {
				if key, known := s.Keys[string(identity)]; known {
					return key, nil
				}
				return nil, fmt.Errorf("testbed: unknown identity %q", identity)
			}))
	} else {
		list = append(list, dtls.WithCertificates(s.Certificate))
		if s.Clients != nil {
			list = append(list, dtls.WithClientCAs(s.Clients),
				dtls.WithClientAuth(dtls.RequireAndVerifyClientCert))
		}
	}
	if s.ConnectionID {
		list = append(list, dtls.WithConnectionIDGenerator(dtls.RandomCIDGenerator(idBytes)))
	}
	if s.Resumption {
		list = append(list, dtls.WithSessionStore(&sessions{byID: map[string]dtls.Session{}}))
	}
	return list
}

// sessions is a server's memory of them.
type sessions struct {
	mu   sync.Mutex
	byID map[string]dtls.Session
}

// Get is of dtls.SessionStore.
func (s *sessions) Get(id []byte) (dtls.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID[string(id)], nil
}

// Set is of dtls.SessionStore.
func (s *sessions) Set(id []byte, session dtls.Session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[string(id)] = session
	return nil
}

// Del is of dtls.SessionStore.
func (s *sessions) Del(id []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, string(id))
	return nil
}

// pump carries what is heard to the server.
func (r *secureRadio) pump() {
	b := make([]byte, 64<<10)
	for {
		n, from, err := r.port.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || r.s.spec.Fault == FaultDead || !r.s.awake(clock()) || r.lost() {
			continue
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		r.s.count(Traffic{In: 1, BytesIn: n})
		if path := r.path(from); path != nil {
			_, _ = path.Write(b[:n])
		}
	}
}

func (r *secureRadio) lost() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.chance.Float64() < r.s.spec.Loss
}

// path is a client's way to the server, made when it is first heard.
func (r *secureRadio) path(client netip.AddrPort) *net.UDPConn {
	r.mu.Lock()
	defer r.mu.Unlock()
	if path := r.paths[client]; path != nil {
		return path
	}
	path, err := net.DialUDP("udp4", nil, r.server.Addr().(*net.UDPAddr))
	if err != nil {
		return nil
	}
	r.paths[client], r.clients[addrOf(path)] = path, client
	r.running.Go(func() { r.back(path, client) })
	return path
}

// back carries what the server says to a client.
func (r *secureRadio) back(path *net.UDPConn, client netip.AddrPort) {
	b := make([]byte, 64<<10)
	for {
		n, err := path.Read(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || !r.s.awake(clock()) {
			continue
		}
		r.s.count(Traffic{Out: 1, BytesOut: n})
		if !r.lost() {
			_, _ = r.port.WriteToUDPAddrPort(b[:n], client)
		}
	}
}

// accept takes associations until the server is closed.
func (r *secureRadio) accept() {
	for {
		conn, err := r.server.Accept()
		if err != nil {
			return
		}
		r.mu.Lock()
		r.all = append(r.all, conn)
		r.mu.Unlock()
		r.running.Go(func() { r.hear(conn) })
	}
}

// hear hands what comes over an association to the endpoint; the first Read makes the
// handshake.
func (r *secureRadio) hear(conn net.Conn) {
	defer conn.Close()
	b := make([]byte, 16<<10)
	for {
		n, err := conn.Read(b)
		if err != nil {
			return
		}
		r.mu.Lock() // under a Connection ID the client may come from anywhere
		from := r.clients[conn.RemoteAddr().(*net.UDPAddr).AddrPort()]
		r.conns[from] = conn
		r.mu.Unlock()
		select {
		case r.messages <- arrival{append([]byte(nil), b[:n]...), from}:
		case <-r.closed:
			return
		}
	}
}

// ReadFromUDPAddrPort waits for a message.
func (r *secureRadio) ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error) {
	r.mu.Lock()
	deadline := r.deadline
	r.mu.Unlock()
	return next(r.messages, r.closed, deadline, b)
}

// SetReadDeadline is for the next read.
func (r *secureRadio) SetReadDeadline(t time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deadline = t
	return nil
}

// WriteToUDPAddrPort sends a message to a client under its newest association.
func (r *secureRadio) WriteToUDPAddrPort(b []byte, to netip.AddrPort) (int, error) {
	r.mu.Lock()
	conn := r.conns[to]
	r.mu.Unlock()
	if conn == nil {
		return 0, fmt.Errorf("testbed: no association with %v", to)
	}
	return conn.Write(b)
}

// Close ends everything, as a device that lost power: nobody is told.
func (r *secureRadio) Close() error {
	close(r.closed)
	err := errors.Join(r.port.Close(), r.server.Close())
	r.mu.Lock()
	for _, path := range r.paths {
		_ = path.Close()
	}
	all := r.all
	r.mu.Unlock()
	for _, conn := range all {
		_ = conn.Close()
	}
	r.running.Wait()
	return err
}

package coapclient

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/dtls/v3"

	"github.com/crawld/crawld/internal/sessionfile"
)

// The cipher suites of RFC 7925 sections 4.2 and 4.4, RFC 7252 section 9.1.3, and their GCM
// kin.
var (
	pskSuites = []dtls.CipherSuiteID{
		dtls.TLS_PSK_WITH_AES_128_CCM_8, dtls.TLS_PSK_WITH_AES_128_CCM,
		dtls.TLS_PSK_WITH_AES_128_GCM_SHA256,
	}
	certificateSuites = []dtls.CipherSuiteID{
		dtls.TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8, dtls.TLS_ECDHE_ECDSA_WITH_AES_128_CCM,
		dtls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, dtls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	}
)

// association is a visit's DTLS association.
type association struct {
	connection
	e       *exchange
	wire    *carrier
	conn    *dtls.Conn
	cred    *Credential
	read    chan struct{} // closed when the reader has ended
	key     sessionfile.Key
	expires time.Time // of what may be kept
	closed  atomic.Bool
	asked   atomic.Int64 // messages of the exchange among what was sent

	mu      sync.Mutex // guards what follows
	session []byte     // an encoded dtls.Session
	until   time.Time  // session.Expires of one that was kept; zero = new
}

// connectDTLS sets the visit's connection up: under the Connection ID of an earlier visit
// where there is one, else by a handshake.
func (e *exchange) connectDTLS(caller context.Context) *failure {
	a := &association{e: e, read: make(chan struct{}),
		key: sessionfile.KeyOf(e.want.Sensor, e.want.URI)}
	e.conn = &a.connection
	var f *failure
	if a.cred, f = e.credential(); f != nil {
		return f
	}
	ctx, stop := e.during(caller)
	defer stop()
	socket, f := e.connected()
	if f != nil {
		return f
	}
	a.wire = newCarrier(a, socket)
	resumed, f := a.resume(ctx)
	if f == nil && !resumed {
		f = a.handshake(ctx, caller)
	}
	if f != nil {
		_ = socket.Close()
		return f
	}
	a.write, a.close = a.transmit, a.end
	go a.receive()
	return nil
}

func (a *association) transmit(b []byte) error {
	a.asked.Add(1)
	_, err := a.conn.Write(b)
	if err != nil && unreachableError(err) {
		a.e.client.deliverEnd(a.e, failf(ReasonICMP, "%v: %v", a.e.addr, err))
		return nil
	}
	return err
}

// options are those that a handshake and a resumed association share.
func (a *association) options() []dtls.Option {
	list := []dtls.Option{
		dtls.WithFlightInterval(a.e.want.AckTimeout),
		dtls.WithExtendedMasterSecret(dtls.RequestExtendedMasterSecret), // RFC 7627
	}
	if a.cred.Key != nil {
		key := a.cred.Key
		list = append(list, dtls.WithCipherSuites(pskSuites...),
			dtls.WithPSK(func([]byte) ([]byte, error) { return key, nil }),
			dtls.WithPSKIdentityHint([]byte(a.cred.Identity)))
		if a.e.target.named {
			list = append(list, dtls.WithServerName(a.e.target.host))
		}
		return list
	}
	return append(list, dtls.WithCipherSuites(certificateSuites...),
		dtls.WithCertificates(a.cred.Certificate), dtls.WithRootCAs(a.cred.pool),
		dtls.WithServerName(a.e.serverName(a.cred)))
}

// handshake makes a new association, by the sensor's retransmission timer. Silence ends it
// when it would end an exchange.
func (a *association) handshake(ctx, caller context.Context) *failure {
	e := a.e
	leave, f := e.seatHandshake(ctx, caller)
	if f != nil {
		return f
	}
	defer leave()
	list := make([]dtls.ClientOption, 0, 8)
	for _, o := range a.options() {
		list = append(list, o)
	}
	if a.cred.ConnectionID {
		list = append(list, dtls.WithConnectionIDGenerator(dtls.OnlySendCIDGenerator()))
	}
	if e.client.opts.Sessions != nil {
		list = append(list, dtls.WithSessionStore(sessionStore{a}))
	}
	conn, err := dtls.ClientWithOptions(a.wire, a.wire.RemoteAddr(), list...)
	if err != nil {
		return failf(ReasonAuth, "credential %q: %v", a.cred.ID, err)
	}
	e.client.count.handshakes.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.wire.patience = time.AfterFunc(e.silence(), func() {
		a.wire.silent.Store(true)
		cancel()
	})
	err = conn.HandshakeContext(ctx)
	a.wire.done.Store(true)
	a.wire.patience.Stop()
	if err != nil {
		_ = conn.Close()
		f := a.refused(err, ctx, caller)
		if f.reason == ReasonAuth {
			e.client.count.denied.Add(1)
		}
		return f
	}
	a.conn = conn
	a.expires = a.lifetime(time.Now())
	if at := a.until; !at.IsZero() && at.Before(a.expires) { // the secret is as old as the session
		a.expires = at
	}
	e.note("handshake done, %d datagrams sent, %d received", a.sent.Load(), a.received.Load())
	return nil
}

// refused says why there is no association. Once the sensor has answered, an alert, a
// certificate that does not hold and silence after our Finished all say the same: no trust.
func (a *association) refused(err error, ctx, caller context.Context) *failure {
	e, w := a.e, a.wire
	var alert interface{ Marshal() ([]byte, error) }
	switch {
	case w.spent.Load():
		return failf(ReasonLimit, "%d datagrams sent for a handshake with %v", a.sent.Load(), e.addr)
	case unreachableError(err):
		return failf(ReasonICMP, "%v: %v", e.addr, err)
	case errors.As(err, &alert) && closeNotify(alert) && w.finished.Load() < 2:
		return failf(ReasonClosed, "%v gave the handshake up: %v", e.addr, err)
	case errors.As(err, &alert):
		return failf(ReasonAuth, "%v refused the handshake: %v", e.addr, err)
	case ctx.Err() == nil:
		return failf(ReasonAuth, "handshake with %v: %v", e.addr, trust(err))
	case w.finished.Load() >= 2: // and it was awake: it has asked for the key exchange
		return failf(ReasonAuth, "%v took the key exchange %d times and never finished: wrong key or "+
			"identity", e.addr, w.finished.Load())
	case w.silent.Load() && !a.met.Load():
		return failf(ReasonTimeout, "no answer to %d datagrams of a handshake", a.sent.Load())
	case w.silent.Load():
		return failf(ReasonProgress, "%v began a handshake and then said nothing", e.addr)
	}
	return e.whyStopped(caller)
}

// closeNotify tells the alert that says no more than that the other end is done: libcoap with
// GnuTLS sends it in some handshakes that lose datagrams.
func closeNotify(alert interface{ Marshal() ([]byte, error) }) bool {
	b, err := alert.Marshal()
	return err == nil && len(b) == 2 && b[1] == 0
}

// trust explains errors of certificates in the operator's words.
func trust(err error) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return fmt.Sprintf("the sensor's certificate is signed by none of the roots (%v)", err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("the sensor's certificate has expired or is not valid yet (%v)", err)
	case errors.As(err, &name):
		return fmt.Sprintf("the sensor's certificate is another's (%v)", err)
	}
	return err.Error()
}

// receive hands what comes to the visit until the association ends.
func (a *association) receive() {
	defer close(a.read)
	b := make([]byte, plaintext)
	for {
		n, err := a.conn.Read(b)
		switch {
		case err == nil:
			a.e.client.deliverPlain(a.e, b[:n])
			continue
		case a.closed.Load():
		case unreachableError(err):
			a.e.client.deliverEnd(a.e, failf(ReasonICMP, "%v: %v", a.e.addr, err))
		default:
			a.e.client.deliverEnd(a.e, failf(ReasonClosed, "%v ended the association: %v", a.e.addr, err))
		}
		return
	}
}

// end closes the association. Where it may go on under its Connection ID, the sensor is not
// told, and its state is kept.
func (a *association) end(keep bool) {
	a.closed.Store(true)
	var state *sessionfile.State
	if keep && a.e.client.opts.Sessions != nil {
		state = a.export()
	}
	a.wire.last.Store(true)
	_ = a.conn.Close() // a close_notify, unless the wire is muted
	<-a.read
	if state == nil {
		return
	}
	if err := a.e.client.opts.Sessions.Put(a.key, *state); err != nil {
		a.e.note("association not kept: %v", err)
	}
}

// carrier is the UDP socket below an association. It counts, bounds what a sensor can make us
// send, and sees as much of the handshake as anybody on the path does.
type carrier struct {
	*net.UDPConn
	a        *association
	client   *Client
	pause    time.Duration // longest silence once the sensor has answered the handshake
	finishes int64         // how often our Finished may be sent
	muted    atomic.Bool   // nothing is sent any more
	last     atomic.Bool   // one more datagram, then muted: a close_notify is not answered twice
	silent   atomic.Bool   // patience is over
	spent    atomic.Bool   // the bound on datagrams is reached
	finished atomic.Int64  // times that our Finished was sent
	done     atomic.Bool   // the handshake is over
	cid      atomic.Bool   // we send under a Connection ID of the sensor's
	patience *time.Timer   // of the handshake
}

// newCarrier takes all it needs of the exchange, which may be over before the last of the
// goroutines below an association has noticed. Our Finished is sent as often as a request
// would be, but twice at least: a second silence is what tells distrust from loss.
func newCarrier(a *association, conn *net.UDPConn) *carrier {
	return &carrier{UDPConn: conn, a: a, client: a.e.client, pause: a.e.patience(),
		finishes: int64(max(2, a.e.want.Retrans+1))}
}

// ReadFrom is of net.PacketConn.
func (w *carrier) ReadFrom(b []byte) (int, net.Addr, error) {
	n, err := w.Read(b)
	if err != nil {
		return n, nil, err
	}
	w.a.countReceived(n)
	w.client.count.received.Add(1)
	if w.patience != nil && !w.done.Load() {
		if isRecord(b[:n], contentHandshake) {
			w.a.met.Store(true) // awake, whoever it is
		}
		w.patience.Reset(w.pause)
	}
	return n, w.RemoteAddr(), nil
}

// WriteTo is of net.PacketConn.
func (w *carrier) WriteTo(b []byte, _ net.Addr) (int, error) {
	if w.muted.Load() || w.last.Load() && w.muted.Swap(true) {
		return len(b), nil
	}
	limit := int64(w.client.opts.Limits.Datagrams)
	if w.a.sent.Load()-w.a.asked.Load() >= limit {
		w.spent.Store(true)
		return 0, os.ErrDeadlineExceeded
	}
	if containsRecord(b, contentChangeCipherSpec) {
		if w.finished.Load() >= w.finishes { // asked for again and again: it does not get through
			w.silent.Store(true)
			w.patience.Reset(0)
			return len(b), nil
		}
		w.finished.Add(1)
	}
	w.a.countSent(len(b))
	w.client.count.sent.Add(1)
	if isRecord(b, contentConnectionID) {
		w.cid.Store(true)
	}
	n, err := w.Write(b)
	if err != nil && lostLocally(err) && !unreachableError(err) {
		return len(b), nil // as if the network had lost it
	}
	return n, err
}

// Content types of records, RFC 5246 section 6.2.1.
const (
	contentChangeCipherSpec = 20
	contentHandshake        = 22
	contentConnectionID     = 25 // RFC 9146 section 4

	recordHeader = 13 // RFC 6347 section 4.1
)

func isRecord(b []byte, content byte) bool { return len(b) >= recordHeader && b[0] == content }

// containsRecord looks through all records of a datagram.
func containsRecord(b []byte, content byte) bool {
	for len(b) >= recordHeader {
		if b[0] == content {
			return true
		}
		b = b[min(len(b), recordHeader+int(b[11])<<8+int(b[12])):]
	}
	return false
}

package coapclient

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/sessionfile"
	"github.com/crawld/crawld/internal/testbed"
	"github.com/crawld/crawld/internal/visit"
)

var theKey = []byte("0123456789abcdef")

func pskCredential() Credential {
	return Credential{ID: "psk", Identity: "crawld", Key: theKey, ConnectionID: true}
}

// authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

// issue makes a certificate for 127.0.0.1 that ends after a time; negative: it has ended.
func (a *authority) issue(t testing.TB, lasts time.Duration) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "device"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(lasts),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"sensor.example"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func certCredential(ours tls.Certificate, theirs *authority) Credential {
	return Credential{ID: "cert", Certificate: ours, Roots: []*x509.Certificate{theirs.cert},
		ConnectionID: true}
}

// secureSensor is one of the testbed; add says what it is beside.
func secureSensor(t testing.TB, sec testbed.Security, add ...func(*testbed.Spec)) *testbed.Sensor {
	t.Helper()
	spec := testbed.Spec{Security: &sec}
	for _, f := range add {
		f(&spec)
	}
	bed := testbed.New(1)
	t.Cleanup(func() { _ = bed.Close() })
	s, err := bed.Add(spec)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func pskSensor(t testing.TB, add ...func(*testbed.Spec)) *testbed.Sensor {
	return secureSensor(t, testbed.Security{Keys: map[string][]byte{"crawld": theKey}}, add...)
}

func secureVisit(s *testbed.Sensor, credential string) visit.Visit {
	v := visitTo(s.URI())
	v.Sensor, v.Credential = s.Name(), credential
	v.AckTimeout = 10 * time.Second // loopback loses nothing, and a busy machine is slow
	return v
}

func newSessions(t testing.TB) (*sessionfile.File, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sessions")
	f, warnings, err := sessionfile.Open(path)
	if err != nil || warnings != nil {
		t.Fatal(err, warnings)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f, path
}

// The datagrams that the outcome names are those the sensor saw, handshake included.
func counted(t *testing.T, s *testbed.Sensor, before testbed.Traffic, out visit.Outcome) {
	t.Helper()
	waitFor(t, func() bool { return s.Traffic().In-before.In >= out.DatagramsSent })
	got := s.Traffic()
	if got.In-before.In != out.DatagramsSent || got.BytesIn-before.BytesIn != out.BytesSent ||
		got.Out-before.Out < out.DatagramsReceived {
		t.Errorf("sensor: %+v after %+v; outcome: %d sent (%d bytes), %d received (%d bytes)",
			got, before, out.DatagramsSent, out.BytesSent, out.DatagramsReceived, out.BytesReceived)
	}
}

func TestPSKVisit(t *testing.T) {
	s := pskSensor(t)
	c := newClient(t, Options{Credentials: []Credential{pskCredential()}})
	out := fetch(t, c, secureVisit(s, "psk"))
	described(t, out, string(s.Body()))
	counted(t, s, testbed.Traffic{}, out)
	t.Logf("first visit: %d sent (%d bytes), %d received (%d bytes)", out.DatagramsSent, out.BytesSent,
		out.DatagramsReceived, out.BytesReceived)
	if st := c.Stats(); st.Handshakes != 1 || st.Denied != 0 {
		t.Errorf("%+v", st)
	}
}

func TestCertificateVisit(t *testing.T) {
	theirs, ours := newAuthority(t, "sensors"), newAuthority(t, "crawlers")
	s := secureSensor(t, testbed.Security{Certificate: theirs.issue(t, time.Hour), Clients: ours.pool()})
	good := certCredential(ours.issue(t, time.Hour), theirs)
	named := good
	named.ID, named.ServerName = "named", "sensor.example"
	c := newClient(t, Options{Credentials: []Credential{good, named}})
	for _, id := range []string{"cert", "named"} {
		out := fetch(t, c, secureVisit(s, id))
		described(t, out, string(s.Body()))
		t.Logf("%s: %d sent (%d bytes), %d received (%d bytes)", id, out.DatagramsSent, out.BytesSent,
			out.DatagramsReceived, out.BytesReceived)
	}
}

// Bodies in blocks, separate and lost answers, errors: the rules above DTLS are those
// above UDP.
func TestSecureExchangesAreExchanges(t *testing.T) {
	c := newClient(t, Options{Credentials: []Credential{pskCredential()}})
	for name, set := range map[string]func(*testbed.Spec){
		"blocks":   func(s *testbed.Spec) { s.Size, s.Block = 5000, 256 },
		"separate": func(s *testbed.Spec) { s.Separate = true },
		"non":      func(s *testbed.Spec) { s.NON = true },
		"loss":     func(s *testbed.Spec) { s.Loss, s.Size, s.Block = 0.1, 2000, 512 },
	} {
		t.Run(name, func(t *testing.T) {
			s := pskSensor(t, set)
			v := secureVisit(s, "psk")
			if name == "loss" {
				v.AckTimeout = 200 * time.Millisecond
			}
			out := fetch(t, c, v)
			described(t, out, string(s.Body()))
		})
	}
	s := pskSensor(t, func(s *testbed.Spec) { s.Fault = testbed.FaultNotFound })
	is(t, fetch(t, c, secureVisit(s, "psk")), visit.Refused, ReasonCode, true)
	s = pskSensor(t, func(s *testbed.Spec) { s.Fault = testbed.FaultReset })
	is(t, fetch(t, c, secureVisit(s, "psk")), visit.Refused, ReasonRST, true)
}

// What ends for want of trust is recorded as that, never as sleep, and the sensor is left
// alone for a while.
func TestDistrust(t *testing.T) {
	theirs, ours := newAuthority(t, "sensors"), newAuthority(t, "crawlers")
	psk := func(identity, key string) Credential {
		return Credential{ID: "c", Identity: identity, Key: []byte(key)}
	}
	cert := func(ours tls.Certificate, theirs *authority) Credential {
		c := certCredential(ours, theirs)
		c.ID = "c"
		return c
	}
	ownName := cert(ours.issue(t, time.Hour), theirs)
	ownName.ServerName = "other.example"
	keys := testbed.Security{Keys: map[string][]byte{"crawld": theKey}}
	certs := testbed.Security{Certificate: theirs.issue(t, time.Hour), Clients: ours.pool()}
	expired := testbed.Security{Certificate: theirs.issue(t, -time.Minute), Clients: ours.pool()}
	for name, test := range map[string]struct {
		sensor testbed.Security
		cred   Credential
	}{
		"wrong key":              {keys, psk("crawld", "another key......")},
		"unknown identity":       {keys, psk("nobody", string(theKey))},
		"expired sensor":         {expired, cert(ours.issue(t, time.Hour), theirs)},
		"wrong root":             {certs, cert(ours.issue(t, time.Hour), newAuthority(t, "sensors"))},
		"wrong name":             {certs, ownName},
		"client of another root": {certs, cert(newAuthority(t, "crawlers").issue(t, time.Hour), theirs)},
		"expired client":         {certs, cert(ours.issue(t, -time.Minute), theirs)},
		"key for a certificate":  {certs, psk("crawld", string(theKey))},
		"certificate for a key":  {keys, cert(ours.issue(t, time.Hour), theirs)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := secureSensor(t, test.sensor)
			c := newClient(t, Options{Credentials: []Credential{test.cred}})
			v := secureVisit(s, "c")
			v.AckTimeout, v.Retrans = 50*time.Millisecond, 2
			out := fetch(t, c, v)
			is(t, out, visit.Failed, ReasonAuth, true)
			if out.RetryAfter != authPause || c.Stats().Denied != 1 {
				t.Errorf("again after %v, %+v", out.RetryAfter, c.Stats())
			}
			t.Log(out.Error)
		})
	}
}

// A sensor that does not answer a handshake sleeps, one whose port is closed is
// unreachable, and one that begins a handshake and stalls is awake.
func TestSilentHandshakes(t *testing.T) {
	c := newClient(t, Options{Credentials: []Credential{pskCredential()},
		Limits: Limits{Progress: 100 * time.Millisecond}})
	quick := func(v visit.Visit) visit.Visit {
		v.AckTimeout, v.Retrans = 20*time.Millisecond, 1
		return v
	}
	s := pskSensor(t, func(s *testbed.Spec) { s.Fault = testbed.FaultDead })
	is(t, fetch(t, c, quick(secureVisit(s, "psk"))), visit.Asleep, ReasonTimeout, false)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	is(t, fetch(t, c, quick(secureVisit(s, "psk"))), visit.Asleep, ReasonICMP, false)
	none := quick(secureVisit(s, "none"))
	is(t, fetch(t, c, none), visit.Failed, ReasonAuth, false)

	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() { // HelloVerifyRequest to everything, with another cookie each time
		b := make([]byte, 2000)
		for i := byte(0); ; i++ {
			_, from, err := conn.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			if i == 0 {
				_, _ = conn.WriteToUDPAddrPort(helloVerify(i), from)
			}
		}
	}()
	v := quick(visitTo("coaps://" + conn.LocalAddr().String()))
	v.Credential = "psk"
	out := fetch(t, c, v)
	is(t, out, visit.Failed, ReasonProgress, true)
}

// helloVerify is a HelloVerifyRequest, RFC 6347 section 4.2.1.
func helloVerify(cookie byte) []byte {
	body := []byte{0xfe, 0xff, 4, cookie, 2, 3, 4}
	message := append([]byte{3, 0, 0, byte(len(body)), 0, 0, 0, 0, 0, 0, 0, byte(len(body))}, body...)
	return append([]byte{22, 0xfe, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, byte(len(message))}, message...)
}

// TestConnectionID: after the first visit one datagram each way does.
func TestConnectionID(t *testing.T) {
	theirs, ours := newAuthority(t, "sensors"), newAuthority(t, "crawlers")
	for name, test := range map[string]struct {
		sensor testbed.Security
		cred   Credential
	}{
		"psk": {testbed.Security{Keys: map[string][]byte{"crawld": theKey}, ConnectionID: true},
			pskCredential()},
		"cert": {testbed.Security{Certificate: theirs.issue(t, time.Hour), Clients: ours.pool(),
			ConnectionID: true}, certCredential(ours.issue(t, time.Hour), theirs)},
	} {
		t.Run(name, func(t *testing.T) {
			s := secureSensor(t, test.sensor)
			sessions, path := newSessions(t)
			c := newClient(t, Options{Credentials: []Credential{test.cred}, Sessions: sessions})
			v := secureVisit(s, test.cred.ID)
			first := fetch(t, c, v)
			described(t, first, string(s.Body()))
			t.Logf("first: %d+%d datagrams, %d+%d bytes", first.DatagramsSent, first.DatagramsReceived,
				first.BytesSent, first.BytesReceived)
			for range 5 {
				s.Publish()
				before := s.Traffic()
				out := fetch(t, c, v)
				described(t, out, string(s.Body()))
				if out.DatagramsSent != 1 || out.DatagramsReceived != 1 {
					t.Errorf("%d+%d datagrams", out.DatagramsSent, out.DatagramsReceived)
				}
				counted(t, s, before, out)
			}
			if st := c.Stats(); st.Handshakes != 1 || st.Resumed != 5 || sessions.Len() != 1 {
				t.Errorf("%+v, %d states", st, sessions.Len())
			}
			if err := sessions.Close(); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(path)
			if err != nil || bytes.Contains(data, test.cred.Key) && test.cred.Key != nil {
				t.Errorf("%v, or the key is in the file", err)
			}
		})
	}
}

// A state is used once, and not with another credential, nor after the sensor was silent.
func TestAssociationsEnd(t *testing.T) {
	s := secureSensor(t, testbed.Security{Keys: map[string][]byte{"crawld": theKey, "new": theKey},
		ConnectionID: true})
	sessions, _ := newSessions(t)
	other := pskCredential()
	other.Identity = "new"
	c := newClient(t, Options{Credentials: []Credential{pskCredential()}, Sessions: sessions})
	v := secureVisit(s, "psk")
	described(t, fetch(t, c, v), string(s.Body()))
	c.SetCredentials([]Credential{other})
	described(t, fetch(t, c, v), string(s.Body()))
	if st := c.Stats(); st.Handshakes != 2 || st.Resumed != 0 {
		t.Errorf("another credential: %+v", st)
	}
	if err := s.Stop(); err != nil { // it forgets its associations
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	v.AckTimeout, v.Retrans = 20*time.Millisecond, 1
	is(t, fetch(t, c, v), visit.Asleep, ReasonTimeout, false)
	if n := sessions.Len(); n != 0 {
		t.Errorf("%d states after silence", n)
	}
	v = secureVisit(s, "psk")
	described(t, fetch(t, c, v), string(s.Body()))
	if st := c.Stats(); st.Handshakes != 3 || st.Resumed != 1 {
		t.Errorf("after silence: %+v", st)
	}
}

// TestResumption: without a Connection ID the session is resumed, in fewer bytes.
func TestResumption(t *testing.T) {
	theirs, ours := newAuthority(t, "sensors"), newAuthority(t, "crawlers")
	s := secureSensor(t, testbed.Security{Certificate: theirs.issue(t, time.Hour), Resumption: true})
	sessions, _ := newSessions(t)
	c := newClient(t, Options{Credentials: []Credential{certCredential(ours.issue(t, time.Hour), theirs)},
		Sessions: sessions})
	v := secureVisit(s, "cert")
	first := fetch(t, c, v)
	described(t, first, string(s.Body()))
	for range 3 {
		out := fetch(t, c, v)
		described(t, out, string(s.Body()))
		if out.BytesReceived >= first.BytesReceived*2/3 {
			t.Errorf("first %d datagrams, %d bytes received; later %d, %d", first.DatagramsReceived,
				first.BytesReceived, out.DatagramsReceived, out.BytesReceived)
		}
		t.Logf("first %d+%d, %d bytes; later %d+%d, %d bytes", first.DatagramsSent,
			first.DatagramsReceived, first.BytesReceived, out.DatagramsSent, out.DatagramsReceived,
			out.BytesReceived)
	}
}

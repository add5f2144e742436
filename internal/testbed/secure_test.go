package testbed

import (
	"crypto/x509"
	"testing"
)

// What the secure radios cannot do is refused; what they do is tested with a client of
// DTLS, TCP and TLS, in package coapclient.
func TestSecureSpecs(t *testing.T) {
	bed := New(1)
	defer bed.Close()
	keys := &Security{Keys: map[string][]byte{"i": []byte("k")}}
	for _, spec := range []Spec{
		{Security: keys, Fault: FaultStranger}, {Security: keys, Fault: FaultClosed},
		{TCP: true, Fault: FaultStranger}, {TCP: true, Security: keys},
		{Security: &Security{Clients: x509.NewCertPool()}}, // neither keys nor a certificate
	} {
		if s, err := bed.Add(spec); err == nil {
			t.Errorf("%+v was added as %s", spec, s.URI())
		}
	}
	s, err := bed.Add(Spec{Security: keys})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // stopped and started again under the same address
		addr := s.Addr()
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := s.Start(); err != nil || s.Addr() != addr {
			t.Fatalf("%v, %v then %v", err, addr, s.Addr())
		}
	}
}

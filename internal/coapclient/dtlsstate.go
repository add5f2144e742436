package coapclient

import (
	"context"
	"crypto/x509"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/pion/dtls/v3"

	"github.com/crawld/crawld/internal/sessionfile"
)

// sessionLifetime bounds how long one handshake's keys are used, whatever the sensor
// would do.
const sessionLifetime = 30 * 24 * time.Hour

// lifetime is when what a handshake agreed on is over: with the sensor's certificate, if
// it has one.
func (a *association) lifetime(now time.Time) time.Time {
	end := now.Add(sessionLifetime)
	if state, ok := a.conn.ConnectionState(); ok && len(state.PeerCertificates) > 0 {
		leaf, err := x509.ParseCertificate(state.PeerCertificates[0])
		if err != nil {
			return now
		}
		if leaf.NotAfter.Before(end) {
			end = leaf.NotAfter
		}
	}
	return end.Truncate(time.Second).UTC()
}

// resume goes on with the association that an earlier visit kept. It has been taken off
// the disk when this returns, so its record numbers cannot be used again.
func (a *association) resume(ctx context.Context) (bool, *failure) {
	sessions := a.e.client.opts.Sessions
	if sessions == nil {
		return false, nil
	}
	kept, ok, err := sessions.Take(a.key, a.cred.fingerprint(), time.Now())
	if err != nil {
		a.e.note("kept association not used: %v", err)
	}
	if !ok {
		return false, nil
	}
	if kept.Kind == sessionfile.Resumption { // for the handshake
		a.session, a.until = kept.Secret, kept.Expires
		return false, nil
	}
	var state dtls.State
	if err := state.UnmarshalBinary(kept.Secret); err != nil {
		a.e.note("kept association not read: %v", err)
		return false, nil
	}
	conn, err := dtls.ResumeWithOptions(&state, a.wire, a.wire.RemoteAddr(), a.options()...)
	if err == nil {
		err = conn.HandshakeContext(ctx) // sends nothing
	}
	if err != nil { // the visit has ended; what was taken stays gone
		return false, failf(ReasonCancelled, "association with %v not resumed: %v", a.e.addr, err)
	}
	a.conn, a.expires = conn, kept.Expires
	a.e.client.count.resumed.Add(1)
	a.e.note("association resumed under its Connection ID")
	return true, nil
}

// export is what a later visit may go on with, nil if nothing.
func (a *association) export() *sessionfile.State {
	s := &sessionfile.State{Credential: a.cred.fingerprint(), Expires: a.expires}
	if a.wire.cid.Load() {
		s.Kind, s.Secret = sessionfile.Association, a.freeze()
	} else {
		a.mu.Lock()
		defer a.mu.Unlock()
		s.Kind, s.Secret = sessionfile.Resumption, a.session
	}
	if s.Secret == nil {
		return nil
	}
	return s
}

// freeze takes the state after the last record that is sent: the wire is muted first, so
// no record can follow under a number that the state does not count. The sensor's
// certificate, which is large, has done its duty.
func (a *association) freeze() []byte {
	a.wire.muted.Store(true)
	state, ok := a.conn.ConnectionState()
	if !ok {
		return nil
	}
	state.PeerCertificates = nil
	b, err := state.MarshalBinary()
	if err != nil {
		return nil
	}
	return b
}

// sessionStore lets the handshake resume the sensor's session, and notes the one to resume
// next time. It holds one session, so keys do not matter.
type sessionStore struct{ a *association }

// Get is of dtls.SessionStore.
func (s sessionStore) Get([]byte) (out dtls.Session, err error) {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	if s.a.session != nil {
		err = cbor.Unmarshal(s.a.session, &out)
	}
	if err != nil {
		return dtls.Session{}, nil // a full handshake does as well
	}
	return out, nil
}

// Set is of dtls.SessionStore; it is called after full handshakes.
func (s sessionStore) Set(_ []byte, session dtls.Session) error {
	b, err := cbor.Marshal(session)
	if err != nil {
		return err
	}
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	s.a.session, s.a.until = b, time.Time{}
	return nil
}

// Del is of dtls.SessionStore; it is called when the session is not to be trusted any more.
func (s sessionStore) Del([]byte) error {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	s.a.session = nil
	return nil
}

package coapclient

import (
	"testing"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/testbed"
	"github.com/crawld/crawld/internal/visit"
)

// TestEveryTransport visits the testbed's sensors of each scheme: described, unchanged,
// described anew, in the middle of its sleep, and after it has lost its power.
func TestEveryTransport(t *testing.T) {
	theirs, ours := newAuthority(t, "sensors"), newAuthority(t, "crawlers")
	keys := testbed.Security{Credential: "psk", Keys: map[string][]byte{"crawld": theKey}}
	cid := keys
	cid.ConnectionID = true
	certs := testbed.Security{Credential: "cert", Certificate: theirs.issue(t, time.Hour),
		Clients: ours.pool()}
	sessions, _ := newSessions(t)
	c := newClient(t, Options{Sessions: sessions, Credentials: []Credential{pskCredential(),
		certCredential(ours.issue(t, time.Hour), theirs)}})
	for scheme, spec := range map[string]testbed.Spec{
		"coap":      {},
		"coap+tcp":  {TCP: true},
		"coaps psk": {Security: &keys},
		"coaps cid": {Security: &cid},
		"coaps":     {Security: &certs},
		"coaps+tcp": {Security: &certs, TCP: true},
	} {
		t.Run(scheme, func(t *testing.T) {
			spec.Name, spec.Size = scheme, 3000
			bed := testbed.New(1)
			t.Cleanup(func() { _ = bed.Close() })
			s, err := bed.Add(spec)
			if err != nil {
				t.Fatal(err)
			}
			l := s.Listing()
			v := visitTo(l.URI)
			v.Sensor, v.Credential, v.AckTimeout = l.ID, l.Credential, 200*time.Millisecond
			out := fetch(t, c, v)
			described(t, out, string(s.Body()))
			v.ETag, v.Known = out.NewETag, out.Hash
			is(t, fetch(t, c, v), visit.Unchanged, "", true)
			s.Publish()
			described(t, fetch(t, c, v), string(s.Body()))
			if spec.TCP { // its kernel accepts connections while it sleeps
				return
			}
			over, err := sleepplan.Explicit([]sleepplan.Window{{Start: time.Now().Add(-time.Hour),
				End: time.Now().Add(-time.Minute)}})
			if err != nil {
				t.Fatal(err)
			}
			s.SetPlan(over)
			v.AckTimeout, v.Retrans = 10*time.Millisecond, 1
			is(t, fetch(t, c, v), visit.Asleep, ReasonTimeout, false)
		})
	}
}

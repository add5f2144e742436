package app

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/coapclient"
	"github.com/crawld/crawld/internal/config"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/testbed"
	"github.com/crawld/crawld/internal/visit"
)

const (
	roofKey  = "0123456789abcdef"
	otherKey = "fedcba9876543210"
)

// secured is a daemon whose configuration has a credential for the one sensor of its list, and
// the file with the key.
func secured(t *testing.T) (o Options, s *testbed.Sensor, secret string) {
	t.Helper()
	bed := testbed.New(1)
	t.Cleanup(func() { _ = bed.Close() })
	s, err := bed.Add(testbed.Spec{Rate: 5, Security: &testbed.Security{ConnectionID: true,
		Keys: map[string][]byte{"crawld": []byte(roofKey)}}})
	if err != nil {
		t.Fatal(err)
	}
	o = options(t, s.URI())
	dir := filepath.Dir(o.Config.Data)
	secret = filepath.Join(dir, "roof.psk")
	write(t, secret, roofKey)
	write(t, filepath.Join(dir, "list.yaml"), "sensors:", "- {uri: '"+s.URI()+"', ack_timeout: 50ms}")
	path := filepath.Join(dir, "crawld.yaml")
	write(t, path, "sensor_files: [list.yaml]", "credentials:",
		"- {id: roof, psk_identity: crawld, psk_key_file: roof.psk, hosts: [127.0.0.1]}")
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	o.Config.Path, o.Config.SensorCredentials = path, c.SensorCredentials
	o.Patterns = c.SensorFiles
	return o, s, secret
}

// TestSecureSensors: one handshake, then visits under a Connection ID, also after a restart.
func TestSecureSensors(t *testing.T) {
	o, s, _ := secured(t)
	kept := false // a stop in the middle of a visit costs the state that it used
	for run := 0; !kept && run < 5; run++ {
		a, stop := start(t, o)
		awaitStored(t, a, s.URI())
		await(t, a, "a visit without a handshake", func(*planner.Planner, time.Time) bool {
			return a.client.Stats().Resumed > 1
		})
		stop()
		n := a.client.Stats().Handshakes
		if n > 1 || run == 0 && n != 1 {
			t.Errorf("run %d: %d handshakes", run, n)
		}
		kept = n == 0
		shown := a.o.Config.YAML()
		if strings.Contains(shown, roofKey) || !strings.Contains(shown, "roof.psk") {
			t.Errorf("the configuration as shown:\n%s", shown)
		}
	}
	if !kept {
		t.Error("no restart did without a handshake")
	}
	info, err := os.Stat(SessionsPath(o.Config.Data))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

// A secure sensor without a credential keeps the daemon from starting: it would be asked in
// plain, or never.
func TestSecureSensorsNeedCredentials(t *testing.T) {
	o, _, _ := secured(t)
	o.Config.SensorCredentials = nil
	if _, err := New(o); err == nil ||
		!strings.Contains(err.Error(), "list.yaml:2:9: sensors[0].credential: is missing") {
		t.Errorf("%v", err)
	}
}

// A reload reads keys again. A wrong one is recorded as such, with contact; a missing file
// refuses the reload at the key's place.
func TestReloadReadsKeys(t *testing.T) {
	o, s, secret := secured(t)
	a, stop := start(t, o)
	defer stop()
	awaitStored(t, a, s.URI())
	write(t, secret, otherKey)
	if err := a.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	await(t, a, "a refused handshake on record", func(*planner.Planner, time.Time) bool {
		visits, err := a.repo.Visits(s.URI(), 1)
		if err != nil || len(visits) == 0 {
			return false
		}
		last := visits[0]
		return last.Result == visit.Failed && last.Reason == coapclient.ReasonAuth && last.Contact
	})
	if err := os.Remove(secret); err != nil {
		t.Fatal(err)
	}
	if err := a.Reload(context.Background()); err == nil ||
		!strings.Contains(err.Error(), "crawld.yaml:3:") || !strings.Contains(err.Error(), "psk_key_file") {
		t.Errorf("without the key's file: %v", err)
	}
}

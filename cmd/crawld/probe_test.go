package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/testbed"
	"github.com/crawld/crawld/internal/visit"
)

// A probe of a secure sensor takes the configuration's credential for its host.
func TestProbeSecure(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"roof.psk": "hex:30313233343536373839616263646566\n",
		"crawld.yaml": "sensor_files: [none]\ncredentials:\n" +
			"- {id: roof, psk_identity: crawld, psk_key_file: roof.psk, hosts: [127.0.0.0/8]}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bed := testbed.New(1)
	defer bed.Close()
	s, err := bed.Add(testbed.Spec{Security: &testbed.Security{
		Keys: map[string][]byte{"crawld": []byte("0123456789abcdef")}}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := probe(t.Context(), s.URI(), probeFlags{deadline: 10 * time.Second,
		config: filepath.Join(dir, "crawld.yaml")})
	if err != nil || res.Outcome != visit.Described || res.BodyBytes != len(s.Body()) {
		t.Errorf("%+v %v", res, err)
	}
}

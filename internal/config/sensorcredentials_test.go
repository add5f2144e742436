package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func drawCredential(t *rapid.T, i int) SensorCredential {
	c := SensorCredential{ID: fmt.Sprintf("c%d", i),
		ConnectionID: rapid.Bool().Draw(t, "connection_id"),
		Hosts: rapid.SampledFrom([][]string{nil, {"h"}, {"192.0.2.0/24", "x.example"}}).
			Draw(t, "hosts"),
		Labels: rapid.SampledFrom([]map[string]string{nil, {"a: b": "{c}", "d": "1"}}).
			Draw(t, "labels")}
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 0:
		c.PSKIdentity, c.PSKKeyFile = "an \"identity\": 1", "/k, l"
	case 1:
		c.PSKIdentity, c.PSKKeyCredential = "i", "name.psk"
	default:
		c.CertFile, c.KeyFile, c.RootsFile, c.ServerName = "/c", "/k", "/r", "s.example"
	}
	return c
}

// keyPair writes a certificate that signs itself, and its key.
func keyPair(t *testing.T, dir string, notAfter time.Time) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: notAfter, IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block := func(typ string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: b}))
	}
	return private0600(t, dir, "cert.pem", block("CERTIFICATE", der)),
		private0600(t, dir, "key.pem", block("PRIVATE KEY", pkcs8))
}

func private0600(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func parseCredentials(t *testing.T, dir, text string) *Config {
	t.Helper()
	c, err := Parse(filepath.Join(dir, "crawld.yaml"),
		[]byte("sensor_files: [a]\ncredentials:\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSensorSecrets(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	keyPair(t, dir, now.Add(time.Hour))
	private0600(t, dir, "text.psk", "0123456789abcdef\n")
	private0600(t, dir, "hex.psk", "hex:00ff0a0d00ff0a0d00ff0a0d00ff0a0d\r\n")
	private0600(t, dir, "given", "a key from the manager")
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	c := parseCredentials(t, dir, `
- {id: text, psk_identity: i, psk_key_file: text.psk}
- {id: hex, psk_identity: i, psk_key_file: `+filepath.Join(dir, "hex.psk")+`}
- {id: systemd, psk_identity: i, psk_key_credential: given}
- {id: cert, cert_file: cert.pem, key_file: key.pem, roots_file: cert.pem, server_name: s}
`)
	got, warnings, err := c.SensorSecrets(now)
	if err != nil || warnings != nil {
		t.Fatal(err, warnings)
	}
	for i, want := range []string{"0123456789abcdef",
		strings.Repeat("\x00\xff\n\r", 4), "a key from the manager", ""} {
		if string(got[i].Key) != want {
			t.Errorf("key %d is %q, want %q", i, got[i].Key, want)
		}
	}
	if got[3].Certificate == nil || got[3].Roots == nil {
		t.Error("no certificate or no roots")
	}
	if shown := c.YAML(); strings.Contains(shown, "0123456789abcdef") ||
		!strings.Contains(shown, "text.psk") {
		t.Errorf("the configuration as shown has a secret, or lacks the file's name:\n%s", shown)
	}
}

func TestSensorSecretsWarn(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	keyPair(t, dir, now.Add(-time.Hour))
	wide := private0600(t, dir, "wide.psk", "0123456789abcdef")
	if err := os.Chmod(wide, 0o644); err != nil {
		t.Fatal(err)
	}
	private0600(t, dir, "short.psk", "0123")
	c := parseCredentials(t, dir, `
- {id: a, psk_identity: i, psk_key_file: wide.psk}
- {id: b, psk_identity: i, psk_key_file: short.psk}
- {id: c, cert_file: cert.pem, key_file: key.pem, roots_file: cert.pem}
`)
	_, warnings, err := c.SensorSecrets(now)
	text := strings.Join(warnings, "\n")
	for _, want := range []string{"wide.psk: everybody on this machine may use it (mode 0644)",
		"short.psk: the key has 4 bytes", "cert.pem: the certificate has expired on 2025-12-31"} {
		if err != nil || !strings.Contains(text, want) || len(warnings) != 3 {
			t.Errorf("%v, no %q in\n%s", err, want, text)
		}
	}
}

// What is wrong is said at the key's line; the secret itself is never quoted.
func TestSensorSecretsRefuse(t *testing.T) {
	dir := t.TempDir()
	keyPair(t, dir, time.Now().Add(time.Hour))
	private0600(t, dir, "empty", "")
	private0600(t, dir, "long", strings.Repeat("x", 65))
	private0600(t, dir, "nohex", "hex:secret")
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	for text, want := range map[string]string{
		"psk_key_file: none":        "psk_key_file: " + dir + "/none: cannot be read: no such file",
		"psk_key_file: .":           "psk_key_file: " + dir + ": cannot be read: is no ordinary file",
		"psk_key_file: empty":       "is empty",
		"psk_key_file: long":        "a key has 1 to 64 bytes, this one 65",
		"psk_key_file: nohex":       "what follows hex: is not pairs of hexadecimal digits",
		"psk_key_file: key.pem":     "is longer than 134 bytes",
		"psk_key_credential: given": "psk_key_credential: $CREDENTIALS_DIRECTORY is not set",
	} {
		c := parseCredentials(t, dir, "- {id: a, psk_identity: i, "+text+"}\n")
		_, _, err := c.SensorSecrets(time.Now())
		if at := "crawld.yaml:3:"; !strings.Contains(message(err), want) ||
			!strings.Contains(message(err), at) || !strings.Contains(message(err), "credentials[0].") {
			t.Errorf("%s: %v", text, err)
		}
		if strings.Contains(message(err), "secret") {
			t.Errorf("%v quotes the key", err)
		}
	}
	c := parseCredentials(t, dir, "- {id: a, cert_file: key.pem, key_file: cert.pem, roots_file: long}\n")
	_, _, err := c.SensorSecrets(time.Now())
	for _, want := range []string{"cert_file: ", "roots_file: " + dir + "/long: holds no certificate"} {
		if !strings.Contains(message(err), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

func TestCredentialsAreHeldAgainstEachOther(t *testing.T) {
	const missing = "expected psk_identity with psk_key_file or psk_key_credential"
	for text, want := range map[string]string{
		"- {psk_identity: i, psk_key_file: k}":                                                     "id is missing",
		"- {id: a/b, psk_identity: i, psk_key_file: k}":                                            "is no id",
		"- {id: a, psk_identity: i}":                                                               missing,
		"- {id: a, psk_key_file: k}":                                                               missing,
		"- {id: a, psk_identity: i, psk_key_file: k, psk_key_credential: c}":                       missing,
		"- {id: a, psk_identity: i, psk_key_file: k, roots_file: r}":                               missing,
		"- {id: a, cert_file: c, key_file: k}":                                                     missing,
		"- {id: a, psk_identity: i, psk_key_credential: ..}":                                       "is no name of LoadCredential=",
		"- {id: a, psk_identity: i, psk_key_credential: a/b}":                                      "is no name of LoadCredential=",
		"- {id: a, psk_identity: i, psk_key_file: k, hosts: [192.0.2.1/24]}":                       "write 192.0.2.0/24",
		"- {id: a, psk_identity: " + strings.Repeat("i", 129) + "}":                                "has 129 bytes",
		"- {id: a, psk_identity: i, psk_key_file: k, key: v}":                                      "unknown key",
		"- &x {id: a, psk_identity: i, psk_key_file: k}\n- *x":                                     "aliases",
		"- {id: a, psk_identity: i, psk_key_file: k}\n- {id: a, psk_identity: j, psk_key_file: k}": "is the id of credentials[0] already",
	} {
		_, err := Parse("c.yaml", []byte("sensor_files: [a]\ncredentials:\n"+text+"\n"))
		if !strings.Contains(message(err), want) {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
}

// A secure sensor names its credential, or takes the first that is for it. None is an error
// at load, at the sensor's line.
func TestSensorsFindTheirCredential(t *testing.T) {
	dir := t.TempDir()
	c := parseCredentials(t, dir, `
- {id: roof, psk_identity: i, psk_key_file: k, labels: {group: roof, floor: 2}}
- {id: net, psk_identity: i, psk_key_file: k, hosts: [192.0.2.0/24, H.example, '2001:db8::/32']}
- {id: cert, cert_file: c, key_file: k, roots_file: r, hosts: [192.0.2.7]}
`)
	list := write(t, filepath.Join(dir, "l.yaml"), `sensors:
- {id: a, uri: 'coaps://other.example', labels: {group: roof, floor: 2, x: y}}
- {id: b, uri: 'coaps://192.0.2.7'}
- {id: c, uri: 'coaps://h.example/x', labels: {group: roof}}
- {id: d, uri: 'coaps://[2001:db8::1]'}
- {id: e, uri: 'coaps+tcp://192.0.2.7', credential: cert}
- {id: f, uri: 'coap+tcp://192.0.2.7'}
- {id: g, uri: 'coap://192.0.2.7'}
`)
	text := write(t, filepath.Join(dir, "l.txt"), "coaps://192.0.2.9/\n")
	f, refused, err := c.LoadSensors([]string{list, text})
	if err != nil || refused != nil {
		t.Fatal(err, refused)
	}
	got := ""
	for _, s := range f.All() {
		got += s.Credential + " "
	}
	if want := "roof net net net net cert   "; got != want {
		t.Errorf("credentials %q, want %q", got, want)
	}
	for text, want := range map[string]string{
		"- {id: b,\n   uri: 'coaps://198.51.100.1'}":                "l.yaml:3:9: sensors[0].credential: is missing",
		"- {uri: 'coaps://h.example', credential: none}":            `"none" is no credential of the configuration`,
		"- {uri: 'coap://h.example', credential: net}":              "is for secure sensors",
		"- {uri: 'coaps+tcp://h.example'}":                          `"net" is a pre-shared key, which works with coaps:// only`,
		"- {uri: 'coaps://h.example', credential: {psk_key: open}}": "expected the id of a credential",
	} {
		list := write(t, filepath.Join(dir, "l.yaml"), "sensors:\n"+text+"\n")
		if _, _, err := c.LoadSensors([]string{list}); !strings.Contains(message(err), want) {
			t.Errorf("%s\n got %v\nwant %s", text, err, want)
		}
	}
	text = write(t, filepath.Join(dir, "l.txt"), "coap://a\n coaps://b\n")
	want := "l.txt:2:2: credential: is missing"
	if _, _, err := c.LoadSensors([]string{text}); !strings.Contains(message(err), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

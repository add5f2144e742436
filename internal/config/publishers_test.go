package config

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	tokenA = "aaaaaaaaaaaaaaaaaaaaaaaa"
	tokenB = "bbbbbbbbbbbbbbbbbbbbbbbb"
)

// jwk is a key as crawld keygen writes it; private tells which half.
func jwk(key ed25519.PrivateKey, private bool, kid string) string {
	enc := base64.RawURLEncoding.EncodeToString
	text := fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","x":"%s"`, enc(key.Public().(ed25519.PublicKey)))
	if private {
		text += fmt.Sprintf(`,"d":"%s"`, enc(key.Seed()))
	}
	if kid != "" {
		text += fmt.Sprintf(`,"kid":"%s"`, kid)
	}
	return text + "}"
}

const publisherConfig = `sensor_files: [a]
publishers:
  - kid: acme
    key_file: key
    token_file: token
    sources: [{id: s, address: x, type: t}]
  - kid: other
    key_file: key2
    token_file: token2
    sources: [{id: s, address: x, type: t}]
readers:
  - token_file: token
    sources: [s, r]
`

func secretFolder(t *testing.T) (dir string, key ed25519.PrivateKey) {
	t.Helper()
	dir, key = t.TempDir(), ed25519.NewKeyFromSeed(make([]byte, 32))
	for name, text := range map[string]string{"crawld.yaml": publisherConfig,
		"key": jwk(key, false, "acme"), "key2": jwk(key, false, ""),
		"token": tokenA + "\n", "token2": tokenB} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	return dir, key
}

func credentialsIn(t *testing.T, dir string) (Credentials, error) {
	t.Helper()
	c, err := Load(dir + "/crawld.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if text := c.YAML(); strings.Contains(text, tokenA) || strings.Contains(text, tokenB) {
		t.Errorf("a secret is shown:\n%s", text)
	}
	return c.Credentials()
}

func TestCredentials(t *testing.T) {
	dir, key := secretFolder(t)
	got, err := credentialsIn(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	public := key.Public().(ed25519.PublicKey)
	a, b := sha256.Sum256([]byte(tokenA)), sha256.Sum256([]byte(tokenB))
	want := Credentials{Keys: []ed25519.PublicKey{public, public},
		PublisherTokens: [][32]byte{a, b}, ReaderTokens: [][32]byte{a}, Warnings: []string{
			dir + `/crawld.yaml: readers[0].sources[1]: "r" is no source of a publisher`}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if err := os.Chmod(dir+"/token2", 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err = credentialsIn(t, dir); err != nil || len(got.Warnings) != 2 ||
		got.Warnings[0] != dir+"/token2: everybody on this machine may use the token "+
			"(mode 0644); chmod 640" {
		t.Errorf("%v %q", err, got.Warnings)
	}
}

// What is wrong in the files of secrets is told with the line that names the file, and no
// secret with it.
func TestBadCredentials(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	for _, c := range []struct{ file, text, want string }{
		{"key", "", "4:15: publishers[0].key_file: DIR/key: cannot be read: no such file or directory"},
		{"key", tokenA, "4:15: publishers[0].key_file: DIR/key: is no JWK; make one with crawld keygen"},
		{"key", jwk(key, true, "acme"), "4:15: publishers[0].key_file: DIR/key: holds a private key, " +
			"which only the publisher may have; name the public one"},
		{"key", jwk(key, false, "acne"), `4:15: publishers[0].key_file: DIR/key: has the kid "acne", ` +
			`not "acme"; correct one of them`},
		{"key", `{"kty":"oct","k":"` + tokenA + `"}`,
			"4:15: publishers[0].key_file: DIR/key: holds no Ed25519 key; make one with crawld keygen"},
		{"key2", strings.Repeat(" ", 1<<20),
			"8:15: publishers[1].key_file: DIR/key2: is longer than 16384 bytes"},
		{"token2", "short-secret", "9:17: publishers[1].token_file: DIR/token2: expected one token of " +
			"16 to 1024 of A-Z a-z 0-9 - . _ ~ + / (RFC 6750)"},
		{"token2", tokenB + " " + tokenB, "9:17: publishers[1].token_file: DIR/token2: expected one " +
			"token of 16 to 1024 of A-Z a-z 0-9 - . _ ~ + / (RFC 6750)"},
		{"token2", tokenA, "9:17: publishers[1].token_file: DIR/token2: is the token of publishers[0] " +
			"too; each has its own"},
	} {
		dir, _ := secretFolder(t)
		err := os.Remove(dir + "/" + c.file)
		if err == nil && c.text != "" {
			err = os.WriteFile(dir+"/"+c.file, []byte(c.text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = credentialsIn(t, dir)
		want := dir + "/crawld.yaml:" + strings.ReplaceAll(c.want, "DIR", dir)
		if message(err) != want {
			t.Errorf("%s: got %v\nwant %s", c.file, err, want)
		}
		if strings.Contains(message(err), tokenA) || strings.Contains(message(err), "short-secret") {
			t.Errorf("a secret is quoted: %v", err)
		}
	}
	dir, _ := secretFolder(t)
	if err := os.Remove(dir + "/token"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir+"/token", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := credentialsIn(t, dir); strings.Count(message(err), "is no ordinary file") != 2 {
		t.Errorf("a folder for a token: %v", err)
	}
}

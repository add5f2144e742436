package config

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// SensorSecret is what the files of a SensorCredential hold: Key, or Certificate and Roots.
type SensorSecret struct {
	SensorCredential
	Key         []byte
	Certificate *tls.Certificate
	Roots       []*x509.Certificate
}

const (
	maxPSK        = 64
	shortPSK      = 16 // bytes; shorter keys can be searched offline, RFC 4279 section 7.2
	maxPEM        = 256 << 10
	maxPSKText    = len(hexPrefix) + 2*maxPSK + 2
	hexPrefix     = "hex:"
	systemdFolder = "CREDENTIALS_DIRECTORY"
)

// secretReader reads the files and notes what is wrong at the key that names each.
type secretReader struct {
	problems
	warnings []string
	now      time.Time
}

// SensorSecrets reads the files that credentials name, in the order of the configuration.
// Warnings name what works and is not well, one line each. The error is of type Errors;
// neither quotes a secret.
func (c *Config) SensorSecrets(now time.Time) (_ []SensorSecret, warnings []string, _ error) {
	r := &secretReader{problems: problems{file: c.Path}, now: now}
	var out []SensorSecret
	for _, cred := range c.SensorCredentials {
		s := SensorSecret{SensorCredential: cred}
		if cred.PSKIdentity != "" {
			s.Key = r.psk(cred)
		} else {
			s.Certificate = r.certificate(cred)
			s.Roots = r.roots(cred)
		}
		out = append(out, s)
	}
	if err := r.err(); err != nil {
		return nil, nil, err
	}
	return out, r.warnings, nil
}

// bad notes a problem at a key of the credential.
func (r *secretReader) bad(c SensorCredential, key, format string, args ...any) {
	at, ok := c.keys[c.path+"."+key]
	if !ok {
		at = c.at
	}
	r.add(at.line, at.col, c.path+"."+key, format, args...)
}

// psk reads a key: the file's bytes but for one line end, or hex digits after "hex:".
func (r *secretReader) psk(c SensorCredential) []byte {
	key, path := "psk_key_file", c.PSKKeyFile
	if c.PSKKeyCredential != "" {
		key = "psk_key_credential"
		folder := os.Getenv(systemdFolder)
		if folder == "" {
			r.bad(c, key, "$%s is not set; write LoadCredential=%s:... in the unit, or use "+
				"psk_key_file", systemdFolder, c.PSKKeyCredential)
			return nil
		}
		path = filepath.Join(folder, c.PSKKeyCredential)
	}
	data := r.secret(c, key, path, int64(maxPSKText), true)
	if data == nil {
		return nil
	}
	data = bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r"))
	if digits, isHex := bytes.CutPrefix(data, []byte(hexPrefix)); isHex {
		decoded, err := hex.DecodeString(string(digits))
		if err != nil {
			r.bad(c, key, "%s: what follows hex: is not pairs of hexadecimal digits", path)
			return nil
		}
		data = decoded
	}
	if len(data) == 0 || len(data) > maxPSK {
		r.bad(c, key, "%s: a key has 1 to %d bytes, this one %d", path, maxPSK, len(data))
		return nil
	}
	if len(data) < shortPSK {
		r.warnings = append(r.warnings, fmt.Sprintf("%s: the key has %d bytes; fewer than %d can be "+
			"searched for by who has seen a handshake", path, len(data), shortPSK))
	}
	return data
}

// certificate reads ours and its key.
func (r *secretReader) certificate(c SensorCredential) *tls.Certificate {
	chain := r.secret(c, "cert_file", c.CertFile, maxPEM, false)
	key := r.secret(c, "key_file", c.KeyFile, maxPEM, true)
	if chain == nil || key == nil {
		return nil
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		r.bad(c, "cert_file", "%s: does not go with %s: %v", c.CertFile, c.KeyFile, err)
		return nil
	}
	if pair.Leaf != nil && r.now.After(pair.Leaf.NotAfter) {
		r.warnings = append(r.warnings, fmt.Sprintf("%s: the certificate has expired on %s",
			c.CertFile, pair.Leaf.NotAfter.UTC().Format(time.RFC3339)))
	}
	return &pair
}

func (r *secretReader) roots(c SensorCredential) (roots []*x509.Certificate) {
	data := r.secret(c, "roots_file", c.RootsFile, maxPEM, false)
	if data == nil {
		return nil
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		root, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			r.bad(c, "roots_file", "%s: %v", c.RootsFile, err)
			return nil
		}
		roots = append(roots, root)
	}
	if roots == nil {
		r.bad(c, "roots_file", "%s: holds no certificate in PEM", c.RootsFile)
	}
	return roots
}

// secret reads one file. What everybody on the machine may read or change is warned of; what
// is no secret may be read.
func (r *secretReader) secret(
	c SensorCredential, key, path string, most int64, private bool,
) []byte {
	data, mode, err := readSmall(path, most)
	if err != nil {
		r.bad(c, key, "%s: %v", path, err)
		return nil
	}
	wide := fs.FileMode(0o002)
	if private {
		wide = 0o007
	}
	if mode&wide != 0 {
		r.warnings = append(r.warnings, fmt.Sprintf(
			"%s: everybody on this machine may use it (mode %04o); chmod 640", path, mode))
	}
	if len(data) == 0 {
		r.bad(c, key, "%s: is empty", path)
		return nil
	}
	return data
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

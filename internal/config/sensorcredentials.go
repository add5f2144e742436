package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/crawld/crawld/internal/fleet"
)

// SensorCredential says where the secret is that sensors of secure URIs are met with: a
// pre-shared key, or a certificate. What the files hold is read by SensorSecrets.
type SensorCredential struct {
	ID          string // 1 .. 64 of a-z A-Z 0-9 . _ -
	PSKIdentity string // 1 .. 128 bytes; "" with a certificate
	PSKKeyFile  string // absolute; resolved from PSKKeyCredential where that is set
	// PSKKeyCredential is a name in $CREDENTIALS_DIRECTORY (systemd LoadCredential=).
	PSKKeyCredential string
	CertFile         string // absolute, PEM; ours, leaf first
	KeyFile          string // absolute, PEM
	RootsFile        string // absolute, PEM; who may sign the sensors' certificates
	ServerName       string // in the sensors' certificates; "" = the URI's host
	ConnectionID     bool   // offered to the sensor (RFC 9146)
	Hosts            []string
	Labels           map[string]string

	at   place
	path string // credentials[i]
	keys map[string]place
}

// Equal tells whether two credentials are the same, wherever they are written.
func (c SensorCredential) Equal(o SensorCredential) bool { return c.text() == o.text() }

// defaultFor tells whether a sensor that names no credential takes this one: its host is
// listed, or it has all the labels.
func (c *SensorCredential) defaultFor(s *fleet.Sensor) bool {
	if len(c.Labels) > 0 {
		all := true
		for name, text := range c.Labels {
			all = all && s.Labels[name] == text
		}
		if all {
			return true
		}
	}
	u, err := url.Parse(s.URI)
	if err != nil {
		return false
	}
	host := u.Hostname()
	addr, notAddr := netip.ParseAddr(host)
	return slices.ContainsFunc(c.Hosts, func(h string) bool {
		if network, err := netip.ParsePrefix(h); err == nil {
			return notAddr == nil && network.Contains(addr.Unmap().WithZone(""))
		}
		return strings.EqualFold(h, host)
	})
}

const (
	maxCredentialID = 64
	maxIdentity     = 128 // RFC 4279 section 5.3 asks for at least that much
)

// sensorCredentials reads the list.
func (c *Config) sensorCredentials(v value) {
	const want = "credentials such as {id: roof, psk_identity: crawld, psk_key_file: roof.psk}"
	before := v.d.count()
	v.list(want, func(_ int, v value) {
		cred := SensorCredential{ConnectionID: true, at: v.place(), path: v.key,
			keys: map[string]place{}}
		if c.readSensorCredential(v, &cred) {
			c.SensorCredentials = append(c.SensorCredentials, cred)
		}
	})
	if v.d.count() > before {
		return
	}
	for i, cred := range c.SensorCredentials {
		same := func(o SensorCredential) bool { return o.ID == cred.ID }
		if first := slices.IndexFunc(c.SensorCredentials, same); first < i {
			v.d.add(cred.at.line, cred.at.col, cred.path+".id", "%q is the id of %s already; "+
				"choose another", cred.ID, c.SensorCredentials[first].path)
		}
	}
}

func (c *Config) readSensorCredential(v value, cred *SensorCredential) bool {
	before := v.d.count()
	v.mapping(fields{
		"id":                 func(v value) { cred.readID(v) },
		"psk_identity":       func(v value) { cred.readIdentity(v) },
		"psk_key_file":       func(v value) { c.secretFile(v, cred, &cred.PSKKeyFile) },
		"psk_key_credential": func(v value) { cred.readSystemd(v) },
		"cert_file":          func(v value) { c.secretFile(v, cred, &cred.CertFile) },
		"key_file":           func(v value) { c.secretFile(v, cred, &cred.KeyFile) },
		"roots_file":         func(v value) { c.secretFile(v, cred, &cred.RootsFile) },
		"server_name":        func(v value) { v.text(&cred.ServerName, "a name in certificates") },
		"connection_id":      func(v value) { v.boolean(&cred.ConnectionID) },
		"hosts":              func(v value) { cred.readHosts(v) },
		"labels":             func(v value) { v.labels(&cred.Labels) },
	})
	if v.d.count() > before {
		return false
	}
	psk := cred.PSKIdentity != "" && (cred.PSKKeyFile != "") != (cred.PSKKeyCredential != "")
	noPSK := cred.PSKIdentity == "" && cred.PSKKeyFile == "" && cred.PSKKeyCredential == ""
	files := 0
	for _, f := range []string{cred.CertFile, cred.KeyFile, cred.RootsFile} {
		if f != "" {
			files++
		}
	}
	switch {
	case cred.ID == "":
		v.fail("id is missing; sensors name their credential by it")
	case !(psk && files == 0 && cred.ServerName == "") && !(noPSK && files == 3):
		v.fail("expected psk_identity with psk_key_file or psk_key_credential, " +
			"or all of cert_file, key_file and roots_file")
	}
	return v.d.count() == before
}

func (c *SensorCredential) readID(v value) {
	const want = "letters, digits, dots, dashes and underscores"
	if !v.text(&c.ID, "an id of "+want) {
		return
	}
	if strings.Trim(c.ID, idLetters) != "" || len(c.ID) > maxCredentialID {
		v.fail("%s is no id; expected up to %d %s", clip(c.ID), maxCredentialID, want)
	}
}

func (c *SensorCredential) readIdentity(v value) {
	if v.text(&c.PSKIdentity, "the identity that goes with the key") &&
		len(c.PSKIdentity) > maxIdentity {
		v.fail("has %d bytes, more than %d", len(c.PSKIdentity), maxIdentity)
	}
}

// readSystemd takes a name as systemd.exec(5) allows it: nothing that leads elsewhere.
func (c *SensorCredential) readSystemd(v value) {
	c.keys[v.key] = v.place()
	if v.text(&c.PSKKeyCredential, "a name of systemd's LoadCredential=") &&
		(strings.Trim(c.PSKKeyCredential, idLetters) != "" ||
			strings.Trim(c.PSKKeyCredential, ".") == "") {
		v.fail("%s is no name of LoadCredential=; expected letters, digits, dots, dashes and "+
			"underscores", clip(c.PSKKeyCredential))
	}
}

func (c *Config) secretFile(v value, cred *SensorCredential, dst *string) {
	at := v.place()
	c.besides(v, dst, &at)
	cred.keys[v.key] = at
}

func (c *SensorCredential) readHosts(v value) {
	v.list("hosts such as roof.example, 192.0.2.7 or 192.0.2.0/24", func(_ int, v value) {
		var host string
		if !v.text(&host, "a host or a network") {
			return
		}
		if p, err := netip.ParsePrefix(host); err == nil && p != p.Masked() {
			v.fail("%s has bits set beyond the prefix; write %s", host, p.Masked())
		} else if err != nil && strings.ContainsAny(host, "/[] ") {
			v.fail("%s is no host and no network", clip(host))
		}
		c.Hosts = append(c.Hosts, host)
	})
}

// text is the credential as YAML shows it: names of files, never what they hold.
func (c SensorCredential) text() string {
	parts := []string{"id: " + quote(c.ID)}
	for _, p := range []struct{ key, text string }{
		{"psk_identity", c.PSKIdentity}, {"psk_key_file", c.PSKKeyFile},
		{"psk_key_credential", c.PSKKeyCredential}, {"cert_file", c.CertFile},
		{"key_file", c.KeyFile}, {"roots_file", c.RootsFile}, {"server_name", c.ServerName},
	} {
		if p.text != "" {
			parts = append(parts, p.key+": "+quote(p.text))
		}
	}
	parts = append(parts, fmt.Sprintf("connection_id: %v", c.ConnectionID))
	if len(c.Hosts) > 0 {
		parts = append(parts, "hosts: ["+join(c.Hosts, quote)+"]")
	}
	if len(c.Labels) > 0 {
		parts = append(parts, "labels: {"+join(sortedKeys(c.Labels), func(k string) string {
			return quote(k) + ": " + quote(c.Labels[k])
		})+"}")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Credential is the id of the credential that a sensor of that normalised URI is met with, if
// it names one of that id and has no labels; "" for one in plain.
func (c *Config) Credential(uri, id string) (string, error) {
	sensor := fleet.Sensor{URI: uri, Credential: id}
	if problem := newShared(c.SensorCredentials).credential(&sensor); problem != "" {
		return "", Errors{{File: c.Path, Key: "credential", Msg: problem}}
	}
	return sensor.Credential, nil
}

// credential settles what a listed sensor is met with and says what is wrong, "" if
// nothing.
func (s *shared) credential(sensor *fleet.Sensor) (problem string) {
	if !fleet.Secure(sensor.URI) {
		if sensor.Credential != "" {
			return "is for secure sensors; write coaps:// or coaps+tcp://, or no credential"
		}
		return ""
	}
	if sensor.Credential == "" {
		i := slices.IndexFunc(s.credentials, func(c SensorCredential) bool {
			return c.defaultFor(sensor)
		})
		if i < 0 {
			return "is missing, and no credential of the configuration is for this host or its " +
				"labels; name one, the sensor is never tried in plain"
		}
		sensor.Credential = s.credentials[i].ID
	}
	i := slices.IndexFunc(s.credentials, func(c SensorCredential) bool {
		return c.ID == sensor.Credential
	})
	switch {
	case i < 0:
		return fmt.Sprintf("%q is no credential of the configuration", clip(sensor.Credential))
	case s.credentials[i].PSKIdentity != "" && strings.HasPrefix(sensor.URI, fleet.SchemeTLS+":"):
		return fmt.Sprintf("%q is a pre-shared key, which works with coaps:// only; "+
			"coaps+tcp:// needs a certificate", clip(sensor.Credential))
	}
	return ""
}

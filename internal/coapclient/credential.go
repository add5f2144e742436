package coapclient

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
)

// Credential is what secure sensors are met with: a pre-shared key (RFC 4279), or a
// certificate of ours and the roots of theirs.
type Credential struct {
	ID           string
	Identity     string // with Key
	Key          []byte // nil = Certificate and Roots
	Certificate  tls.Certificate
	Roots        []*x509.Certificate
	ServerName   string // in the sensor's certificate; "" = the URI's host
	ConnectionID bool   // offer RFC 9146, and keep the association where the sensor takes it

	pool *x509.CertPool // of Roots
}

// SetCredentials puts other credentials in the place of all there were. Visits that run go
// on as they began. States that were made under a credential that has changed are dropped
// when they would be used.
func (c *Client) SetCredentials(list []Credential) {
	byID := make(map[string]*Credential, len(list))
	for _, cred := range list {
		cred.pool = x509.NewCertPool()
		for _, root := range cred.Roots {
			cred.pool.AddCert(root)
		}
		byID[cred.ID] = &cred
	}
	c.credentials.Store(&byID)
}

// fingerprint tells credentials apart by all that decides whom they trust and who trusts
// them.
func (c *Credential) fingerprint() [sha256.Size]byte {
	h := sha256.New()
	add := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	for _, s := range []string{"crawld credential 1", c.ID, c.Identity, string(c.Key), c.ServerName} {
		add([]byte(s))
	}
	for _, der := range c.Certificate.Certificate {
		add(der)
	}
	for _, root := range c.Roots {
		add(root.Raw)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// credential finds what the visit is to be made with. There is no way around it: a secure
// sensor is never asked in plain.
func (e *exchange) credential() (*Credential, *failure) {
	cred := (*e.client.credentials.Load())[e.want.Credential]
	if cred == nil {
		return nil, failf(ReasonAuth, "no credential %q for %s", e.want.Credential, e.want.URI)
	}
	return cred, nil
}

// serverName is what the sensor's certificate must name.
func (e *exchange) serverName(c *Credential) string {
	if c.ServerName != "" {
		return c.ServerName
	}
	return e.target.addrOrName()
}

// addrOrName is the host without a zone, which no certificate can have.
func (t *target) addrOrName() string {
	if t.named {
		return t.host
	}
	return t.addr.WithZone("").String()
}

package epcis

import (
	"encoding/hex"
	"errors"
	"net/url"
	"strings"
)

// ErrTooMany is wrapped by the error of Parse for more objects than allowed.
var ErrTooMany = errors.New("too many objects")

// Parse reads an EPCISDocument, or one bare event. Its errors name the event by its index
// and the key: `eventList[3].action: "CREATE"; ADD, OBSERVE or DELETE was expected`.
//
// An entry of an EPC list may be a range, `urn:epc:idpat:...:[lo-hi]` or, for any other URI, a
// last part `[lo-hi]` of decimal numbers; leading zeros of lo give the width. Objects are
// counted before a range is expanded: more than maxObjects in the document is ErrTooMany.
func Parse(doc []byte, maxObjects int) (Document, error) { panic("contract") }

// Canonical is the one spelling of an object: a GS1 EPC URI or Digital Link of any domain
// becomes the canonical Digital Link (https://id.gs1.org/01/.../21/...), the scheme and host
// of any other absolute URI become lower case and lose their default port. What is no absolute
// URI, or longer than 512 bytes, is an error.
func Canonical(id string) (string, error) {
	u, err := url.Parse(id)
	if err != nil || !u.IsAbs() {
		return "", errors.New("not an absolute URI")
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	return u.String(), nil
}

// EventID is what names the event: its ID, else the URI of its hash,
// ni:///sha-256;<64 hex digits>?ver=CBV2.0.
func (e *Event) EventID() string {
	if e.ID != "" {
		return e.ID
	}
	return HashURI(e.Hash)
}

// HashURI is the ni URI of a CBV 2.0 event hash.
func HashURI(hash [32]byte) string {
	return "ni:///sha-256;" + hex.EncodeToString(hash[:]) + "?ver=CBV2.0"
}

package discovery

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/crawld/crawld/internal/epcis"
)

// What one publication may be.
const (
	MaxBody    = 256 << 10 // bytes of the compact JWS
	MaxObjects = 1000      // in all of its events, ranges by their width

	maxWord = 512 // bytes of an eventID and the like

	MaxPast   = 30 * 24 * time.Hour // an event happened at most so long ago
	MaxFuture = 5 * time.Minute     // and its publisher's clock is at most so much ahead
)

// Check takes a publication: a compact JWS (RFC 7515) over an EPCIS document, and the bearer
// token that came with it, "" if none did. It returns what is to be stored, all of the
// document's events with their source. The checks are made in this order: size, token, form
// and algorithm (EdDSA only), kid, signature, EPCIS, sources, event times. The error is a
// *Refusal.
func (g *Gate) Check(token string, body []byte, now time.Time) ([]Record, error) {
	p, err := g.admit(token, int64(len(body)))
	if err != nil {
		return nil, err
	}
	body = bytes.TrimSpace(body)
	payload, err := p.verify(body)
	if err != nil {
		return nil, err
	}
	doc, err := epcis.Parse(payload, MaxObjects)
	switch {
	case errors.Is(err, epcis.ErrTooMany):
		return nil, refuse(TooMany, "%v", err)
	case err != nil:
		return nil, refuse(BadEPCIS, "%v", err)
	}
	if err := checkWords(doc.Events); err != nil {
		return nil, err
	}
	if err := p.ownSources(doc.Events); err != nil {
		return nil, err
	}
	if err := checkTimes(doc.Events, now); err != nil {
		return nil, err
	}
	records := make([]Record, len(doc.Events))
	recorded := now.UTC().Truncate(time.Microsecond)
	for i, e := range doc.Events {
		records[i] = Record{Event: e, Publisher: p.KID, Recorded: recorded, Signature: body}
	}
	return records, nil
}

// Admit makes the first checks alone, those of size (-1 = not known yet) and token: with
// them a body of somebody unknown need not be read. The error is a *Refusal.
func (g *Gate) Admit(token string, size int64) error {
	_, err := g.admit(token, size)
	return err
}

func (g *Gate) admit(token string, size int64) (Publisher, error) {
	if size > MaxBody {
		return Publisher{}, refuse(TooLarge, "the body is longer than %d bytes", MaxBody)
	}
	return g.Publisher(token)
}

// verify returns what the publisher has signed.
func (p *Publisher) verify(body []byte) ([]byte, error) {
	const form = "the body is no compact JWS (RFC 7515 section 7.1): "
	// What the library skips, such as line ends, would be stored and be no JWS for others.
	if i := bytes.IndexFunc(body, foreign); i >= 0 {
		return nil, refuse(BadJWS, form+"byte %d is not of base64url", i)
	}
	jws, err := jose.ParseSignedCompact(string(body), []jose.SignatureAlgorithm{jose.EdDSA})
	var other *jose.ErrUnexpectedSignatureAlgorithm
	switch {
	case errors.As(err, &other):
		return nil, refuse(BadAlgorithm, "the JWS has the algorithm %s; only EdDSA is taken",
			clip(string(other.Got)))
	case err != nil:
		return nil, refuse(BadJWS, form+"%s", clip(strings.TrimPrefix(err.Error(), "go-jose/go-jose: ")))
	}
	header := jws.Signatures[0].Protected
	for _, extension := range []jose.HeaderKey{"crit", "b64"} { // RFC 7515 4.1.11, RFC 7797
		if _, ok := header.ExtraHeaders[extension]; ok {
			return nil, refuse(BadJWS, "the JWS has the header %s; no extension is understood here",
				extension)
		}
	}
	if header.KeyID != p.KID {
		return nil, refuse(WrongKey, "the JWS has the kid %s, the token is that of %s",
			clip(header.KeyID), clip(p.KID))
	}
	payload, err := jws.Verify(p.Key)
	if err != nil {
		return nil, refuse(BadSignature, "the signature is not that of the key %s over this document",
			clip(p.KID))
	}
	return payload, nil
}

// foreign finds what is not of a compact JWS.
func foreign(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') &&
		r != '-' && r != '_' && r != '.'
}

// checkWords refuses what EPCIS allows and no row is made for. Objects are as short already.
func checkWords(events []epcis.Event) error {
	for i := range events {
		e := &events[i]
		for _, word := range []struct{ key, text string }{{"eventID", e.ID}, {"bizStep", e.BizStep},
			{"disposition", e.Disposition}} {
			if len(word.text) > maxWord {
				return refuse(BadEPCIS, "eventList[%d].%s: has %d bytes, more than %d", i, word.key,
					len(word.text), maxWord)
			}
		}
	}
	return nil
}

// ownSources gives events that name no source the publisher's first one, and refuses those
// of others.
func (p *Publisher) ownSources(events []epcis.Event) error {
	own := map[string]bool{}
	for _, s := range p.Sources {
		own[s.ID] = true
	}
	for i := range events {
		e := &events[i]
		if e.Source == "" {
			e.Source = p.Sources[0].ID
		}
		if !own[e.Source] {
			return refuse(WrongSource, "eventList[%d]: crawld:source: %s is no source of %s", i,
				clip(e.Source), clip(p.KID))
		}
	}
	return nil
}

// checkTimes holds events against the clock. An error declaration bears the time of the
// event that it is about, which may be long ago: its own time is when it was declared.
func checkTimes(events []epcis.Event, now time.Time) error {
	first, last := now.Add(-MaxPast), now.Add(MaxFuture)
	for i, e := range events {
		key, at := "eventTime", e.Time
		if e.Error != nil {
			key, at = "errorDeclaration.declarationTime", e.Error.Time
		}
		if at.Before(first) || at.After(last) {
			return refuse(WrongTime, "eventList[%d].%s: %s does not lie between %s and %s, 30 days "+
				"before and 5 minutes after now", i, key, at.Format(time.RFC3339Nano),
				first.UTC().Format(time.RFC3339), last.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

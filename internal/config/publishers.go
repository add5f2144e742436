package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// Publisher may publish events. What its files hold is read by Credentials.
type Publisher struct {
	KID       string // of its key, 1 .. 128 printable bytes, unlike all others
	KeyFile   string // absolute; a JWK with an Ed25519 public key
	TokenFile string // absolute
	Sources   []Source

	at secretPlaces
}

// Source is an information service to which readers of a publisher's events are sent. All
// three are printable and not empty.
type Source struct {
	ID      string // as in crawld:source of events
	Address string
	Type    string // such as EPCIS-2.0
}

// Reader may query events.
type Reader struct {
	TokenFile string   // absolute
	Sources   []string // ids of those whose events it may see; nil with All
	All       bool     // written as sources: ["*"]

	at secretPlaces
}

// secretPlaces are where the parts stand in the configuration.
type secretPlaces struct {
	item, key, token place
	path             string // publishers[i] or readers[i]
}

// Equal tells whether two publishers are the same, wherever they are written.
func (p Publisher) Equal(o Publisher) bool {
	return p.KID == o.KID && p.KeyFile == o.KeyFile && p.TokenFile == o.TokenFile &&
		slices.Equal(p.Sources, o.Sources)
}

// Equal tells whether two readers are the same, wherever they are written.
func (r Reader) Equal(o Reader) bool {
	return r.TokenFile == o.TokenFile && r.All == o.All && slices.Equal(r.Sources, o.Sources)
}

const (
	maxKID    = 128
	maxSource = 512 // bytes of a source's id, address or type
)

// publishers reads the list and holds its entries against each other.
func (c *Config) publishers(v value) {
	const want = "publishers such as {kid: acme-1, key_file: acme-1.pub.jwk, " +
		"token_file: acme.token, sources: [...]}"
	before := v.d.count()
	v.list(want, func(_ int, v value) {
		p := Publisher{at: secretPlaces{item: v.place(), path: v.key}}
		if c.readPublisher(v, &p) {
			c.Publishers = append(c.Publishers, p)
		}
	})
	if v.d.count() > before {
		return
	}
	known := map[string]Source{}
	for i, p := range c.Publishers {
		same := func(o Publisher) bool { return o.KID == p.KID }
		if first := slices.IndexFunc(c.Publishers, same); first < i {
			v.d.addAt(p.at.item, p.at.path+".kid", "%q is the kid of %s already; each key has its own",
				p.KID, c.Publishers[first].at.path)
		}
		for k, s := range p.Sources {
			if first, ok := known[s.ID]; ok && first != s {
				v.d.addAt(p.at.item, fmt.Sprintf("%s.sources[%d]", p.at.path, k),
					"%q has another address or type above; one source, one address", clip(s.ID))
			}
			known[s.ID] = s
		}
	}
}

// addAt is add at a place that was noted before.
func (p *problems) addAt(at place, key, format string, args ...any) {
	p.add(at.line, at.col, key, format, args...)
}

// readPublisher takes one publisher; all of it must be there.
func (c *Config) readPublisher(v value, p *Publisher) bool {
	before := v.d.count()
	v.mapping(fields{
		"kid":        func(v value) { v.printable(&p.KID, "the id of a key", maxKID) },
		"key_file":   func(v value) { c.besides(v, &p.KeyFile, &p.at.key) },
		"token_file": func(v value) { c.besides(v, &p.TokenFile, &p.at.token) },
		"sources":    p.readSources,
	})
	if v.d.count() == before &&
		(p.KID == "" || p.KeyFile == "" || p.TokenFile == "" || p.Sources == nil) {
		v.fail("kid, key_file, token_file or sources is missing; a publisher needs all of them")
	}
	return v.d.count() == before
}

func (p *Publisher) readSources(v value) {
	const want = "sources such as {id: urn:x:acme, address: https://acme.example/epcis, " +
		"type: EPCIS-2.0}"
	isList := v.list(want, func(_ int, v value) {
		var s Source
		before := v.d.count()
		v.mapping(fields{
			"id":      func(v value) { v.printable(&s.ID, "the id of a source", maxSource) },
			"address": func(v value) { v.printable(&s.Address, "an address", maxSource) },
			"type":    func(v value) { v.printable(&s.Type, "a type", maxSource) },
		})
		if v.d.count() == before && (s.ID == "" || s.Address == "" || s.Type == "") {
			v.fail("id, address or type is missing; a source needs all of them")
		}
		p.Sources = append(p.Sources, s)
	})
	if isList && len(v.node.Content) == 0 {
		v.fail("is empty; expected at least one source, the first is that of events without one")
	}
}

func (c *Config) readers(v value) {
	const want = `readers such as {token_file: auditor.token, sources: ["*"]}`
	v.list(want, func(_ int, v value) {
		r := Reader{at: secretPlaces{item: v.place(), path: v.key}}
		before, listed := v.d.count(), false
		v.mapping(fields{
			"token_file": func(v value) { c.besides(v, &r.TokenFile, &r.at.token) },
			"sources": func(v value) {
				listed = v.list("ids of sources", func(_ int, v value) {
					var id string
					v.printable(&id, "the id of a source", maxSource)
					r.Sources = append(r.Sources, id)
				})
			},
		})
		if v.d.count() > before {
			return
		}
		if r.TokenFile == "" || !listed {
			v.fail("token_file or sources is missing; a reader needs both")
			return
		}
		if r.All = slices.Contains(r.Sources, "*"); r.All {
			r.Sources = nil
		}
		c.Readers = append(c.Readers, r)
	})
}

// printable reads text that can be shown and sent in a header.
func (v value) printable(dst *string, want string, most int) {
	var s string
	if !v.text(&s, want) {
		return
	}
	switch {
	case len(s) > most:
		v.fail("has %d bytes, more than %d", len(s), most)
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		v.fail("has characters that cannot be shown; expected %s", want)
	default:
		*dst = s
	}
}

// besides reads the name of a file; a relative one starts from the configuration's folder.
func (c *Config) besides(v value, dst *string, at *place) {
	var s string
	if !v.text(&s, "a file") {
		return
	}
	if s, ok := c.absolute(v, s); ok {
		*dst, *at = filepath.Clean(s), v.place()
	}
}

func (p Publisher) text() string {
	return fmt.Sprintf("{kid: %s, key_file: %s, token_file: %s, sources: [%s]}", quote(p.KID),
		quote(p.KeyFile), quote(p.TokenFile), join(p.Sources, Source.text))
}

func (s Source) text() string {
	return fmt.Sprintf("{id: %s, address: %s, type: %s}", quote(s.ID), quote(s.Address),
		quote(s.Type))
}

func (r Reader) text() string {
	sources := r.Sources
	if r.All {
		sources = []string{"*"}
	}
	return fmt.Sprintf("{token_file: %s, sources: [%s]}", quote(r.TokenFile), join(sources, quote))
}

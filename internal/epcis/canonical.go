package epcis

import (
	"errors"
	"fmt"
	"strings"
)

// maxURI is the most bytes of an object's name, as published and in canonical form.
const maxURI = 512

// Canonical is the one spelling of an object: a GS1 EPC URI or Digital Link of any domain
// becomes the canonical Digital Link (https://id.gs1.org/01/.../21/...), the scheme and host
// of any other absolute URI become lower case and lose their default port. What is no absolute
// URI, or longer than 512 bytes, is an error.
//
// A Digital Link keeps its key qualifiers and loses query and fragment. Its check digit is
// taken as it is, since GS1's own samples have wrong ones, but for GTINs of 8, 12 or 13 digits:
// there it tells a GTIN from the many other numbers in URIs. EPC URIs that are malformed or
// of a scheme without Digital Link (gid, usdod, adi, bic, imovn) are URIs like any other. Of these,
// percent-encoding is made uniform too, and an empty path becomes / (RFC 3986, sections
// 6.2.2.1, 6.2.2.2 and 6.2.3); of URNs the namespace becomes lower case (RFC 8141,
// section 3.1).
func Canonical(id string) (string, error) {
	if len(id) > maxURI {
		return "", fmt.Errorf("%q...: a URI of at most %d bytes was expected", id[:32], maxURI)
	}
	if err := checkURI(id); err != nil {
		return "", fmt.Errorf("%q: %w", id, err)
	}
	id = uniform(id)
	if g, ok := parseEPC(id); ok {
		return g.uri(), nil
	}
	if g, ok := parseLink(id); ok && (!g.padded || g.sound()) {
		return g.uri(), nil
	}
	uri := plain(id)
	if len(uri) > maxURI {
		return "", fmt.Errorf("%q...: a URI of at most %d bytes was expected", id[:32], maxURI)
	}
	return uri, nil
}

var errURI = errors.New("an absolute URI was expected")

// checkURI takes a scheme, a colon, and at least one more character; all of them those of
// RFC 3986, percent signs with two hexadecimal digits. Brackets stand only around a host.
func checkURI(uri string) error {
	scheme, rest, found := strings.Cut(uri, ":")
	if !found || rest == "" || !isScheme(scheme) {
		return errURI
	}
	if strings.EqualFold(scheme, "urn") {
		space, name, _ := strings.Cut(rest, ":")
		if name == "" || strings.ContainsAny(space, "%/?#@") {
			return fmt.Errorf("%w: a URN has a namespace and a name in it", errURI)
		}
	}
	host, after := authority(rest)
	if host != "" {
		name, ok := hostName(host[2:])
		if _, web := defaultPorts[strings.ToLower(scheme)]; !ok || web && name == "" {
			return fmt.Errorf("%w: %q is no host", errURI, host[2:])
		}
		rest = name + after
	}
	for i := range len(rest) {
		c := rest[i]
		if c == '%' && (i+2 >= len(rest) || unhex(rest[i+1]) < 0 || unhex(rest[i+2]) < 0) {
			return fmt.Errorf("%w: a percent sign without two hexadecimal digits", errURI)
		}
		if !unreserved(c) && strings.IndexByte("%:/?#@!$&'()*+,;=", c) < 0 {
			return fmt.Errorf("%w: byte %q must be percent-encoded", errURI, c)
		}
	}
	return nil
}

// hostName is user and host without the brackets of an IPv6 address and without the port.
// It fails on a port that is no number, and on brackets elsewhere.
func hostName(host string) (string, bool) {
	user, host := cutUser(host)
	if strings.HasPrefix(host, "[") {
		inner, port, closed := strings.Cut(host[1:], "]")
		colon, digits := strings.CutPrefix(port, ":")
		return user + inner, closed && (port == "" || digits) && permits("9", colon)
	}
	host, port, _ := strings.Cut(host, ":")
	return user + host, permits("9", port)
}

// cutUser splits user@ from the host.
func cutUser(host string) (string, string) {
	at := strings.LastIndexByte(host, '@') + 1
	return host[:at], host[at:]
}

func isScheme(text string) bool {
	for i := range len(text) {
		c := text[i] | 0x20
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || !digit(text[i]) && strings.IndexByte("+-.", text[i]) < 0) {
			return false
		}
	}
	return text != ""
}

// authority splits what follows a scheme's colon into //authority, or "", and the rest.
func authority(rest string) (string, string) {
	if !strings.HasPrefix(rest, "//") {
		return "", rest
	}
	if i := strings.IndexAny(rest[2:], "/?#"); i >= 0 {
		return rest[:2+i], rest[2+i:]
	}
	return rest, ""
}

var defaultPorts = map[string]string{
	"http": ":80", "https": ":443", "coap": ":5683", "coaps": ":5684",
	"coap+tcp": ":5683", "coaps+tcp": ":5684", "ws": ":80", "wss": ":443",
}

// plain writes a URI that is no GS1 key and whose percent-encoding is uniform.
func plain(uri string) string {
	scheme, rest, _ := strings.Cut(uri, ":")
	scheme = strings.ToLower(scheme)
	host, path := authority(rest)
	if host != "" {
		user, name := cutUser(host)
		// The escapes in a host have become lower case with it.
		host = user + uniform(strings.ToLower(name))
		if port, known := defaultPorts[scheme]; known {
			host = strings.TrimSuffix(strings.TrimSuffix(host, port), ":")
			if path == "" || path[0] != '/' {
				path = "/" + path
			}
		}
	} else if scheme == "urn" {
		space, name, _ := strings.Cut(path, ":")
		path = strings.ToLower(space) + ":" + name
	}
	return scheme + ":" + host + path
}

// uniform resolves the percent-encoding of unreserved characters, and writes the rest of it
// in upper case.
func uniform(text string) string {
	if strings.IndexByte(text, '%') < 0 {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b.WriteByte(text[i])
			continue
		}
		c := byte(unhex(text[i+1])<<4 | unhex(text[i+2]))
		i += 2
		if unreserved(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	return b.String()
}

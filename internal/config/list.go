package config

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/crawld/crawld/internal/fleet"
)

// text reads one URI a line. Blank lines and # comments are skipped, after a
// URI too if a blank stands before the #; a BOM and CRLF are no matter.
func (l *list) text(data []byte) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	l.sensors = make([]fleet.Sensor, 0, bytes.Count(data, []byte("coap")))
	line := 0
	for raw := range bytes.Lines(data) {
		line++
		if !utf8.Valid(raw) {
			l.d.add(line, 1, "", "is not UTF-8 text; expected one coap:// URI a line")
		} else if uri := uncomment(string(raw)); uri != "" {
			col := strings.Index(string(raw), uri) // in bytes, and what is before it is blank
			l.line(line, col+1, uri)
		}
	}
	if len(l.sensors)+len(l.refused)+len(l.d.list) == 0 {
		l.d.add(1, 1, "", "the file lists no sensor; expected one coap:// URI a line")
	}
}

// uncomment cuts white space and what follows a # at the start or after a
// blank: elsewhere a # belongs to the URI, and is an error there.
func uncomment(s string) string {
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "#") {
		return ""
	}
	for i := 1; i < len(s); i++ {
		if s[i] == '#' && (s[i-1] == ' ' || s[i-1] == '\t') {
			return strings.TrimSpace(s[:i])
		}
	}
	return s
}

func (l *list) line(line, col int, uri string) {
	if strings.ContainsAny(uri, " \t") {
		l.d.add(line, col, "", "found %q, expected one coap:// URI a line, comments after #", clip(uri))
		return
	}
	s := newSensor()
	s.ID = uri
	normal, err := normalURI(uri)
	switch {
	case errors.Is(err, fleet.ErrTransport):
		l.refuse(line, uri, uri, err)
	case err != nil:
		l.d.add(line, col, "", "%s", uriProblem(err))
	case checkID(uri) != "":
		l.d.add(line, col, "", "as an id the URI %s; list this sensor in a YAML file with an id",
			checkID(uri))
	default:
		s.URI = normal
		if problem := l.credential(&s); problem != "" {
			l.d.add(line, col, "credential", "%s", problem)
			return
		}
		l.add(s, "", line, col)
	}
}

// normalURI is a URI as fleet.New will meet it. That form is checked too: a host
// such as 00000:: gets its brackets only there, and is no address with them.
func normalURI(listed string) (string, error) {
	u, err := fleet.ParseURI(listed)
	if err != nil {
		return "", err
	}
	normal := u.String()
	_, err = fleet.ParseURI(normal)
	return normal, err
}

// uriProblem is ParseURI's message without the key that the place has already.
func uriProblem(err error) string { return strings.TrimPrefix(err.Error(), "uri ") }

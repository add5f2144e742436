package config

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/sleepplan"
	"go.yaml.in/yaml/v3"
)

// Refusal is a listed sensor that is left out because crawld does not speak
// its transport. It is never tried over plain UDP instead.
type Refusal struct {
	File string
	Line int
	ID   string // as it would have been
	URI  string // as listed
	Msg  string // what is wrong
}

// String is one line: file:line: message.
func (r Refusal) String() string {
	return Error{File: r.File, Line: r.Line, Msg: r.Msg}.Error()
}

// LoadSensors reads every file that a pattern names (filepath.Match; each file
// once) into one fleet. Sensors of transports not spoken are returned beside
// it. The error is of type Errors: a pattern without a file, files that cannot
// be read or hold anything wrong, ids listed twice, secure sensors for which there is
// no credential.
func (c *Config) LoadSensors(patterns []string) (*fleet.Fleet, []Refusal, error) {
	files, errs := expand(patterns)
	var sensors []fleet.Sensor
	var refused []Refusal
	all := newShared(c.SensorCredentials)
	for _, file := range files {
		data, err := readFile(file)
		if err == nil {
			l := newList(file, data, all)
			sensors, refused = append(sensors, l.sensors...), append(refused, l.refused...)
			err = l.d.err()
		}
		if more := (Errors{}); errors.As(err, &more) {
			errs = append(errs, more...)
		}
	}
	if len(errs) > 0 {
		return nil, nil, errs
	}
	f, err := fleet.New(sensors)
	if err != nil {
		return nil, nil, Errors{{File: strings.Join(patterns, ", "), Msg: err.Error()}}
	}
	return f, refused, nil
}

// LoadSensors is Config.LoadSensors without any credentials.
func LoadSensors(patterns []string) (*fleet.Fleet, []Refusal, error) {
	return new(Config).LoadSensors(patterns)
}

// ParseSensors reads one list: YAML (.yaml, .yml), JSON (.json), else text with
// one URI a line. Sensors come in the order listed, URIs normalised. The error
// is of type Errors.
func ParseSensors(name string, data []byte) ([]fleet.Sensor, []Refusal, error) {
	l := newList(name, data, newShared(nil))
	if err := l.d.err(); err != nil {
		return nil, nil, err
	}
	return l.sensors, l.refused, nil
}

// expand lists the files behind patterns, in the order of the patterns.
func expand(patterns []string) (files []string, errs Errors) {
	met := map[string]bool{}
	for _, p := range patterns {
		matches, err := filepath.Glob(p)
		if err != nil {
			errs = append(errs, Error{File: p, Msg: "is no valid pattern; look at its brackets"})
		} else if len(matches) == 0 {
			errs = append(errs, Error{File: p, Msg: "no such file; correct sensor_files or make the list"})
		}
		for _, m := range matches {
			if !met[m] {
				met[m] = true
				files = append(files, m)
			}
		}
	}
	return files, errs
}

// place is where an id was listed first.
type place struct {
	file      string
	line, col int
}

// shared is what the files of one fleet have in common.
type shared struct {
	taken       map[string]place // by id
	plans       planReader
	credentials []SensorCredential
}

func newShared(credentials []SensorCredential) *shared {
	return &shared{map[string]place{}, planReader{map[string]sleepplan.Plan{}}, credentials}
}

// list collects what one file lists.
type list struct {
	*shared
	d       *decoder
	sensors []fleet.Sensor
	refused []Refusal
}

func newList(name string, data []byte, all *shared) *list {
	l := &list{shared: all, d: &decoder{problems: problems{file: name}}}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", ".json":
		if root := l.d.tree(data); root != nil {
			l.structured(value{d: l.d, node: root})
		}
	default:
		l.text(data)
	}
	return l
}

func (l *list) structured(root value) {
	listed := false
	root.mapping(fields{"sensors": func(v value) {
		listed = true
		v.list("sensors", func(_ int, v value) { l.sensor(v) })
	}})
	if !listed && len(l.d.list) == 0 {
		l.d.add(root.node.Line, root.node.Column, "sensors", "is missing; expected a list of sensors")
	}
}

func (l *list) add(s fleet.Sensor, key string, line, col int) {
	if first, twice := l.taken[s.ID]; twice {
		l.d.add(line, col, key, "%q is listed already at %s; remove one or give it another id",
			clip(s.ID), Error{File: first.file, Line: first.line, Col: first.col}.place())
		return
	}
	l.taken[s.ID] = place{l.d.file, line, col}
	l.sensors = append(l.sensors, s)
}

func (l *list) refuse(line int, id, uri string, err error) {
	l.refused = append(l.refused, Refusal{l.d.file, line, id, uri, err.Error()})
}

func newSensor() fleet.Sensor {
	return fleet.Sensor{Weight: 1, MaxCrawls: fleet.NoCap, Rate: fleet.DefaultRate}
}

// sensor reads one element of a structured list.
func (l *list) sensor(v value) {
	s, before := newSensor(), l.d.count()
	var uri, id, credential *yaml.Node
	v.mapping(fields{
		"id":             func(v value) { id = v.node; v.label(&s.ID) },
		"uri":            func(v value) { uri = v.node; v.text(&s.URI, "coap://host[:port][/path]") },
		"weight":         func(v value) { v.number(&s.Weight, 0, 1e9) },
		"max_crawls":     func(v value) { v.integer(&s.MaxCrawls, 0, math.MaxInt32) },
		"rate":           func(v value) { v.rate(&s.Rate, maxRate) },
		"rate_fixed":     func(v value) { v.boolean(&s.RateFixed) },
		"labels":         func(v value) { v.labels(&s.Labels) },
		"ack_timeout":    func(v value) { v.duration(&s.AckTimeout, time.Millisecond, 5*time.Minute) },
		"max_retransmit": func(v value) { v.retransmit(&s.MaxRetrans) },
		"credential": func(v value) {
			credential = v.node
			v.text(&s.Credential, "the id of a credential of the configuration")
		},
		"sleep_plan": func(v value) { s.Plan = l.plans.read(v) },
		"polling": func(v value) {
			v.mapping(pollingFields(&s.Polling))
			if s.Polling.Price > 0 && s.Polling.PollsPerPublication > 0 {
				v.fail("price and polls_per_publication exclude each other; keep one of them")
			}
		},
	})
	if uri == nil && before == l.d.count() {
		v.child("uri", v.node).fail("is missing; expected coap://host[:port][/path]")
	}
	if uri != nil && s.URI != "" {
		l.locate(v, uri, id, credential, s, before)
	}
}

// locate settles uri and id and, if nothing was wrong since, lists the sensor.
func (l *list) locate(
	v value, uriNode, idNode, credentialNode *yaml.Node, s fleet.Sensor, before int,
) {
	uri, id := v.child("uri", uriNode), v.child("id", idNode)
	listed := s.URI
	if s.ID == "" {
		s.ID, id.node = listed, uri.node
	}
	if bad := checkID(s.ID); bad != "" {
		id.fail("%s; give the sensor a short, printable id", bad)
	}
	normal, err := normalURI(listed)
	switch {
	case errors.Is(err, fleet.ErrTransport):
		l.refuse(uri.node.Line, s.ID, listed, err)
	case err != nil:
		uri.fail("%s", uriProblem(err))
	case before == l.d.count():
		s.URI = normal
		if problem := l.credential(&s); problem != "" {
			if credentialNode == nil {
				credentialNode = uriNode
			}
			v.child("credential", credentialNode).fail("%s", problem)
			return
		}
		l.add(s, id.key, id.node.Line, id.node.Column)
	}
}

// checkID says what is wrong with an id, or nothing. Ids stand in tables, logs
// and addresses of the API.
func checkID(id string) string {
	if len(id) > 512 {
		return "has " + strconv.Itoa(len(id)) + " bytes, more than 512"
	}
	if i := strings.IndexFunc(id, unicode.IsControl); i >= 0 {
		return fmt.Sprintf("has the control character %q", id[i])
	}
	return ""
}

// label reads any single value as the text that was written, so that numbers
// need no quotes.
func (v value) label(dst *string) {
	s, ok := v.scalar("text", "!!str", "!!int", "!!float", "!!bool", "!!timestamp")
	if ok && s == "" {
		v.fail("is empty; expected text or no such key")
	} else if ok {
		*dst = s
	}
}

func (v value) labels(dst *map[string]string) {
	if !v.plain() || v.node.ShortTag() == "!!null" {
		return
	}
	if v.node.Kind != yaml.MappingNode {
		v.wrongType("a mapping such as {group: roof}")
		return
	}
	labels, table := map[string]string{}, fields{}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		name := v.node.Content[i].Value
		table[name] = func(v value) {
			var text string
			v.label(&text)
			labels[name] = text
		}
	}
	v.mapping(table)
	*dst = labels
}

// retransmit reads MAX_RETRANSMIT of RFC 7252 section 4.8; fleet.Sensor means
// the default by 0 and none by a negative number.
func (v value) retransmit(dst *int) {
	n := 0
	if v.integer(&n, 0, 20) {
		*dst = n
		if n == 0 {
			*dst = -1
		}
	}
}

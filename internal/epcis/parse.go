package epcis

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
)

// Parse reads an EPCISDocument, or one bare event. Its errors name the event by its index
// and the key: `eventList[3].action: "CREATE"; ADD, OBSERVE or DELETE was expected`.
//
// An entry of an EPC list may be a range, `urn:epc:idpat:...:[lo-hi]` or, for any other URI, a
// last part `[lo-hi]` of decimal numbers; leading zeros of lo give the width. Objects are
// counted before a range is expanded: more than maxObjects in the document is ErrTooMany.
//
// A document has at most 16 MiB and is at most 32 levels deep.
func Parse(doc []byte, maxObjects int) (Document, error) {
	root, err := readJSON(doc)
	if err != nil {
		return Document{}, err
	}
	p := parser{doc: doc, limit: maxObjects, spaces: namespaces{}}
	p.spaces.declare(root.get("@context"))
	if _, isEvent := kindOf(&root); isEvent {
		e, err := p.event(&root)
		if err != nil {
			return Document{}, err
		}
		return Document{Events: []Event{e}, Objects: p.total}, nil
	}
	list, err := envelope(&root)
	if err != nil {
		return Document{}, err
	}
	d := Document{Events: make([]Event, len(list.members))}
	for i := range list.members {
		if d.Events[i], err = p.event(&list.members[i].value); err != nil {
			return Document{}, in("eventList", at(i, err))
		}
	}
	d.Objects = p.total
	return d, nil
}

// parser is the state of one call of Parse.
type parser struct {
	doc          []byte
	limit, total int // objects allowed and found
	spaces       namespaces
}

// typeOf is the type of an event or document, in short.
func typeOf(v *value) (string, error) {
	t, key := v.get("type"), "type"
	if old := v.get("isA"); old != nil {
		if t != nil {
			return "", in("isA", errors.New("there is a type already"))
		}
		t, key = old, "isA"
	}
	if t == nil {
		return "", in("type", errors.New("missing"))
	}
	if t.kind != '"' {
		return "", in(key, expected(t, "a name"))
	}
	name := strings.TrimPrefix(standard.expand(t.text), standard["epcis"])
	return name, nil
}

func kindOf(v *value) (Kind, bool) {
	name, err := typeOf(v)
	if err != nil {
		return 0, false
	}
	var k Kind
	err = k.UnmarshalText([]byte(name))
	return k, err == nil
}

// envelope finds the events of a document (EPCIS 2.0, section 9.5).
func envelope(root *value) (*value, error) {
	if root.kind != '{' {
		return nil, expected(root, "an EPCISDocument or an event")
	}
	name, err := typeOf(root)
	if err != nil {
		return nil, err
	}
	if name != "EPCISDocument" && name != "EPCISQueryDocument" {
		return nil, in("type", fmt.Errorf("%q; EPCISDocument or the type of an event was expected",
			name))
	}
	for _, f := range [...]struct {
		key  string
		form *form
	}{{"creationDate", timeForm}, {"schemaVersion", textForm}} {
		if v := root.get(f.key); v != nil {
			if err := f.form.test(v); err != nil {
				return nil, in(f.key, err)
			}
		}
	}
	if v := root.get("schemaVersion"); v != nil && v.text != "2" &&
		!strings.HasPrefix(v.text, "2.") {
		return nil, in("schemaVersion", expected(v, "2.0"))
	}
	path := []string{"epcisBody", "eventList"}
	if name == "EPCISQueryDocument" {
		path = []string{"epcisBody", "queryResults", "resultsBody", "eventList"}
	}
	list := root
	for i, key := range path {
		if list = list.get(key); list == nil {
			return nil, in(strings.Join(path[:i+1], "."), errors.New("missing"))
		}
	}
	if list.kind != '[' {
		return nil, in(strings.Join(path, "."), expected(list, "a list"))
	}
	return list, nil
}

// event reads one event.
func (p *parser) event(v *value) (Event, error) {
	if v.kind != '{' {
		return Event{}, expected(v, "an event")
	}
	name, err := typeOf(v)
	if err != nil {
		return Event{}, err
	}
	kind, known := kindOf(v)
	if !known {
		return Event{}, in("type", fmt.Errorf("%q is no type of an event", name))
	}
	if err := eventForms[kind].test(v); err != nil {
		return Event{}, err
	}
	e := Event{Kind: kind}
	spaces := p.spaces
	if own := v.get("@context"); own != nil {
		spaces = maps.Clone(spaces)
		spaces.declare(own)
	}
	e.fill(v, spaces)
	lists, err := p.lists(&e, v)
	if err != nil {
		return Event{}, err
	}
	if err := e.complete(v); err != nil {
		return Event{}, err
	}
	var raw bytes.Buffer
	if err := json.Compact(&raw, p.doc[v.start:v.end]); err != nil {
		return Event{}, err
	}
	e.Raw = raw.Bytes()
	e.Hash = eventHash(kind, v, lists, spaces)
	if strings.EqualFold(e.ID, HashURI(e.Hash)) {
		e.ID = ""
	}
	return e, nil
}

// fill takes over the single fields of an event of the right form.
func (e *Event) fill(v *value, spaces namespaces) {
	// A clone does not keep the document in memory.
	text := func(key string) string {
		if m := v.get(key); m != nil {
			return strings.Clone(m.text)
		}
		return ""
	}
	e.Time = microseconds(text("eventTime"))
	e.Offset, e.ID, e.Source = text("eventTimeZoneOffset"), text("eventID"), text("crawld:source")
	e.BizStep = bizSteps.short(spaces.expand(text("bizStep")))
	e.Disposition = dispositions.short(spaces.expand(text("disposition")))
	if action := text("action"); action != "" {
		_ = e.Action.UnmarshalText([]byte(action)) // its form has been checked
	}
	if d := v.get("errorDeclaration"); d != nil {
		e.Error = &ErrorDeclaration{Time: microseconds(d.get("declarationTime").text)}
		if reason := d.get("reason"); reason != nil {
			e.Error.Reason = strings.Clone(errorReasons.short(spaces.expand(reason.text)))
		}
		if ids := d.get("correctiveEventIDs"); ids != nil {
			for _, m := range ids.members {
				e.Error.Corrective = append(e.Error.Corrective, strings.Clone(m.text))
			}
		}
	}
}

// microseconds is a checked date-time without the digits after the sixth.
func microseconds(text string) time.Time {
	t, _ := parseInstant(text)
	return t.Truncate(time.Microsecond)
}

// lists reads parent and EPC lists, and returns the lists by their keys.
func (p *parser) lists(e *Event, v *value) (map[string]objects, error) {
	lists := map[string]objects{}
	for _, key := range [...]string{"epcList", "childEPCs", "inputEPCList", "outputEPCList"} {
		list, err := p.objects(v.get(key))
		if err != nil {
			return nil, in(key, err)
		}
		lists[key] = list
		switch {
		case key == "inputEPCList":
			e.Inputs = list.canonical
		case len(list.canonical) > 0:
			e.EPCs = list.canonical
		}
	}
	if parent := v.get("parentID"); parent != nil {
		var err error
		if e.Parent, err = Canonical(parent.text); err != nil {
			return nil, in("parentID", err)
		}
	}
	return lists, nil
}

// complete holds an event against what its type and action need (EPCIS 2.0, sections 7.4.2
// to 7.4.6).
func (e *Event) complete(v *value) error {
	some := func(key string) bool { list := v.get(key); return list != nil && len(list.members) > 0 }
	missing := func(what string) error { return fmt.Errorf("%v without %s", e.Kind, what) }
	switch e.Kind {
	case Object:
		if !some("epcList") && !some("quantityList") && !some("sensorElementList") {
			return in("epcList", missing("epcList, quantityList or sensorElementList"))
		}
		if e.Action != Add && v.get("ilmd") != nil {
			return in("ilmd", fmt.Errorf("only an ObjectEvent with action ADD has it"))
		}
	case Aggregation, Association:
		if e.Parent == "" && e.Action != Observe {
			return in("parentID", missing("parentID, which "+e.Action.String()+" needs"))
		}
		quantities := some("childQuantityList")
		if e.Action == Delete && quantities && len(e.EPCs) == 0 {
			e.Parent = ""
		}
		if e.Action != Delete && !quantities && !some("childEPCs") {
			return in("childEPCs", missing("childEPCs or childQuantityList"))
		}
	case Transformation:
		in1, out := some("inputEPCList") || some("inputQuantityList"),
			some("outputEPCList") || some("outputQuantityList")
		if v.get("transformationID") == nil && !in1 {
			return in("inputEPCList", missing("inputs or a transformationID"))
		}
		if v.get("transformationID") == nil && !out || !in1 && !out {
			return in("outputEPCList", missing("outputs"))
		}
	case Transaction:
		if e.Action != Delete && !some("epcList") && !some("quantityList") && e.Parent == "" {
			return in("epcList", missing("epcList, quantityList or parentID"))
		}
	}
	return nil
}

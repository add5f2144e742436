package epcis

import (
	"errors"
	"fmt"
	"strings"
)

// form is what a field holds: a text that check takes, an object, or a list of one of these.
type form struct {
	check   func(v *value) error
	members map[string]*form // of an object
	others  others           // what more members an object may have
	needs   string           // members that must be there, separated by spaces
	list    bool
	least   int // entries of a list
}

// others are the members of an object that its form does not name. The schema is strict for
// an event itself, for ilmd, and for sources and destinations (additionalProperties, propertyNames).
type others uint8

const (
	anyOther   others = iota
	extensions        // names with a colon
	noOther
)

// many is a list of what is given.
func many(of *form, least int) *form {
	f := *of
	f.list, f.least = true, least
	return &f
}

// leaf is a text or number.
func leaf(check func(v *value) error) *form { return &form{check: check} }

// word is one of a vocabulary, or a URI.
func word(of *vocabulary) *form {
	return leaf(func(v *value) error {
		if v.kind != '"' {
			return expected(v, "a word or URI")
		}
		if strings.IndexByte(v.text, ':') < 0 {
			if !of.has(v.text) {
				return fmt.Errorf("%q is no word of CBV 2.0, nor a URI", v.text)
			}
			return nil
		}
		return uriError(v.text)
	})
}

var (
	uriForm = leaf(func(v *value) error {
		if v.kind != '"' {
			return expected(v, "a URI")
		}
		return uriError(v.text)
	})
	textForm   = leaf(func(v *value) error { return kindError(v, '"', "a string") })
	numberForm = leaf(func(v *value) error { return kindError(v, '0', "a number") })
	boolForm   = leaf(func(v *value) error {
		if v.kind != 't' && v.kind != 'f' {
			return expected(v, "true or false")
		}
		return nil
	})
	hexForm = leaf(func(v *value) error {
		if v.kind != '"' || v.text == "" || strings.Trim(v.text, "0123456789abcdefABCDEF") != "" {
			return expected(v, "a string of hexadecimal digits")
		}
		return nil
	})
	timeForm = leaf(func(v *value) error {
		if v.kind != '"' {
			return expected(v, "a date-time")
		}
		if _, err := parseInstant(v.text); err != nil {
			return fmt.Errorf("%q: %w", v.text, err)
		}
		return nil
	})
	offsetForm = leaf(func(v *value) error {
		if v.kind != '"' || !isOffset(v.text) {
			return expected(v, "an offset as +01:00, at most 14 hours,")
		}
		return nil
	})
	actionForm = leaf(func(v *value) error {
		if v.kind != '"' || v.text != "ADD" && v.text != "OBSERVE" && v.text != "DELETE" {
			return expected(v, "ADD, OBSERVE or DELETE")
		}
		return nil
	})
	anyForm = leaf(func(*value) error { return nil })
	// uriOrURIs is certificationInfo, which may be one URI or a list.
	uriOrURIs = leaf(func(v *value) error {
		if v.kind == '[' {
			return many(uriForm, 0).test(v)
		}
		return uriForm.test(v)
	})
	// ilmdForm has extensions only (EPCIS 2.0, section 7.3.8).
	ilmdForm  = &form{others: extensions}
	epcsForm  = anyForm // parser.objects reads these
	placeForm = &form{members: map[string]*form{"id": uriForm}, needs: "id"}
	quantity  = &form{members: map[string]*form{"epcClass": uriForm, "quantity": numberForm,
		"uom": textForm}, needs: "epcClass"}
	transaction = &form{members: map[string]*form{"type": word(transactionTypes),
		"bizTransaction": uriForm}, needs: "bizTransaction"}
	source = &form{members: map[string]*form{"type": word(partyTypes), "source": uriForm},
		needs: "type source", others: noOther}
	destination = &form{members: map[string]*form{"type": word(partyTypes),
		"destination": uriForm}, needs: "type destination", others: noOther}
	persistent = &form{members: map[string]*form{"set": many(word(dispositions), 0),
		"unset": many(word(dispositions), 0)}}
	declaration = &form{members: map[string]*form{"declarationTime": timeForm,
		"reason": word(errorReasons), "correctiveEventIDs": many(uriForm, 0)},
		needs: "declarationTime"}
	sensorElement = &form{members: map[string]*form{"sensorMetadata": sensorMetadata,
		"sensorReport": many(sensorReport, 1)}, needs: "sensorReport"}
	sensorMetadata = &form{members: map[string]*form{"time": timeForm, "startTime": timeForm,
		"endTime": timeForm, "deviceID": uriForm, "deviceMetadata": uriForm, "rawData": uriForm,
		"dataProcessingMethod": uriForm, "bizRules": uriForm}}
	sensorReport = &form{members: map[string]*form{"type": word(measurements),
		"exception": word(exceptions), "deviceID": uriForm, "deviceMetadata": uriForm,
		"rawData": uriForm, "dataProcessingMethod": uriForm, "time": timeForm,
		"microorganism": uriForm, "chemicalSubstance": uriForm, "value": numberForm,
		"component": word(components), "stringValue": textForm, "booleanValue": boolForm,
		"hexBinaryValue": hexForm, "uriValue": uriForm, "minValue": numberForm,
		"maxValue": numberForm, "meanValue": numberForm, "sDev": numberForm,
		"percRank": numberForm, "percValue": numberForm, "uom": textForm,
		"coordinateReferenceSystem": uriForm}}
)

// common are the fields of every event (EPCIS 2.0, sections 7.4.1 and 7.4.2 to 7.4.6).
var common = map[string]*form{
	"@context": anyForm, "type": textForm, "isA": textForm, "eventID": uriForm,
	"eventTime": timeForm, "recordTime": timeForm, "eventTimeZoneOffset": offsetForm,
	"errorDeclaration": declaration, "certificationInfo": uriOrURIs,
	"bizStep": word(bizSteps), "disposition": word(dispositions),
	"persistentDisposition": persistent, "readPoint": placeForm, "bizLocation": placeForm,
	"bizTransactionList": many(transaction, 0), "sourceList": many(source, 0),
	"destinationList": many(destination, 0), "sensorElementList": many(sensorElement, 0),
	"crawld:source": textForm,
}

// eventForms are the events by Kind.
var eventForms = [...]*form{
	Object: event("eventTime action", map[string]*form{"action": actionForm,
		"epcList": epcsForm, "quantityList": many(quantity, 0), "ilmd": ilmdForm}),
	Aggregation: event("eventTime action", map[string]*form{"action": actionForm,
		"parentID": uriForm, "childEPCs": epcsForm, "childQuantityList": many(quantity, 0)}),
	Association: event("eventTime action parentID", map[string]*form{"action": actionForm,
		"parentID": uriForm, "childEPCs": epcsForm, "childQuantityList": many(quantity, 0)}),
	Transformation: event("eventTime", map[string]*form{"inputEPCList": epcsForm,
		"inputQuantityList": many(quantity, 0), "outputEPCList": epcsForm,
		"outputQuantityList": many(quantity, 0), "transformationID": uriForm, "ilmd": ilmdForm}),
	Transaction: event("eventTime action bizTransactionList", map[string]*form{
		"action": actionForm, "parentID": uriForm, "epcList": epcsForm,
		"quantityList": many(quantity, 0), "bizTransactionList": many(transaction, 1)}),
}

// event joins the fields of a type with those of all.
func event(needs string, own map[string]*form) *form {
	for key, f := range common {
		if own[key] == nil {
			own[key] = f
		}
	}
	return &form{members: own, needs: needs, others: extensions}
}

// test holds a field against its form. Its error begins with the path below the field.
func (f *form) test(v *value) error {
	if f.list {
		if err := kindError(v, '[', "a list"); err != nil {
			return err
		}
		if len(v.members) < f.least {
			return fmt.Errorf("at least %d entries were expected", f.least)
		}
		each := *f
		each.list = false
		for i := range v.members {
			if err := each.test(&v.members[i].value); err != nil {
				return at(i, err)
			}
		}
		return nil
	}
	if f.check != nil {
		return f.check(v)
	}
	return f.object(v)
}

func (f *form) object(v *value) error {
	if err := kindError(v, '{', "an object"); err != nil {
		return err
	}
	for i := range v.members {
		m := &v.members[i]
		switch field := f.members[m.key]; {
		case field != nil:
			if err := field.test(&m.value); err != nil {
				return in(m.key, err)
			}
		case f.others == noOther:
			return in(m.key, errors.New("no such field here"))
		case f.others == extensions && strings.IndexByte(m.key, ':') < 0:
			return in(m.key, errors.New("no such field here; extensions have a prefix and a colon"))
		}
	}
	for key := range strings.SplitSeq(f.needs, " ") {
		if key != "" && v.get(key) == nil {
			return in(key, errors.New("missing"))
		}
	}
	return nil
}

func uriError(text string) error {
	if len(text) > maxURI {
		return fmt.Errorf("a URI of at most %d bytes was expected", maxURI)
	}
	if err := checkURI(text); err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	return nil
}

func kindError(v *value, kind byte, what string) error {
	if v.kind != kind {
		return expected(v, what)
	}
	return nil
}

// expected says what is there and what should be.
func expected(v *value, what string) error {
	if v.kind == '"' {
		text := v.text
		if len(text) > 64 {
			text = text[:64] + "..."
		}
		return fmt.Errorf("%q; %s was expected", text, what)
	}
	return fmt.Errorf("%s; %s was expected", jsonNames[v.kind], what)
}

// pathError is an error at a place in the document.
type pathError struct {
	path string // without a leading point
	err  error
}

func (e *pathError) Error() string { return e.path + ": " + e.err.Error() }
func (e *pathError) Unwrap() error { return e.err }

// in puts a member's name before the path of an error.
func in(key string, err error) error {
	if e, ok := err.(*pathError); ok {
		if e.path[0] == '[' {
			return &pathError{key + e.path, e.err}
		}
		return &pathError{key + "." + e.path, e.err}
	}
	return &pathError{key, err}
}

// at puts an index before the path of an error.
func at(i int, err error) error { return in(fmt.Sprintf("[%d]", i), err) }

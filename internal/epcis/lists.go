package epcis

import (
	"fmt"
	"math/big"
	"strings"
)

// span is an entry of an EPC list: one object, or a run of them with consecutive numbers.
type span struct {
	before string // what precedes the number; all of an entry that is no range
	lo     string // lowest number, with its leading zeros; "" if the entry is no range
	count  *big.Int
}

// parseSpan reads an entry. A range is a pattern urn:epc:idpat:...:[lo-hi] (TDS 2.0, section
// 8), or any other URI whose last part is [lo-hi] after a / : . = # or -.
func parseSpan(entry string) (span, error) {
	pattern := len(entry) >= len(idpat) && strings.EqualFold(entry[:len(idpat)], idpat)
	open := strings.LastIndexByte(entry, '[')
	if !strings.HasSuffix(entry, "]") || open < 1 || strings.IndexByte("/:.=#-", entry[open-1]) < 0 {
		if pattern {
			return span{}, fmt.Errorf("%q is a class; it belongs into a list of quantities", entry)
		}
		return span{before: entry}, nil
	}
	lo, hi, found := strings.Cut(entry[open+1:len(entry)-1], "-")
	if !found || lo == "" || hi == "" || !permits("9", lo) || !permits("9", hi) {
		if strings.Contains(entry[:open], "://") {
			return span{before: entry}, nil // the brackets of an IPv6 address
		}
		return span{}, fmt.Errorf("%q: a range [lo-hi] of two numbers was expected", entry)
	}
	if hi[0] == '0' && len(hi) != len(lo) {
		return span{}, fmt.Errorf("%q: leading zeros that the lower end does not have", entry)
	}
	s := span{before: entry[:open], lo: lo}
	if pattern {
		s.before = "urn:epc:id:" + entry[len(idpat):open]
	}
	low, _ := new(big.Int).SetString(lo, 10)
	high, _ := new(big.Int).SetString(hi, 10)
	s.count = high.Sub(high, low)
	if s.count.Add(s.count, big.NewInt(1)).Sign() < 1 {
		return span{}, fmt.Errorf("%q: the lower end is above the upper", entry)
	}
	return s, nil
}

const idpat = "urn:epc:idpat:"

// appendTo adds the names of n objects, the first of the span.
func (s *span) appendTo(names []string, n int) []string {
	if s.lo == "" {
		return append(names, s.before)
	}
	number := []byte(s.lo)
	for range n {
		names = append(names, s.before+string(number))
		number = increment(number)
	}
	return names
}

// increment adds one to a decimal number, which keeps its width unless it overflows.
func increment(number []byte) []byte {
	for i := len(number) - 1; i >= 0; i-- {
		if number[i] != '9' {
			number[i]++
			return number
		}
		number[i] = '0'
	}
	return append([]byte{'1'}, number...)
}

// objects is an EPC list in two spellings: as published, ranges expanded, and canonical,
// each object once.
type objects struct {
	published, canonical []string
}

// objects reads an EPC list and counts it against the objects that are left.
func (p *parser) objects(v *value) (objects, error) {
	var o objects
	if v == nil {
		return o, nil
	}
	if v.kind != '[' {
		return o, fmt.Errorf("%s; a list was expected", jsonNames[v.kind])
	}
	spans := make([]span, len(v.members))
	total := new(big.Int)
	for i, m := range v.members {
		if m.kind != '"' {
			return o, at(i, fmt.Errorf("%s; a URI was expected", jsonNames[m.kind]))
		}
		if len(m.text) > maxURI {
			return o, at(i, fmt.Errorf("a URI of at most %d bytes was expected", maxURI))
		}
		var err error
		if spans[i], err = parseSpan(m.text); err != nil {
			return o, at(i, err)
		}
		if spans[i].count == nil {
			spans[i].count = one
		}
		total.Add(total, spans[i].count)
	}
	if left := big.NewInt(int64(p.limit - p.total)); total.Cmp(left) > 0 {
		return o, fmt.Errorf("%w: %v here and %d before, %d are allowed",
			ErrTooMany, total, p.total, p.limit)
	}
	p.total += int(total.Int64())
	for i := range spans {
		o.published = spans[i].appendTo(o.published, int(spans[i].count.Int64()))
		if err := o.canonicalize(); err != nil {
			return o, at(i, err)
		}
	}
	return o.unique(), nil
}

var one = big.NewInt(1)

// canonicalize brings the canonical names up with the published ones.
func (o *objects) canonicalize() error {
	for _, name := range o.published[len(o.canonical):] {
		uri, err := Canonical(name)
		if err != nil {
			return err
		}
		o.canonical = append(o.canonical, uri)
	}
	return nil
}

// unique leaves each canonical name once.
func (o objects) unique() objects {
	seen := make(map[string]bool, len(o.canonical))
	kept := o.canonical[:0]
	for _, uri := range o.canonical {
		if !seen[uri] {
			seen[uri] = true
			kept = append(kept, uri)
		}
	}
	o.canonical = kept
	return o
}

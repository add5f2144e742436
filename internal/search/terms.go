package search

import (
	"slices"
	"strings"

	"github.com/crawld/crawld/internal/linkformat"
)

// maxKey bounds name and value of a Term in bytes. Whatever is longer is cut, so that no
// attribute of a sensor makes a key that is too long to be stored.
const maxKey = 64

// wordName is the name of terms that are words of titles. No attribute is called so.
const wordName = "title word"

// Term is a key of the index. Terms of one link are distinct. Name and Value are cut to
// maxKey bytes: two links may share a term and yet differ, so that what is found under it
// is held against the query again.
type Term struct{ Name, Value string }

func newTerm(name, value string) Term {
	return Term{name[:min(len(name), maxKey)], value[:min(len(value), maxKey)]}
}

// Terms are the index keys of a link: its target, its attributes with their whole values
// and with each part, and the words of its titles.
func Terms(l linkformat.Link) []Term {
	l = readable(l)
	terms := []Term{newTerm("href", l.Target)}
	seen := map[Term]bool{terms[0]: true}
	add := func(t Term) {
		if !seen[t] {
			seen[t] = true
			terms = append(terms, t)
		}
	}
	for _, a := range l.Attrs {
		name := foldText(a.Name)
		if name == "href" {
			continue // linkformat.Match takes it for the target
		}
		value := func(v string) {
			// A later rt, if, rel or sz does not count. A pattern is no value.
			if strings.HasSuffix(v, "*") || linkformat.Match(l, name, v) {
				add(newTerm(name, v))
			}
		}
		value(a.Value)
		for part := range strings.FieldsSeq(a.Value) {
			value(part)
		}
	}
	for _, words := range titles(l) {
		for _, w := range words {
			add(newTerm(wordName, w))
		}
	}
	return terms
}

// Lookup is where the index has the links that a query may find. With Prefix it is all
// terms of that name whose values begin with Value.
type Lookup struct {
	Term
	Prefix bool
}

// Lookups are such that every link that matches the query has a term in each of them. None
// means that the index does not help.
func (q Query) Lookups() []Lookup {
	var all []Lookup
	add := func(name, pattern string) {
		value, open := strings.CutSuffix(pattern, "*")
		if l := (Lookup{newTerm(name, value), open}); !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	for _, a := range q.Attrs {
		if !a.Not {
			add(foldText(a.Name), a.Value)
		}
	}
	for _, phrase := range q.Words {
		for _, w := range strings.Fields(phrase) {
			if w != "*" {
				add(wordName, w)
			}
		}
	}
	return all
}

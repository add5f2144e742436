package search

import (
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/crawld/crawld/internal/linkformat"
)

// Matches tells whether the attributes and words of the query hold for a link.
func (q Query) Matches(l linkformat.Link) bool {
	l = readable(l)
	for _, a := range q.Attrs {
		if linkformat.Match(l, a.Name, a.Value) == a.Not {
			return false
		}
	}
	if len(q.Words) == 0 {
		return true
	}
	titles := titles(l)
	for _, w := range q.Words {
		phrase, open := strings.CutSuffix(w, "*")
		want := strings.Fields(phrase)
		if len(want) > 0 && !slices.ContainsFunc(titles, func(have []string) bool {
			return hasPhrase(have, want, open)
		}) {
			return false
		}
	}
	return true
}

// OfSensor tells that nothing is asked of links: the query finds descriptions.
func (q Query) OfSensor() bool { return len(q.Attrs) == 0 && len(q.Words) == 0 }

// MatchesSensor tells whether a sensor's id is asked for.
func (q Query) MatchesSensor(id string) bool { return q.Sensor == "" || fits(q.Sensor, id) }

// MatchesLabels tells whether a sensor's labels are those asked for.
func (q Query) MatchesLabels(labels map[string]string) bool {
	for key, want := range q.Labels {
		if have, ok := labels[key]; !ok || !fits(want, have) {
			return false
		}
	}
	return true
}

// MatchesState tells whether a sensor's state is asked for.
func (q Query) MatchesState(state string) bool {
	return len(q.States) == 0 || slices.Contains(q.States, state)
}

// MatchesAge tells whether a description of that age is asked for.
func (q Query) MatchesAge(age time.Duration) bool {
	return age >= q.MinAge && (q.MaxAge == 0 || age < q.MaxAge)
}

// fits is what a pattern means: a trailing "*" is any rest.
func fits(pattern, text string) bool {
	prefix, open := strings.CutSuffix(pattern, "*")
	return text == pattern || open && strings.HasPrefix(text, prefix)
}

// readable is the link with what its title* say beside them as titles.
func readable(l linkformat.Link) linkformat.Link {
	attrs := l.Attrs
	for _, a := range l.Attrs {
		if !strings.EqualFold(a.Name, "title*") {
			continue
		}
		if text, ok := decodeExt(a.Value); ok {
			attrs = append(attrs[:len(attrs):len(attrs)],
				linkformat.Attr{Name: "title", Value: text, HasValue: true, Quoted: true})
		}
	}
	l.Attrs = attrs
	return l
}

// decodeExt is the text of an ext-value (RFC 8187 section 3.2): charset'language'
// percent-encoded. Producers write UTF-8; ISO-8859-1 is from RFC 5987, which RFC 6690 names.
func decodeExt(value string) (string, bool) {
	charset, rest, _ := strings.Cut(value, "'")
	_, encoded, ok := strings.Cut(rest, "'")
	text, err := url.PathUnescape(encoded)
	switch {
	case !ok || err != nil:
		return "", false
	case strings.EqualFold(charset, "UTF-8"):
		return text, utf8.ValidString(text)
	case strings.EqualFold(charset, "ISO-8859-1"):
		runes := make([]rune, len(text))
		for i := range len(text) {
			runes[i] = rune(text[i])
		}
		return string(runes), true
	}
	return "", false
}

// titles are the words of each title of a readable link.
func titles(l linkformat.Link) (all [][]string) {
	for _, a := range l.Attrs {
		if strings.EqualFold(a.Name, "title") {
			all = append(all, foldedWords(a.Value))
		}
	}
	return all
}

// hasPhrase tells whether the words want stand in have one behind the other; open means
// that the last one may go on.
func hasPhrase(have, want []string, open bool) bool {
	last := len(want) - 1
	for i := 0; i+last < len(have); i++ {
		end := have[i+last]
		if slices.Equal(have[i:i+last], want[:last]) &&
			(end == want[last] || open && strings.HasPrefix(end, want[last])) {
			return true
		}
	}
	return false
}

// foldedWords are the words of a text, folded.
func foldedWords(text string) []string {
	words := strings.FieldsFunc(text, func(r rune) bool { return !wordRune(r) })
	for i, w := range words {
		words[i] = foldText(w)
	}
	return words
}

func wordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

func foldText(text string) string { return strings.Map(fold, text) }

// fold is one character of each set that differ in case alone (Unicode's simple folding),
// in lower case where it has one.
func fold(r rune) rune {
	if 'a' <= r && r <= 'z' {
		return r
	}
	least := r
	for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
		least = min(least, other)
	}
	return unicode.ToLower(least)
}

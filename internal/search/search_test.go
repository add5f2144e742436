package search

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/crawld/crawld/internal/linkformat"
)

func TestParse(t *testing.T) {
	attr := func(name, value string) Attr { return Attr{Name: name, Value: value} }
	for text, c := range map[string]struct {
		want      Query
		canonical string
	}{
		"":       {Query{}, ""},
		" \t\n ": {Query{}, ""},
		"rt=temperature* age<10m": {Query{Attrs: []Attr{attr("rt", "temperature*")},
			MaxAge: 10 * time.Minute}, "age<10m rt=temperature*"},
		"rt!=x RT=y":          {Query{Attrs: []Attr{attr("rt", "y"), {"rt", "x", true}}}, "rt=y rt!=x"},
		"href=/s/* href=/s/*": {Query{Attrs: []Attr{attr("href", "/s/*")}}, "href=/s/*"},
		`title="Room 1*"`:     {Query{Attrs: []Attr{attr("title", "Room 1*")}}, `title="Room 1*"`},
		`x="a \"b\" \\ c"`:    {Query{Attrs: []Attr{attr("x", `a "b" \ c`)}}, `x="a \"b\" \\ c"`},
		`x=a\b obs=""`: {Query{Attrs: []Attr{attr("obs", ""), attr("x", `a\b`)}},
			`obs="" x=a\b`},
		"href=coap://[::1]/?a=b<c>&d!=e": {Query{Attrs: []Attr{attr("href",
			"coap://[::1]/?a=b<c>&d!=e")}}, "href=coap://[::1]/?a=b<c>&d!=e"},
		"title*=UTF-8''a%20b": {Query{Attrs: []Attr{attr("title*", "UTF-8''a%20b")}},
			"title*=UTF-8''a%20b"},
		"link.age=3 LINK.Label.x=4 link.link.y=5": {Query{Attrs: []Attr{attr("age", "3"),
			attr("label.x", "4"), attr("link.y", "5")}}, "link.age=3 link.label.x=4 link.link.y=5"},
		"KÜCHE":             {Query{Words: []string{"küche"}}, "küche"},
		"K\u212aK":          {Query{Words: []string{"kkk"}}, "kkk"},
		"Room-12 a*":        {Query{Words: []string{"a*", "room 12"}}, `a* "room 12"`},
		`"Greenhouse  4*"`:  {Query{Words: []string{"greenhouse 4*"}}, `"greenhouse 4*"`},
		"age":               {Query{Words: []string{"age"}}, "age"},
		"Age>=2h age<1d12h": {Query{MinAge: 2 * time.Hour, MaxAge: 36 * time.Hour}, "age<1d12h age>=2h"},
		"age>=0s":           {Query{}, ""},
		"age<2d":            {Query{MaxAge: 48 * time.Hour}, "age<2d"},
		"age<1h0m5s":        {Query{MaxAge: time.Hour + 5*time.Second}, "age<1h0m5s"},
		"State=overdue,fresh,fresh": {Query{States: []string{"fresh", "overdue"}},
			"state=fresh,overdue"},
		"sensor=greenhouse*": {Query{Sensor: "greenhouse*"}, "sensor=greenhouse*"},
		`Label.Site=lab label.a.b/c="x y"`: {Query{Labels: map[string]string{"Site": "lab",
			"a.b/c": "x y"}}, `label.Site=lab label.a.b/c="x y"`},
	} {
		got, err := Parse(text)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: got %+v, %v, want %+v", text, got, err, c.want)
		}
		if got.String() != c.canonical {
			t.Errorf("%q: canonical %q, want %q", text, got, c.canonical)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"rt=":                     `byte 3: expected a value; the empty one is written ""`,
		"rt= x":                   `byte 3: expected a value`,
		"a rt=x\"y\"":             `byte 6: expected white space; a value with "`,
		`rt="x`:                   "byte 3: expected a closing quote",
		`rt="x\`:                  "byte 3: expected a closing quote",
		`"x"y`:                    "byte 3: expected white space after the closing quote",
		`x"y"`:                    "byte 1: expected white space before a quote",
		"=x":                      "byte 0: expected the name of an attribute",
		"link.=x":                 "byte 5: expected the name of an attribute",
		"Küche=x":                 "byte 1: expected the name of an attribute",
		"rt<3":                    "byte 2: expected = or !=; only age",
		"age=3m":                  "byte 3: expected age< or age>=",
		"age!=3m":                 "byte 3: expected age< or age>=",
		"age<=3m":                 "byte 3: expected age< or age>=",
		"age<soon":                "byte 4: expected a duration",
		"age<":                    "byte 4: expected a duration",
		"age<0s":                  "byte 4: expected a duration",
		"age<-1m":                 "byte 4: expected a duration",
		"age<1d-1m":               "byte 4: expected a duration",
		"age<999999d":             "byte 4: expected a duration",
		"age<1m age<2m":           "byte 10: age< is given twice",
		"state=fresh state=due":   "byte 12: state is given twice",
		"state=fresh,":            "byte 6: expected states with commas between them, of fresh, due",
		"state=Fresh":             "byte 6: expected states",
		"state!=fresh":            "byte 5: expected =; != is for attributes",
		"sensor!=x":               "byte 6: expected =",
		`sensor=""`:               "byte 7: expected the id of a sensor",
		"label.=x":                "byte 6: expected the name of a label",
		"label.a=x label.a=y":     "byte 10: label.a is given twice",
		"rt=a *":                  "byte 5: expected words",
		"-- x":                    "byte 0: expected words",
		"ab \xff":                 "byte 3: not UTF-8",
		strings.Repeat("a ", 33):  "byte 64: an expression has at most 32 terms",
		strings.Repeat("a", 4097): "byte 4096: an expression has at most 4096 bytes",
	} {
		q, err := Parse(text)
		var at *Error
		if !errors.As(err, &at) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %+v, %v, want %s", text, q, err, want)
		} else if at.Offset < 0 || at.Offset > len(text) {
			t.Errorf("%q: offset %d", text, at.Offset)
		}
	}
}

func TestMatches(t *testing.T) {
	const body = `</s/1>;rt="temperature-c core.s";RT=late;title="Greenhouse 4, north";obs,` +
		`</k>;title*=UTF-8''K%c3%bcche%20West;title=fallback;age=7,</bare>,` +
		`</l>;title*=iso-8859-1'de'K%FCche,</b>;title*=koi8-r''Kitchen`
	links := linkformat.Parse([]byte(body)).Links
	if len(links) != 5 {
		t.Fatalf("%d links", len(links))
	}
	for text, want := range map[string]string{
		"":                         "/s/1 /k /bare /l /b",
		"rt=temperature*":          "/s/1",
		"rt=core.s":                "/s/1",
		"rt=late":                  "",
		"rt!=core.s":               "/k /bare /l /b",
		"rt=*":                     "/s/1",
		`obs=""`:                   "/s/1",
		"obs!=*":                   "/k /bare /l /b",
		"href=/*":                  "/s/1 /k /bare /l /b",
		"href=/s/*":                "/s/1",
		"link.age=7":               "/k",
		"küche":                    "/k /l",
		"KÜCH* west":               "/k",
		`"küche west"`:             "/k",
		`"west küche"`:             "",
		`"KÜCHE w*"`:               "/k",
		"greenhouse-4":             "/s/1",
		`"4 north"`:                "/s/1",
		`"greenhouse north"`:       "",
		"greenhouse 4 north":       "/s/1",
		"green":                    "",
		"kitchen":                  "",
		"title=Küche":              "/k /l",
		`title="Küche West"`:       "/k",
		"title=fallback":           "/k",
		"title*=koi8*":             "/b",
		"title*=*":                 "/k /l /b",
		"title=*":                  "/s/1 /k /l",
		"rt=temperature* title!=*": "",
	} {
		q, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range links {
			if q.Matches(l) {
				got = append(got, l.Target)
			}
		}
		if found := strings.Join(got, " "); found != want {
			t.Errorf("%s: found %q, want %q", text, found, want)
		}
	}
}

func TestMatchesSensors(t *testing.T) {
	q, err := Parse("sensor=a* label.site=lab label.room=1* state=fresh,due age<10m age>=1m")
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"site": "lab", "room": "12", "else": ""}
	if !q.OfSensor() || !q.MatchesSensor("a/1") || q.MatchesSensor("b") || !q.MatchesLabels(labels) ||
		q.MatchesLabels(map[string]string{"site": "lab"}) || !q.MatchesState("due") ||
		q.MatchesState("asleep") || !q.MatchesAge(time.Minute) || q.MatchesAge(10*time.Minute) ||
		q.MatchesAge(0) {
		t.Errorf("%+v", q)
	}
	all := Query{}
	if !all.OfSensor() || !all.MatchesSensor("") || !all.MatchesLabels(nil) || !all.MatchesState("") ||
		!all.MatchesAge(0) || !all.MatchesAge(1<<62) {
		t.Error("the empty query does not find everything")
	}
}

// Folding puts together what simple folding does, once and for all, and makes no word
// of what is none.
func TestFold(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		f := fold(r)
		if fold(f) != f || wordRune(r) != wordRune(f) {
			t.Fatalf("%U folds to %U, and that to %U", r, f, fold(f))
		}
		if other := unicode.SimpleFold(r); fold(other) != f {
			t.Fatalf("%U folds to %U, %U to %U", r, f, other, fold(other))
		}
	}
}

// randomLink and randomQuery are made of few texts, so that they meet.
func randomText(rnd *rand.Rand) string {
	alphabet := []string{"a", "B", "b", " ", "*", "é", "É", "-", "\"", "\\", "\x00", "7", "K",
		"\u212a", strings.Repeat("x", 40)}
	var b strings.Builder
	for range rnd.IntN(6) {
		b.WriteString(alphabet[rnd.IntN(len(alphabet))])
	}
	return b.String()
}

func randomLink(rnd *rand.Rand) linkformat.Link {
	l := linkformat.Link{Target: randomText(rnd)}
	names := []string{"rt", "Rt", "title", "TITLE", "title*", "x", "href", "obs",
		strings.Repeat("n", 70)}
	for range rnd.IntN(6) {
		a := linkformat.Attr{Name: names[rnd.IntN(len(names))], Value: randomText(rnd), HasValue: true}
		if a.Name == "title*" {
			a.Value = "UTF-8''" + strings.NewReplacer(" ", "%20", "é", "%C3%A9").Replace(a.Value)
		}
		l.Attrs = append(l.Attrs, a)
	}
	return l
}

// queryFor asks for something that the link may well have.
func queryFor(rnd *rand.Rand, l linkformat.Link) (q Query) {
	for _, a := range append(l.Attrs, linkformat.Attr{Name: "href", Value: l.Target}) {
		value := a.Value
		if rnd.IntN(2) == 0 {
			value = value[:rnd.IntN(len(value)+1)] + "*"
		}
		if rnd.IntN(3) == 0 {
			q.Attrs = append(q.Attrs, Attr{a.Name, value, rnd.IntN(5) == 0})
		}
		if words := foldedWords(a.Value); len(words) > 0 && rnd.IntN(4) == 0 {
			q.Words = append(q.Words, strings.Join(words[rnd.IntN(len(words)):], " "))
		}
	}
	return q
}

// lost tells that the index would not find a link that matches.
func lost(q Query, terms []Term) bool {
	return slices.ContainsFunc(q.Lookups(), func(l Lookup) bool {
		return !slices.ContainsFunc(terms, func(t Term) bool {
			return t.Name == l.Name && (t.Value == l.Value ||
				l.Prefix && strings.HasPrefix(t.Value, l.Value))
		})
	})
}

// Whatever matches is found under each of the query's lookups.
func TestLookupsLoseNothing(t *testing.T) {
	n, matched, caught := 20000, 0, 0
	if os.Getenv("CRAWLD_CI") != "" {
		n = 400000
	}
	for seed := range n {
		rnd := rand.New(rand.NewPCG(uint64(seed), 3))
		l := randomLink(rnd)
		q, terms := queryFor(rnd, l), Terms(l)
		distinct := map[Term]bool{}
		for _, term := range terms {
			distinct[term] = true
			if len(term.Name) > maxKey || len(term.Value) > maxKey {
				t.Fatalf("a term of %d and %d bytes", len(term.Name), len(term.Value))
			}
		}
		if len(distinct) != len(terms) {
			t.Fatalf("seed %d: terms of %+v repeat: %q", seed, l, terms)
		}
		if !q.Matches(l) || q.OfSensor() {
			continue
		}
		matched++
		if lost(q, terms) {
			t.Fatalf("seed %d: %+v matches %+v, but its terms %q lack one of %+v", seed, l, q, terms,
				q.Lookups())
		}
		if lost(q, terms[1:]) { // the control: a link without its target's term
			caught++
		}
	}
	t.Logf("%d of %d matched, %d of them need the target", matched, n, caught)
	if matched < n/5 || caught < n/50 {
		t.Errorf("only %d of %d matched, %d of them need the target", matched, n, caught)
	}
}

// What parses is found again in its canonical form, to the letter.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"rt=temperature* age<10m state=fresh,due label.site=lab \"greenhouse 4\"",
		"rt!=x href=/s/* title=\"a \\\" b\" sensor=a*", "link.age=3 title*=UTF-8''x obs=\"\"",
		"age>=1d12h age<90s room-12* KÜCHE", "a!!=b !!=c", "x=\"", "\xff", "Label.A=b LINK.Sensor=x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := Parse(text)
		if err != nil {
			var at *Error
			if !errors.As(err, &at) || at.Offset < 0 || at.Offset > len(text) || at.Message == "" {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		again, err := Parse(q.String())
		if len(q.String()) > MaxQuery {
			return // quoting made it longer than is taken
		}
		if err != nil || !reflect.DeepEqual(q, again) || again.String() != q.String() {
			t.Fatalf("%q is %+v, its canonical form %q is %+v (%v)", text, q, q, again, err)
		}
		for _, l := range []linkformat.Link{{}, {Target: text}, {Attrs: []linkformat.Attr{
			{Name: "title", Value: text}, {Name: "title*", Value: "UTF-8''" + text}}}} {
			if q.Matches(l) && lost(q, Terms(l)) {
				t.Fatalf("%q: %+v is not found in %q", text, l, Terms(l))
			}
		}
	})
}

func ExampleParse() {
	q, err := Parse("RT=temperature* age<90m")
	fmt.Println(q, err)
	_, err = Parse("rt=temperature* age<soon")
	fmt.Println(err)
	// Output:
	// age<1h30m rt=temperature* <nil>
	// byte 20: expected a duration such as 90s, 10m, 1h30m or 2d
}

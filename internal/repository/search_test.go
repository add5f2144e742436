package repository

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/crawld/crawld/internal/linkformat"
	"github.com/crawld/crawld/internal/search"
	"github.com/crawld/crawld/internal/visit"
)

// What descriptions and questions are made of: few values, so that they meet, and those
// that keys, cuts and folding could get wrong.
var (
	searchNames = []string{"rt", "RT", "if", "ct", "title", "title*", "obs", "href", "x",
		strings.Repeat("n", 70)}
	searchValues = []string{"temperature", "temperature-c", "temp", "a b", "a b c", "b", "",
		"a\x00", "a\x00b", "a\x00\x01", "Küche Ost", "KÜCHE", "greenhouse 4 north", "x*", "é",
		strings.Repeat("l", 64), strings.Repeat("l", 65), strings.Repeat("l", 64) + "m"}
	searchExt = []string{"UTF-8''K%c3%bcche%20West", "iso-8859-1'de'K%FCche", "UTF-8''%ff",
		"koi8-r''abc", "UTF-8'en'greenhouse%204"}
	searchTargets = []string{"", "/", "/s/1", "/s/2", "/t", "coap://[::1]/s/1"}
	searchSensors = []string{"a", "a\x00", "a\x00\x01", "ab", "b", "c/1", "c/2", "d*"}
)

func pick[T any](rnd *rand.Rand, list []T) T { return list[rnd.IntN(len(list))] }

func randomLinks(rnd *rand.Rand) []linkformat.Link {
	links := make([]linkformat.Link, rnd.IntN(4))
	for i := range links {
		links[i].Target = pick(rnd, searchTargets)
		for range rnd.IntN(5) {
			a := linkformat.Attr{Name: pick(rnd, searchNames), HasValue: rnd.IntN(8) > 0}
			switch {
			case strings.HasSuffix(a.Name, "*"):
				a.Value, a.HasValue = pick(rnd, searchExt), true
			case a.HasValue:
				a.Value, a.Quoted = pick(rnd, searchValues), true
			}
			links[i].Attrs = append(links[i].Attrs, a)
		}
	}
	return links
}

// randomPattern is a text, or how it begins.
func randomPattern(rnd *rand.Rand, text string) string {
	if rnd.IntN(2) == 0 {
		return text
	}
	return text[:rnd.IntN(len(text)+1)] + "*"
}

func randomQuery(rnd *rand.Rand) search.Query {
	var q search.Query
	for range rnd.IntN(3) {
		a := search.Attr{Name: pick(rnd, searchNames), Not: rnd.IntN(4) == 0}
		switch a.Name {
		case "href":
			a.Value = randomPattern(rnd, pick(rnd, searchTargets))
		case "title*":
			a.Value = randomPattern(rnd, pick(rnd, searchExt))
		default:
			a.Value = randomPattern(rnd, pick(rnd, searchValues))
		}
		q.Attrs = append(q.Attrs, a)
	}
	if rnd.IntN(3) == 0 {
		q.Words = []string{pick(rnd, []string{"küche", "kü*", "greenhouse 4", "greenhouse n*", "4",
			"greenhouse 4 no*", "a b", "b*", "*"})}
	}
	if rnd.IntN(3) == 0 {
		q.Sensor = randomPattern(rnd, pick(rnd, searchSensors))
	}
	return q
}

// twin is what is described, and the obvious answer: a scan of it. It shares
// linkformat with what it is held against, and nothing else.
type twin map[string]twinSensor

type twinSensor struct {
	body     string
	format   int
	at       time.Time
	verified time.Time
}

func (w twin) search(q search.Query, keep func(id string, verified time.Time) bool) []string {
	var hits []string
	ids := make([]string, 0, len(w))
	for id := range w {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		s := w[id]
		if q.Sensor != "" && !twinFits(q.Sensor, id) || !keep(id, s.verified) {
			continue
		}
		var links []linkformat.Link
		if s.format == 40 {
			links = linkformat.Parse([]byte(s.body)).Links
		}
		if len(links) == 0 && len(q.Attrs)+len(q.Words) == 0 {
			hits = append(hits, twinHit(id, -1, "", s.at, s.verified, hashOf(s.body)))
		}
		for i, l := range links {
			if twinMatches(q, l) {
				hits = append(hits, twinHit(id, i, l.Target, s.at, s.verified, hashOf(s.body)))
			}
		}
	}
	return hits
}

func twinHit(id string, link int, target string, at, verified time.Time, hash string) string {
	return fmt.Sprintf("%q %d %q %d %d %s", id, link, target, at.UnixMicro(), verified.UnixMicro(),
		hash[:8])
}

func twinFits(pattern, text string) bool {
	n := len(pattern)
	return pattern == text || n > 0 && pattern[n-1] == '*' && strings.HasPrefix(text, pattern[:n-1])
}

var twinWords = regexp.MustCompile(`[\p{L}\p{Nd}\p{M}]+`)

func twinMatches(q search.Query, l linkformat.Link) bool {
	var titles []string
	decoded := linkformat.Link{}
	for _, a := range l.Attrs {
		switch {
		case strings.EqualFold(a.Name, "title"):
			titles = append(titles, a.Value)
		case strings.EqualFold(a.Name, "title*"):
			text, known := map[string]string{searchExt[0]: "Küche West", searchExt[1]: "Küche",
				searchExt[4]: "greenhouse 4"}[a.Value]
			if known {
				titles = append(titles, text)
				decoded.Attrs = append(decoded.Attrs, linkformat.Attr{Name: "title", Value: text})
			}
		}
	}
	for _, a := range q.Attrs {
		is := linkformat.Match(l, a.Name, a.Value) ||
			strings.EqualFold(a.Name, "title") && linkformat.Match(decoded, "title", a.Value)
		if is == a.Not {
			return false
		}
	}
	for _, phrase := range q.Words {
		if !slices.ContainsFunc(titles, func(t string) bool { return twinSays(t, phrase) }) &&
			phrase != "*" {
			return false
		}
	}
	return true
}

// twinSays tells whether a title has a phrase at any of its words.
func twinSays(title, phrase string) bool {
	have := twinWords.FindAllString(title, -1)
	for i := range have {
		rest := strings.Join(have[i:], " ")
		want, open := strings.CutSuffix(phrase, "*")
		runes := []rune(rest)
		n := len([]rune(want))
		if n <= len(runes) && strings.EqualFold(string(runes[:n]), want) &&
			(open || n == len(runes) || runes[n] == ' ') {
			return true
		}
	}
	return false
}

// pages asks for all pages of a search, of random sizes.
func pages(r *Repository, q search.Query, keep Keep, rnd *rand.Rand) ([]string, error) {
	var hits []string
	for after := ""; ; {
		limit := 1 + rnd.IntN(5)
		found, err := r.Search(q, keep, after, limit)
		if err != nil {
			return nil, err
		}
		if len(found.Hits) > limit || found.Unreadable > 0 ||
			len(found.Hits) < limit && found.Next != "" && !found.Stopped {
			return nil, fmt.Errorf("%d hits, limit %d: %+v", len(found.Hits), limit, found)
		}
		for _, h := range found.Hits {
			hits = append(hits, twinHit(h.Sensor, h.Number, h.Link.Target, h.Version, h.Verified,
				h.Hash))
		}
		if after = found.Next; after == "" {
			return hits, nil
		}
	}
}

// searchHistory stores random descriptions, reopens the file now and then and compares
// answers after every few steps. It returns how many hits it has seen.
func searchHistory(t *testing.T, seed uint64, sabotage func(*Repository) error) (hits int,
	err error) {
	rnd := rand.New(rand.NewPCG(seed, 11))
	path, w := dataFile(t), twin{}
	now := epoch
	for range 3 {
		r, err := Open(path, Options{})
		if err != nil {
			return hits, err
		}
		for range 12 {
			results := make(chan error, 1+rnd.IntN(8)) // of one transaction, or nearly
			for range cap(results) {
				now = now.Add(time.Second)
				r.StoreAsync(w.crawl(rnd, now), func(err error) { results <- err })
			}
			for range cap(results) {
				err = errors.Join(err, <-results)
			}
			if err == nil && sabotage != nil {
				err = sabotage(r)
			}
			for range 8 {
				var n int
				if err == nil {
					n, err = w.compare(r, rnd, now)
					hits += n
				}
			}
		}
		if err = errors.Join(err, r.Close()); err != nil {
			return hits, err
		}
		sound(t, path)
	}
	return hits, nil
}

// crawl makes up an outcome and what it means.
func (w twin) crawl(rnd *rand.Rand, now time.Time) Write {
	id := pick(rnd, searchSensors)
	body := string(linkformat.Format(randomLinks(rnd)))
	if rnd.IntN(10) == 0 {
		body = "<html>"
	}
	o := described(id, body, now)
	o.Outcome.Format = pick(rnd, []int{40, 40, 40, 40, 0, -1})
	old, known := w[id]
	switch rnd.IntN(6) {
	case 0:
		o.Outcome.Result, o.Outcome.Body, o.Outcome.Hash = visit.Failed, nil, ""
		return o
	case 1:
		if known { // seen again: what is in force stays, whatever its format is said to be
			o.Outcome.Result, o.Outcome.Body, o.Outcome.Hash = visit.Unchanged, nil, ""
			old.verified = now
			w[id] = old
			return o
		}
	}
	if !known || old.body != body {
		old = twinSensor{body: body, format: o.Outcome.Format, at: now}
	}
	old.verified = now
	w[id] = old
	return o
}

func (w twin) compare(r *Repository, rnd *rand.Rand, now time.Time) (int, error) {
	q := randomQuery(rnd)
	gone := map[string]bool{} // sensors that left the fleet
	for _, id := range searchSensors {
		gone[id] = rnd.IntN(5) == 0
	}
	oldest := now.Add(-time.Duration(rnd.IntN(40)) * time.Second)
	wants := func(id string, verified time.Time) bool { return !gone[id] && !verified.Before(oldest) }
	keep := func(list []Candidate) (is []bool, _ error) {
		for _, c := range list {
			is = append(is, wants(c.Sensor, c.Verified))
		}
		return is, nil
	}
	if rnd.IntN(4) == 0 {
		wants, keep = func(string, time.Time) bool { return true }, nil
	}
	got, err := pages(r, q, keep, rnd)
	want := w.search(q, wants)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		return 0, fmt.Errorf("%+v: %w\n%s", q, err, d)
	}
	return len(got), nil
}

func TestSearchAgainstScan(t *testing.T) {
	t.Parallel()
	hits, n := 0, rounds(15, 75)
	for seed := range uint64(n) {
		found, err := searchHistory(t, seed, nil)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		hits += found
	}
	t.Logf("%d queries, %d hits", n*3*12*8, hits)
	if hits < 300*n {
		t.Errorf("only %d hits in %d histories: the questions are too narrow", hits, n)
	}
}

// The control: an index that lacks a row gives answers that are not those of a scan.
func TestSearchCatchesLostRows(t *testing.T) {
	t.Parallel()
	lose := func(r *Repository) error {
		return r.db.Update(func(tx *bbolt.Tx) error {
			c := tx.Bucket([]byte("index")).Cursor()
			for k, _ := c.Seek(appendPart(nil, "rt")); k != nil; k, _ = c.Next() {
				if err := c.Delete(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if _, err := searchHistory(t, 1, lose); err == nil {
		t.Error("rows of the index are lost and no answer is wrong")
	}
}

// A row that leads to what is no longer said makes no wrong answer, and Check tells it.
func TestStaleRowsAreHarmless(t *testing.T) {
	path, _ := sample(t)
	ghost := append(termKey(search.Term{Name: "rt", Value: "ghost"}), sensorKey("a")...)
	nobody := append(termKey(search.Term{Name: "rt", Value: "ghost"}), sensorKey("nobody")...)
	edit(t, path, "index", func(b *bbolt.Bucket) error {
		return errors.Join(b.Put(ghost, nil), b.Put(nobody, nil), b.Put([]byte("x"), nil))
	})
	r, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	q := search.Query{Attrs: []search.Attr{{Name: "rt", Value: "ghost"}}}
	found, err := r.Search(q, nil, "", 0)
	if err != nil || len(found.Hits) != 0 || found.Next != "" || found.Unreadable != 0 {
		t.Errorf("%+v, %v", found, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := Check(path, Options{})
	all := strings.Join(report.Problems, "\n")
	if err != nil || len(report.Problems) != 3 ||
		strings.Count(all, "has no such term") != 2 || !strings.Contains(all, "index, key 78:") {
		t.Errorf("%q, %v", all, err)
	}
	if r, err = Open(path, Options{}); err != nil {
		t.Fatal(err)
	}
	if n, err := r.Reindex(t.Context()); n != 2 || err != nil {
		t.Errorf("%d descriptions indexed, %v", n, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	sound(t, path)
}

func TestCheckFindsLostIndexRows(t *testing.T) {
	path, _ := sample(t)
	edit(t, path, "index", func(b *bbolt.Bucket) error {
		k, _ := b.Cursor().First()
		return b.Delete(bytes.Clone(k))
	})
	report, err := Check(path, Options{})
	if err != nil || len(report.Problems) != 1 ||
		!strings.Contains(report.Problems[0], "1 of its 1 terms are not in the index") {
		t.Errorf("%q, %v", report.Problems, err)
	}
}

// Without a bucket, with half of one, or after a release that knows none has written, the
// index is made when the file is opened.
func TestOlderFilesAreIndexed(t *testing.T) {
	found := func(r *Repository) int {
		f, err := r.Search(search.Query{Attrs: []search.Attr{{Name: "rt", Value: "t*"}}}, nil, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		return len(f.Hits)
	}
	for name, c := range map[string]struct {
		age     func(*bbolt.Tx) error
		indexed int
	}{
		"as it was": {func(*bbolt.Tx) error { return nil }, 0},
		"older": {func(tx *bbolt.Tx) error {
			return errors.Join(tx.DeleteBucket([]byte("index")),
				tx.Bucket([]byte("meta")).Delete([]byte("index")))
		}, 2},
		"cut off": {func(tx *bbolt.Tx) error {
			mark := indexMark{versions: 3, next: sensorKey("b")}
			return errors.Join(tx.Bucket([]byte("index")).Delete(append(termKey(
				search.Term{Name: "href", Value: "/c"}), sensorKey("b")...)),
				tx.Bucket([]byte("meta")).Put([]byte("index"), mark.encode()))
		}, 1},
		"behind": {func(tx *bbolt.Tx) error {
			mark := indexMark{versions: 2, done: true}
			return tx.Bucket([]byte("meta")).Put([]byte("index"), mark.encode())
		}, 2},
		"mark damaged": {func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("meta")).Put([]byte("index"), []byte{7})
		}, 2},
	} {
		path, _ := sample(t)
		db, err := bbolt.Open(path, 0o600, nil)
		if err == nil {
			err = errors.Join(db.Update(c.age), db.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		sound(t, path)
		before, err := Open(path, Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		if n := found(before); n != 9 {
			t.Errorf("%s, read-only: %d hits", name, n)
		}
		if err := before.Close(); err != nil {
			t.Fatal(err)
		}
		r := open(t, path, Options{})
		if n, err := r.Indexed(); n != c.indexed || err != nil {
			t.Errorf("%s: %d descriptions indexed, %v", name, n, err)
		}
		if n := found(r); n != 9 {
			t.Errorf("%s: %d hits", name, n)
		}
	}
}

// A description with more terms than are kept is found all the same.
func TestManyTermsAreBounded(t *testing.T) {
	r := open(t, dataFile(t), Options{})
	var links []linkformat.Link
	for i := range 900 {
		links = append(links, linkformat.Link{Target: fmt.Sprintf("/%d", i), Attrs: []linkformat.Attr{
			{Name: "rt", Value: fmt.Sprintf("a%d b%d", i, i), HasValue: true, Quoted: true}}})
	}
	store(t, r, described("a", "</a>;rt=b7", epoch),
		described("m", string(linkformat.Format(links)), epoch), described("z", "</z>;rt=b7", epoch))
	for _, value := range []string{"b7", "b7*"} {
		q := search.Query{Attrs: []search.Attr{{Name: "rt", Value: value}}}
		found, err := r.Search(q, nil, "", 0)
		want := 3
		if value == "b7*" {
			want += 10 + 100 // b70 .. b79, b700 .. b799
		}
		if err != nil || len(found.Hits) != want {
			t.Errorf("%s: %d hits, %v", value, len(found.Hits), err)
		}
	}
	store(t, r, described("m", "</m>", epoch.Add(time.Hour)))
}

// A damaged body is left out, and that is said.
func TestSearchTellsDamage(t *testing.T) {
	path, _ := sample(t)
	edit(t, path, "bodies", func(b *bbolt.Bucket) error {
		sum, err := parseHash(hashOf("</c>"))
		if err != nil {
			return err
		}
		row := bytes.Clone(b.Get(sum[:hashLen]))
		row[len(row)-2] ^= 1
		return b.Put(sum[:hashLen], row)
	})
	r, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	found, err := r.Search(search.Query{}, nil, "", 0)
	if err != nil || len(found.Hits) != 9 || found.Unreadable != 1 || r.Stats().HashMismatches != 1 {
		t.Errorf("%d hits, %d unreadable, %v", len(found.Hits), found.Unreadable, err)
	}
}

// A search that has to look at much ends in between, and goes on.
func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	r := open(t, dataFile(t), Options{})
	const sensors = 400
	filler := strings.Repeat("</f>;if="+strings.Repeat("x", 1000)+",", 50)
	results := make(chan error, sensors)
	for i := range sensors {
		w := described(fmt.Sprintf("%05d", i), fmt.Sprintf("%s</n>;x=%d", filler, i%10), epoch)
		r.StoreAsync(w, func(err error) { results <- err })
	}
	for range sensors {
		if err := <-results; err != nil {
			t.Fatal(err)
		}
	}
	q := search.Query{Attrs: []search.Attr{{Name: "href", Value: "/f", Not: true}}}
	for i := range 9 { // nothing that the index knows
		q.Attrs = append(q.Attrs, search.Attr{Name: "x", Value: fmt.Sprint(i), Not: true})
	}
	stops, hits, last := 0, 0, ""
	for after := ""; ; {
		found, err := r.Search(q, nil, after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range found.Hits {
			if h.Sensor <= last {
				t.Fatalf("%s after %s", h.Sensor, last)
			}
			last = h.Sensor
		}
		hits += len(found.Hits)
		if found.Stopped {
			stops++
		}
		if after = found.Next; after == "" {
			break
		}
	}
	if hits != sensors/10 || stops == 0 {
		t.Errorf("%d hits, %d calls stopped early", hits, stops)
	}
}

func TestSearchRefuses(t *testing.T) {
	path, _ := sample(t)
	r := open(t, path, Options{})
	for _, after := range []string{"x", "!", "AAAA", place{sensorKey("a"), 1}.encode() + "AAAA"} {
		if _, err := r.Search(search.Query{}, nil, after, 1); !errors.Is(err, ErrCursor) {
			t.Errorf("%q: %v", after, err)
		}
	}
	_, err := r.Search(search.Query{}, func([]Candidate) ([]bool, error) { return nil, nil }, "", 1)
	if err == nil || !strings.Contains(err.Error(), "2 candidates, 0 answers") {
		t.Errorf("%v", err)
	}
	why := errors.New("why")
	_, err = r.Search(search.Query{}, func([]Candidate) ([]bool, error) { return nil, why }, "", 1)
	if !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
}

// Any text is a cursor or none; what comes of it is only a place.
func FuzzCursor(f *testing.F) {
	path, _ := sample(f)
	r, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { r.Close() })
	f.Add("")
	f.Add(place{sensorKey("a"), 3}.encode())
	f.Add(behind(sensorKey("a")).encode())
	f.Add("gICAgICAgICAgAE")
	f.Fuzz(func(t *testing.T, after string) {
		found, err := r.Search(search.Query{}, nil, after, 2)
		if err != nil && !errors.Is(err, ErrCursor) || len(found.Hits) > 2 {
			t.Errorf("%q: %+v, %v", after, found, err)
		}
	})
}

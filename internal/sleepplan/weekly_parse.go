package sleepplan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Exception replaces all windows that START on one local date. A window of the
// evening before that reaches into the date stays.
type Exception struct {
	Date    string   // such as 2026-12-25
	Windows []string // such as "10:00-12:00"; none: nothing starts on the date
}

// Weekly is the plan of a sensor that wakes by the wall clock of a time zone.
//
// An entry is days and a window, such as "mon-fri 18:00-09:00",
// "sat,sun 10:00-12:00:30" or "daily 06:00:00.5-07:00":
//
//	entry  = days blank window
//	days   = "daily" / range *( "," range )
//	range  = day [ "-" day ]
//	window = time "-" time
//	time   = 2DIGIT ":" 2DIGIT [ ":" 2DIGIT [ "." 1*9DIGIT ] ]
//
// Days are three letters in
// any case, ranges may run over Sunday ("fri-mon"). Times have two digits each
// and up to nine of a second's fraction; 24:00 can end a window. An end before
// the start is on the next day. Equal times are an error, as they could mean
// nothing or a whole day; the latter is 00:00-24:00. Windows may overlap.
//
// A window lasts the difference of its two times on every date, also when the
// clocks change: a start they skip is read with the offset before the change, a
// start they show twice is the first (RFC 5545 section 3.3.5). So every date
// that a window is declared for has it exactly once, and its end is always the
// start plus the duration: across a change it reads an hour off on the clock.
// The 25th hour of a day is thus outside of "daily 00:00-24:00".
//
// zone is a case-sensitive name of the IANA database, "" is UTC. Each call
// loads it: sensors that share a plan should share the Plan value.
//
// Errors name the entry or the exception and, for syntax, the byte offset in
// it. No entries, an unknown zone, "Local" (it differs between machines) and a
// date listed twice are errors too.
func Weekly(entries []string, zone string, except []Exception) (Plan, error) {
	if len(entries) == 0 {
		return Plan{}, errors.New(`weekly: no entries; want at least one such as "daily 06:00-07:00"`)
	}
	location, err := loadZone(zone)
	if err != nil {
		return Plan{}, err
	}
	w := &weekly{zone: location}
	for _, entry := range entries {
		w.entries = append(w.entries, strings.Join(strings.Fields(entry), " "))
		if err := w.addEntry(entry); err != nil {
			return Plan{}, fmt.Errorf("weekly entry %q: %w", entry, err)
		}
	}
	for _, e := range except {
		if err := w.addException(e); err != nil {
			return Plan{}, fmt.Errorf("weekly exception %q: %w", e.Date, err)
		}
	}
	for i := range w.days {
		w.days[i] = sortSlots(w.days[i])
	}
	return Plan{kind: KindWeekly, weekly: w}, nil
}

// loadedZones are the time zones that have been loaded, by name: each takes some kilobytes, and a
// million sensors lie in few of them.
var loadedZones sync.Map

// loadZone refuses the names that mean what the machine is set to.
func loadZone(name string) (*time.Location, error) {
	if name == "Local" || name == "localtime" {
		return nil, fmt.Errorf("weekly: time zone %q differs between machines; "+
			"name one such as Europe/Berlin", name)
	}
	if zone, ok := loadedZones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("weekly: time zone %q: want an IANA name such as Europe/Berlin, "+
			"upper and lower case matter: %w", name, err)
	}
	loadedZones.Store(name, zone)
	return zone, nil
}

// addEntry parses one entry and puts its window on each of its weekdays.
func (w *weekly) addEntry(entry string) error {
	p := parser{text: entry}
	p.blanks()
	days, err := p.days()
	if err != nil {
		return err
	}
	if p.blanks() == 0 {
		return p.want("a blank between days and window")
	}
	s, err := p.window()
	if err != nil {
		return err
	}
	for d := range w.days {
		if days[d] {
			w.days[d] = append(w.days[d], s)
		}
	}
	return nil
}

// addException parses one exception and keeps except sorted by date.
func (w *weekly) addException(e Exception) error {
	midnight, err := time.Parse(time.DateOnly, e.Date)
	if err != nil {
		return fmt.Errorf("want a date such as 2026-12-25: %w", err)
	}
	x := dated{date: floorDiv(midnight.Unix(), int64(day/time.Second))}
	i, twice := w.findExcept(x.date)
	if twice {
		return errors.New("the date is listed twice; put all its windows into one exception")
	}
	for _, text := range e.Windows {
		p := parser{text: text}
		p.blanks()
		s, err := p.window()
		if err != nil {
			return fmt.Errorf("window %q: %w", text, err)
		}
		x.slots = append(x.slots, s)
	}
	x.slots = sortSlots(x.slots)
	w.except = slices.Insert(w.except, i, x)
	return nil
}

// sortSlots sorts and drops what is listed twice, so that plans that say the
// same compare equal.
func sortSlots(s []slot) []slot {
	slices.SortFunc(s, func(a, b slot) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.length, b.length))
	})
	return slices.Compact(s)
}

// parser reads one entry from left to right; errors carry the byte offset.
type parser struct {
	text string
	pos  int
}

// want is the error that something else is expected at the current offset.
func (p *parser) want(what string) error {
	found := "the end"
	if p.pos < len(p.text) {
		found = fmt.Sprintf("%q", p.text[p.pos:])
	}
	return fmt.Errorf("byte %d: want %s, found %s", p.pos, what, found)
}

// skip passes one byte c, if it is next.
func (p *parser) skip(c byte) bool {
	if p.pos == len(p.text) || p.text[p.pos] != c {
		return false
	}
	p.pos++
	return true
}

// blanks passes spaces and tabs and tells how many.
func (p *parser) blanks() int {
	start := p.pos
	for p.skip(' ') || p.skip('\t') {
	}
	return p.pos - start
}

// days reads "daily" or a list such as "mon-wed,sat", indexed by time.Weekday.
func (p *parser) days() ([7]bool, error) {
	if rest := p.text[p.pos:]; len(rest) >= 5 && strings.EqualFold(rest[:5], "daily") {
		p.pos += 5
		return [7]bool{true, true, true, true, true, true, true}, nil
	}
	var set [7]bool
	for {
		first, err := p.weekday()
		if err != nil {
			return set, err
		}
		last := first
		if p.skip('-') {
			if last, err = p.weekday(); err != nil {
				return set, err
			}
		}
		// Counting modulo 7 lets a range run over Sunday.
		for set[first] = true; first != last; set[first] = true {
			first = (first + 1) % 7
		}
		if !p.skip(',') {
			return set, nil
		}
	}
}

// weekday reads the first three letters of a day's English name.
func (p *parser) weekday() (time.Weekday, error) {
	if rest := p.text[p.pos:]; len(rest) >= 3 {
		for d := time.Sunday; d <= time.Saturday; d++ {
			if strings.EqualFold(rest[:3], d.String()[:3]) {
				p.pos += 3
				return d, nil
			}
		}
	}
	return 0, p.want("a day such as mon, or daily at the start")
}

// window reads "18:00-09:00" and blanks up to the end of the text.
func (p *parser) window() (slot, error) {
	begin := p.pos
	start, err := p.clock(day - 1)
	if err != nil {
		return slot{}, err
	}
	if !p.skip('-') {
		return slot{}, p.want("'-' and the window's end")
	}
	end, err := p.clock(day)
	if err != nil {
		return slot{}, err
	}
	if p.blanks(); p.pos < len(p.text) {
		return slot{}, p.want("the end")
	}
	s := slot{start, end - start}
	if s.length == 0 {
		return slot{}, fmt.Errorf("byte %d: the window ends as it starts; "+
			"a whole day is 00:00-24:00", begin)
	}
	if s.length < 0 { // it ends on the next day
		s.length += day
	}
	return s, nil
}

// clock reads hh:mm, hh:mm:ss or hh:mm:ss.f as time since midnight, at most
// limit.
func (p *parser) clock(limit time.Duration) (time.Duration, error) {
	begin := p.pos
	hour, err := p.twoDigits("hour", 24)
	if err != nil {
		return 0, err
	}
	if !p.skip(':') {
		return 0, p.want("':' and minutes")
	}
	minute, err := p.twoDigits("minute", 59)
	if err != nil {
		return 0, err
	}
	t := time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute
	if p.skip(':') {
		second, err := p.twoDigits("second", 59)
		if err != nil {
			return 0, err
		}
		fraction, err := p.fraction()
		if err != nil {
			return 0, err
		}
		t += time.Duration(second)*time.Second + fraction
	}
	if t > limit {
		p.pos = begin
		return 0, p.want("a time before 24:00; only a window's end can be 24:00")
	}
	return t, nil
}

// twoDigits reads exactly two digits: "1:5" could be 01:05 or 01:50, and a guess
// would move a window in silence.
func (p *parser) twoDigits(what string, most int) (int, error) {
	n := 0
	for i := p.pos; i < p.pos+2; i++ {
		if i >= len(p.text) || p.text[i] < '0' || p.text[i] > '9' {
			return 0, p.want("two digits for the " + what)
		}
		n = 10*n + int(p.text[i]-'0')
	}
	if n > most {
		return 0, p.want(fmt.Sprintf("the %s up to %d", what, most))
	}
	p.pos += 2
	return n, nil
}

// fraction reads the ".5" after seconds, if there is one.
func (p *parser) fraction() (time.Duration, error) {
	if !p.skip('.') {
		return 0, nil
	}
	var f time.Duration
	begin, unit := p.pos, time.Second
	for ; p.pos < len(p.text) && p.text[p.pos] >= '0' && p.text[p.pos] <= '9'; p.pos++ {
		unit /= 10
		f += unit * time.Duration(p.text[p.pos]-'0')
	}
	if n := p.pos - begin; n < 1 || n > 9 {
		p.pos = begin
		return 0, p.want("one to nine digits of a second's fraction")
	}
	return f, nil
}

package sleepplan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// show writes windows in a zone's wall clock with offsets, one per line.
func show(ws []Window, zone string) string {
	location, err := time.LoadLocation(zone)
	if err != nil {
		panic(err)
	}
	var lines []string
	for _, w := range ws {
		const layout = "Jan 02 15:04:05.999 -0700"
		lines = append(lines, w.Start.In(location).Format(layout)+" to "+
			w.End.In(location).Format(layout))
	}
	return strings.Join(lines, "\n")
}

type clockChange struct {
	name, entries, zone, from string
	days                      int
	want                      string
}

func TestWeeklyAcrossClockChanges(t *testing.T) {
	for _, c := range []clockChange{
		{"length is elapsed time", "daily 18:00-09:00", "Europe/Berlin", "2026-03-28", 2, `
Mar 28 18:00:00 +0100 to Mar 29 10:00:00 +0200
Mar 29 18:00:00 +0200 to Mar 30 09:00:00 +0200`},
		{"and when they go back", "daily 18:00-09:00", "Europe/Berlin", "2026-10-24", 2, `
Oct 24 18:00:00 +0200 to Oct 25 08:00:00 +0100
Oct 25 18:00:00 +0100 to Oct 26 09:00:00 +0100`},
		{"skipped start", "daily 02:30-02:45", "Europe/Berlin", "2026-03-27", 3, `
Mar 28 02:30:00 +0100 to Mar 28 02:45:00 +0100
Mar 29 03:30:00 +0200 to Mar 29 03:45:00 +0200
Mar 30 02:30:00 +0200 to Mar 30 02:45:00 +0200`},
		{"first skipped instant", "sun 02:00-02:01", "America/New_York", "2026-03-07", 2, `
Mar 08 03:00:00 -0400 to Mar 08 03:01:00 -0400`},
		{"first of two", "daily 01:30-01:45", "America/New_York", "2026-10-30", 3, `
Oct 31 01:30:00 -0400 to Oct 31 01:45:00 -0400
Nov 01 01:30:00 -0400 to Nov 01 01:45:00 -0400
Nov 02 01:30:00 -0500 to Nov 02 01:45:00 -0500`},
		{"across the change", "sun 01:59-02:01", "America/New_York", "2026-10-31", 1, `
Nov 01 01:59:00 -0400 to Nov 01 01:01:00 -0500`},
		{"half an hour forward", "sun 02:15-02:20", "Australia/Lord_Howe", "2026-10-03", 1, `
Oct 04 02:45:00 +1100 to Oct 04 02:50:00 +1100`},
		{"half an hour back", "sun 01:45-02:00", "Australia/Lord_Howe", "2026-04-04", 1, `
Apr 05 01:45:00 +1100 to Apr 05 01:30:00 +1030`},
		{"skipped ones come behind those after the change",
			"sun 02:30-02:35; sun 03:00-03:20", "Europe/Berlin", "2026-03-28", 1, `
Mar 29 03:00:00 +0200 to Mar 29 03:20:00 +0200
Mar 29 03:30:00 +0200 to Mar 29 03:35:00 +0200`},
		{"and are merged with those that overlap",
			"sun 02:10-02:15; sun 02:50-02:55; sun 03:00-04:00", "Europe/Berlin", "2026-03-28", 1, `
Mar 29 03:00:00 +0200 to Mar 29 04:00:00 +0200`},
		{"or touch", "sun 02:30-02:35; sun 03:10-03:30", "Europe/Berlin", "2026-03-28", 1, `
Mar 29 03:10:00 +0200 to Mar 29 03:35:00 +0200`},
		{"no change", "sun 02:30-02:30:00.5", "Asia/Tokyo", "2026-03-28", 1, `
Mar 29 02:30:00 +0900 to Mar 29 02:30:00.5 +0900`},
		{"midnight skipped", "sun 00:00-24:00", "America/Havana", "2026-03-07", 3, `
Mar 08 01:00:00 -0400 to Mar 09 01:00:00 -0400`},
		{"the 25th hour", "sun 00:00-24:00", "Europe/Berlin", "2026-10-24", 3, `
Oct 25 00:00:00 +0200 to Oct 25 23:00:00 +0100`},
		{"date that never was", "fri,sat 10:00-12:00", "Pacific/Apia", "2011-12-29", 4, `
Dec 31 10:00:00 +1400 to Dec 31 12:00:00 +1400`},
	} {
		p := must(Weekly(strings.Split(c.entries, "; "), c.zone, nil))
		noon := at(c.from).Add(12 * time.Hour)
		ws := p.Windows(noon, noon.Add(time.Duration(c.days)*day))
		if got := "\n" + show(ws, c.zone); got != c.want {
			t.Errorf("%s: %v\ngot %s\nwant %s", c.name, p, got, c.want)
		}
	}
}

// TestWeeklyOncePerDate counts a year of windows that sit in the hours that
// the clocks skip and show twice.
func TestWeeklyOncePerDate(t *testing.T) {
	for _, zone := range zones {
		for _, window := range []string{"00:15-00:20", "01:40-01:50", "02:10-02:15", "02:40-02:45"} {
			p := must(Weekly([]string{"daily " + window}, zone, nil))
			location, _ := time.LoadLocation(zone)
			from := time.Date(2026, 1, 1, 0, 0, 0, 0, location)
			ws := p.Windows(from, from.AddDate(1, 0, 0))
			if len(ws) != 365 {
				t.Errorf("%v: %d windows a year", p, len(ws))
			}
			for _, w := range ws {
				if w.Duration() != ws[0].Duration() {
					t.Errorf("%v: %v is not %v long", p, w, ws[0].Duration())
				}
			}
		}
	}
}

// slowStart finds the instant of a wall-clock reading by looking at the clock
// minute after minute: the first minute that shows the reading. Where it is
// skipped, time runs on from the last minute before, as if nothing was skipped.
func slowStart(reading string, zone *time.Location) time.Time {
	const layout = "2006-01-02 15:04"
	middle := at(reading)
	var before time.Time
	for x := middle.Add(-28 * time.Hour); ; x = x.Add(time.Minute) {
		switch shown := x.In(zone).Format(layout); {
		case shown == reading:
			return x
		case shown > reading:
			return before.Add(middle.Sub(at(before.In(zone).Format(layout))))
		}
		before = x
	}
}

// slowMinutes marks the awake minutes of on, which begin at from, for one
// window on every date, by slowStart.
func slowMinutes(
	on []bool, hhmm string, length time.Duration, zone *time.Location, from time.Time,
) {
	for d := -3; d <= len(on)/1440+3; d++ {
		s := slowStart(from.AddDate(0, 0, d).Format(time.DateOnly)+" "+hhmm, zone)
		for x := s; x.Before(s.Add(length)); x = x.Add(time.Minute) {
			if i := int(x.Sub(from) / time.Minute); i < len(on) && !x.Before(from) {
				on[i] = true
			}
		}
	}
}

// minutes marks the minutes that begin inside a window.
func minutes(ws []Window, from time.Time, n int) []bool {
	on := make([]bool, n)
	for i := range on {
		x := from.Add(time.Duration(i) * time.Minute)
		on[i] = slices.ContainsFunc(ws, func(w Window) bool { return w.Contains(x) })
	}
	return on
}

// changeDates has, for each zone, days around which it changes its clocks.
var changeDates = map[string][]string{
	"Europe/Berlin":       {"2026-03-29", "2026-10-25"},
	"America/New_York":    {"2026-03-08", "2026-11-01"},
	"Australia/Lord_Howe": {"2026-04-05", "2026-10-04"},
	"America/Havana":      {"2026-03-08", "2026-11-01"},
	"Africa/Casablanca":   {"2026-02-15", "2026-03-22"},
	"Pacific/Apia":        {"2011-12-30", "2010-09-26"},
	"Asia/Tokyo":          {"2026-03-29"},
}

func TestWeeklyAgreesWithReadingTheClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(changeDates))).Draw(t, "zone")
		zone, _ := time.LoadLocation(name)
		from := at(rapid.SampledFrom(changeDates[name]).Draw(t, "date")).Add(-day)
		want := make([]bool, 3*1440)
		var entries []string
		for range rapid.IntRange(1, 3).Draw(t, "entries") {
			start := rapid.IntRange(0, 1439).Draw(t, "start")
			if rapid.Bool().Draw(t, "at night") {
				start %= 240
			}
			length := rapid.SampledFrom([]int{1, 7, 30, 61, 150, 700, 1439}).Draw(t, "minutes")
			end := (start + length) % 1440
			hhmm := fmt.Sprintf("%02d:%02d", start/60, start%60)
			entries = append(entries, fmt.Sprintf("daily %s-%02d:%02d", hhmm, end/60, end%60))
			slowMinutes(want, hhmm, time.Duration(length)*time.Minute, zone, from)
		}
		p := must(Weekly(entries, name, nil))
		got := minutes(p.Windows(from, from.Add(3*day)), from, len(want))
		if !slices.Equal(got, want) {
			t.Fatalf("%v around %v: windows and clock readings differ", p, from)
		}
		for i := 0; i < 1440; i += 13 {
			next, _ := p.NextAwake(from.Add(time.Duration(i) * time.Minute))
			first := i + slices.Index(want[i:], true)
			if !next.Equal(from.Add(time.Duration(first) * time.Minute)) {
				t.Fatalf("%v: minute %d after %v: next awake %v", p, i, from, next)
			}
		}
	})
}

// TestReadingTheClockFindsBrokenPlans shows that the slow twin catches the
// usual mistakes: counting from midnight, and dropping what is skipped.
func TestReadingTheClockFindsBrokenPlans(t *testing.T) {
	zone, _ := time.LoadLocation("Europe/Berlin")
	from := at("2026-03-28")
	var right, dropped, sinceMidnight []Window
	for d := range 4 {
		s := time.Date(2026, 3, 28+d, 4, 30, 0, 0, zone)
		right = append(right, Window{s, s.Add(time.Hour)})
		s = time.Date(2026, 3, 28+d, 0, 0, 0, 0, zone).Add(4*time.Hour + 30*time.Minute)
		sinceMidnight = append(sinceMidnight, Window{s, s.Add(time.Hour)})
		s = time.Date(2026, 3, 28+d, 2, 30, 0, 0, zone)
		if s.Format("15:04") == "02:30" {
			dropped = append(dropped, Window{s, s.Add(time.Hour)})
		}
	}
	for _, c := range []struct {
		name, hhmm string
		ws         []Window
		agrees     bool
	}{
		{"right", "04:30", right, true},
		{"counted from midnight", "04:30", sinceMidnight, false},
		{"skipped start dropped", "02:30", dropped, false},
	} {
		want := make([]bool, 3*1440)
		slowMinutes(want, c.hhmm, time.Hour, zone, from)
		if slices.Equal(minutes(c.ws, from, len(want)), want) != c.agrees {
			t.Errorf("%s: agrees with the clock readings: %t", c.name, !c.agrees)
		}
	}
}

// TestDatesThatTheClocksMove asks where the windows that matter are not those
// of the local date and the one before.
func TestDatesThatTheClocksMove(t *testing.T) {
	apia := func(entries ...string) Plan { return must(Weekly(entries, "Pacific/Apia", nil)) }
	// Friday 2011-12-30 was left out: Thursday's window reaches into Saturday.
	if x := at("2011-12-30T21:00:00Z"); !apia("thu 22:00-21:59").Awake(x) {
		t.Error("a window is lost behind the date that never was")
	}
	// And Friday's start is read as Saturday 10:00, after Saturday's own.
	next, _ := apia("fri 10:00-11:00", "sat 09:00-09:30").NextAwake(at("2011-12-30"))
	if want := at("2011-12-30T19:00:00Z"); next != want {
		t.Errorf("next awake %v, want %v", next, want)
	}
	// At 00:01 clocks went back to 23:01: Sunday began, and it was Saturday again.
	p := must(Weekly([]string{"sun 00:00-00:10"}, "America/St_Johns", nil))
	midnight := at("2010-11-07T02:30:00Z")
	want := []Window{{midnight, midnight.Add(5 * time.Minute)}}
	if got := p.Windows(midnight.Add(-time.Hour), want[0].End); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestExceptionsReplaceWhatStartsOnTheirDate(t *testing.T) {
	p := must(Weekly([]string{"daily 22:00-06:00"}, "Europe/Berlin", []Exception{
		{Date: "2026-12-26"},
		{Date: "2026-12-25", Windows: []string{"10:00-12:00", "23:00-01:00"}},
	}))
	from := at("2026-12-24 12:00")
	want := `Dec 24 22:00:00 +0100 to Dec 25 06:00:00 +0100
Dec 25 10:00:00 +0100 to Dec 25 12:00:00 +0100
Dec 25 23:00:00 +0100 to Dec 26 01:00:00 +0100
Dec 27 22:00:00 +0100 to Dec 28 06:00:00 +0100`
	if got := show(p.Windows(from, from.Add(4*day)), "Europe/Berlin"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestNextAwakePassesLongHolidays(t *testing.T) {
	var closed []Exception
	for d := range 100 {
		closed = append(closed, Exception{Date: at("2026-06-01").AddDate(0, 0, d).Format(time.DateOnly)})
	}
	p := must(Weekly([]string{"wed 10:00-11:00"}, "", closed))
	if next, ok := p.NextAwake(at("2026-05-30")); !ok || next != at("2026-09-09 10:00") {
		t.Errorf("next awake %v %t", next, ok)
	}
}

func TestNeighbouringDaysMerge(t *testing.T) {
	p := must(Weekly([]string{"mon-fri 18:00-09:00", "tue 08:00-20:00", "sat 09:00-10:00"}, "", nil))
	monday := at("2026-03-16")
	got := p.Windows(monday, monday.Add(6*day))
	if text := show(got, ""); text != `Mar 16 18:00:00 +0000 to Mar 18 09:00:00 +0000
Mar 18 18:00:00 +0000 to Mar 19 09:00:00 +0000
Mar 19 18:00:00 +0000 to Mar 20 09:00:00 +0000
Mar 20 18:00:00 +0000 to Mar 21 10:00:00 +0000` {
		t.Error(text)
	}
	never := must(Weekly([]string{"daily 00:00-24:00"}, "", nil))
	if got := never.Windows(monday, monday.Add(30*day)); len(got) != 1 {
		t.Errorf("a plan without gaps has %v", got)
	}
	if w, ok := never.Window(monday); !ok || w.Duration() != 2*lookAround {
		t.Errorf("the look around is %v %t", w, ok)
	}
}

package sleepplan

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// week shows the windows of the week of Monday 2026-03-16, UTC.
func week(entries ...string) string {
	monday := at("2026-03-16")
	return show(must(Weekly(entries, "UTC", nil)).Windows(monday, monday.Add(7*day)), "")
}

func TestWeeklyEntriesThatMeanTheSame(t *testing.T) {
	for _, same := range [][]string{
		{"mon-wed 10:00-11:00", "MON,Tue,wed\t10:00:00-11:00:00.0", "  mon-tue,tue-wed 10:00-11:00  "},
		{"daily 10:00-11:00", "mon-sun 10:00-11:00", "sun-sat 10:00-11:00", "Daily 10:00-11:00"},
		{"fri-mon 23:00-24:00", "mon,fri,sat,sun 23:00-00:00"},
		{"sat 00:00:00.1-00:00:00.123456789", "sat 00:00:00.100000000-00:00:00.123456789"},
	} {
		for _, entry := range same[1:] {
			if !must(Weekly(same[:1], "", nil)).Equal(must(Weekly([]string{entry}, "UTC", nil))) {
				t.Errorf("%q and %q differ:\n%s\n%s", same[0], entry, week(same[0]), week(entry))
			}
		}
	}
	got := week("sat,sun 10:00-12:00:30", "wed 18:00:05-18:00:20.5", "sun 22:00-02:00")
	if want := `Mar 16 00:00:00 +0000 to Mar 16 02:00:00 +0000
Mar 18 18:00:05 +0000 to Mar 18 18:00:20.5 +0000
Mar 21 10:00:00 +0000 to Mar 21 12:00:30 +0000
Mar 22 10:00:00 +0000 to Mar 22 12:00:30 +0000
Mar 22 22:00:00 +0000 to Mar 23 00:00:00 +0000`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWeeklyEqual(t *testing.T) {
	entries := []string{"mon 10:00-11:00", "mon 12:00-13:00"}
	holiday := []Exception{
		{Date: "2026-12-25", Windows: []string{"10:00-11:00"}}, {Date: "2026-12-24"}}
	p := must(Weekly(entries, "Asia/Tokyo", holiday))
	slices.Reverse(entries)
	slices.Reverse(holiday)
	if !p.Equal(must(Weekly(entries, "Asia/Tokyo", holiday))) {
		t.Error("order matters")
	}
	const text = "weekly mon 12:00-13:00, mon 10:00-11:00 (Asia/Tokyo, 2 exceptions)"
	if got := must(Weekly(entries, "Asia/Tokyo", holiday)).String(); got != text {
		t.Errorf("got %s\nwant %s", got, text)
	}
	for name, o := range map[string]Plan{
		"zone":       must(Weekly(entries, "Asia/Seoul", holiday)),
		"entries":    must(Weekly(entries[:1], "Asia/Tokyo", holiday)),
		"exceptions": must(Weekly(entries, "Asia/Tokyo", holiday[:1])),
		"exceptional windows": must(Weekly(entries, "Asia/Tokyo",
			[]Exception{{Date: "2026-12-25"}, {Date: "2026-12-24"}})),
	} {
		if p.Equal(o) {
			t.Errorf("%s do not matter", name)
		}
	}
}

func TestWeeklySyntaxErrors(t *testing.T) {
	for entry, want := range map[string]string{
		"":                            `byte 0: want a day such as mon, or daily`,
		"mo 10:00-11:00":              `byte 0: want a day`,
		"mon-":                        `byte 4: want a day`,
		"mon,daily 10:00-11:00":       `byte 4: want a day`,
		"monday 10:00-11:00":          `byte 3: want a blank between days and window, found "day 10`,
		"mon10:00-11:00":              `byte 3: want a blank`,
		"mon 9:00-11:00":              `byte 4: want two digits for the hour`,
		"mon 10.00-11:00":             `byte 6: want ':' and minutes`,
		"mon 10:0":                    `byte 7: want two digits for the minute`,
		"mon 10:60-11:00":             `byte 7: want the minute up to 59`,
		"mon 10:00:60-11:00":          `byte 10: want the second up to 59`,
		"mon 10:00:00.-11:00":         `byte 13: want one to nine digits`,
		"mon 10:00:00.1234567890-1":   `byte 13: want one to nine digits`,
		"mon 10:00":                   `byte 9: want '-' and the window's end, found the end`,
		"mon 10:00 - 11:00":           `byte 9: want '-'`,
		"mon 24:00-01:00":             `byte 4: want a time before 24:00`,
		"mon 10:00-24:00:00.1":        `byte 10: want a time before 24:00`,
		"mon 10:00-25:00":             `byte 10: want the hour up to 24`,
		"mon 10:00-11:00,12:00-13:00": `byte 15: want the end, found ",12:00-13:00"`,
		"mon 10:00-10:00:00.0":        `byte 4: the window ends as it starts`,
	} {
		_, err := Weekly([]string{"sun 01:00-02:00", entry}, "", nil)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), entry) {
			t.Errorf("%q:\n got %v\nwant %s", entry, err, want)
		}
	}
}

func TestWeeklyOtherErrors(t *testing.T) {
	good := []string{"mon 10:00-11:00"}
	for _, c := range []struct {
		entries []string
		zone    string
		except  []Exception
		want    string
	}{
		{nil, "", nil, "weekly: no entries"},
		{good, "Mars/Olympus", nil, `weekly: time zone "Mars/Olympus": want an IANA name`},
		{good, "europe/berlin", nil, `time zone "europe/berlin"`},
		{good, "Local", nil, `time zone "Local" differs between machines`},
		{good, "localtime", nil, `time zone "localtime" differs`},
		{good, "../etc/passwd", nil, `time zone "../etc/passwd"`},
		{good, "", []Exception{{Date: "2026-02-30"}}, `weekly exception "2026-02-30": want a date`},
		{good, "", []Exception{{Date: "25.12.2026"}}, `weekly exception "25.12.2026"`},
		{good, "", []Exception{{Date: "2026-12-25", Windows: []string{"10:00-11:00", "mon 1"}}},
			`weekly exception "2026-12-25": window "mon 1": byte 0: want two digits for the hour`},
		{good, "", []Exception{{Date: "2026-12-25"}, {Date: "2026-12-24"}, {Date: "2026-12-25"}},
			`weekly exception "2026-12-25": the date is listed twice`},
	} {
		_, err := Weekly(c.entries, c.zone, c.except)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
}

// FuzzParseWeekly feeds one entry. What is refused must be located; what is
// accepted must give every week of UTC the same awake time, and be read alike
// from its own String.
func FuzzParseWeekly(f *testing.F) {
	for _, seed := range []string{
		"mon-fri 18:00-09:00", "sat,sun 10:00-12:00:30", "daily 06:00-07:00", "sun 00:00-24:00",
		"fri-mon 23:59:59.999999999-00:00", "mon", "mon 10:00-10:00", "\xff 10:00-11:00", "daily",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		p, err := Weekly([]string{entry}, "", nil)
		if err != nil {
			if !strings.Contains(err.Error(), "byte ") {
				t.Fatalf("%q: error without a place: %v", entry, err)
			}
			return
		}
		var awake [2]time.Duration
		for i := range awake {
			monday := at("2026-03-16").Add(time.Duration(i) * 7 * day)
			ws := p.Windows(monday, monday.Add(7*day))
			if bad := misshapen(ws, monday, monday.Add(7*day)); bad != "" {
				t.Fatalf("%q: %s", entry, bad)
			}
			for _, w := range ws {
				awake[i] += w.Duration()
			}
		}
		if awake[0] <= 0 || awake[0] != awake[1] {
			t.Fatalf("%q: awake %v a week", entry, awake)
		}
		text := strings.TrimSuffix(strings.TrimPrefix(p.String(), "weekly "), " (UTC)")
		if again, err := Weekly([]string{text}, "", nil); err != nil || !p.Equal(again) {
			t.Fatalf("%q: String gives %q: %v", entry, text, err)
		}
	})
}

// A million sensors of one time zone share it.
func TestZonesAreShared(t *testing.T) {
	a, b := must(Weekly([]string{"mon 10:00-11:00"}, "Asia/Tokyo", nil)),
		must(Weekly([]string{"daily 18:00-09:00"}, "Asia/Tokyo", nil))
	other := must(Weekly([]string{"daily 18:00-09:00"}, "Europe/Berlin", nil))
	if a.weekly.zone != b.weekly.zone || a.weekly.zone == other.weekly.zone {
		t.Errorf("%p and %p, another one %p", a.weekly.zone, b.weekly.zone, other.weekly.zone)
	}
}

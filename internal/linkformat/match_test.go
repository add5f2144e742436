package linkformat

import "testing"

func TestMatch(t *testing.T) {
	const body = `</sensors/temp>;rt="temperature-c sensor core.t";if=sensor;rt=late;` +
		`title="Room 1";title="Hall";obs;A=""`
	l := mustParse(t, body)[0]
	for _, c := range []struct {
		name, pattern string
		want          bool
	}{
		{"rt", "temperature-c", true}, {"rt", "sensor", true}, {"rt", "core.*", true},
		{"RT", "temp*", true},
		{"rt", "temperature", false}, {"rt", "re-c", false}, {"rt", "Sensor", false},
		{"rt", "*sensor", false},
		{"rt", "late", false}, {"rt", "temperature-c sensor core.t", true},
		{"rt", "temperature-c sen*", true}, {"rt", "*", true}, {"rt", "", false},
		{"rt", "core.t**", false},
		{"title", "Hall", true}, {"title", "Room 1", true}, {"title", "1", true},
		{"href", "/sensors/temp", true}, {"href", "/sensors/*", true}, {"href", "/sensors", false},
		{"href", "*", true}, {"obs", "*", true}, {"obs", "", true}, {"obs", "1", false}, {"a", "", true},
		{"ct", "*", false}, {"ct", "", false},
	} {
		if got := Match(l, c.name, c.pattern); got != c.want {
			t.Errorf("?%s=%s: %v, want %v", c.name, c.pattern, got, c.want)
		}
	}
}

func TestGet(t *testing.T) {
	l := mustParse(t, `</a>;RT=x;rt=y;obs`)[0]
	for _, c := range []struct {
		name, value string
		ok          bool
	}{{"rt", "x", true}, {"obs", "", true}, {"ct", "", false}} {
		if value, ok := l.Get(c.name); value != c.value || ok != c.ok {
			t.Errorf("Get(%q) = %q, %v", c.name, value, ok)
		}
	}
}

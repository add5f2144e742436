package config

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type goldenCase struct{ name, text, want string }

func goldenCases(t *testing.T, file string) []goldenCase {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []goldenCase
	for _, part := range strings.Split("\n"+string(data), "\n>>> ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		text, want, ok := strings.Cut("\n"+rest, "\n<<<\n")
		if !ok {
			t.Fatalf("%s: case %q has no <<< line", file, name)
		}
		text = strings.TrimPrefix(text+"\n", "\n")
		cases = append(cases, goldenCase{name, text, strings.TrimSuffix(want, "\n")})
	}
	if len(cases) < 40 {
		t.Fatalf("%s: only %d cases", file, len(cases))
	}
	return cases
}

func message(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

func TestBadConfig(t *testing.T) {
	for _, c := range goldenCases(t, "testdata/bad_config.txt") {
		got, err := Parse(c.name, []byte(c.text))
		if diff := cmp.Diff(c.want, message(err)); diff != "" || got != nil {
			t.Errorf("%s\nconfig %v, error (-want +got)\n%s", c.text, got, diff)
		}
	}
}

func TestBadSensors(t *testing.T) {
	for _, c := range goldenCases(t, "testdata/bad_sensors.txt") {
		_, _, err := ParseSensors(c.name, []byte(c.text))
		if diff := cmp.Diff(c.want, message(err)); diff != "" {
			t.Errorf("%s\nerror (-want +got)\n%s", c.text, diff)
		}
	}
}

// What a text file of golden cases cannot hold.
func TestBadBytes(t *testing.T) {
	for text, want := range map[string]string{
		"sensor_files: [a]\ndata: \"\xff\"\n": "crawld.yaml:2: this is not YAML: " +
			"invalid leading UTF-8 octet; look at quotes, brackets and indentation " +
			"(spaces only) here and above",
		"\x00": "crawld.yaml:1: this is not YAML: control characters are not allowed; " +
			"look at quotes, brackets and indentation (spaces only) here and above",
	} {
		if _, err := Parse("crawld.yaml", []byte(text)); message(err) != want {
			t.Errorf("%q\n got %v\nwant %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"coap://h\ncoap://\xff\n": "l:2:1: is not UTF-8 text; expected one coap:// URI a line",
		"coap://h\ncoap://a\x00b\n": `l:2:1: "coap://a\x00b": ` +
			"net/url: invalid control character in URL",
		"coap://h/" + strings.Repeat("x/", 300) + "\n": "l:1:1: as an id the URI has 609 bytes, " +
			"more than 512; list this sensor in a YAML file with an id",
	} {
		if _, _, err := ParseSensors("l", []byte(text)); message(err) != want {
			t.Errorf("%q\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestErrorsAreOfTypeErrors(t *testing.T) {
	_, missing := Load("testdata/none.yaml")
	_, _, unmatched := LoadSensors([]string{"testdata/none*.yaml", "[", "testdata"})
	for _, c := range []struct {
		err  error
		want string
	}{
		{missing, "testdata/none.yaml: cannot be read: no such file or directory"},
		{unmatched, "testdata/none*.yaml: no such file; correct sensor_files or make the list\n" +
			"[: is no valid pattern; look at its brackets\n" +
			"testdata: cannot be read: is a directory"},
	} {
		var es Errors
		if !errors.As(c.err, &es) || c.err.Error() != c.want {
			t.Errorf("got %T\n%v\nwant Errors\n%s", c.err, c.err, c.want)
		}
	}
}

func TestErrorsAreBounded(t *testing.T) {
	_, _, err := ParseSensors("wrong.txt", []byte(strings.Repeat("not a sensor\n", 1000)))
	lines := strings.Split(message(err), "\n")
	if len(lines) != maxErrors+1 ||
		lines[maxErrors] != "wrong.txt: 950 more problems are not shown; correct these first" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

package sim

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestReadEvents(t *testing.T) {
	text := "stream,t_event,value\nb,1079031600,6.9\na,1079031599.25,1e3\nb,1079031600,-1\n" +
		"\"c, d\",0,\n"
	want := []Stream{{"c, d", []time.Time{time.Unix(0, 0).UTC()}},
		{"a", []time.Time{time.Unix(1079031599, 250e6).UTC()}},
		{"b", []time.Time{time.Unix(1079031600, 0).UTC(), time.Unix(1079031600, 0).UTC()}}}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(text)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	for form, text := range map[string]string{"csv": text, "gzip": packed.String(),
		"other order": "t_event,stream\r\n1079031600,b\r\n1079031599.25,a\r\n1079031600,b\r\n" +
			"0,\"c, d\"\r\n"} {
		got, err := ReadEvents("e.csv", iotest.OneByteReader(strings.NewReader(text)))
		if err != nil || !slices.EqualFunc(got, want, func(a, b Stream) bool {
			return a.Name == b.Name && slices.Equal(a.Events, b.Events)
		}) {
			t.Errorf("%s: %v %v", form, got, err)
		}
	}
}

func TestShippedEvents(t *testing.T) {
	counts := map[string]int{}
	for _, s := range shippedStreams(t) {
		counts[s.Name] = len(s.Events)
	}
	want := map[string]int{"co": 180, "no2": 138, "rh_change": 173, "temp_rise": 17,
		"room_co2_high": 30, "room_rh_change": 32, "room_temp_rise": 18}
	if fmt.Sprint(counts) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", counts, want)
	}
}

func TestReadEventsRefuses(t *testing.T) {
	const head = "stream,t_event,value\n"
	cut := gzipped(head + strings.Repeat("a,1,1\n", 1000))
	for _, c := range []struct{ text, want string }{
		{"", "e:1:1: the file is empty; expected the header stream,t_event or stream,t_event,value"},
		{"\n\n", "e:1:1: the file is empty; expected the header stream,t_event or stream,t_event,value"},
		{head, "e:2:1: there is no event after the header"},
		{"stream,value\na,1\n", "e:1:1: t_event: the column is missing"},
		{"t_event\n1\n", "e:1:1: stream: the column is missing"},
		{"stream,t\na,1\n", `e:1:8: "t": unknown column; known are stream, t_event and value`},
		{"stream,t_event,stream\n", "e:1:16: stream: the column is there twice"},
		{head + "a,1,1\na,x,1\n", `e:3:3: t_event: "x" is no number of Unix seconds, such as 1079031600`},
		{head + "a,,1\n", `e:2:3: t_event: "" is no number of Unix seconds, such as 1079031600`},
		{head + "a,NaN,1\n", `e:2:3: t_event: "NaN" is no number of Unix seconds, such as 1079031600`},
		{head + "a,0x10,1\n", `e:2:3: t_event: "0x10" is no number of Unix seconds, such as 1079031600`},
		{head + "a,-1,1\n", "e:2:3: t_event: -1 lies outside of 0 .. 253402300799 Unix seconds"},
		{head + "a,253402300800,1\n",
			"e:2:3: t_event: 253402300800 lies outside of 0 .. 253402300799 Unix seconds"},
		{head + "a,1" + strings.Repeat("0", 400) + ",1\n", "e:2:3: t_event: 1" + strings.Repeat("0", 39) +
			" lies outside of 0 .. 253402300799 Unix seconds"},
		{head + "a,2,1\nb,1,1\na,1,1\n", `e:4:3: t_event: the events of stream "a" are not sorted: ` +
			"1970-01-01T00:00:01Z comes after 1970-01-01T00:00:02Z"},
		{head + "a,0,1\nb,1,1\na,640000000,1\n", `e:4:3: t_event: stream "a" is longer than 20 years: ` +
			"1990-04-13T09:46:40Z comes after 1970-01-01T00:00:00Z"},
		{head + "a,1,one\n", `e:2:5: value: "one" is no number`},
		{head + "a,1,inf\n", `e:2:5: value: "inf" is no number`},
		{head + ",1,1\n", "e:2:1: stream: the stream has no name"},
		{head + strings.Repeat("a", 201) + ",1,1\n",
			"e:2:1: stream: the name has 201 bytes, at most 200 are taken"},
		{head + "\"a\nb\",1,1\n",
			`e:2:1: stream: "a\nb": the name has characters that cannot be printed`},
		{head + "a\xff,1,1\n", `e:2:1: stream: "a\xff": the name has characters that cannot be printed`},
		{head + "a,1,1\na,2\n", "e:3:1: expected 3 fields as in the header: stream,t_event,value"},
		{head + "a\"b,1,1\n", `e:2:2: bare " in non-quoted-field`},
		{"\x1f\x8bnonsense", "e:1:1: gzip: invalid header"},
		{cut[:len(cut)/2], "e:1:1: cannot be read: unexpected EOF"},
	} {
		streams, err := ReadEvents("e", strings.NewReader(c.text))
		if err == nil || streams != nil || err.Error() != c.want {
			t.Errorf("%.60q: %v, want %s", c.text, err, c.want)
		}
	}
}

func TestReadEventsBounds(t *testing.T) {
	var streams, events strings.Builder
	streams.WriteString("stream,t_event\n")
	for i := range maxStreams + 1 {
		fmt.Fprintf(&streams, "s%d,1\n", i)
	}
	events.WriteString("stream,t_event\n" + strings.Repeat("a,1\n", maxEvents+1))
	for want, text := range map[string]string{
		"e:1002:7: t_event: more than 1000 streams":    streams.String(),
		"e:200002:3: t_event: more than 200000 events": events.String()} {
		if _, err := ReadEvents("e", strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	_, err := ReadEvents("e", io.MultiReader(strings.NewReader("stream,t_event\n"), blankLines{}))
	want := "e:1:1: cannot be read: the file has more than 16 MiB"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// blankLines never ends.
type blankLines struct{}

func (blankLines) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '\n'
	}
	return len(p), nil
}

func gzipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	if err := errors.Join(err, z.Close()); err != nil {
		panic(err)
	}
	return b.String()
}

// What is taken is sorted, bounded and printable; what is refused has a place.
func FuzzReadEvents(f *testing.F) {
	shipped, err := os.ReadFile(shippedEvents)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(shipped[:200])
	f.Add([]byte("t_event,stream\n0.5,\"a,\"\"b\"\n"))
	f.Add([]byte("stream,t_event\na,2\na,1\n"))
	f.Add([]byte(gzipped("stream,t_event,value\na,1,1\n")))
	f.Add([]byte("stream,t_event\na,1e9\n\"\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		streams, err := ReadEvents("f.csv", bytes.NewReader(text))
		if err != nil {
			var at *EventsError
			if !errors.As(err, &at) || at.Line < 1 || at.Column < 1 || at.Msg == "" ||
				strings.ContainsAny(err.Error(), "\n\r") || !strings.HasPrefix(err.Error(), "f.csv:") {
				t.Fatalf("%q", err)
			}
			return
		}
		last := time.Time{}
		for _, s := range streams {
			if s.Events[0].Before(last) || !slices.IsSortedFunc(s.Events, time.Time.Compare) ||
				s.Events[len(s.Events)-1].Sub(s.Events[0]) > maxStreamLength || s.Name == "" {
				t.Fatalf("%+v", s)
			}
			last = s.Events[0]
		}
	})
}

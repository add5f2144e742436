package visit

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// TestMain fixes rapid's seed and count unless the command line names them.
func TestMain(m *testing.M) {
	checks := "200"
	if os.Getenv("CRAWLD_CI") != "" {
		checks = "10000"
	}
	for name, value := range map[string]string{
		"rapid.seed": "93", "rapid.checks": checks, "rapid.nofailfile": "true",
	} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	flag.Parse()
	os.Exit(m.Run())
}

// The names are API: they stand in stored records, in metrics and in JSON.
func TestNames(t *testing.T) {
	if got, want := fmt.Sprint(Kinds()), "[planned retry poll probe announced manual]"; got != want {
		t.Errorf("kinds %s, want %s", got, want)
	}
	want := "[described unchanged asleep refused failed missed]"
	if got := fmt.Sprint(Results()); got != want {
		t.Errorf("results %s, want %s", got, want)
	}
	if len(Kinds()) != int(numKinds) || len(Results()) != int(numResults) {
		t.Error("a name is not listed")
	}
	want = "invalid(6) invalid(6) invalid(255)"
	if got := fmt.Sprint(numKinds, numResults, Kind(255)); got != want {
		t.Error(got)
	}
}

func TestText(t *testing.T) {
	for i, k := range Kinds() {
		var back Kind
		text, err := k.MarshalText()
		if err != nil || back.UnmarshalText(text) != nil || back != k || int(k) != i {
			t.Errorf("kind %d: %q, %v, back %v", i, text, err, back)
		}
	}
	for i, r := range Results() {
		var back Result
		text, err := r.MarshalText()
		if err != nil || back.UnmarshalText(text) != nil || back != r || int(r) != i {
			t.Errorf("result %d: %q, %v, back %v", i, text, err, back)
		}
		if r.Success() != strings.Contains("described unchanged", string(text)) {
			t.Errorf("%s: success %v", text, r.Success())
		}
	}
	for _, text := range []string{"", "Planned", "planned ", "0", "invalid(6)"} {
		var k Kind
		var r Result
		if k.UnmarshalText([]byte(text)) == nil || r.UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func genInstant(t *rapid.T, label string) time.Time {
	ns := rapid.Int64Range(0, 1<<61).Draw(t, label)
	return time.Unix(0, ns).UTC()
}

func genOutcome(t *rapid.T) Outcome {
	text := rapid.String()
	count, span := rapid.IntRange(0, 1<<40), rapid.Map(rapid.Int64(), func(n int64) time.Duration {
		return time.Duration(n)
	})
	etag := func(label string) []byte { // 1 to 8 bytes, RFC 7252 section 5.10.6
		return rapid.OneOf(rapid.Just[[]byte](nil), rapid.SliceOfN(rapid.Byte(), 1, 8)).Draw(t, label)
	}
	flag := rapid.Bool()
	return Outcome{
		Visit: Visit{Sensor: text.Draw(t, "sensor"), URI: text.Draw(t, "uri"), At: genInstant(t, "at"),
			Deadline: genInstant(t, "deadline"), Kind: rapid.SampledFrom(Kinds()).Draw(t, "kind"),
			Why: text.Draw(t, "why"), Value: rapid.Float64().Draw(t, "value"), ETag: etag("etag"),
			Known: text.Draw(t, "known"), Full: flag.Draw(t, "full"), NON: flag.Draw(t, "non"),
			Retrans: count.Draw(t, "retrans"), AckTimeout: span.Draw(t, "ack_timeout")},
		Result:  rapid.SampledFrom(Results()).Draw(t, "result"),
		Contact: flag.Draw(t, "contact"), Code: text.Draw(t, "code"),
		Hash: text.Draw(t, "hash"), Format: rapid.IntRange(-1, 65535).Draw(t, "format"),
		NewETag: etag("new_etag"), MaxAge: span.Draw(t, "max_age"),
		HasMaxAge: flag.Draw(t, "has_max_age"), RetryAfter: span.Draw(t, "retry_after"),
		Verdict: text.Draw(t, "verdict"), Links: count.Draw(t, "links"),
		PublishedAt: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Time {
			return genInstant(t, "published")
		}), 0, 3).Draw(t, "published_at"),
		DatagramsSent: count.Draw(t, "sent"), DatagramsReceived: count.Draw(t, "received"),
		BytesSent: count.Draw(t, "out"), BytesReceived: count.Draw(t, "in"),
		Retransmissions: count.Draw(t, "again"), Blocks: count.Draw(t, "blocks"),
		RTT: span.Draw(t, "rtt"), Started: genInstant(t, "started"), Ended: genInstant(t, "ended"),
		Reason: text.Draw(t, "reason"), Error: text.Draw(t, "error"),
		Transcript: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Line {
			return Line{Offset: float64(count.Draw(t, "offset")), Sent: flag.Draw(t, "up"),
				Type: text.Draw(t, "type"), MID: uint16(count.Draw(t, "mid")),
				Options: rapid.SliceOfN(text, 0, 2).Draw(t, "options"), Size: count.Draw(t, "size"),
				Note: text.Draw(t, "note")}
		}), 0, 3).Draw(t, "transcript"),
	}
}

func TestEncodeDecode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genOutcome(t)
		record, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(record)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Every field but the body must be drawn by the test above: a field that
// genOutcome leaves at zero could get lost in the record without being missed.
func TestEncodeDecodeReachesEveryField(t *testing.T) {
	seen := map[string]bool{}
	rapid.Check(t, func(t *rapid.T) {
		record, err := genOutcome(t).Encode()
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(record, &fields); err != nil {
			t.Fatal(err)
		}
		for name := range fields {
			seen[name] = true
		}
	})
	var golden map[string]any
	if err := json.Unmarshal([]byte(goldenRecord), &golden); err != nil {
		t.Fatal(err)
	}
	for name := range golden {
		if !seen[name] {
			t.Errorf("%s is never drawn", name)
		}
		delete(seen, name)
	}
	if len(seen) > 0 {
		t.Errorf("not in the golden record: %v", seen)
	}
}

// goldenRecord has every field: the names and units of stored records may not
// change under a database that exists.
const goldenRecord = `{
  "sensor": "gate", "uri": "coap://192.0.2.1/s", "at": "2026-03-01T10:00:00Z",
  "deadline": "2026-03-01T10:00:30Z", "kind": "retry", "why": "window ends", "value": 12.5,
  "etag": "AQI=", "known": "ab12", "full": true, "non": true, "retrans": 4,
  "ack_timeout": 2000000000, "outcome": "described", "contact": true, "code": "2.05",
  "hash": "cd34", "content_format": 40, "new_etag": "Aw==", "max_age": 60000000000,
  "has_max_age": true, "retry_after": 1000000000, "verdict": "valid", "links": 3,
  "published_at": ["2026-03-01T09:59:00Z"], "datagrams_sent": 2, "datagrams_received": 1,
  "bytes_sent": 40, "bytes_received": 90, "retransmissions": 1, "blocks": 5, "rtt": 20000000,
  "started": "2026-03-01T10:00:00.25Z", "ended": "2026-03-01T10:00:01Z", "reason": "ok",
  "error": "none", "transcript": [{"offset_seconds": 0.5, "sent": true, "type": "CON", "code": "GET",
    "mid": 7, "token": "0a", "options": ["Accept: 40"], "bytes": 9}]
}`

func TestGoldenRecord(t *testing.T) {
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	want := Outcome{
		Visit: Visit{Sensor: "gate", URI: "coap://192.0.2.1/s", At: at,
			Deadline: at.Add(30 * time.Second), Kind: Retry, Why: "window ends", Value: 12.5, ETag: []byte{1, 2}, Known: "ab12", Full: true,
			NON: true, Retrans: 4, AckTimeout: 2 * time.Second},
		Result: Described, Contact: true, Code: "2.05", Hash: "cd34", Format: 40, NewETag: []byte{3},
		MaxAge: time.Minute, HasMaxAge: true, RetryAfter: time.Second, Verdict: "valid", Links: 3,
		PublishedAt: []time.Time{at.Add(-time.Minute)}, DatagramsSent: 2, DatagramsReceived: 1,
		BytesSent: 40, BytesReceived: 90, Retransmissions: 1, Blocks: 5, RTT: 20 * time.Millisecond,
		Started: at.Add(250 * time.Millisecond), Ended: at.Add(time.Second), Reason: "ok", Error: "none",
		Transcript: []Line{{Offset: 0.5, Sent: true, Type: "CON", Code: "GET", MID: 7, Token: "0a",
			Options: []string{"Accept: 40"}, Size: 9}},
	}
	got, err := Decode([]byte(goldenRecord))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(goldenRecord)); err != nil {
		t.Fatal(err)
	}
	record, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(compact.String(), string(record)); diff != "" {
		t.Error(diff)
	}
	if got.Took() != 750*time.Millisecond || got.Lateness() != 250*time.Millisecond {
		t.Errorf("took %v, late %v", got.Took(), got.Lateness())
	}
}

func TestEncodeLeavesTheBodyOut(t *testing.T) {
	record, err := Outcome{Body: []byte("</secret>")}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, trace := range []string{"secret", "PC9z"} { // as text and in base64
		if bytes.Contains(record, []byte(trace)) {
			t.Errorf("%s", record)
		}
	}
}

func TestEncodeRefusesWhatJSONCannotSay(t *testing.T) {
	for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if record, err := (Outcome{Visit: Visit{Value: value}}).Encode(); err == nil {
			t.Errorf("%v became %s", value, record)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, record := range []string{
		"", "null x", "[]", `"x"`, goldenRecord[:40], `{"kind":"visit"}`, `{"kind":1}`,
		`{"outcome":"Described"}`, `{"at":"yesterday"}`, `{"links":1.5}`, `{"etag":"?"}`,
	} {
		o, err := Decode([]byte(record))
		if err == nil || !strings.HasPrefix(err.Error(), "visit: decode outcome: ") {
			t.Errorf("%q: %v", record, err)
		}
		if diff := cmp.Diff(Outcome{}, o); diff != "" {
			t.Errorf("%q: half a record: %s", record, diff)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(goldenRecord))
	f.Add([]byte(`{"kind":"manual","outcome":"missed","started":"0000-01-01T00:00:00+23:59"}`))
	f.Add([]byte(`{"error":"\ud800","transcript":[{"note":"` + "\xff" + `"}],"etag":"","published_at":[]}`))
	f.Fuzz(func(t *testing.T, record []byte) {
		o, err := Decode(record)
		if err != nil {
			return
		}
		first, err := o.Encode()
		if err != nil {
			t.Fatalf("%q decodes to what cannot be stored: %v", record, err)
		}
		again, err := Decode(first)
		if err != nil {
			t.Fatalf("%q became %q: %v", record, first, err)
		}
		if second, err := again.Encode(); err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%q became %q, then %q, %v", record, first, second, err)
		}
	})
}

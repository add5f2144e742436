package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/crawld/crawld/internal/api"
	"github.com/crawld/crawld/internal/figure"
)

// parcel is the trace of the document that ships.
func parcel(t *testing.T) api.Trace {
	t.Helper()
	f := traceFlags{events: filepath.Join("..", "..", "docs", "data", "parcel.json")}
	trace, err := f.trace(t.Context(), nil, "urn:epc:id:sgtin:9521141.012345.4711")
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// Bars last as long as one is in the other, and each event is on the lane that it names.
func TestTraceTimeline(t *testing.T) {
	var got []string
	for _, r := range traceTimeline(parcel(t)).Rows {
		line := r.Label + " " + r.Note
		for _, w := range r.Awake {
			line += " " + w.Start.Format("02T15:04") + "-" + w.End.Format("02T15:04")
		}
		got = append(got, line)
	}
	want := []string{"01/09521141123454/21/4711 4 events",
		"00/195211412345678900 2 events 04T07:10-05T12:40",
		"00/295211412345678907 3 events 04T09:00-05T08:00",
		"8003/0952114112345477 3 events 04T10:30-05T05:30"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestTraceTable(t *testing.T) {
	var out bytes.Buffer
	if err := printTrace(&out, parcel(t)); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "trace.golden")
	if os.Getenv(updateGolden) != "" {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// randomTrace is what no crawld answers: roles, paths and parents as they come.
func randomTrace(rng *rand.Rand) api.Trace {
	name := func() string { return fmt.Sprint("urn:x:", rng.IntN(5)) }
	roles := []string{"plain", "birth", "end", "join", "seen", "leave", "all_leave", "container", "",
		"?"}
	trace := api.Trace{Object: name()}
	at := time.Unix(1_700_000_000, 0).UTC()
	for range 1 + rng.IntN(12) {
		at = at.Add(time.Duration(rng.IntN(3)) * time.Hour)
		e := api.TraceEvent{Time: at, Role: roles[rng.IntN(len(roles))], Parent: name(),
			Type: []string{"AggregationEvent", "AssociationEvent", "Description"}[rng.IntN(3)]}
		for range rng.IntN(4) {
			e.Path = append(e.Path, name())
		}
		e.Level = rng.IntN(5)
		trace.Events = append(trace.Events, e)
	}
	return trace
}

// Whatever a server answers, there is a drawing of it, always the same.
func TestTraceTimelineOfAnything(t *testing.T) {
	bars, control := 0, 0
	for seed := range 3000 {
		trace := randomTrace(rand.New(rand.NewPCG(7, uint64(seed))))
		d := traceTimeline(trace)
		var svg, again bytes.Buffer
		if err := d.WriteSVG(&svg); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, r := range d.Rows {
			bars += len(r.Awake)
		}
		if err := traceTimeline(trace).WriteSVG(&again); err != nil || again.String() != svg.String() {
			t.Fatalf("seed %d: drawn twice, not the same: %v", seed, err)
		}
		if err := printTrace(&again, trace); err != nil {
			t.Fatal(err)
		}
		// The control: bars that are not merged are refused by the drawing.
		for i := range d.Rows {
			d.Rows[i].Awake = append(d.Rows[i].Awake, d.Rows[i].Awake...)
		}
		if err := (*figure.Timeline)(d).WriteSVG(&again); err != nil {
			control++
		}
	}
	if bars < 3000 || control < 1000 {
		t.Errorf("only %d bars, %d overlaps refused", bars, control)
	}
}

// The answer is decoded from the JSON that is printed.
func TestTraceRoundTrip(t *testing.T) {
	want := parcel(t)
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got api.Trace
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

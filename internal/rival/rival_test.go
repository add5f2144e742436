package rival

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/epcis"
)

// trials is the number of random instances, larger where time is set aside.
func trials(quick, full int) int {
	if os.Getenv("CRAWLD_CI") != "" {
		return full
	}
	return quick
}

// server is one cluster for all tests.
var server = sync.OnceValues(func() (*Cluster, error) {
	return StartCluster(context.Background(), "")
})

func TestMain(m *testing.M) {
	code := m.Run()
	if c, err := server(); err == nil {
		if err := c.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// database is an empty DB that lives as long as the test.
func database(t *testing.T, clients int) *DB {
	t.Helper()
	c, err := server()
	if errors.Is(err, ErrNoServer) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	db, err := Open(t.Context(), c.URL(), clients)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return db
}

// history draws events of objects o0, o1, .. of which each may hold those of lower
// numbers: what is possible, one event a second, with nothing lost. Like the boxes of the
// experiments, what is in something else already is filled no more.
func history(rng *rand.Rand, prefix string, objects, events int) []discovery.Record {
	parent := make([]int, objects) // 0 is never a parent
	var all []discovery.Record
	name := func(i int) string { return fmt.Sprintf("urn:x:%s:%d", prefix, i) }
	for len(all) < events {
		e := epcis.Event{ID: urn([16]byte{byte(rng.Uint32()), byte(rng.Uint32()), 3: byte(len(all)),
			4: byte(len(all) >> 8), 15: prefix[0]}), Source: fmt.Sprint("is-", rng.IntN(3)),
			Time: time.Unix(1e9+int64(len(all)), 0).UTC(), BizStep: "s"}
		o := rng.IntN(objects)
		switch p := parent[o]; {
		case rng.IntN(3) == 0:
			e.Kind, e.Action, e.EPCs = epcis.Object, epcis.Observe, []string{name(o)}
		case p != 0 && rng.IntN(3) == 0:
			e.Kind, e.Action, e.Parent = epcis.Aggregation, epcis.Delete, name(p)
			for child, in := range parent {
				if in == p && (child == o || rng.IntN(2) == 0) {
					e.EPCs, parent[child] = append(e.EPCs, name(child)), 0
				}
			}
		case p == 0 && o+1 < objects:
			if p = o + 1 + rng.IntN(min(2, objects-o-1)); parent[p] != 0 {
				continue
			}
			e.Kind, e.Action, e.Parent = epcis.Aggregation, epcis.Add, name(p)
			for child := range p {
				if parent[child] == 0 && (child == o || rng.IntN(3) == 0) {
					e.EPCs, parent[child] = append(e.EPCs, name(child)), p
				}
			}
		default:
			continue
		}
		all = append(all, discovery.Record{Event: e, Publisher: "p", Recorded: e.Time})
	}
	return all
}

// played is the trace of an object found by playing the whole history: what happened to
// it, and to what it was in at that instant.
func played(records []discovery.Record, object string) []discovery.Traced {
	in := map[string]string{}
	var all []discovery.Traced
	for _, r := range records {
		e := r.Event
		for level, o := 0, object; o != ""; level, o = level+1, in[o] {
			if slices.Contains(e.EPCs, o) || level == 0 && e.Parent == o {
				all = append(all, discovery.Traced{Level: level, Cell: discovery.Cell{
					Time: e.Time.UnixMicro(), Kind: e.Kind, Action: e.Action, Parent: e.Parent,
					EventID: e.ID, BizStep: e.BizStep, Source: e.Source}})
				break
			}
		}
		for _, child := range e.EPCs {
			switch e.Action {
			case epcis.Add:
				in[child] = e.Parent
			case epcis.Delete:
				delete(in, child)
			}
		}
	}
	return all
}

// tracers are the ways to ask.
func tracers(db *DB) map[string]func(context.Context, string) ([]discovery.Traced, error) {
	return map[string]func(context.Context, string) ([]discovery.Traced, error){
		"statement": db.Trace,
		"chatty":    db.TraceChatty,
		"mode 1": func(ctx context.Context, object string) ([]discovery.Traced, error) {
			return db.TraceMode1(ctx, object, time.Minute)
		},
	}
}

// Every way to publish and every way to ask gives what the history was.
func TestTracesArePlayedHistories(t *testing.T) {
	t.Parallel()
	db := database(t, 2)
	deepest, longest := 0, 0
	for i := range trials(30, 200) {
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		objects := 2 + rng.IntN(8)
		records := history(rng, fmt.Sprint(i), objects, 5+rng.IntN(60))
		if err := db.Load(t.Context(), records[:len(records)/2]); err != nil {
			t.Fatal(err)
		}
		for _, r := range records[len(records)/2:] {
			publish := []func(context.Context, discovery.Record) error{db.Publish, db.PublishRows}
			if err := publish[rng.IntN(2)](t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		for o := range objects {
			object := fmt.Sprintf("urn:x:%d:%d", i, o)
			want := played(records, object)
			for _, e := range want {
				deepest = max(deepest, e.Level)
			}
			longest = max(longest, len(want))
			for way, trace := range tracers(db) {
				got, err := trace(t.Context(), object)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("history %d, %s by %s (-played +traced):\n%s", i, object, way, diff)
				}
			}
		}
	}
	if deepest < 3 || longest < 30 {
		t.Errorf("only %d levels and %d events in a trace", deepest, longest)
	}
}

// The negative control: a trace that does not end at the DELETE is told apart.
func TestTraceBeyondDeleteIsCaught(t *testing.T) {
	t.Parallel()
	db := database(t, 1)
	endless := strings.ReplaceAll(traceMode2, "least(t.left_at, t.until)", "t.until")
	if endless == traceMode2 {
		t.Fatal("the statement has no end to lose")
	}
	caught := 0
	for i := range 20 {
		records := history(rand.New(rand.NewPCG(uint64(i), 2)), fmt.Sprint(i), 6, 40)
		if err := db.Load(t.Context(), records); err != nil {
			t.Fatal(err)
		}
		object := fmt.Sprintf("urn:x:%d:0", i)
		rows, err := db.pool.Query(t.Context(), endless, object)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tracedRows(rows)
		if err != nil {
			t.Fatal(err)
		}
		if !cmp.Equal(played(records, object), got) {
			caught++
		}
	}
	if caught < 5 {
		t.Errorf("%d of 20", caught)
	}
}

func TestTimeoutOfMode1(t *testing.T) {
	t.Parallel()
	db := database(t, 1)
	records := history(rand.New(rand.NewPCG(1, 3)), "x", 50, 20_000)
	if err := db.Load(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	_, err := db.TraceMode1(t.Context(), "urn:x:x:0", time.Millisecond)
	if !errors.Is(err, ErrTimeout) {
		t.Errorf("%v", err)
	}
	if _, err := db.Trace(t.Context(), "urn:x:x:0"); err != nil {
		t.Error("the time-out stays: ", err)
	}
}

// Not parallel: another test would take the name of a schema that is gone.
func TestSizesSettingsAndSchema(t *testing.T) {
	db := database(t, 3)
	ctx := t.Context()
	if err := db.Load(ctx, history(rand.New(rand.NewPCG(1, 4)), "x", 50, 2000)); err != nil {
		t.Fatal(err)
	}
	if err := db.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	one, err := db.SizeMode1(ctx)
	if err != nil {
		t.Fatal(err)
	}
	two, err := db.SizeMode2(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if one < 100_000 || two < one+100_000 {
		t.Errorf("%d bytes in Mode 1, %d in Mode 2", one, two)
	}
	said, err := db.Settings(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"fsync on", "synchronous_commit on", "; 3 connections."} {
		if !strings.Contains(said, want) {
			t.Errorf("%s: no %q", said, want)
		}
	}

	url := db.pool.Config().ConnString()
	second, err := Open(ctx, url, 1)
	if err != nil {
		t.Fatal(err)
	}
	if second.schema == db.schema {
		t.Errorf("both are in %s", db.schema)
	}
	if err := second.Close(ctx); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var left int
	err = conn.QueryRow(ctx, "SELECT count(*) FROM pg_namespace WHERE nspname = $1",
		second.schema).Scan(&left)
	if err != nil || left != 0 {
		t.Errorf("%s is left: %v", second.schema, err)
	}
}

func TestForeignEventsAreRefused(t *testing.T) {
	t.Parallel()
	id := urn([16]byte{1})
	for want, e := range map[string]epcis.Event{
		`event ID "x" is no urn:uuid:UUID`: {ID: "x", Kind: epcis.Object},
		`event ID "` + strings.TrimPrefix(id, uuidPrefix) + `" is no urn:uuid:UUID`: {
			ID: strings.TrimPrefix(id, uuidPrefix), Kind: epcis.Object},
		"event " + id + ": the tables hold object and aggregation events alone": {ID: id,
			Kind: epcis.Transformation},
	} {
		if _, err := entryOf(discovery.Record{Event: e}); err == nil || err.Error() != want {
			t.Errorf("%v, not %s", err, want)
		}
	}
	if got := slices.Sorted(maps.Keys(actionNames)); len(got) != len(actions) {
		t.Errorf("actions %v and %v", actionNames, actions)
	}
}

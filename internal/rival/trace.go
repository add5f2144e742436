package rival

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/epcis"
)

// The values of event_type that are used.
const (
	basic      = "Basic"
	aggregated = "Agg"
)

// ErrTimeout is wrapped by the error of TraceMode1 when the answer takes longer than it
// was given.
var ErrTimeout = errors.New("time-out")

// row is an event as a query gives it.
type row struct {
	id     [16]byte
	kind   string
	at     time.Time
	action string
	parent *string
	source string
	step   string
}

// columns are where the columns of an answer go.
func (r *row) columns() []any {
	return []any{&r.id, &r.kind, &r.at, &r.action, &r.parent, &r.source, &r.step}
}

var (
	actions = map[string]epcis.Action{"ADD": epcis.Add, "OBSERVE": epcis.Observe,
		"DELETE": epcis.Delete}
	kinds = map[string]epcis.Kind{basic: epcis.Object, aggregated: epcis.Aggregation}
)

func (r *row) traced(level int) discovery.Traced {
	t := discovery.Traced{Level: level, Cell: discovery.Cell{Time: r.at.UnixMicro(),
		Kind: kinds[r.kind], Action: actions[r.action], EventID: urn(r.id), BizStep: r.step,
		Source: r.source}}
	if r.parent != nil {
		t.Parent = *r.parent
	}
	return t
}

const uuidPrefix = "urn:uuid:"

// urn is the event ID of a UUID (RFC 9562, section 4).
func urn(id [16]byte) string {
	text, err := pgtype.UUID{Bytes: id, Valid: true}.Value()
	if err != nil {
		panic(err) // 16 bytes have a text
	}
	return uuidPrefix + text.(string)
}

// uuid reads an event ID. An honest schema keeps it in 16 bytes, so that other IDs have
// no place in it.
func uuid(eventID string) ([16]byte, error) {
	digits := strings.ReplaceAll(strings.TrimPrefix(eventID, uuidPrefix), "-", "")
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != 16 || !strings.HasPrefix(eventID, uuidPrefix) {
		return [16]byte{}, fmt.Errorf("event ID %q is no %sUUID", eventID, uuidPrefix)
	}
	return [16]byte(raw), nil
}

var (
	traceMode1 = traceStatement("oid_scan")
	traceMode2 = traceStatement("oid_index")
)

// Trace is the history of an object in Mode 2 by one statement, ordered by time: events of
// its own and, while it was in them, of its containers. It follows ADD and DELETE of
// histories without gaps, in which nothing joins a container that is in another one.
func (db *DB) Trace(ctx context.Context, object string) ([]discovery.Traced, error) {
	rows, err := db.pool.Query(ctx, traceMode2, object)
	if err != nil {
		return nil, err
	}
	return tracedRows(rows)
}

func tracedRows(rows pgx.Rows) ([]discovery.Traced, error) {
	var all []discovery.Traced
	var level int
	var r row
	_, err := pgx.ForEachRow(rows, append([]any{&level}, r.columns()...), func() error {
		all = append(all, r.traced(level))
		return nil
	})
	return all, err
}

// TraceMode1 is Trace without the index of OIDs: it reads the lists of all records. It
// fails with ErrTimeout after limit.
func (db *DB) TraceMode1(ctx context.Context, object string, limit time.Duration) (
	all []discovery.Traced, err error) {
	err = pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		set := fmt.Sprintf("SET LOCAL statement_timeout = %d", limit.Milliseconds())
		if _, err := tx.Exec(ctx, set); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, traceMode1, object)
		if err == nil {
			all, err = tracedRows(rows)
		}
		return err
	})
	if codeOf(err) == "57014" { // query_canceled
		return nil, fmt.Errorf("trace of %s in Mode 1: %w of %v", object, ErrTimeout, limit)
	}
	return all, err
}

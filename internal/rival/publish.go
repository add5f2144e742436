package rival

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/epcis"
)

// attributes are the columns of a record without its number; parent is that of an
// aggregation alone.
var attributes = strings.Fields("event_id is_id action event_time publish_time publisher " +
	"business_step signature parent")

var actionNames = map[epcis.Action]string{epcis.Add: "ADD", epcis.Observe: "OBSERVE",
	epcis.Delete: "DELETE"}

// entry is an event as the tables take it.
type entry struct {
	record []any    // by attributes; the parent last, where there is one
	listed []string // whom the list of children has
	at     time.Time
	parent string // "" for an object event
}

// indexed are the objects that the event has in the index of OIDs.
func (e entry) indexed() []string {
	if e.parent == "" {
		return e.listed
	}
	return append([]string{e.parent}, e.listed...)
}

func entryOf(r discovery.Record) (entry, error) {
	ev := r.Event
	id, err := uuid(ev.ID)
	if err != nil {
		return entry{}, err
	}
	e := entry{listed: ev.EPCs, at: ev.Time, record: []any{id, ev.Source, actionNames[ev.Action],
		ev.Time, r.Recorded, r.Publisher, ev.BizStep, r.Signature}}
	switch {
	case ev.Kind == epcis.Aggregation && ev.Parent != "":
		e.parent = ev.Parent
		e.record = append(e.record, e.parent)
	case ev.Kind != epcis.Object || ev.Parent != "":
		return e, fmt.Errorf("event %s: the tables hold object and aggregation events alone", ev.ID)
	}
	return e, nil
}

// Load brings many events in, by COPY in one transaction, while nobody publishes.
func (db *DB) Load(ctx context.Context, records []discovery.Record) error {
	return pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		var l loading
		err := tx.QueryRow(ctx, `SELECT (SELECT coalesce(max(record_id), 0) FROM basic_record),
			(SELECT coalesce(max(record_id), 0) FROM agg_record)`).Scan(&l.basic.last, &l.aggregated.last)
		if err != nil {
			return err
		}
		for _, r := range records {
			e, err := entryOf(r)
			if err != nil {
				return err
			}
			if e.parent == "" {
				l.index = append(l.index, l.basic.add(e, basic)...)
			} else {
				l.index = append(l.index, l.aggregated.add(e, aggregated)...)
			}
		}
		return l.copyTo(ctx, tx)
	})
}

// listing are records of one type with their lists, as rows.
type listing struct {
	records, lists [][]any
	last           int64 // the record_id of the last one
}

// add gives the event's record the next number, and returns its rows in the index of OIDs.
func (l *listing) add(e entry, eventType string) (index [][]any) {
	l.last++
	l.records = append(l.records, append([]any{l.last}, e.record...))
	for _, oid := range e.listed {
		l.lists = append(l.lists, []any{oid, l.last})
	}
	for _, oid := range e.indexed() {
		index = append(index, []any{oid, eventType, l.last, e.at})
	}
	return index
}

// loading are the rows of many events.
type loading struct {
	basic, aggregated listing
	index             [][]any
}

func (l *loading) copyTo(ctx context.Context, tx pgx.Tx) error {
	record := append([]string{"record_id"}, attributes...)
	list := []string{"oid", "record_id"}
	for _, part := range []struct {
		table   string
		columns []string
		rows    [][]any
	}{
		{"basic_record", record[:len(record)-1], l.basic.records},
		{"child_list_basic", list, l.basic.lists},
		{"agg_record", record, l.aggregated.records},
		{"child_list_agg", list, l.aggregated.lists},
		{"oid_index", []string{"oid", "event_type", "record_id", "event_time"}, l.index},
	} {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{part.table}, part.columns,
			pgx.CopyFromRows(part.rows))
		if err != nil {
			return fmt.Errorf("%s: %w", part.table, err)
		}
	}
	// The sequences go on behind the numbers given here.
	_, err := tx.Exec(ctx, `SELECT setval(pg_get_serial_sequence('basic_record', 'record_id'),
		$1::bigint + 1, false), setval(pg_get_serial_sequence('agg_record', 'record_id'),
		$2::bigint + 1, false)`, l.basic.last, l.aggregated.last)
	return err
}

// inserts are the statements that publish an event of one type.
type inserts struct {
	whole                string // record, list and index at once, from arrays
	record, list, listed string // one row each
}

// insertsOf are the statements of a type. The record's attributes are $1 to $8 or $9.
func insertsOf(eventType, table, list string, n int) inserts {
	places := make([]string, n)
	for i := range places {
		places[i] = fmt.Sprintf("$%d", i+1)
	}
	record := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s) RETURNING record_id, event_time", table,
		strings.Join(attributes[:n], ", "), strings.Join(places, ", "))
	return inserts{
		whole: fmt.Sprintf(`WITH r AS (%s), l AS (INSERT INTO %s (oid, record_id)
			SELECT oid, record_id FROM r, unnest($%d::text[]) oid)
			INSERT INTO oid_index (oid, event_type, record_id, event_time)
			SELECT oid, '%s', record_id, event_time FROM r, unnest($%d::text[]) oid`,
			record, list, n+1, eventType, n+2),
		record: record,
		list:   fmt.Sprintf("INSERT INTO %s (oid, record_id) VALUES ($1, $2)", list),
		listed: fmt.Sprintf(`INSERT INTO oid_index (oid, event_type, record_id, event_time)
			VALUES ($1, '%s', $2, $3)`, eventType),
	}
}

var (
	basicInserts      = insertsOf(basic, "basic_record", "child_list_basic", len(attributes)-1)
	aggregatedInserts = insertsOf(aggregated, "agg_record", "child_list_agg", len(attributes))
)

func (e entry) inserts() inserts {
	if e.parent == "" {
		return basicInserts
	}
	return aggregatedInserts
}

// Publish stores one event by one statement, durably.
func (db *DB) Publish(ctx context.Context, r discovery.Record) error {
	e, err := entryOf(r)
	if err != nil {
		return err
	}
	_, err = db.pool.Exec(ctx, e.inserts().whole, append(e.record, e.listed, e.indexed())...)
	return err
}

// PublishRows stores one event by an INSERT for each row, in one transaction.
func (db *DB) PublishRows(ctx context.Context, r discovery.Record) error {
	e, err := entryOf(r)
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) error {
		return e.insertRows(ctx, tx)
	})
}

func (e entry) insertRows(ctx context.Context, tx pgx.Tx) error {
	var id int64
	var at time.Time
	if err := tx.QueryRow(ctx, e.inserts().record, e.record...).Scan(&id, &at); err != nil {
		return err
	}
	for _, oid := range e.listed {
		if _, err := tx.Exec(ctx, e.inserts().list, oid, id); err != nil {
			return err
		}
	}
	for _, oid := range e.indexed() {
		if _, err := tx.Exec(ctx, e.inserts().listed, oid, id, e.at); err != nil {
			return err
		}
	}
	return nil
}

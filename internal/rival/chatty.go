package rival

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/crawld/crawld/internal/discovery"
)

// The window of a whole life.
var (
	beginning = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	forever   = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
)

// chatty is a client that walks the tables itself, over one connection.
type chatty struct {
	conn  *pgxpool.Conn
	found []discovery.Traced
}

// TraceChatty is Trace by one query for the index of each object and one for each record.
func (db *DB) TraceChatty(ctx context.Context, object string) ([]discovery.Traced, error) {
	var c chatty
	err := db.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		c.conn = conn
		return c.walk(ctx, object, beginning, forever, 0)
	})
	slices.SortStableFunc(c.found, func(a, b discovery.Traced) int {
		return cmp.Compare(a.Time, b.Time)
	})
	return c.found, err
}

// walk finds the events of an object, and of what it is in, in a half-open window.
func (c *chatty) walk(ctx context.Context, object string, since, until time.Time, level int) error {
	events, err := c.events(ctx, object, since, until)
	if err != nil {
		return err
	}
	for i, e := range events {
		as := e.parent != nil && *e.parent == object
		if level == 0 || !as {
			c.found = append(c.found, e.traced(level))
		}
		if as || e.action != "ADD" || e.parent == nil {
			continue
		}
		left := until
		for _, later := range events[i+1:] {
			if later.action == "DELETE" && later.parent != nil && *later.parent == *e.parent {
				left = later.at
				break
			}
		}
		if err := c.walk(ctx, *e.parent, e.at, left, level+1); err != nil {
			return err
		}
	}
	return nil
}

// events are the records of an object, each read by a query of its own.
func (c *chatty) events(ctx context.Context, object string, since, until time.Time) ([]row, error) {
	type entry struct {
		Type string
		ID   int64
		At   time.Time
	}
	rows, err := c.conn.Query(ctx, recordsOf, object, since, until)
	if err != nil {
		return nil, err
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[entry])
	if err != nil {
		return nil, err
	}
	events := make([]row, len(entries))
	for i, e := range entries {
		if err := c.conn.QueryRow(ctx, recordOf[e.Type], e.ID).Scan(events[i].columns()...); err != nil {
			return nil, err
		}
	}
	return events, nil
}

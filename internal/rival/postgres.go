// Package rival is the Discovery Service on a relational database: the two modes that
// Zhao et al., "A Scalable and High-efficiency Discovery Service In IoT Using a New Storage
// Schema" (COMPSAC 2013), compare theirs with (Fig. 6 and Table I), on PostgreSQL.
//
// It holds what experiments publish: object and aggregation events with UUIDs as IDs, of
// histories without gaps. Its traces then are those of package discovery.
package rival

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DB is a database that has the tables of both modes, in a schema that is dropped by
// Close. Its methods may be called by many clients at a time, but for Load.
type DB struct {
	pool   *pgxpool.Pool
	schema string
}

// spare connections are left to others: PostgreSQL keeps 3 for administrators.
const spare = 5

// Open makes the tables. Clients beyond the connections that the server allows, or beyond
// clients, wait for one.
func Open(ctx context.Context, url string, clients int) (*DB, error) {
	allowed, err := connections(ctx, url)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	db := &DB{}
	config.MaxConns = int32(max(min(clients, allowed-spare), 1))
	config.MinConns = config.MaxConns // connecting is no part of a query
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, db.session())
		return err
	}
	if err := db.createSchema(ctx, config.ConnConfig); err != nil {
		return nil, err
	}
	db.pool, err = pgxpool.NewWithConfig(ctx, config)
	return db, err
}

// session prepares a connection. Compiling costs more than these queries, and so does
// planning them anew each time: both would be PostgreSQL's loss.
func (db *DB) session() string {
	return "SET search_path = " + db.schema + "; SET synchronous_commit = on; SET jit = off; " +
		"SET plan_cache_mode = force_generic_plan"
}

func connections(ctx context.Context, url string) (int, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	var text string
	if err := conn.QueryRow(ctx, "SHOW max_connections").Scan(&text); err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// createSchema finds a name that is free, and makes the tables there.
func (db *DB) createSchema(ctx context.Context, config *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for i := 1; ; i++ {
		db.schema = fmt.Sprintf("crawld_discovery_%d", i)
		_, err := conn.Exec(ctx, "CREATE SCHEMA "+db.schema)
		// duplicate_schema; unique_violation where another makes it at this moment
		if code := codeOf(err); code == "42P06" || code == "23505" {
			continue
		}
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, "SET search_path = "+db.schema+";"+tables)
		if err != nil {
			err = errors.Join(err, db.drop(ctx, conn))
		}
		return err
	}
}

// codeOf is the SQLSTATE of an error, "" if it has none.
func codeOf(err error) string {
	var fault *pgconn.PgError
	if errors.As(err, &fault) {
		return fault.Code
	}
	return ""
}

func (db *DB) drop(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, "DROP SCHEMA "+db.schema+" CASCADE")
	return err
}

// Close drops the tables, also where ctx is cancelled.
func (db *DB) Close(ctx context.Context) error {
	config := db.pool.Config().ConnConfig
	db.pool.Close()
	ctx = context.WithoutCancel(ctx)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	return errors.Join(db.drop(ctx, conn), conn.Close(ctx))
}

// Settle brings the tables into the state in which autovacuum keeps those of a server that
// runs for long: statistics and visibility maps up to date.
func (db *DB) Settle(ctx context.Context) error {
	for _, table := range slices.Concat(mode1, mode2) {
		if _, err := db.pool.Exec(ctx, "VACUUM (ANALYZE) "+table); err != nil {
			return err
		}
	}
	_, err := db.pool.Exec(ctx, "CHECKPOINT")
	if codeOf(err) == "42501" { // insufficient_privilege
		return nil // a checkpoint will come during what is measured
	}
	return err
}

var (
	mode1 = strings.Fields("information_service basic_record agg_record trans_record " +
		"child_list_basic child_list_agg parent_list_trans child_list_trans")
	// mode2 are the tables that Mode 2 has beside those of Mode 1.
	mode2 = []string{"oid_index"}
)

// SizeMode1 and SizeMode2 are bytes on disk, indexes included, the log not.
func (db *DB) SizeMode1(ctx context.Context) (int64, error) { return db.size(ctx, mode1) }

// SizeMode2 is SizeMode1 and the index of OIDs.
func (db *DB) SizeMode2(ctx context.Context) (int64, error) {
	return db.size(ctx, slices.Concat(mode1, mode2))
}

func (db *DB) size(ctx context.Context, names []string) (bytes int64, err error) {
	err = db.pool.QueryRow(ctx, `SELECT sum(pg_total_relation_size(name::regclass))::bigint
		FROM unnest($1::text[]) name`, names).Scan(&bytes)
	return bytes, err
}

// Settings is one sentence on the server and what its speed depends on.
func (db *DB) Settings(ctx context.Context) (string, error) {
	names := []string{"server_version", "shared_buffers", "fsync", "synchronous_commit",
		"wal_sync_method", "max_connections"}
	said := make([]string, len(names))
	for i, name := range names {
		if err := db.pool.QueryRow(ctx, "SHOW "+name).Scan(&said[i]); err != nil {
			return "", err
		}
		said[i] = name + " " + said[i]
	}
	return fmt.Sprintf("PostgreSQL: %s; %d connections.", strings.Join(said, ", "),
		db.pool.Config().MaxConns), nil
}

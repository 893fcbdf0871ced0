package postgres

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// makeIndex creates the vector index if it is missing, while rows are being written. It drops an
// unfinished index and creates it again. If there are several sinks, only one creates the index.
func (s *Sink) makeIndex() {
	if err := s.index(s.background); err != nil && s.background.Err() == nil {
		s.options.Logger.Warn("the index of a sink was not created: the sink tries again when it starts", "table", s.options.Table, "reason", err)
	}
}

func (s *Sink) index(ctx context.Context) error {
	conn, err := pgconn.ConnectConfig(ctx, s.server)
	if err != nil {
		return said(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	name := s.indexName()
	lock := fnv.New64a()
	lock.Write([]byte(name))
	locked, err := ask(ctx, conn, "SELECT pg_try_advisory_lock($1::bigint)", strconv.FormatInt(int64(lock.Sum64()), 10))
	if err != nil || locked[0][0] != "t" {
		return err
	}
	valid, err := ask(ctx, conn, `SELECT i.indisvalid, c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam
		JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] WHERE i.indrelid = to_regclass($1) AND a.attname = $2 AND m.amname = 'hnsw'`,
		s.table(), s.options.Vector.Column)
	if err != nil {
		return err
	}
	for _, r := range valid {
		if r[0] == "t" {
			return nil
		}
		if err := run(ctx, conn, "DROP INDEX CONCURRENTLY IF EXISTS "+s.schemaOf()+quote(r[1])); err != nil {
			return said(err)
		}
	}
	sql := fmt.Sprintf("CREATE INDEX CONCURRENTLY %s ON %s USING hnsw (%s %s)", quote(name), s.table(), quote(s.options.Vector.Column), distances[s.options.Vector.Distance])
	if err := run(ctx, conn, sql); err != nil {
		return fmt.Errorf("make index %s: %w", name, err)
	}
	return nil
}

// indexName returns the name of the index, at most 63 bytes long.
func (s *Sink) indexName() string {
	name := strings.ReplaceAll(s.options.Table, ".", "_") + "_" + s.options.Vector.Column
	return name[:min(len(name), 50)] + "_hnsw"
}

func (s *Sink) schemaOf() string {
	if schema, _, ok := strings.Cut(s.options.Table, "."); ok {
		return quote(schema) + "."
	}
	return ""
}

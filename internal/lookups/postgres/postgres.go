// Package postgres finds rows in PostgreSQL, with one query for many keys.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/internal/sys/postgres"
	"github.com/afterbay/afterbay/lookup"
)

// Options configures a Source.
type Options struct {
	URL string // postgres://host/database, with TLS unless the host is loopback or the URL sets sslmode; the password may be in it, or in PGPASSWORD

	// Query takes the keys as $1, an array of text, and returns the key and row of each key that it
	// finds: select id, to_jsonb(users) from users where id = any($1).
	Query string
}

// Source is a lookup.Source in PostgreSQL.
type Source struct {
	pool  *pgxpool.Pool
	query string
}

var _ lookup.Source = (*Source)(nil)

// New returns a source. It sends no query yet.
func New(ctx context.Context, o Options) (*Source, error) {
	config, err := parse(o.URL)
	switch {
	case err != nil:
		return nil, err
	case !strings.Contains(o.Query, "$1"):
		return nil, errors.New("look up in PostgreSQL: the query does not use $1, the keys")
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("look up in PostgreSQL: %w", err)
	}
	return &Source{pool, o.Query}, nil
}

func parse(url string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil { // the error may contain a password
		return nil, errors.New("look up in PostgreSQL: the URL is not as postgres://host/database")
	}
	postgres.RequireTLS(&config.ConnConfig.Config, url)
	return config, nil
}

// Close closes the connections.
func (s *Source) Close() { s.pool.Close() }

// Rows implements lookup.Source.
func (s *Source) Rows(ctx context.Context, keys []string) ([][]byte, error) {
	found, err := s.pool.Query(ctx, s.query, keys)
	if err != nil {
		return nil, explain(err)
	}
	byKey := make(map[string][]byte, len(keys))
	var key string
	var row []byte
	if _, err = pgx.ForEachRow(found, []any{&key, &row}, func() error {
		byKey[key] = append([]byte(nil), row...)
		return nil
	}); err != nil {
		return nil, explain(err)
	}
	rows := make([][]byte, len(keys))
	for i, key := range keys {
		rows[i] = byKey[key]
	}
	return rows, nil
}

// explain assigns the blame for an error by its SQLSTATE class. Data errors, such as a text for a
// numeric column, blame the keys. Errors that the query raises, or internal errors of the server,
// may be caused by the keys. All other errors blame the server or the query, whatever the keys are.
func explain(err error) error {
	if calling.Refused(err) {
		return err
	}
	e := &lookup.Error{Err: fmt.Errorf("ask PostgreSQL: %w", postgres.Explain(err))}
	var said *pgconn.PgError
	if errors.As(err, &said) && len(said.Code) == 5 {
		switch said.Code[:2] {
		case "22":
			e.Refused = true
		case "21", "54", "P0", "XX":
			e.Failed = true
		}
	}
	return e
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/afterbay/afterbay/lookup"
)

const queryHint = "correct the query: it takes the keys as $1, an array of text, and returns key and row"

// Check runs the query without keys in a read-only transaction. It returns an error if the query,
// or the columns that it returns, are wrong.
func (s *Source) Check(ctx context.Context) error {
	columns, err := s.describe(ctx)
	var said *pgconn.PgError
	switch {
	case errors.As(err, &said) && said.Code == "25006": // the query writes, so only events may run it
		return nil
	case errors.As(err, &said):
		return &lookup.Mistake{Field: option(said), Err: explain(err), Hint: hint(said)}
	case errors.As(err, new(*pgconn.ConnectError)), ctx.Err() != nil:
		return &lookup.Mistake{Field: "url", Err: explain(err), Hint: "start PostgreSQL there, or correct the URL"}
	case err != nil: // the type of $1 does not accept the keys
		return &lookup.Mistake{Field: "query", Err: explain(err), Hint: queryHint}
	}
	if err := fits(columns); err != nil {
		return &lookup.Mistake{
			Field: "query", Err: err,
			Hint: "return key and row, an object: select id::text, to_jsonb(t) from t where id = any($1)",
		}
	}
	return nil
}

// column is a column that the query returns.
type column struct {
	name string
	kind uint32 // object id of its type
}

func (s *Source) describe(ctx context.Context) (columns []column, err error) {
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		found, err := tx.Query(ctx, s.query, []string{})
		if err != nil {
			return err
		}
		defer found.Close()
		for _, f := range found.FieldDescriptions() {
			columns = append(columns, column{f.Name, f.DataTypeOID})
		}
		for found.Next() { // reads all rows, to see errors after the first ones
		}
		return found.Err()
	})
	return columns, err
}

// fits returns an error unless the columns are a key and a row.
func fits(columns []column) error {
	if len(columns) != 2 {
		var names []string
		for _, c := range columns {
			names = append(names, c.name)
		}
		return fmt.Errorf("the query returns %d columns (%s), not the two of key and row", len(columns), strings.Join(names, ", "))
	}
	row := columns[1]
	if !slices.Contains([]uint32{pgtype.JSONOID, pgtype.JSONBOID, pgtype.TextOID, pgtype.VarcharOID, pgtype.ByteaOID}, row.kind) {
		kind := fmt.Sprintf("the type of id %d", row.kind)
		if known, ok := pgtype.NewMap().TypeForOID(row.kind); ok {
			kind = known.Name
		}
		return fmt.Errorf("the query's second column, %s, is of %s: the row is an object", row.name, kind)
	}
	return nil
}

// option returns the field that caused an error, by the error's class: url for connections, users
// and databases, otherwise query.
func option(said *pgconn.PgError) string {
	if slices.Contains([]string{"08", "28", "3D", "53", "57"}, said.Code[:2]) {
		return "url"
	}
	return "query"
}

func hint(said *pgconn.PgError) string {
	switch {
	case said.Hint != "" && said.Code != "42883":
		return said.Hint
	case said.Code == "42P01":
		return "create it, or name it with its schema"
	case said.Code == "42703":
		return "add the column, or correct its name"
	case said.Code == "42883":
		return "cast the keys, which are text: id = any($1::bigint[])"
	case said.Code == "42501":
		return "grant the user of the URL what the query reads: GRANT SELECT ON ... TO ..."
	case option(said) == "url":
		return "correct host, database, user and password of the URL"
	}
	return queryHint
}

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

// Check runs the query for no keys, in a transaction that can only read, and says
// what is wrong with it or with what it returns.
func (s *Source) Check(ctx context.Context) error {
	columns, err := s.describe(ctx)
	var said *pgconn.PgError
	switch {
	case errors.As(err, &said) && said.Code == "25006": // it writes, so only events run it
		return nil
	case errors.As(err, &said):
		return &lookup.Mistake{Field: option(said), Err: explain(err), Hint: hint(said)}
	case errors.As(err, new(*pgconn.ConnectError)), ctx.Err() != nil:
		return &lookup.Mistake{Field: "url", Err: explain(err), Hint: "start PostgreSQL there, or correct the URL"}
	case err != nil: // the keys do not go with the type of $1
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

// column is one that a query returns.
type column struct {
	name string
	kind uint32 // its object id
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
		for found.Next() { // to hear what goes wrong behind the first rows
		}
		return found.Err()
	})
	return columns, err
}

// fits says whether columns are key and row.
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

// option is what an error is about, by its class: who asks and where, or what.
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

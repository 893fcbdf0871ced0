package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/afterbay/afterbay/internal/event/value"
)

// form is the format of a column's values on the connection.
type form uint8

const (
	asIs form = iota
	asVector
	asArray
	asJSON
)

func appendFloat(dst []byte, v float32) []byte {
	return strconv.AppendFloat(dst, float64(v), 'g', -1, 32)
}

// layout describes the existing table and the statements that write to it.
type layout struct {
	forms    []form
	elements []uint32 // object id of the type of each column's values
	upsert   string   // takes an array for each column and for each of the sink's own columns
	remove   string   // takes arrays of keys and of the sink's own columns
	foreign  string   // takes arrays of keys and sources, and returns the indexes of keys with a row from another source
}

// found is an existing column of the table.
type found struct {
	sql     string // SQL type
	notNull bool
	filled  bool // has a default
}

// fits returns the column types that can store a type, except pgvector types. New tables use the
// first one.
func fits(t value.Type) []string {
	switch t.Kind {
	case value.Bool:
		return []string{"boolean"}
	case value.Int:
		return []string{"bigint", "integer", "smallint", "numeric"}
	case value.Number:
		return []string{"double precision", "real", "numeric"}
	case value.Time:
		return []string{"timestamp with time zone"}
	case value.Bytes:
		return []string{"bytea"}
	case value.Vector:
		return []string{"real[]", "double precision[]", "jsonb"}
	case value.List | value.String:
		return []string{"text[]", "jsonb"}
	case value.List | value.Raw:
		return []string{"jsonb", "jsonb[]"}
	}
	switch of := t.Kind.Element(); {
	case t.Kind.IsMap():
		return []string{"jsonb"}
	case t.Kind.IsList():
		return []string{fits(value.Type{Kind: of})[0] + "[]", "jsonb"}
	}
	return []string{"text", "character varying", "character", "uuid", "jsonb", "json"}
}

// wanted returns the SQL types that column i may have.
func (s *Sink) wanted(i int) []string {
	if t := s.slots[i].Type; s.isVector(i) {
		return []string{fmt.Sprintf("vector(%d)", t.Size), "vector"}
	}
	return fits(s.slots[i].Type)
}

func (s *Sink) isVector(i int) bool {
	return s.options.Vector != nil && s.options.Columns[i].Column == s.options.Vector.Column
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

func (s *Sink) table() string { return pgx.Identifier(strings.Split(s.options.Table, ".")).Sanitize() }

// prepareTable creates the table if it is missing, checks it, and returns its layout.
func (s *Sink) prepareTable(ctx context.Context, conn *pgconn.PgConn) (*layout, error) {
	if s.options.Vector != nil {
		if err := s.makeExtension(ctx, conn); err != nil {
			return nil, err
		}
	}
	if s.options.ExactlyOnce {
		if err := run(ctx, conn, positionsTable); err != nil {
			return nil, fmt.Errorf("make the table afterbay_positions: %w", err)
		}
	}
	columns, err := s.columns(ctx, conn)
	if err != nil {
		return nil, err
	}
	if columns == nil {
		if err := run(ctx, conn, s.definition()); err != nil {
			return nil, fmt.Errorf("make table %s: %w", s.options.Table, err)
		}
		if columns, err = s.columns(ctx, conn); err != nil {
			return nil, err
		}
	}
	if err := s.compare(ctx, conn, columns); err != nil {
		return nil, err
	}
	l, err := s.layoutOf(ctx, conn, columns)
	if err == nil && s.options.Vector != nil && s.options.Vector.Index != "" {
		s.indexing.Go(s.makeIndex)
	}
	return l, err
}

// Check returns one error for each thing in the database that the sink cannot use. It creates and
// changes nothing: a missing table is not an error, because the sink creates it when it starts.
func (s *Sink) Check(ctx context.Context) []error {
	conn, err := pgconn.ConnectConfig(ctx, s.server)
	if err != nil {
		return []error{said(err)}
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if s.options.Vector != nil {
		there, err := ask(ctx, conn, "SELECT to_regtype('vector') IS NOT NULL, EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector')")
		if err != nil {
			return []error{err}
		}
		if there[0][0] != "t" && there[0][1] != "t" {
			return []error{errors.New("the server has no extension vector: install pgvector on it")}
		}
	}
	columns, err := s.columns(ctx, conn)
	if err != nil {
		return []error{err}
	}
	if columns != nil {
		err = s.compare(ctx, conn, columns)
	}
	var list interface{ Unwrap() []error }
	if errors.As(err, &list) {
		return list.Unwrap()
	}
	if err != nil {
		return []error{err}
	}
	return nil
}

// makeExtension creates the extension pgvector if it is missing.
func (s *Sink) makeExtension(ctx context.Context, conn *pgconn.PgConn) error {
	there, err := ask(ctx, conn, "SELECT to_regtype('vector') IS NOT NULL")
	if err != nil || there[0][0] == "t" {
		return err
	}
	if err := run(ctx, conn, "CREATE EXTENSION IF NOT EXISTS vector"); err != nil {
		return fmt.Errorf("the database has no extension vector: install pgvector on the server, then run CREATE EXTENSION vector as a user with that right: %w", err)
	}
	return nil
}

// definition returns the statement that creates the table.
func (s *Sink) definition() string {
	var list []string
	for i, c := range s.options.Columns {
		text := quote(c.Column) + " " + s.wanted(i)[0]
		switch {
		case i == s.key:
			text += " PRIMARY KEY"
		case !c.Type.Optional:
			text += " NOT NULL"
		}
		list = append(list, text)
	}
	for _, name := range ownColumns {
		list = append(list, quote(name)+" "+ownType(name))
	}
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (%s)", s.table(), strings.Join(list, ", "))
}

func ownType(name string) string {
	if name == sourceColumn {
		return "text"
	}
	return "bigint"
}

// columns returns the columns of the table; nil if there is no table.
func (s *Sink) columns(ctx context.Context, conn *pgconn.PgConn) (map[string]found, error) {
	there, err := ask(ctx, conn, "SELECT to_regclass($1) IS NOT NULL", s.table())
	if err != nil || there[0][0] != "t" {
		return nil, err
	}
	rows, err := ask(ctx, conn, `SELECT attname, format_type(atttypid, atttypmod), attnotnull, atthasdef OR attidentity <> '' OR attgenerated <> ''
		FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped`, s.table())
	if err != nil {
		return nil, err
	}
	columns := map[string]found{}
	for _, r := range rows {
		columns[r[0]] = found{r[1], r[2] == "t", r[3] == "t"}
	}
	return columns, nil
}

// compare returns an error for each column that the sink cannot use. The error names the column,
// its state, the needed state, and the statement that corrects it.
func (s *Sink) compare(ctx context.Context, conn *pgconn.PgConn, columns map[string]found) error {
	var errs []error
	fail := func(column, format string, args ...any) {
		errs = append(errs, fmt.Errorf("table %s, column %s: %s", s.options.Table, column, fmt.Sprintf(format, args...)))
	}
	alter := "ALTER TABLE " + s.table() + " "
	for i, c := range s.options.Columns {
		want := s.wanted(i)
		switch is, ok := columns[c.Column]; {
		case !ok:
			fail(c.Column, "the column is missing, and %v is written to it: %sADD COLUMN %s %s", c.Type, alter, quote(c.Column), want[0])
		case !slices.Contains(want, bare(is.sql)) && !slices.Contains(want, is.sql):
			fail(c.Column, "is %s, and %v is written to it, which needs %s: %sALTER COLUMN %s TYPE %s USING %[5]s::%[6]s", is.sql, c.Type, want[0], alter, quote(c.Column), want[0])
		case is.notNull && c.Type.Optional:
			fail(c.Column, "is NOT NULL, and %v is written to it: %sALTER COLUMN %s DROP NOT NULL", c.Type, alter, quote(c.Column))
		}
	}
	for _, name := range ownColumns {
		if is, ok := columns[name]; !ok {
			fail(name, "the column is missing, and the sink keeps the event of a row there: %sADD COLUMN %s %s", alter, name, ownType(name))
		} else if is.sql != ownType(name) {
			fail(name, "is %s, and the sink needs %s: %sALTER COLUMN %s TYPE %[2]s USING %[4]s::%[2]s", is.sql, ownType(name), alter, name)
		}
	}
	for name, is := range columns {
		if is.notNull && !is.filled && !slices.Contains(ownColumns, name) && !slices.ContainsFunc(s.options.Columns, func(c Column) bool { return c.Column == name }) {
			fail(name, "is NOT NULL without a default, and nothing is written to it: %sALTER COLUMN %s DROP NOT NULL", alter, quote(name))
		}
	}
	if _, ok := columns[s.options.Key]; ok {
		unique, err := ask(ctx, conn, `SELECT count(*) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attname = $2
			WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum`, s.table(), s.options.Key)
		if err != nil {
			return err
		}
		if unique[0][0] == "0" {
			fail(s.options.Key, "is not unique, and rows are found by it: %sADD PRIMARY KEY (%s)", alter, quote(s.options.Key))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// bare returns a type without its length.
func bare(sql string) string {
	if open := strings.IndexByte(sql, '('); open > 0 && !strings.HasPrefix(sql, "vector") && strings.HasSuffix(sql, ")") {
		return sql[:open]
	}
	return sql
}

// layoutOf returns the layout of an existing table.
func (s *Sink) layoutOf(ctx context.Context, conn *pgconn.PgConn, columns map[string]found) (*layout, error) {
	l := &layout{}
	var takes, names, casts, sets []string
	add := func(name, sql, take string, element uint32, form form) {
		n := len(takes)
		takes = append(takes, fmt.Sprintf("unnest($%d::%s[]) AS c%d", n+1, take, n))
		names = append(names, quote(name))
		cast := fmt.Sprintf("u.c%d", n)
		if to := bare(sql); to != take {
			cast += "::" + to // without the length, because a cast to it would truncate long values
		}
		casts = append(casts, cast)
		if name != s.options.Key {
			sets = append(sets, fmt.Sprintf("%s = excluded.%[1]s", quote(name)))
		}
		l.elements, l.forms = append(l.elements, element), append(l.forms, form)
	}
	for i, c := range s.options.Columns {
		is := columns[c.Column].sql
		switch {
		case s.isVector(i):
			oids, err := ask(ctx, conn, "SELECT 'vector'::regtype::oid")
			if err != nil {
				return nil, err
			}
			element, _ := strconv.ParseUint(oids[0][0], 10, 32)
			add(c.Column, "vector", "vector", uint32(element), asVector)
		case structured(c.Type.Kind) && is == "jsonb":
			add(c.Column, is, "text", textType, asJSON)
		case structured(c.Type.Kind):
			add(c.Column, is, "text", textType, asArray)
		default:
			add(c.Column, is, fits(c.Type)[0], elementOf(c.Type.Kind), asIs)
		}
	}
	for _, name := range ownColumns {
		element := uint32(bigintType)
		if name == sourceColumn {
			element = textType
		}
		add(name, ownType(name), ownType(name), element, asIs)
	}
	// PostgreSQL does not copy arrays that are unnested side by side in a SELECT, but copies those
	// in a FROM.
	l.upsert = fmt.Sprintf("INSERT INTO %s AS t (%s) SELECT %s FROM (SELECT %s) AS u ON CONFLICT (%s) DO UPDATE SET %s WHERE %s",
		s.table(), strings.Join(names, ", "), strings.Join(casts, ", "), strings.Join(takes, ", "), quote(s.options.Key), strings.Join(sets, ", "), s.newer())
	keyType := fits(s.slots[s.key].Type)[0]
	l.foreign = fmt.Sprintf("SELECT u.i FROM unnest($1::%s[], $2::text[]) WITH ORDINALITY AS u(k, s, i) JOIN %s AS t ON t.%s = u.k::%s WHERE t.%s IS DISTINCT FROM u.s",
		keyType, s.table(), quote(s.options.Key), bare(columns[s.options.Key].sql), sourceColumn)
	l.remove = fmt.Sprintf(`DELETE FROM %[1]s AS t USING (SELECT unnest($1::%[2]s[]) AS k, unnest($2::text[]) AS s, unnest($3::bigint[]) AS g, unnest($4::bigint[]) AS o, unnest($5::bigint[]) AS r) AS u
		WHERE t.%[3]s = u.k::%[4]s AND (t.%[5]s IS NULL OR t.%[5]s = u.s AND (t.%[6]s, t.%[7]s, t.%[8]s) < (u.g, u.o, u.r))`,
		s.table(), keyType, quote(s.options.Key), bare(columns[s.options.Key].sql), sourceColumn, generationColumn, offsetColumn, recordColumn)
	return l, nil
}

// structured reports whether values of a kind are sent as the text of an array or of JSON.
func structured(kind value.Kind) bool { return kind == value.Vector || kind.IsList() || kind.IsMap() }

// newer returns the condition under which an existing row is overwritten.
func (s *Sink) newer() string {
	row := func(of string, names ...string) string {
		for i, name := range names {
			names[i] = of + "." + name
		}
		return "(" + strings.Join(names, ", ") + ")"
	}
	if s.version >= 0 {
		version := quote(s.options.Columns[s.version].Column)
		names := func() []string {
			return []string{version, generationColumn, sourceColumn + ` COLLATE "C"`, offsetColumn, recordColumn}
		}
		return fmt.Sprintf("t.%s IS NULL OR t.%s IS NULL OR %s < %s", sourceColumn, version, row("t", names()...), row("excluded", names()...))
	}
	names := func() []string { return []string{generationColumn, offsetColumn, recordColumn} }
	return fmt.Sprintf("t.%s IS NULL OR t.%[1]s = excluded.%[1]s AND %s < %s", sourceColumn, row("t", names()...), row("excluded", names()...))
}

// run runs statements without parameters.
func run(ctx context.Context, conn *pgconn.PgConn, sql string) error {
	_, err := conn.Exec(ctx, sql).ReadAll()
	return err
}

// ask returns the rows of a query in text format.
func ask(ctx context.Context, conn *pgconn.PgConn, sql string, parameters ...string) (rows [][]string, err error) {
	var values [][]byte
	for _, p := range parameters {
		values = append(values, []byte(p))
	}
	result := conn.ExecParams(ctx, sql, values, nil, nil, nil).Read()
	for _, r := range result.Rows {
		var row []string
		for _, v := range r {
			row = append(row, string(v))
		}
		rows = append(rows, row)
	}
	if result.Err != nil {
		return nil, said(result.Err)
	}
	return rows, nil
}

package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/lookup"
)

// NearestOptions configures a Nearest: where the documents are, and how to find those with pgvector
// vectors nearest to the vector of an event.
type NearestOptions struct {
	URL      string   // as in Options
	Table    string   // exact name, with or without a schema: documents, public.documents
	Column   string   // column of the vectors, with type vector or halfvec
	Size     int      // dimension of the vectors
	Distance string   // cosine, l2 or inner_product; "" is cosine
	Limit    int      // maximum number of documents, 1 to 100
	Where    []string // columns that must equal the texts of a key, in order
	Columns  []Column // columns of the row
	Join     string   // separator between the texts of documents
}

// Column is a column of the row that is made of the found documents.
type Column struct {
	Name string
	Text bool // the texts of all documents, nearest first, joined; otherwise the value of the nearest document
	List bool // the texts as a list; a missing text is ""
}

// Distance is the name of a computed column: the distance of the nearest document; smaller is
// nearer.
const Distance = "distance"

const (
	limitMax = 100
	rowMax   = 1 << 20 // maximum bytes of a row's texts; documents that are farther are left out
)

var operators = map[string]string{"": "<=>", "cosine": "<=>", "l2": "<->", "inner_product": "<#>"}

// Validate returns all errors in the options, joined.
func (o NearestOptions) Validate() error {
	var errs []error
	if o.Table == "" || o.Column == "" {
		errs = append(errs, errors.New("there is no table and column of vectors"))
	}
	if operators[o.Distance] == "" {
		errs = append(errs, fmt.Errorf("distance %q: use cosine, l2 or inner_product", o.Distance))
	}
	if o.Limit < 1 || o.Limit > limitMax {
		errs = append(errs, fmt.Errorf("%d documents: use 1 to %d", o.Limit, limitMax))
	}
	if o.Size < 1 {
		errs = append(errs, fmt.Errorf("vectors of %d numbers", o.Size))
	}
	return errors.Join(errs...)
}

// Nearest is a lookup.Source for the keys of lookup.Query. Its rows are made of the nearest
// documents. If the table does not match the options, no key is blamed; the source checks the table
// again at the next call.
type Nearest struct {
	pool    *pgxpool.Pool
	options NearestOptions
	query   atomic.Pointer[string] // nil until the table is checked
}

var _ lookup.Source = (*Nearest)(nil)

// NewNearest returns a source of documents. It sends no query yet.
func NewNearest(ctx context.Context, o NearestOptions) (*Nearest, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("look up in PostgreSQL: %w", err)
	}
	config, err := parse(o.URL)
	if err != nil {
		return nil, err
	}
	config.AfterConnect = searchOn
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("look up in PostgreSQL: %w", err)
	}
	return &Nearest{pool: pool, options: o}, nil
}

// searchOn enables iterative index scans. Without them, an index that finds documents excluded by
// Where would return too few documents. pgvector before 0.8 does not support them.
func searchOn(ctx context.Context, c *pgx.Conn) error {
	for _, set := range []string{"set hnsw.iterative_scan = strict_order", "set ivfflat.iterative_scan = relaxed_order"} {
		if _, err := c.Exec(ctx, set); err != nil && c.IsClosed() {
			return err
		}
	}
	return nil
}

// Close closes the connections.
func (s *Nearest) Close() { s.pool.Close() }

// Rows implements lookup.Source.
func (s *Nearest) Rows(ctx context.Context, keys []string) ([][]byte, error) {
	query := s.query.Load()
	if query == nil {
		made, err := s.prepare(ctx)
		if err != nil {
			return nil, err
		}
		query = &made
		s.query.Store(query)
	}
	rows, err := s.find(ctx, *query, keys)
	if err != nil {
		s.query.Store(nil) // the table may have changed
		if !calling.Refused(err) {
			return nil, err
		}
		if _, wrong := s.prepare(ctx); wrong != nil {
			return nil, wrong
		}
	}
	return rows, err
}

// Check returns an error if the table or a column is missing or has the wrong type.
func (s *Nearest) Check(ctx context.Context) error {
	_, err := s.prepare(ctx)
	return err
}

// prepare checks the table and returns the query.
func (s *Nearest) prepare(ctx context.Context) (string, error) {
	o := &s.options
	table := pgx.Identifier(strings.Split(o.Table, ".")).Sanitize()
	found, err := s.pool.Query(ctx, `select attname, format_type(atttypid, null), atttypmod from pg_attribute
		where attrelid = to_regclass($1) and attnum > 0 and not attisdropped order by attnum`, table)
	if err != nil {
		return "", explain(err)
	}
	types := map[string]string{}
	var names []string
	var name, kind string
	var modifier int
	size := -1 // any size
	if _, err := pgx.ForEachRow(found, []any{&name, &kind, &modifier}, func() error {
		types[name], names = kind, append(names, name)
		if name == o.Column {
			size = modifier
		}
		return nil
	}); err != nil {
		return "", explain(err)
	}
	if len(names) == 0 {
		return "", wrong("PostgreSQL has no table %s: create it, or name it with its schema", o.Table)
	}
	wanted := append([]string{o.Column}, o.Where...)
	for _, c := range o.Columns {
		if c.Name != Distance {
			wanted = append(wanted, c.Name)
		}
	}
	for _, name := range wanted {
		if types[name] == "" {
			return "", wrong("table %s has no column %s: it has %s", o.Table, name, strings.Join(names, ", "))
		}
	}
	switch kind := types[o.Column]; {
	case kind != "vector" && kind != "halfvec" && !strings.HasSuffix(kind, ".vector") && !strings.HasSuffix(kind, ".halfvec"):
		return "", wrong("column %s of table %s is of type %s: vectors are of vector or halfvec, of pgvector", o.Column, o.Table, kind)
	case size > 0 && size != o.Size:
		return "", wrong("column %s of table %s is of vectors of %d numbers, those of events have %d: they are of another model", o.Column, o.Table, size, o.Size)
	}
	return s.sql(table, types), nil
}

func wrong(format string, args ...any) error {
	return &lookup.Error{Err: fmt.Errorf(format, args...)}
}

// sql returns the query. Its parameters are arrays of text: $1 has the vectors, the others have the
// values of the Where columns. It returns the index of the key, the distance and the columns.
func (s *Nearest) sql(table string, types map[string]string) string {
	o := &s.options
	quote := func(name string) string { return "t." + pgx.Identifier{name}.Sanitize() }
	arrays, names, where := "$1::text[]", "v", ""
	for i, name := range o.Where {
		arrays += fmt.Sprintf(", $%d::text[]", i+2)
		names += fmt.Sprintf(", w%d", i)
		where += fmt.Sprintf(" and %s = q.w%d::%s", quote(name), i, types[name])
	}
	read := ""
	for _, c := range o.Columns {
		if c.Name != Distance {
			read += ", to_jsonb(" + quote(c.Name) + ")"
		}
	}
	distance := fmt.Sprintf("%s %s q.v::%s", quote(o.Column), operators[o.Distance], types[o.Column])
	return fmt.Sprintf(`select q.place - 1, n.* from unnest(%s) with ordinality q(%s, place) cross join lateral (
		select %s%s from %s t where %s is not null%s order by %s limit %d) n order by 1, 2`, arrays, names, distance, read, table, quote(o.Column), where, distance, o.Limit)
}

// find queries the documents of keys.
func (s *Nearest) find(ctx context.Context, query string, keys []string) ([][]byte, error) {
	arrays := make([][]string, 1+len(s.options.Where))
	for _, key := range keys {
		asked, err := lookup.ParseQuery(key)
		if err == nil && len(asked) != len(arrays) {
			err = fmt.Errorf("%d values of columns, not %d", len(asked)-1, len(s.options.Where))
		}
		if err != nil {
			return nil, &lookup.Error{Refused: true, Err: err}
		}
		for i := range arrays {
			arrays[i] = append(arrays[i], asked[i])
		}
	}
	var arguments []any
	for _, array := range arrays {
		arguments = append(arguments, array)
	}
	found, err := s.pool.Query(ctx, query, arguments...)
	if err != nil {
		return nil, explain(err)
	}
	made := make([]document, len(keys))
	var place int
	var distance float64
	into, columns := []any{&place, &distance}, []*[]byte(nil)
	for _, c := range s.options.Columns {
		if c.Name != Distance {
			columns = append(columns, new([]byte))
			into = append(into, columns[len(columns)-1])
		}
	}
	if _, err := pgx.ForEachRow(found, into, func() error {
		if math.IsNaN(distance) { // a vector of zeros has no distance
			return nil
		}
		return made[place].add(s.options, distance, columns)
	}); err != nil {
		return nil, explain(err)
	}
	rows := make([][]byte, len(keys))
	for i := range made {
		rows[i] = made[i].row(s.options)
	}
	return rows, nil
}

// document collects the documents found for one key.
type document struct {
	found    int
	distance float64
	values   []json.RawMessage // values of the columns; nil for texts
	texts    [][]string
	bytes    int
	full     bool
}

// add adds a document. Documents come nearest first.
func (d *document) add(o NearestOptions, distance float64, columns []*[]byte) error {
	bytes := d.bytes
	for _, value := range columns {
		bytes += len(*value)
	}
	if d.full = d.full || bytes > rowMax; d.full {
		if d.found == 0 {
			return &lookup.Error{Refused: true, Err: fmt.Errorf("the nearest document has %d bytes, at most %d are read: keep documents in smaller pieces", bytes, rowMax)}
		}
		return nil
	}
	d.bytes = bytes
	if d.found++; d.found == 1 {
		d.distance, d.values, d.texts = distance, make([]json.RawMessage, len(columns)), make([][]string, len(columns))
	}
	at := 0
	for _, c := range o.Columns {
		if c.Name == Distance {
			continue
		}
		switch value := *columns[at]; {
		case value == nil && !c.List:
		case c.Text || c.List:
			text := string(value)
			if text != "" && text[0] == '"' {
				if err := json.Unmarshal(value, &text); err != nil {
					return err
				}
			}
			d.texts[at] = append(d.texts[at], text)
		case d.found == 1:
			d.values[at] = slices.Clone(value)
		}
		at++
	}
	return nil
}

// row returns the row as a JSON object; nil if no document was found.
func (d *document) row(o NearestOptions) []byte {
	if d.found == 0 {
		return nil
	}
	object, at := map[string]any{}, 0
	for _, c := range o.Columns {
		if c.Name == Distance {
			object[c.Name] = d.distance
			continue
		}
		switch texts := d.texts[at]; {
		case c.List:
			object[c.Name] = texts
		case c.Text && texts != nil:
			object[c.Name] = strings.Join(texts, o.Join)
		default:
			object[c.Name] = d.values[at]
		}
		at++
	}
	row, err := json.Marshal(object)
	if err != nil {
		panic("postgres: a row cannot be encoded: " + err.Error()) // plain data can always be encoded
	}
	return row
}

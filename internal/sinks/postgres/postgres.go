// Package postgres writes records as rows of a PostgreSQL table. Each key has one row with the
// content of its newest event. This holds however often, and by however many sinks, a record is
// written.
//
// In addition to the columns of the records, a row has four columns that identify its event
// (sink.Version): afterbay_source, afterbay_generation, afterbay_offset and afterbay_record. If the
// version is computed, there is a fifth, afterbay_version. Only a newer event overwrites a row.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/sinks/row"
	"github.com/afterbay/afterbay/internal/sys/postgres"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// Options configures a Sink. URL, Table, Key and Columns are required.
type Options struct {
	URL         string       // postgres://user@host/database, with TLS unless the host is loopback or the URL sets sslmode; the password may be in it, in PGPASSWORD or in a file that PGPASSFILE names
	Table       string       // its name, or schema.name; the sink creates a missing table
	Columns     []Column     // the columns to write
	Key         string       // the column that identifies rows, unique in the table
	Vector      *Vector      // nil if no column has a pgvector type
	Version     *row.Version // decides which of two rows of a key from different sources is newer; nil refuses the later one
	ExactlyOnce bool         // stores positions in the table afterbay_positions, in the same transactions as the rows
	Deletes     bool         // a record without a value deletes the row of its key
	Connections int          // rows are distributed over them by key, up to 64; 0 is 4
	Group       string       // consumer group of the sink, part of the key of its positions

	Logger *slog.Logger // nil discards
}

// Column maps a field of the records to a column.
type Column struct {
	Name   string // name of the field
	Column string
	Type   value.Type
}

// DefaultConnections is the default of Options.Connections.
const DefaultConnections = 4

const connectionsMax = 64

var distances = map[string]string{"": "vector_cosine_ops", "cosine": "vector_cosine_ops", "l2": "vector_l2_ops", "inner_product": "vector_ip_ops"}

// Columns that the sink adds.
const (
	sourceColumn     = "afterbay_source"
	generationColumn = "afterbay_generation"
	offsetColumn     = "afterbay_offset"
	recordColumn     = "afterbay_record"
	versionColumn    = "afterbay_version" // if the version is computed
)

var ownColumns = []string{sourceColumn, generationColumn, offsetColumn, recordColumn}

// Validate returns all errors in the options, joined.
func (o Options) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, err := pgconn.ParseConfig(o.URL); err != nil || !strings.HasPrefix(o.URL, "postgres") {
		fail("the URL is not as postgres://host/database") // the URL may contain a password
	}
	if parts := strings.Split(o.Table, "."); len(parts) > 2 || slices.Contains(parts, "") {
		fail("%q is not the name of a table: use name or schema.name", o.Table)
	}
	at := func(column string) int {
		return slices.IndexFunc(o.Columns, func(c Column) bool { return c.Column == column })
	}
	for i, c := range o.Columns {
		switch {
		case c.Column == "" || strings.ContainsRune(c.Column, 0) || len(c.Column) > 63:
			fail("%q is not the name of a column", c.Column)
		case c.Column == versionColumn || slices.Contains(ownColumns, c.Column):
			fail("the column %s is the sink's own", c.Column)
		case at(c.Column) < i:
			fail("two fields go to the column %s", c.Column)
		}
	}
	switch i := at(o.Key); {
	case i < 0:
		fail("key: no field goes to a column %q: there are %s", o.Key, o.names())
	case o.Columns[i].Type.Optional || o.Columns[i].Type.Kind != value.String && o.Columns[i].Type.Kind != value.Int:
		fail("key: %q is of type %v: a key is a string or int that is always there", o.Key, o.Columns[i].Type)
	}
	if v := o.Vector; v != nil {
		switch i := at(v.Column); {
		case i < 0:
			fail("vector: no field goes to a column %q: there are %s", v.Column, o.names())
		case o.Columns[i].Type.Kind != value.Vector:
			fail("vector: %q is of type %v: a vector is of a type as number[384]", v.Column, o.Columns[i].Type)
		}
		if v.Index != "" && v.Index != "hnsw" {
			fail("vector: index %q: there is hnsw", v.Index)
		}
		if distances[v.Distance] == "" {
			fail("vector: distance %q: use cosine, l2 or inner_product", v.Distance)
		}
	}
	if o.Connections < 0 || o.Connections > connectionsMax {
		fail("%d connections: use 1 to %d", o.Connections, connectionsMax)
	}
	return errors.Join(errs...)
}

func (o Options) names() string {
	var names []string
	for _, c := range o.Columns {
		names = append(names, c.Column)
	}
	return strings.Join(names, ", ")
}

// Sink writes rows. It is safe for concurrent use. Create one with New.
//
// Rows are distributed over connections by a hash of their key, so that rows of one key are written
// in order. The database may refuse part of a batch, such as a text that is too long for its
// column. The sink finds that part by halving the batch.
type Sink struct {
	options Options // includes the column of a computed version
	server  *pgconn.Config
	reader  *row.Reader
	slots   []value.Slot // slots of the columns
	key     int          // index of the key column
	version int          // index of the version column; -1 if there is no version
	shards  []*shard

	checking chan struct{} // holds a token; take it to check the table
	layout   *layout       // nil before the first check, and after the table changed

	background context.Context // context of index creation
	cancel     context.CancelFunc
	indexing   sync.WaitGroup
}

var _ sink.Writer = (*Sink)(nil)

// New returns a sink. It opens no connection.
func New(o Options) (*Sink, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	server, err := pgconn.ParseConfig(o.URL)
	if err != nil {
		return nil, errors.New("the URL is not as postgres://host/database")
	}
	postgres.RequireTLS(server, o.URL)
	if server.RuntimeParams["application_name"] == "" {
		server.RuntimeParams["application_name"] = "afterbay"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	var fields []row.Field
	for _, c := range o.Columns {
		fields = append(fields, row.Field{Name: c.Name, Type: c.Type})
	}
	reader, err := row.NewReader(fields, o.Version)
	if err != nil {
		return nil, err
	}
	if n := len(fields); reader.Version == n {
		o.Columns = append(slices.Clone(o.Columns), Column{Column: versionColumn, Type: reader.Slots[n].Type})
	}
	s := &Sink{options: o, server: server, reader: reader, slots: reader.Slots, version: reader.Version, checking: make(chan struct{}, 1)}
	s.checking <- struct{}{}
	s.key = slices.IndexFunc(o.Columns, func(c Column) bool { return c.Column == o.Key })
	for range cmp.Or(o.Connections, DefaultConnections) {
		s.shards = append(s.shards, newShard())
	}
	s.background, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Close closes the connections.
func (s *Sink) Close() {
	s.cancel()
	s.indexing.Wait()
	for _, sh := range s.shards {
		sh.drop()
	}
}

// Claim implements sink.Writer.
func (s *Sink) Claim(ctx context.Context, p stream.Partition, next stream.Offset) (sink.Claim, error) {
	if _, err := s.ready(ctx); err != nil {
		return nil, err
	}
	c := &claim{Sink: s, partition: p}
	if s.options.ExactlyOnce {
		if err := c.own(ctx, next); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// ready returns the layout of the table. If it is unknown, ready first checks or creates the table.
func (s *Sink) ready(ctx context.Context) (*layout, error) {
	select {
	case <-s.checking:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { s.checking <- struct{}{} }()
	if s.layout != nil {
		return s.layout, nil
	}
	conn, err := pgconn.ConnectConfig(ctx, s.server)
	if err != nil {
		return nil, said(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	l, err := s.prepareTable(ctx, conn)
	if err != nil {
		return nil, err
	}
	s.layout = l
	return l, nil
}

// forget makes the next write check the table again, because the table has changed.
func (s *Sink) forget() {
	<-s.checking
	s.layout = nil
	s.checking <- struct{}{}
}

// said wraps an error of the server. It leaves out connection details that pgconn adds.
func said(err error) error {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return fmt.Errorf("connect to PostgreSQL: %w", postgres.Explain(connect.Unwrap()))
	}
	return fmt.Errorf("ask PostgreSQL: %w", err)
}

package tabular

import (
	"fmt"
	"io"
	"reflect"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"github.com/afterbay/afterbay/internal/event/value"
)

// The bounds of a row group, which is in memory until it is written.
const (
	groupRows  = 1 << 16
	groupBytes = 64 << 20 // of strings and bytes
)

// Codec is how the pages of a Parquet file are compressed.
type Codec string

// The codecs.
const (
	Snappy Codec = "snappy"
	Gzip   Codec = "gzip"
	Zstd   Codec = "zstd"
)

// columnar writes Parquet: flat columns, and lists of numbers.
type columnar struct {
	out     *parquet.GenericWriter[any]
	columns []value.Slot
	row     parquet.Row
	numbers []float32
	number  int64
	rows    int // in the row group
	bytes   int
}

// NewParquet returns a writer of the columns as Parquet, compressed by codec; "" is
// snappy.
func NewParquet(w io.Writer, codec Codec, columns []value.Slot) (Writer, error) {
	by, ok := map[Codec]compress.Codec{"": &parquet.Snappy, Snappy: &parquet.Snappy, Gzip: &parquet.Gzip, Zstd: &parquet.Zstd}[codec]
	if !ok {
		return nil, fmt.Errorf("unknown codec %q: use snappy, gzip or zstd", codec)
	}
	if err := named(columns); err != nil {
		return nil, err
	}
	fields := make([]parquet.Field, len(columns))
	for i, c := range columns {
		node := leaf(c.Type.Kind)
		if c.Type.Optional {
			node = parquet.Optional(node)
		}
		fields[i] = field{node, c.Name}
	}
	schema := parquet.NewSchema("rows", ordered{columns: fields})
	return &columnar{
		out:     parquet.NewGenericWriter[any](w, schema, parquet.Compression(by), parquet.CreatedBy("afterbay", "", "")),
		columns: append([]value.Slot(nil), columns...),
	}, nil
}

func leaf(kind value.Kind) parquet.Node {
	switch kind {
	case value.Bool:
		return parquet.Leaf(parquet.BooleanType)
	case value.Int:
		return parquet.Int(64)
	case value.Number:
		return parquet.Leaf(parquet.DoubleType)
	case value.Time:
		return parquet.Timestamp(parquet.Microsecond)
	case value.String, value.Raw:
		return parquet.String()
	case value.Vector:
		return parquet.List(parquet.Leaf(parquet.FloatType))
	case value.Strings:
		return parquet.List(parquet.String())
	}
	return parquet.Leaf(parquet.ByteArrayType)
}

// Write implements Writer.
func (c *columnar) Write(row *value.Row) error {
	c.number++
	if err := check(c.columns, row, c.number); err != nil {
		return err
	}
	c.row = c.row[:0]
	for i, column := range c.columns {
		if kind := column.Type.Kind; (kind == value.Vector || kind == value.Strings) && row.Has(column) {
			c.list(row, column, i)
			continue
		}
		v, level := parquet.NullValue(), 0
		if row.Has(column) {
			v = c.value(row, column)
			if column.Type.Optional {
				level = 1
			}
		}
		c.row = append(c.row, v.Level(0, level, i))
	}
	if _, err := c.out.WriteRows([]parquet.Row{c.row}); err != nil {
		return err
	}
	if c.rows++; c.rows < groupRows && c.bytes < groupBytes {
		return nil
	}
	c.rows, c.bytes = 0, 0
	return c.out.Flush()
}

// list appends the elements of a list: all but the first repeat it, and one without
// any is a level below those.
func (c *columnar) list(row *value.Row, column value.Slot, at int) {
	level := 1
	if column.Type.Optional {
		level = 2
	}
	first := len(c.row)
	if column.Type.Kind == value.Strings {
		for text := range value.EachString(row.Text(column)) {
			c.row = append(c.row, parquet.ByteArrayValue([]byte(text)).Level(1, level, at))
			c.bytes += len(text)
		}
	} else {
		c.numbers = value.AppendVector(row, c.numbers[:0], column)
		for _, v := range c.numbers {
			c.row = append(c.row, parquet.FloatValue(v).Level(1, level, at))
		}
		c.bytes += 4 * len(c.numbers)
	}
	if len(c.row) == first {
		c.row = append(c.row, parquet.NullValue().Level(0, level-1, at))
		return
	}
	c.row[first] = c.row[first].Level(0, level, at)
}

func (c *columnar) value(row *value.Row, column value.Slot) parquet.Value {
	switch column.Type.Kind {
	case value.Bool:
		return parquet.BooleanValue(row.Bool(column))
	case value.Number:
		return parquet.DoubleValue(row.Number(column))
	case value.Int, value.Time:
		return parquet.Int64Value(row.Int(column))
	}
	text := row.Text(column)
	c.bytes += len(text)
	return parquet.ByteArrayValue([]byte(text))
}

// Close implements Writer.
func (c *columnar) Close() error { return c.out.Close() }

// ordered is a group whose columns keep their order: those of parquet.Group are
// sorted by name.
type ordered struct {
	parquet.Group // empty
	columns       []parquet.Field
}

// Fields implements parquet.Node.
func (o ordered) Fields() []parquet.Field { return o.columns }

// field is a named column.
type field struct {
	parquet.Node
	name string
}

// Name implements parquet.Field.
func (f field) Name() string { return f.name }

// Value implements parquet.Field. Rows come as values, never as structs.
func (f field) Value(base reflect.Value) reflect.Value { return base.MapIndex(reflect.ValueOf(f.name)) }

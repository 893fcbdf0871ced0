package tabular

import (
	"fmt"
	"io"
	"math"
	"reflect"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	"github.com/afterbay/afterbay/internal/event/value"
)

// Limits of a row group, which stays in memory until it is written.
const (
	groupRows  = 1 << 16
	groupBytes = 64 << 20 // of strings and bytes
)

// Codec is the compression of the pages of a Parquet file.
type Codec string

// The codecs.
const (
	Snappy Codec = "snappy"
	Gzip   Codec = "gzip"
	Zstd   Codec = "zstd"
)

// columnar writes Parquet: flat columns, lists and maps.
type columnar struct {
	out     *parquet.GenericWriter[any]
	columns []value.Slot
	leaves  []int // index of the first Parquet column of each column: a map has two, keys and values
	row     parquet.Row
	numbers []float32
	number  int64
	rows    int // rows in the current row group
	bytes   int
}

// NewParquet returns a writer of the columns as Parquet, compressed with codec; "" is snappy.
func NewParquet(w io.Writer, codec Codec, columns []value.Slot) (Writer, error) {
	by, ok := map[Codec]compress.Codec{"": &parquet.Snappy, Snappy: &parquet.Snappy, Gzip: &parquet.Gzip, Zstd: &parquet.Zstd}[codec]
	if !ok {
		return nil, fmt.Errorf("unknown codec %q: use snappy, gzip or zstd", codec)
	}
	if err := named(columns); err != nil {
		return nil, err
	}
	fields, leaves, next := make([]parquet.Field, len(columns)), make([]int, len(columns)), 0
	for i, c := range columns {
		node := leaf(c.Type.Kind)
		if c.Type.Optional {
			node = parquet.Optional(node)
		}
		fields[i], leaves[i] = field{node, c.Name}, next
		if next++; c.Type.Kind.IsMap() {
			next++
		}
	}
	schema := parquet.NewSchema("rows", ordered{columns: fields})
	return &columnar{
		out:     parquet.NewGenericWriter[any](w, schema, parquet.Compression(by), parquet.CreatedBy("afterbay", "", "")),
		columns: append([]value.Slot(nil), columns...), leaves: leaves,
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
	}
	switch {
	case kind.IsList():
		return parquet.List(leaf(kind.Element()))
	case kind.IsMap():
		return parquet.Map(parquet.String(), leaf(kind.Element()))
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
		kind, at := column.Type.Kind, c.leaves[i]
		level := 0
		if column.Type.Optional && row.Has(column) {
			level = 1
		}
		switch {
		case kind.IsMap():
			c.keys(row, column, at, level)
			c.list(row, column, at+1, level)
		case kind == value.Vector || kind.IsList():
			c.list(row, column, at, level)
		case row.Has(column):
			c.row = append(c.row, c.value(kind, row.Element(&column)).Level(0, level, at))
		default:
			c.row = append(c.row, parquet.NullValue().Level(0, 0, at))
		}
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

// list appends the elements of a list, or the values of a map. level is the definition level of an
// empty list.
func (c *columnar) list(row *value.Row, column value.Slot, at, level int) {
	first, kind := len(c.row), column.Type.Kind
	of := kind.Element()
	switch {
	case !row.Has(column):
	case kind == value.Vector:
		c.numbers = value.AppendVector(row, c.numbers[:0], column)
		for _, v := range c.numbers {
			c.row = append(c.row, parquet.FloatValue(v))
		}
		c.bytes += 4 * len(c.numbers)
	case kind.IsMap():
		for e := range value.Entries(row.Text(column), of) {
			c.row = append(c.row, c.value(of, e.Element))
		}
	default:
		for e := range value.Elements(row.Text(column), of) {
			c.row = append(c.row, c.value(of, e))
		}
	}
	c.repeat(first, at, level)
}

// keys appends the keys of a map.
func (c *columnar) keys(row *value.Row, column value.Slot, at, level int) {
	first := len(c.row)
	if row.Has(column) {
		for e := range value.Entries(row.Text(column), column.Type.Kind.Element()) {
			c.row = append(c.row, parquet.ByteArrayValue([]byte(e.Key)))
			c.bytes += len(e.Key)
		}
	}
	c.repeat(first, at, level)
}

// repeat sets the levels of the values from first on: all but the first repeat it. Without values,
// it appends a null one level below.
func (c *columnar) repeat(first, at, level int) {
	if len(c.row) == first {
		c.row = append(c.row, parquet.NullValue().Level(0, level, at))
		return
	}
	for i := first; i < len(c.row); i++ {
		c.row[i] = c.row[i].Level(min(i-first, 1), level+1, at)
	}
}

// value returns a value of a kind.
func (c *columnar) value(kind value.Kind, e value.Element) parquet.Value {
	switch kind {
	case value.Bool:
		return parquet.BooleanValue(e.Num != 0)
	case value.Number:
		return parquet.DoubleValue(math.Float64frombits(e.Num))
	case value.Int, value.Time:
		return parquet.Int64Value(int64(e.Num))
	}
	c.bytes += len(e.Str)
	return parquet.ByteArrayValue([]byte(e.Str))
}

// Close implements Writer.
func (c *columnar) Close() error { return c.out.Close() }

// ordered is a group that keeps the order of its columns. A parquet.Group sorts them by name.
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

// Value implements parquet.Field. Rows are always written as values, never as structs.
func (f field) Value(base reflect.Value) reflect.Value { return base.MapIndex(reflect.ValueOf(f.name)) }

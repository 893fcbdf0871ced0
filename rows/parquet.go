package rows

import (
	"io"
	"reflect"

	"github.com/parquet-go/parquet-go"

	"github.com/afterbay/afterbay/value"
)

// The bounds of a row group, which is in memory until it is written.
const (
	groupRows  = 1 << 16
	groupBytes = 64 << 20 // of strings and bytes
)

// columnar writes Parquet: flat columns, compressed by Snappy.
type columnar struct {
	out     *parquet.GenericWriter[any]
	columns []value.Slot
	row     parquet.Row
	number  int64
	rows    int // in the row group
	bytes   int
}

func newParquet(w io.Writer, columns []value.Slot) *columnar {
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
		out:     parquet.NewGenericWriter[any](w, schema, parquet.Compression(&parquet.Snappy), parquet.CreatedBy("afterbay", "", "")),
		columns: append([]value.Slot(nil), columns...),
	}
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
	case value.String:
		return parquet.String()
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

package avro

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/encode"
	"github.com/afterbay/afterbay/internal/event/value"
)

// write is the way to write a value.
type write uint8

const (
	writeBool    write = iota + 1
	writeInt           // an int, as an int
	writeLong          // an int, as a long
	writeWhole         // an int, as a double
	writeFloat         // a number
	writeDouble        // a number
	writeDecimal       // a number or an int
	writeText          // a string or raw
	writeSymbol        // a string, as an enum
	writeBytes         //
	writeFixed         //
	writeTicks         // a time, as a timestamp
	writeDays          // a time, as a date
	writeInstant       // a time, as a string
	writeFloats        // a vector, as an array of floats
	writeDoubles       // a vector, as an array of doubles
	writeList          //
	writeMap           //
)

// Encoder writes records of one schema. It is immutable after Schema.Encoder and safe for
// concurrent use.
type Encoder struct{ parts []part }

var _ encode.Format = (*Schema)(nil)

// part is a value of a record, or constant bytes.
type part struct {
	before []byte        // the branches of unions; for a part without a field, the constant bytes
	absent []byte        // written if the value is absent; nil if the schema does not allow null
	field  *encode.Field // nil writes only before
	writer
}

// writer writes values of one kind as an Avro type.
type writer struct {
	write   write
	of      *node
	slot    value.Kind // kind of the values
	item    *writer    // writes the items of an array or the values of a map
	symbols []symbol   // symbols of an enum, sorted
}

// symbol is a symbol of an enum.
type symbol struct {
	name  string
	index int64
}

// Encoder implements encode.Format. Fields of the schema that the emit does not write are null.
func (s *Schema) Encoder(fields []encode.Field) (encode.Encoder, error) {
	if s.root.kind != record {
		return nil, fmt.Errorf("the schema is of type %s: want a record", s.root.named)
	}
	p := planner{}
	p.record(s.root, encode.ObjectOf(slices.Clone(fields)))
	if len(p.faults) > 0 {
		return nil, errors.New(strings.Join(p.faults, "; "))
	}
	return &Encoder{p.parts}, nil
}

// planner makes the parts of an encoder.
type planner struct {
	parts  []part
	faults []string
}

func (p *planner) fault(format string, args ...any) {
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// record writes an object as a record.
func (p *planner) record(n *node, object *encode.Object) {
	for _, f := range n.fields {
		if m := object.Find(f.name); m != nil {
			p.member(f.of, m)
		} else if at := f.of.null(); at >= 0 {
			p.parts = append(p.parts, part{before: binary.AppendVarint(nil, int64(at))})
		} else if f.of.kind != null {
			p.fault("the schema has a field %q of type %s, which is not emitted and cannot be null", f.name, f.of.named)
		}
	}
	for i := range object.Members {
		m := &object.Members[i]
		if !slices.ContainsFunc(n.fields, func(f field) bool { return f.name == m.Name }) {
			p.fault("field %q: the schema has no field %q in record %q", m.Label(), m.Name, n.named)
		}
	}
}

// null returns the index of the null branch of a union, or -1.
func (n *node) null() int {
	if n.kind != union {
		return -1
	}
	return slices.IndexFunc(n.branches, func(b *node) bool { return b.kind == null })
}

// member writes a member of an object.
func (p *planner) member(n *node, m *encode.Member) {
	var before, absent []byte
	if n.kind == union {
		if at := n.null(); at >= 0 {
			absent = binary.AppendVarint(nil, int64(at))
		}
		best, rank := -1, 0
		for i, b := range n.branches {
			if r := rankOf(b, m); r > rank {
				best, rank = i, r
			}
		}
		if best < 0 {
			p.fault("field %q is %s: the schema wants %s", m.Label(), m.Kind(), n.named)
			return
		}
		before, n = binary.AppendVarint(nil, int64(best)), n.branches[best]
	}
	if m.Object != nil {
		if n.kind != record {
			p.fault("field %q is part of an object: the schema wants %s", m.Label(), n.named)
			return
		}
		p.parts = append(p.parts, part{before: before})
		p.record(n, m.Object)
		return
	}
	of := part{before: before, absent: absent, field: m.Field}
	var ok bool
	if of.writer, ok = writing(n, m.Field.Slot.Type.Kind); !ok {
		p.fault("field %q is %s: the schema wants %s", m.Label(), m.Kind(), n.named)
		return
	}
	if m.Field.Slot.Type.Optional && absent == nil {
		p.fault("field %q may be absent, and the schema has no null for it: write `?? ...` for a value, or make it a union with null", m.Label())
		return
	}
	p.parts = append(p.parts, of)
}

// rankOf says how well a branch of a union fits a member. 0 means that it does not fit. Wider types
// rank higher.
func rankOf(n *node, m *encode.Member) int {
	if m.Object != nil {
		if n.kind == record {
			return 1
		}
		return 0
	}
	w, ok := writing(n, m.Field.Slot.Type.Kind)
	if !ok {
		return 0
	}
	switch w.write {
	case writeLong, writeDouble, writeText, writeBytes, writeTicks, writeFloats:
		return 3
	case writeInt, writeFloat, writeSymbol, writeFixed, writeDays, writeDoubles:
		return 2
	}
	return 1
}

// writing returns the writer for values of a kind as a type. ok is false if the type does not fit.
func writing(n *node, slot value.Kind) (w writer, ok bool) {
	w.of, w.slot = n, slot
	switch {
	case slot == value.Vector && n.kind == array:
		w.write = map[kind]write{float: writeFloats, double: writeDoubles}[n.items.kind]
	case slot.IsList() && n.kind == array:
		w.element(writeList, n.items, slot.Element())
	case slot.IsMap() && n.kind == dictionary:
		w.element(writeMap, n.items, slot.Element())
	case slot != value.Vector && !slot.IsList() && !slot.IsMap():
		w.write = single(n, slot)
	}
	if w.write == writeSymbol {
		for i, name := range n.symbols {
			w.symbols = append(w.symbols, symbol{name, int64(i)})
		}
		slices.SortFunc(w.symbols, func(a, b symbol) int { return strings.Compare(a.name, b.name) })
	}
	return w, w.write != 0
}

// element sets the writer for elements of a kind as a type.
func (w *writer) element(by write, of *node, slot value.Kind) {
	if item, ok := writing(of, slot); ok {
		w.write, w.item = by, &item
	}
}

// single returns the way to write a value that is no list, map or vector, or 0 if the type does not
// fit.
func single(n *node, slot value.Kind) write {
	whole := n.kind == long || n.kind == integer
	switch {
	case n.logical == "decimal" && (n.kind == bytesType || n.kind == fixed && n.size <= decimalMax):
		return map[value.Kind]write{value.Number: writeDecimal, value.Int: writeDecimal}[slot]
	case slot == value.Time && n.kind == long && ticks[n.logical] != 0:
		return writeTicks
	case slot == value.Time && n.kind == integer && n.logical == "date":
		return writeDays
	case whole && (strings.Contains(n.logical, "time") || n.logical == "date"):
		return 0 // the unit of an int is unknown
	}
	return map[value.Kind]map[kind]write{
		value.Bool: {boolean: writeBool}, value.Int: {integer: writeInt, long: writeLong, double: writeWhole}, value.Number: {float: writeFloat, double: writeDouble},
		value.String: {text: writeText, enum: writeSymbol}, value.Raw: {text: writeText}, value.Bytes: {bytesType: writeBytes, fixed: writeFixed}, value.Time: {text: writeInstant},
	}[slot][n.kind]
}

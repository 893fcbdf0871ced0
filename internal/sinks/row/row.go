// Package row reads records as rows of typed values, for sinks that keep one row for each key. It
// also compiles the expression that decides which of two rows is newer.
package row

import (
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Field is a name of the records: a member of the JSON object in their value.
type Field struct {
	Name string
	Type value.Type
}

// Reader reads records. It is immutable and safe for concurrent use. Create one with NewReader.
type Reader struct {
	Slots   []value.Slot // slots of the fields in order; a computed version follows
	Version int          // index of the version in Slots; -1 if there is no version

	schema  value.Schema
	scanner *decode.Scanner
	program *expression.Program // computes the version; nil if it is a field
}

// NewReader returns a reader of fields and of a version, unless v is nil. It is an error if a field
// has a different type in the version.
func NewReader(fields []Field, v *Version) (*Reader, error) {
	r := &Reader{Version: -1}
	if v != nil { // the program uses the slots with which it was compiled
		for _, slot := range v.schema.Slots {
			if _, err := r.schema.Add(slot.Name, slot.Type); err != nil {
				return nil, err
			}
		}
	}
	var scanned []decode.Field
	scan := func(slot value.Slot) {
		if !slices.ContainsFunc(scanned, func(f decode.Field) bool { return f.Name == slot.Name }) {
			scanned = append(scanned, decode.Field{Name: slot.Name, Slot: slot})
		}
	}
	for _, f := range fields {
		slot, ok := r.schema.Lookup(f.Name)
		if !ok {
			slot, _ = r.schema.Add(f.Name, f.Type) // Lookup did not find it, so Add succeeds
		}
		if slot.Type != f.Type {
			return nil, fmt.Errorf("%q is of type %v, and of type %v elsewhere: a name has one type", f.Name, f.Type, slot.Type)
		}
		r.Slots = append(r.Slots, slot)
		scan(slot)
	}
	if v != nil {
		for _, name := range v.program.Uses() {
			slot, _ := r.schema.Lookup(name)
			scan(slot)
		}
		if err := r.version(fields, v); err != nil {
			return nil, err
		}
	}
	r.scanner = decode.New(scanned)
	return r, nil
}

// version sets the place of the version.
func (r *Reader) version(fields []Field, v *Version) error {
	if name, ok := v.Name(); ok {
		if r.Version = slices.IndexFunc(fields, func(f Field) bool { return f.Name == name }); r.Version >= 0 {
			return nil
		}
	}
	slot, err := r.schema.Add("\x00version", v.program.Type()) // no record can use this name
	r.Slots, r.Version, r.program = append(r.Slots, slot), len(fields), v.program
	return err
}

// NewRows returns n empty rows.
func (r *Reader) NewRows(n int) []value.Row { return r.schema.NewRows(n) }

// Read parses the value of a record into a row. The texts of the row may alias the value. The error
// is about the record.
func (r *Reader) Read(record []byte, row *value.Row) error {
	if err := r.scanner.Scan(record, row); err != nil {
		return err
	}
	if r.program != nil {
		if err := r.program.Store(row, r.Slots[r.Version]); err != nil {
			return fmt.Errorf("version: %w", err)
		}
	}
	return nil
}

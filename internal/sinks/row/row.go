// Package row reads records as rows of typed values, for the sinks that keep a row
// for each key, and compiles what says which of two rows of a key is newer.
package row

import (
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Field is a name of the records: a member of the JSON object that is their value.
type Field struct {
	Name string
	Type value.Type
}

// Reader reads records. It does not change and is safe for concurrent use. Make one
// with NewReader.
type Reader struct {
	Slots   []value.Slot // of the fields, in their order, and then that of the version where it is none of them
	Version int          // its place in Slots; -1 where there is none

	schema  value.Schema
	scanner *decode.Scanner
	program *expression.Program // of the version; nil where it is a field
}

// NewReader returns a reader of fields and, where it is not nil, of a version. A
// field whose type is another one for the version is an error.
func NewReader(fields []Field, v *Version) (*Reader, error) {
	r := &Reader{Version: -1}
	if v != nil { // its program reads the slots that it was compiled with
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
			slot, _ = r.schema.Add(f.Name, f.Type) // it is not there
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

// version gives the version its place.
func (r *Reader) version(fields []Field, v *Version) error {
	if name, ok := v.Name(); ok {
		if r.Version = slices.IndexFunc(fields, func(f Field) bool { return f.Name == name }); r.Version >= 0 {
			return nil
		}
	}
	slot, err := r.schema.Add("\x00version", v.program.Type()) // which no record can name
	r.Slots, r.Version, r.program = append(r.Slots, slot), len(fields), v.program
	return err
}

// NewRows returns n empty rows.
func (r *Reader) NewRows(n int) []value.Row { return r.schema.NewRows(n) }

// Read reads the value of a record into a row, whose texts may alias it. What is
// wrong is an error of the record.
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

package row

import (
	"fmt"
	"maps"
	"slices"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Version compares rows of a key by a value of type int, number or time: the row with the greater
// value is newer. Create one with Compile.
type Version struct {
	schema  value.Schema
	program *expression.Program
}

// Compile compiles an expression over the names of the records and constants. It returns an error
// if the result has no order, may be absent, or is the same for all records.
func Compile(source string, fields []Field, constants map[string]expression.Constant) (*Version, *expression.Error) {
	v := &Version{}
	for _, f := range fields {
		if _, err := v.schema.Add(f.Name, f.Type); err != nil {
			return nil, &expression.Error{Message: err.Error()}
		}
	}
	program, err := expression.Compile(source, names{&v.schema, constants})
	if err != nil {
		return nil, err
	}
	t := program.Type()
	switch {
	case t.Kind != value.Int && t.Kind != value.Number && t.Kind != value.Time:
		return nil, &expression.Error{Column: 1, Message: fmt.Sprintf("this is of type %v: a version is an int, number or time", t)}
	case t.Optional:
		return nil, &expression.Error{Column: 1, Message: "this may be absent: a version is always there", Hint: "write a default: ... ?? 0"}
	case len(program.Uses()) == 0:
		return nil, &expression.Error{Column: 1, Message: "this is the same for all records: a version must depend on the record", Hint: "name one of their ints, numbers or times"}
	}
	v.program = program
	return v, nil
}

// Name returns the field that is the version; ok is false if the version is computed.
func (v *Version) Name() (name string, ok bool) { return v.program.Name() }

// names are the names that a version may use.
type names struct {
	schema    *value.Schema
	constants map[string]expression.Constant
}

// Slot implements expression.Names.
func (n names) Slot(name string) (value.Slot, bool) { return n.schema.Lookup(name) }

// Constant implements expression.Names.
func (n names) Constant(name string) (expression.Constant, bool) {
	constant, ok := n.constants[name]
	return constant, ok
}

// Known implements expression.Names.
func (n names) Known() []string {
	list := slices.Sorted(maps.Keys(n.constants))
	for _, slot := range n.schema.Slots {
		list = append(list, slot.Name)
	}
	return list
}

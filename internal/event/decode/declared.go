package decode

import (
	"slices"

	"github.com/afterbay/afterbay/internal/event/value"
)

// Declared is a value that a schema declares.
type Declared struct {
	Path     []Part       // path to the value, from the record or from the requested member
	Kinds    []value.Kind // field kinds that can read the value, the likeliest first; empty if no field can
	Any      bool         // the schema does not declare its type
	Optional bool         // the value, or a record that contains it, may be null or absent
	Symbols  []string     // symbols of an enum
	Type     string       // the type's name in the schema
}

// The limits of a listing of a schema.
const (
	DeclaredMax   = 1000 // values
	DeclaredDepth = 5    // names in a path
)

// Schema describes records, and converts them to JSON.
type Schema interface {
	AppendJSON(dst, record []byte) ([]byte, error)

	// Declared returns the values of a record, or of the record that is its member, in the order of
	// the schema. It returns at most DeclaredMax values. Values of nested records have longer
	// paths. open means that records may have other values too.
	Declared(member string) (list []Declared, open bool)
}

// Fits returns the kind for a field that reads the value. It is like, the kind that sample values
// suggest, if a field of that kind can read the value. Otherwise it is the likeliest kind, or 0 if
// no field can read it.
func (d *Declared) Fits(like value.Kind) value.Kind {
	if d.Any || slices.Contains(d.Kinds, like) {
		return like
	}
	if len(d.Kinds) == 0 {
		return 0
	}
	return d.Kinds[0]
}

// DeclaredKinds are the kinds of fields in the order of preference. Time comes before Int: a time
// that is no text says more than its number.
var DeclaredKinds = []value.Kind{
	value.Bool, value.String, value.Time, value.Int, value.Number, value.Bytes,
	value.List | value.Bool, value.List | value.String, value.List | value.Time, value.List | value.Int, value.List | value.Number,
	value.Map | value.Bool, value.Map | value.String, value.Map | value.Int, value.Map | value.Number,
}

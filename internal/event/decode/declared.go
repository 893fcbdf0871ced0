package decode

import (
	"slices"

	"github.com/afterbay/afterbay/internal/event/value"
)

// Declared is a value that a schema declares.
type Declared struct {
	Path     []Part       // to the value, from the record or from the member that was asked for
	Kinds    []value.Kind // of the fields that can read it, the likeliest first; none: no field can
	Any      bool         // the schema says nothing of its type
	Optional bool         // it, or a record that it is in, may be null or absent
	Symbols  []string     // of an enum
	Type     string       // as the schema names it
}

// The bounds of what is returned of a schema.
const (
	DeclaredMax   = 1000 // values
	DeclaredDepth = 5    // names in a path
)

// Schema says what records have, and turns them into JSON.
type Schema interface {
	AppendJSON(dst, record []byte) ([]byte, error)

	// Declared returns the values of a record in the order of the schema, at most DeclaredMax, or those of the
	// record that is its member. The values of a record in a record have longer paths. A schema is open if
	// records may have other values.
	Declared(member string) (list []Declared, open bool)
}

// Fits returns the kind of the fields that read the value: the one that values look like, if a field of it can.
func (d *Declared) Fits(like value.Kind) value.Kind {
	if d.Any || slices.Contains(d.Kinds, like) {
		return like
	}
	if len(d.Kinds) == 0 {
		return 0
	}
	return d.Kinds[0]
}

// DeclaredKinds are kinds of fields in the order in which they are proposed. A time that is no text is more
// than its number.
var DeclaredKinds = []value.Kind{
	value.Bool, value.String, value.Time, value.Int, value.Number, value.Bytes,
	value.List | value.Bool, value.List | value.String, value.List | value.Time, value.List | value.Int, value.List | value.Number,
	value.Map | value.Bool, value.Map | value.String, value.Map | value.Int, value.Map | value.Number,
}

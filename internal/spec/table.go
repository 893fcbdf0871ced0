package spec

import "reflect"

// Table reads and prints a struct with a type known only at run time. Its values are pointers to
// the struct.
type Table = Form[any]

// Tabled is a struct that returns its own table. Other structs have a table by the tags of their
// fields.
type Tabled interface{ FieldTable() Table }

// TableOf returns the table of the struct that v points at. absent is what a field without an
// affects tag affects; if absent is 0, a missing tag is an error. An invalid tag is an error.
func TableOf(v any, absent Affects) (Table, error) {
	if own, ok := v.(Tabled); ok {
		return own.FieldTable(), nil
	}
	return taggedTable(v, absent)
}

// SetDefaults sets the defaults of the struct that v points at, as if a file had none of its
// fields. It joins relative paths with folder, unless folder is empty.
func SetDefaults(v any, folder string) {
	if _, own := v.(Tabled); own {
		return
	}
	if made, err := taggedOf(v, Nothing); err == nil {
		made.setDefaults(reflect.ValueOf(v).Elem(), folder)
	}
}

// CheckExample returns the error in the example of a struct with the type that v points at.
func CheckExample(table Table, v any, example string) error {
	_, err := parsed(table, reflect.TypeOf(v), "example", example)
	return err
}

// Fields returns the table of a mapping of known fields.
func Fields[T any](fields []Field[T]) Table { return erased(MappingOf(fields)) }

// TableBy returns a form as a table.
func TableBy[T any](form Form[T]) Table { return erased(form) }

// Brief reads a mapping, or a scalar in place of a mapping with one field: `a` stands for `{field:
// a}`. hint says what to write instead of anything else.
func Brief[T any](hint, field string, scalar Shape, mapping Form[T]) Form[T] {
	of := Form[T]{Read: func(r *Reader, n *Node, path string, into *T) {
		mapping.Read(r, alone(field, n), path, into)
	}, Print: func(*Printer, string, *T) {}, Shape: scalar}
	return OneOf(hint, Scalar, of, Mapping, mapping)
}

// alone returns a mapping with one field.
func alone(field string, value *Node) *Node {
	return &Node{Kind: Mapping, Offset: value.Offset, Entries: []entry{{Key: field, Offset: value.Offset, Value: value}}}
}

// ReadText reads a text into v as the value of a field, as if a file had it.
func ReadText(table Table, field, text string, v any) Errors {
	r := &Reader{Source: NewSource("", text), Places: map[string]Place{}, Lookup: func(string) (string, bool) { return "", false }}
	table.Read(r, alone(field, &Node{Kind: Scalar, Text: text}), "", &v)
	return r.Errors
}

// erased converts a form of T into a form of pointers to T.
func erased[T any](f Form[T]) Table {
	return Table{
		Read:  func(r *Reader, n *Node, path string, into *any) { f.Read(r, n, path, (*into).(*T)) },
		Print: func(p *Printer, path string, v *any) { f.Print(p, path, (*v).(*T)) },
		Shape: f.Shape,
	}
}

// Chosen reads a mapping that chooses a kind by its name. begin returns the new struct that the
// table reads into. chosen returns the existing struct, or nil if another kind was chosen.
func Chosen[T any](begin, chosen func(*T) any, table Table) Form[T] {
	return Form[T]{
		Read: func(r *Reader, n *Node, path string, into *T) {
			v := begin(into)
			table.Read(r, n, path, &v)
		},
		Print: func(p *Printer, path string, of *T) {
			v := chosen(of)
			if p.explicit = v != nil; p.explicit {
				table.Print(p, path, &v)
			}
		},
		Shape: table.Shape,
	}
}

package spec

import "reflect"

// Table reads and prints a struct whose type is not known here. Its values are pointers
// to it.
type Table = Form[any]

// Tabled is a struct that gives its table itself. Other structs have a table by the tags
// of their fields.
type Tabled interface{ FieldTable() Table }

// TableOf returns the table of the struct that v points at. absent is what a field
// affects that has no tag for it; 0 makes that an error. So does a wrong tag.
func TableOf(v any, absent Affects) (Table, error) {
	if own, ok := v.(Tabled); ok {
		return own.FieldTable(), nil
	}
	return taggedTable(v, absent)
}

// SetDefaults sets the fields of the struct that v points at which have a tag for a default,
// as if a file had none of the fields. Paths are joined with folder, if there is one.
func SetDefaults(v any, folder string) {
	if _, own := v.(Tabled); own {
		return
	}
	if made, err := taggedOf(v, Nothing); err == nil {
		made.setDefaults(reflect.ValueOf(v).Elem(), folder)
	}
}

// CheckExample returns what is wrong with the example of a struct like the one that v
// points at.
func CheckExample(table Table, v any, example string) error {
	_, err := parsed(table, reflect.TypeOf(v), "example", example)
	return err
}

// Fields returns the table of a mapping of known fields.
func Fields[T any](fields []Field[T]) Table { return erased(MappingOf(fields)) }

// TableBy returns a form as a table.
func TableBy[T any](form Form[T]) Table { return erased(form) }

// Brief reads a mapping, of which a scalar says one field: a file that has `a` means
// `{field: a}`. hint says what to write instead of anything else.
func Brief[T any](hint, field string, scalar Shape, mapping Form[T]) Form[T] {
	of := Form[T]{Read: func(r *Reader, n *Node, path string, into *T) {
		mapping.Read(r, alone(field, n), path, into)
	}, Print: func(*Printer, string, *T) {}, Shape: scalar}
	return OneOf(hint, Scalar, of, Mapping, mapping)
}

// alone is a mapping of one field.
func alone(field string, value *Node) *Node {
	return &Node{Kind: Mapping, Offset: value.Offset, Entries: []entry{{Key: field, Offset: value.Offset, Value: value}}}
}

// ReadText reads a text as a field of a table into v, as if a file had it.
func ReadText(table Table, field, text string, v any) Errors {
	r := &Reader{Source: NewSource("", text), Places: map[string]Place{}, Lookup: func(string) (string, bool) { return "", false }}
	table.Read(r, alone(field, &Node{Kind: Scalar, Text: text}), "", &v)
	return r.Errors
}

// erased is a form of values that are pointers to T.
func erased[T any](f Form[T]) Table {
	return Table{
		Read:  func(r *Reader, n *Node, path string, into *any) { f.Read(r, n, path, (*into).(*T)) },
		Print: func(p *Printer, path string, v *any) { f.Print(p, path, (*v).(*T)) },
		Shape: f.Shape,
	}
}

// Chosen reads a mapping that chooses a kind by its name. begin returns what a table
// reads it into; chosen returns that, nil where another kind was chosen.
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

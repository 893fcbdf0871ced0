package spec

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

// Fields returns the table of a mapping of known fields.
func Fields[T any](fields []Field[T]) Table { return erased(MappingOf(fields)) }

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

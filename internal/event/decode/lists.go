package decode

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/event/value"
)

// element is a row with one slot that takes a value of a list or map.
type element struct {
	field   Field
	num     [1]uint64
	str     [1]string
	present [1]uint64
}

// read reads the value at src[i:].
func (e *element) read(src []byte, i, depth int) (value.Element, int, string) {
	row := value.Row{Num: e.num[:], Str: e.str[:], Present: e.present[:]}
	i, reason := e.field.read(src, i, depth, &row)
	return row.Element(&e.field.Slot), i, reason
}

func elementOf(kind value.Kind) element {
	return element{field: Field{Slot: value.Slot{Type: value.Type{Kind: kind.Element()}}}}
}

// readList reads the elements of a list, starting after its bracket.
func (f *Field) readList(src []byte, i, depth int, row *value.Row) (int, string) {
	of := f.Slot.Type.Kind.Element()
	e := elementOf(of)
	var list []byte
	for i = space(src, i); i < len(src) && src[i] != ']'; {
		v, end, reason := e.read(src, i, depth)
		if reason != "" {
			return end, reason
		}
		list = value.AppendElement(list, of, v)
		if i = space(src, end); i < len(src) && src[i] == ',' {
			if i = space(src, i+1); i < len(src) && src[i] == ']' {
				return i, unexpected(src, i, "a value")
			}
		} else if i < len(src) && src[i] != ']' {
			return i, unexpected(src, i, "',' or ']'")
		}
	}
	if i >= len(src) {
		return i, EndOfRecord
	}
	row.SetText(f.Slot, value.Text(list))
	return i + 1, ""
}

// readMap reads the members of an object, starting after its brace.
func (f *Field) readMap(src []byte, i, depth int, row *value.Row) (int, string) {
	e := elementOf(f.Slot.Type.Kind)
	var entries []value.Entry
	i = space(src, i)
	more := i >= len(src) || src[i] != '}'
	if !more {
		i++
	}
	for more {
		name, escaped, at, reason := key(src, i)
		if reason != "" {
			return at, reason
		}
		entry := value.Entry{Key: value.Text(name)}
		if escaped {
			entry.Key = unescape(name)
		}
		if entry.Element, i, reason = e.read(src, at, depth); reason != "" {
			return i, reason
		}
		entries = append(entries, entry)
		if i, more, reason = after(src, i); reason != "" {
			return i, reason
		}
	}
	text := value.AppendMap(nil, e.field.Slot.Type.Kind, entries)
	for n := 1; n < len(entries); n++ {
		if entries[n].Key == entries[n-1].Key {
			return i, fmt.Sprintf("the key %q occurs in the object twice", clip([]byte(entries[n].Key)))
		}
	}
	row.SetText(f.Slot, value.Text(text))
	return i, ""
}

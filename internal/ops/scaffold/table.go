package scaffold

import (
	"bytes"
	"cmp"
	"fmt"
	"text/tabwriter"
)

// tableRows is the most rows of the printed table.
const tableRows = 60

// Table returns the findings as a table with one line per field: its type, the number of events
// that have it, the number of distinct values, an example, and its role.
func (f *Findings) Table() string {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FIELD\tTYPE\tPRESENT\tDISTINCT\tEXAMPLE\tTAKEN AS")
	for i, c := range f.Fields {
		if i == tableRows {
			fmt.Fprintf(w, "and %s more\t\t\t\t\t\n", thousands(len(f.Fields)-i))
			break
		}
		name, kind := c.Name, "-"
		if c.Left == "" {
			kind = f.typeOf(c).String()
		}
		if name == "" {
			name = quote(c.At())
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", name, kind, percent(c.Present, f.Events), thousands(c.Distinct), cmp.Or(c.Example, "-"), f.role(c))
	}
	_ = w.Flush() // writes to memory, so it cannot fail
	return text.String()
}

// role describes the role of a field.
func (f *Findings) role(c *Field) string {
	switch {
	case c.Left != "":
		return "left out: " + c.Left
	case c == f.Key:
		return "key"
	case f.Time != nil && c == f.Time.Field:
		return fmt.Sprintf("event time, %s; out of order by up to %v", f.Time.written(), f.Time.Disorder)
	case c == f.ID:
		return "event id"
	}
	for _, m := range f.Measures {
		if c == m {
			return "measure"
		}
	}
	for _, k := range f.Kinds {
		if c == k {
			return "kind"
		}
	}
	return "field"
}

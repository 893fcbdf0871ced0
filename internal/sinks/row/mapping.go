package row

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/sink"
)

// Column maps a name of the records to a column, as in the pipeline file.
type Column struct {
	Name   string
	Column string // column in the service; "" is the name
}

// ReadColumns reads a mapping from names to columns.
var ReadColumns = spec.Named(func(c *Column) *string { return &c.Name }, spec.Into(func(c *Column) *string { return &c.Column }, spec.ReadName))

// Typed is a column with the type of its values.
type Typed struct {
	Name   string
	Column string
	Type   value.Type
}

// Mapping says which parts of the records of a topic a sink writes.
type Mapping struct {
	Columns []Typed
	Version *Version // decides which of two rows of a key is newer; nil if there is no such expression
}

// Map returns the mapping of a topic, and all errors in it. The mapping contains the columns that
// the file names, or else all columns. It always contains the key, and the version if that is only
// a name.
func Map(t sink.Topic, columns []Column, key, version string) (*Mapping, []error) {
	m, found := &Mapping{}, []error(nil)
	if version != "" && t.Columns != nil {
		var err error
		if m.Version, err = newer(t, version); err != nil {
			found = append(found, err)
		}
	}
	always := []string{key}
	if m.Version != nil {
		if name, ok := m.Version.Name(); ok {
			always = append(always, name)
		}
	}
	found = append(found, m.add(t, columns, always)...)
	if err := m.keyed(key); err != nil {
		found = append(found, err)
	}
	if t.Deletes {
		found = append(found, deletable(t, key, version)...)
	}
	return m, found
}

// deletable returns errors if records without a value cannot delete rows.
func deletable(t sink.Topic, key, version string) (found []error) {
	if version != "" {
		found = append(found, &sink.Mistake{Field: "version", Err: fmt.Errorf("the emits to %q delete keys, and a record without a value has no version", t.Name), Hint: "remove it, and send all events of a key through one partition"})
	}
	if key != "" && !t.Partial && !slices.Contains(t.Keys, key) {
		found = append(found, &sink.Mistake{Field: "key", Err: fmt.Errorf("the emits to %q delete keys, and %q is not the key of their records", t.Name, key), Hint: "find rows by the name that is the key of each emit, and set key there"})
	}
	return found
}

// Open opens a sink of rows. It passes the result of Map to open.
func Open(t sink.Topic, columns []Column, key, version string, open func(*Mapping) (sink.Writer, error)) (sink.Service, error) {
	mapping, found := Map(t, columns, key, version)
	if err := errors.Join(found...); err != nil {
		return sink.Service{}, err
	}
	made, err := open(mapping)
	return sink.Service{Many: made}, err
}

// Names returns the names of the columns in the service.
func (m *Mapping) Names() []string {
	names := make([]string, len(m.Columns))
	for i, c := range m.Columns {
		names[i] = c.Column
	}
	return names
}

// keyed checks the key name.
func (m *Mapping) keyed(key string) error {
	if key == "" {
		return &sink.Mistake{Field: "key", Err: fmt.Errorf("missing: name the key of the rows")}
	}
	at := slices.IndexFunc(m.Columns, func(c Typed) bool { return c.Name == key })
	if at < 0 { // add has reported it
		return nil
	}
	if of := m.Columns[at].Type; of != (value.Type{Kind: value.String}) && of != (value.Type{Kind: value.Int}) && of != (value.Type{}) {
		return &sink.Mistake{Field: "key", Err: fmt.Errorf("%q is of type %v: a key is a string or int that is always there", key, of)}
	}
	return nil
}

// newer compiles the version expression of a topic.
func newer(t sink.Topic, source string) (*Version, error) {
	var fields []Field
	for _, c := range t.Columns {
		if of, err := value.ReadType(c.Type); err == nil { // otherwise the column has several types
			fields = append(fields, Field{Name: c.Name, Type: of})
		}
	}
	constants := make(map[string]expression.Constant, len(t.Constants))
	for name, v := range t.Constants {
		if table, ok := v.(map[string]any); ok {
			constants[name] = expression.Constant{Table: table}
		} else {
			constants[name] = expression.Constant{Value: v}
		}
	}
	v, err := Compile(source, fields, constants)
	if err != nil {
		return nil, &sink.Mistake{Field: "version", Column: err.Column, Hint: err.Hint, Err: fmt.Errorf("%s", err.Message)}
	}
	return v, nil
}

// add adds the columns of a topic's records. It adds the names in always even if the file does not
// name them.
func (m *Mapping) add(t sink.Topic, list []Column, always []string) (found []error) {
	fail := func(field, hint, format string, args ...any) {
		found = append(found, &sink.Mistake{Field: field, Hint: hint, Err: fmt.Errorf(format, args...)})
	}
	if t.Columns == nil {
		fail("", "", "the types of the records of %q are unknown: only records of an emit can be rows", t.Name)
		return found
	}
	if list == nil {
		for _, c := range t.Columns {
			list = append(list, Column{Name: c.Name})
		}
	}
	list = slices.Clone(list)
	for _, name := range always {
		if name != "" && !slices.ContainsFunc(list, func(c Column) bool { return c.Name == name }) {
			list = append(list, Column{Name: name})
		}
	}
	for _, c := range list {
		at := slices.IndexFunc(t.Columns, func(o sink.Column) bool { return o.Name == c.Name })
		if at < 0 {
			m.Columns = nil
			fail("", "they have "+strings.Join(namesOf(t), ", "), "the records of %q have no %q", t.Name, c.Name)
			return found
		}
		typed := Typed{Name: c.Name, Column: c.Column}
		if typed.Column == "" {
			typed.Column = c.Name
		}
		of, err := value.ReadType(t.Columns[at].Type)
		if err != nil {
			fail("", "give it one type, or leave it out by `columns`", "the emits to %q write %q with several types", t.Name, c.Name)
		}
		typed.Type = of
		if other := slices.IndexFunc(m.Columns, func(o Typed) bool { return o.Column == typed.Column }); other >= 0 {
			fail("columns", "", "%q and %q go to one column, %s", m.Columns[other].Name, c.Name, typed.Column)
		}
		m.Columns = append(m.Columns, typed)
	}
	return found
}

func namesOf(t sink.Topic) []string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	return names
}

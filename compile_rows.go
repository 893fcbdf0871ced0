package afterbay

import (
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/sinks/row"
	"github.com/afterbay/afterbay/step"
)

const mixed = "of several types"

// writes notes what an emit writes to a topic: what only some of its emits write
// may be absent.
func (c *compiler) writes(topic string, e *step.Emit) {
	before, again := c.written[topic]
	var here []string
	for i, slot := range e.Values {
		name, err := strconv.Unquote(string(e.Names[i][:len(e.Names[i])-1]))
		if err != nil {
			continue // it was quoted by strconv
		}
		here = append(here, name)
		of := slot.Type
		at := slices.IndexFunc(before, func(f Field) bool { return f.Name == name })
		if at < 0 {
			of.Optional = of.Optional || again
			before = append(before, Field{Name: name, Type: of.String()})
			continue
		}
		was, err := value.ReadType(before[at].Type)
		if err != nil {
			continue // it is of several types
		}
		if was.Optional, of.Optional = was.Optional || of.Optional, was.Optional || of.Optional; was != of {
			before[at].Type = mixed
		} else {
			before[at].Type = was.String()
		}
	}
	for i := range before {
		if f := &before[i]; !slices.Contains(here, f.Name) && f.Type != mixed && !strings.HasPrefix(f.Type, "optional ") {
			f.Type = "optional " + f.Type
		}
	}
	c.written[topic] = before
}

// sinkRows checks what a sink writes to a table, and sets the types of its columns.
func (c *compiler) sinkRows(path string, s *Sink) {
	t := new(*s.Postgres)
	s.Postgres = t
	if t.URL == "" {
		c.fail(path+".url", "missing: say where the database is, as postgres://host/database")
	}
	if t.Table == "" {
		c.fail(path+".table", "missing: name the table that takes the records")
	}
	t.Order = c.newer(path+".version", s.From, t.Version)
	t.Columns = c.columns(path, s.From, t.Columns, t.Key, t.Order)
	c.keyed(path+".key", t.Columns, t.Key)
	if v := t.Vector; v != nil {
		at := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Column == v.Column })
		switch {
		case at < 0:
			c.fail(path+".vector.column", "nothing is written to a column %q", v.Column)
			c.hint("it writes " + columnNames(t.Columns))
		case !strings.Contains(t.Columns[at].Type, "number["):
			c.fail(path+".vector.column", "%q is of type %s: a vector is of one as number[384]", v.Column, t.Columns[at].Type)
		}
	}
}

// sinkKeys checks what a sink writes to Redis, and sets the types of its fields.
func (c *compiler) sinkKeys(path string, s *Sink) {
	r := new(*s.Redis)
	s.Redis = r
	r.Order = c.newer(path+".version", s.From, r.Version)
	r.Columns = c.columns(path, s.From, r.Columns, r.Key, r.Order)
	c.keyed(path+".key", r.Columns, r.Key)
}

// keyed checks the name that rows are found by.
func (c *compiler) keyed(path string, list []Column, key string) {
	if key == "" {
		c.fail(path, "missing: name what rows are found by")
		return
	}
	at := slices.IndexFunc(list, func(c Column) bool { return c.Name == key })
	if at >= 0 && list[at].Type != "string" && list[at].Type != "int" { // else columns said that there is none
		c.fail(path, "%q is of type %s: a key is a string or int that is always there", key, list[at].Type)
	}
}

// newer compiles what says which of two records of a topic is newer; nil is
// nothing.
func (c *compiler) newer(path, topic, source string) *row.Version {
	written, ok := c.written[topic]
	if source == "" || !ok {
		return nil
	}
	var fields []row.Field
	for _, f := range written {
		if of, err := value.ReadType(f.Type); err == nil { // else it is of several
			fields = append(fields, row.Field{Name: f.Name, Type: of})
		}
	}
	v, err := row.Compile(source, fields, c.names.constants)
	if err != nil {
		c.errs = append(c.errs, &Error{Path: path, Column: err.Column, Message: err.Message, Hint: err.Hint})
	}
	return v
}

// columns returns what is written of a topic's records, with its types. The key is
// always written, and a version that is no more than a name.
func (c *compiler) columns(path, topic string, list []Column, key string, version *row.Version) []Column {
	always := []string{key}
	if version != nil {
		if name, ok := version.Name(); ok {
			always = append(always, name)
		}
	}
	fields, ok := c.written[topic]
	if !ok {
		c.fail(path, "the records of %q are of no types that are known: only those that an emit writes can be rows", topic)
		return nil
	}
	if list == nil {
		for _, f := range fields {
			list = append(list, Column{Name: f.Name})
		}
	}
	list = slices.Clone(list)
	for _, name := range always {
		if name != "" && !slices.ContainsFunc(list, func(c Column) bool { return c.Name == name }) {
			list = append(list, Column{Name: name})
		}
	}
	for i := range list {
		column := &list[i]
		if column.Column == "" {
			column.Column = column.Name
		}
		at := slices.IndexFunc(fields, func(f Field) bool { return f.Name == column.Name })
		switch {
		case at < 0:
			c.fail(path, "the records of %q have no %q", topic, column.Name)
			c.hint("they have " + fieldNames(fields))
			return nil
		case fields[at].Type == mixed:
			c.fail(path, "the emits to %q write %q with several types", topic, column.Name)
			c.hint("give it one type, or leave it out by `columns`")
		}
		column.Type = fields[at].Type
		if other := slices.IndexFunc(list[:i], func(o Column) bool { return o.Column == column.Column }); other >= 0 {
			c.fail(path+".columns", "%q and %q go to one column, %s", list[other].Name, column.Name, column.Column)
		}
	}
	return list
}

func fieldNames(fields []Field) string {
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

func columnNames(list []Column) string {
	var names []string
	for _, c := range list {
		names = append(names, c.Column)
	}
	return strings.Join(names, ", ")
}

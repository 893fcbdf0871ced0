package afterbay

import (
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/step"
	"github.com/afterbay/afterbay/value"
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
	t := *s.Postgres
	s.Postgres = &t
	if t.URL == "" {
		c.fail(path+".url", "missing: say where the database is, as postgres://host/database")
	}
	if t.Table == "" {
		c.fail(path+".table", "missing: name the table that takes the records")
	}
	t.Columns = c.columns(path, s.From, t.Columns, t.Key, t.Version)
	s.Postgres.Columns = t.Columns
	c.keyed(path, t.Columns, t.Key, t.Version)
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
	r := *s.Redis
	s.Redis = &r
	r.Columns = c.columns(path, s.From, r.Columns, r.Key, r.Version)
	s.Redis.Columns = r.Columns
	c.keyed(path, r.Columns, r.Key, r.Version)
}

// keyed checks the names that rows are found and compared by.
func (c *compiler) keyed(path string, list []Column, key, version string) {
	for _, of := range []struct{ word, name string }{{"key", key}, {"version", version}} {
		column := c.columnOf(path+"."+of.word, of.name, list, of.word == "key")
		if column == nil {
			continue
		}
		kinds := "a string or int"
		fits := column.Type == "string" || column.Type == "int"
		if of.word == "version" {
			kinds, fits = "an int, number or time", column.Type == "int" || column.Type == "number" || column.Type == "time"
		}
		if !fits {
			c.fail(path+"."+of.word, "%q is of type %s: a %s is %s that is always there", of.name, column.Type, of.word, kinds)
		}
	}
}

// columns returns what is written of a topic's records, with its types.
func (c *compiler) columns(path, topic string, list []Column, always ...string) []Column {
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

// columnOf returns the column of a name; nil, which it says where it is needed.
func (c *compiler) columnOf(path, name string, list []Column, needed bool) *Column {
	if name == "" && needed {
		c.fail(path, "missing: name what rows are found by")
	}
	at := slices.IndexFunc(list, func(c Column) bool { return c.Name == name })
	if name == "" || at < 0 {
		return nil // which columns said
	}
	return &list[at]
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

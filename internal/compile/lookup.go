package compile

import (
	"slices"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/table"
)

// found is what a lookup introduces: where a row's fields go, and what they are
// without one.
type found struct {
	fields []decode.Field
	empty  []*expression.Program
	when   *expression.Program
}

// lookup compiles the finding of a row.
func (c *compiler) lookup(path string, s *lang.Lookup) {
	before := len(c.Errs)
	c.Identifier(path+".name", s.Name)
	outside := s.Config != nil
	var key value.Slot
	if s.Vector == "" {
		c.rowsOnly(path, s)
		key = c.lookupKey(path+".key", s)
	} else if !outside {
		c.Fail(path+".vector", "a table finds no documents by a vector: near documents are found by a kind that does, such as postgres")
	}
	var f found
	if s.When != "" {
		f.when = c.Expr(path+".when", s.When, value.Bool)
	}
	c.lookupFields(path, s, &f)
	if outside {
		c.lookupOutside(path, s, key, &f, before)
		return
	}
	spec := c.lookupTable(path, s)
	if spec.Written = c.writesRows(path, s, spec.Own); len(c.Errs) > before {
		return
	}
	op := operator.NewLookup(operator.Lookup{
		Table: c.table(spec), Topic: s.Table, When: f.when, Key: key, Fields: f.fields, Empty: f.empty,
	})
	c.Add(s, path, lang.Ready(op, lang.Place{Waves: spec.Written || c.Fed(append(f.empty, f.when)...) || c.FedSlots(key)}))
}

// lookupTable returns the table that a lookup finds rows in.
func (c *compiler) lookupTable(path string, s *lang.Lookup) table.Spec {
	inputs := c.Pipeline.Inputs
	if len(inputs) == 0 {
		inputs = []lang.Input{c.Pipeline.Input}
	}
	switch {
	case s.Table == "":
		c.Fail(path+".table", "missing: name the topic whose newest record of a key is its row, or say where else rows are")
	case !naming.ValidTopic(s.Table):
		c.Fail(path+".table", "%q is not a topic name: use letters, digits, '.', '_' and '-'", s.Table)
	case naming.Reserved(c.Pipeline.Name, s.Table):
		c.Unreserved(path+".table", s.Table)
	case slices.ContainsFunc(inputs, func(in lang.Input) bool { return in.Topic == s.Table }):
		c.Fail(path+".table", "the pipeline reads %q: an event would find itself, or one that comes after it", s.Table)
		c.Hint("what earlier events of a key said is a feature: last, or windows")
	}
	for _, word := range []struct {
		name  string
		given bool
	}{{"cache", s.Cache != (lang.RowCache{})}, {"batch", s.Batch != (lang.RowBatch{})}, {"call", s.Call != nil}, {"journal", s.Journal != nil}, {"async", s.Async}, {"ordered", s.Ordered}} {
		if word.given && s.Table != "" {
			c.Fail(path+"."+word.name, "the rows of a table are beside the partition: nothing is asked")
			c.Hint("remove it, or say in place of table where else rows are")
		}
	}
	return table.Spec{Topic: s.Table, Own: c.inputKeyed(s.Key)}
}

// table returns the index of a table in the plan.
func (c *compiler) table(spec table.Spec) int {
	if i := slices.Index(c.plan.Tables, spec); i >= 0 {
		return i
	}
	c.plan.Tables = append(c.plan.Tables, spec)
	return len(c.plan.Tables) - 1
}

func (c *compiler) lookupKey(path string, s *lang.Lookup) value.Slot {
	if s.Key == "" {
		c.Fail(path, "missing: name what the row is found by")
		return value.Slot{}
	}
	slots := c.Slots(path, s.Key)
	if len(slots) == 0 {
		return value.Slot{}
	}
	if slot := slots[0]; len(slots) > 1 || slot.Type.Optional || slot.Type.Kind != value.String && slot.Type.Kind != value.Int {
		c.Fail(path, "%q is of type %v: a key is one string or int that is always there", s.Key, slot.Type)
		if slot.Type.Optional {
			c.Hint("give a value for when it is absent by let: ... ?? \"\"")
		}
	}
	return slots[0]
}

func (c *compiler) lookupFields(path string, s *lang.Lookup, into *found) {
	if len(s.Fields) == 0 {
		c.Fail(path+".fields", "missing: name what is read of the row, and its type")
	}
	for _, e := range s.Empty {
		if !slices.ContainsFunc(s.Fields, func(f lang.Field) bool { return f.Name == e.Name }) {
			c.Fail(path+".empty."+e.Name, "%q is none of the fields", e.Name)
		}
	}
	for i, f := range s.Fields {
		at, name := path+".fields."+f.Name, s.Name+"."+f.Name
		parse := value.ParseType
		if s.Vector != "" {
			parse = value.ReadType // several documents have a list of strings
		}
		t, err := parse(f.Type)
		if err != nil {
			c.Fail(at, "%v", err)
			c.Names.Broken[name] = true
			continue
		}
		if slices.ContainsFunc(s.Fields[:i], func(o lang.Field) bool { return o.Name == f.Name }) {
			c.Fail(at, "two fields are named %q", f.Name)
			continue
		}
		var empty *expression.Program
		if k := slices.IndexFunc(s.Empty, func(b lang.Binding) bool { return b.Name == f.Name }); k >= 0 {
			if empty = c.Expr(path+".empty."+f.Name, s.Empty[k].Expr, t.Kind); empty == nil {
				c.Names.Broken[name] = true
				continue
			}
		}
		t.Optional = t.Optional || empty == nil
		if slot, ok := c.Make(at, name, t); c.Identifier(at, f.Name) && ok {
			into.fields = append(into.fields, decode.Field{Name: f.Name, Slot: slot})
			into.empty = append(into.empty, empty)
		}
	}
}

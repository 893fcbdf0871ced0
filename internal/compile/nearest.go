package compile

import (
	"slices"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/model"
)

const (
	nearestLimitMax = 100
	nearestSize     = 16 // vectors of a call: each is a search
)

// nearest compiles what documents are found by: the vector and the texts that
// columns equal.
func (c *compiler) nearest(path string, s *lang.Lookup, stage *operator.Score) {
	if s.Key != "" {
		c.Fail(path+".key", "documents are found by their vectors: remove it, or vector")
	}
	if s.Limit < 0 || s.Limit > nearestLimitMax {
		c.Fail(path+".limit", "%d is out of range: use 1 to %d documents", s.Limit, nearestLimitMax)
	}
	if !slices.Contains([]string{"", "cosine", "l2", "inner_product"}, s.Distance) {
		c.Fail(path+".distance", "%q is none: use cosine, l2 or inner_product", s.Distance)
	}
	stage.Inputs, stage.Codes = c.Slots(path+".vector", s.Vector), []*model.Codes{nil}
	for i, slot := range stage.Inputs {
		if i > 0 || slot.Type.Kind != value.Vector || slot.Type.Optional {
			c.Fail(path+".vector", "%q is of type %v: documents are near to one number[n] that is always there, as a model that embeds has it", slot.Name, slot.Type)
			break
		}
	}
	for i, w := range s.Where {
		at := path + ".where." + w.Name
		if slices.ContainsFunc(s.Where[:i], func(o lang.Binding) bool { return o.Name == w.Name }) {
			c.Fail(at, "two filters are of column %q", w.Name)
		}
		c.equals(at, w.Expr, stage)
	}
	for _, f := range s.Fields {
		if t, err := value.ParseType(f.Type); f.Name == "distance" && err == nil && t.Kind != value.Number {
			c.Fail(path+".fields.distance", "how far the nearest document is is a number, not %v", t)
		}
	}
}

// equals gives the text that a column equals a slot of its own, which is written
// when documents are asked for.
func (c *compiler) equals(path, source string, stage *operator.Score) {
	program := c.Expr(path, source, value.String, value.Int)
	if program == nil {
		return
	}
	if name, ok := program.Name(); ok {
		slot, _ := c.Names.Slot(name)
		stage.Texts = append(stage.Texts, slot)
		return
	}
	if slot, ok := c.Make(path, c.HiddenName(), program.Type()); ok {
		stage.Compute = append(stage.Compute, operator.Assign{Name: "where", Slot: slot, Program: program})
		stage.Texts = append(stage.Texts, slot)
	}
}

// rowsOnly refuses the words of documents in a lookup of rows by their keys.
func (c *compiler) rowsOnly(path string, s *lang.Lookup) {
	for _, word := range []struct {
		name  string
		given bool
	}{{"limit", s.Limit != 0}, {"where", s.Where != nil}, {"distance", s.Distance != ""}, {"join", s.Join != ""}} {
		if word.given {
			c.Fail(path+"."+word.name, "it is of documents that are found by a vector: there is a key")
			c.Hint("give vector instead of key, or remove it")
		}
	}
}

func filtered(where []lang.Binding) (names []string) {
	for _, w := range where {
		names = append(names, w.Name)
	}
	return names
}

package afterbay

import (
	"slices"
	"strings"

	"github.com/afterbay/afterbay/expression"
	"github.com/afterbay/afterbay/value"
)

// names is the flat set of names as far as it has been introduced: what an
// expression at some place may use.
type names struct {
	schema    *value.Schema
	constants map[string]expression.Constant
	later     map[string]bool // introduced somewhere by a step
	missing   []string        // of them, looked up before they were there
	broken    map[string]bool // of them, never there because of an error that was reported
}

func (n *names) anyBroken(list []string) bool {
	return slices.ContainsFunc(list, func(name string) bool { return n.broken[name] })
}

// Slot implements expression.Names.
func (n *names) Slot(name string) (value.Slot, bool) {
	slot, ok := n.schema.Lookup(name)
	if !ok && n.later[name] {
		n.missing = append(n.missing, name)
	}
	return slot, ok
}

// Constant implements expression.Names.
func (n *names) Constant(name string) (expression.Constant, bool) {
	constant, ok := n.constants[name]
	return constant, ok
}

// Known implements expression.Names.
func (n *names) Known() []string {
	var all []string
	for name := range n.constants {
		all = append(all, name)
	}
	slices.Sort(all)
	for _, slot := range n.schema.Slots {
		if !strings.HasPrefix(slot.Name, hidden) {
			all = append(all, slot.Name)
		}
	}
	return all
}

// hidden starts the names of slots that no expression can write: values of
// emits.
const hidden = "\x00"

// laterNames returns the names that steps introduce which a feature above them
// may read as feedback: outputs of scores, lets and decides.
func laterNames(p *Pipeline) map[string]bool {
	later := map[string]bool{}
	outputs := map[string][]Field{}
	for _, m := range p.Models {
		outputs[m.Name] = m.Outputs
	}
	for _, s := range p.Steps {
		for _, b := range slices.Concat(s.Let, s.Decide) {
			later[b.Name] = true
		}
		if s.Score != nil {
			for _, o := range outputs[s.Score.Model] {
				later[cmpOr(s.Score.As, s.Score.Model)+"."+o.Name] = true
			}
		}
	}
	return later
}

// expand resolves a list of names where "prefix.*" stands for all names under
// prefix, in order, and event.* for all fields.
func (c *compiler) expand(path, name string) []value.Slot {
	prefix, all := strings.CutSuffix(name, ".*")
	if !all {
		if slot, ok := c.names.Slot(name); ok {
			return []value.Slot{slot}
		}
		c.unknown(path, name)
		return nil
	}
	var found []value.Slot
	for _, slot := range c.names.schema.Slots {
		if prefix == "event" && c.isField(slot.Name) || strings.HasPrefix(slot.Name, prefix+".") {
			found = append(found, slot)
		}
	}
	if found == nil {
		c.fail(path, "nothing is named %q", name)
		c.hint("name a feature, model or event before the .*")
	}
	return found
}

func (c *compiler) unknown(path, name string) {
	if c.names.broken[name] {
		return
	}
	if _, ok := c.names.constants[name]; ok {
		c.fail(path, "%q is a constant; give it a name of its own by let to use it here", name)
		return
	}
	if c.names.later[name] {
		c.fail(path, "%q is introduced below; a name is used below its introduction, except in a feature's value and when", name)
		return
	}
	c.fail(path, "unknown name %q", name)
	if near := expression.Nearest(name, c.names.Known()); near != "" {
		c.hint("did you mean " + near + "?")
	}
}

package afterbay

import (
	"slices"

	"github.com/afterbay/afterbay/step"
)

// outputName is the name of a step that writes a topic.
type outputName struct {
	at     string // path of the topic in the step
	name   string // "" is none
	guards []*step.Guard
}

// outputName checks that the outputs of a step have ids of their own: no two steps that
// one event may take write a topic by one name. A step whose file says the id has none.
func (c *compiler) outputName(at, path, topic, name, id string) {
	switch {
	case name != "" && !step.Identifier(name):
		c.fail(path, "%q is not a name: use letters, digits and '_', not starting with a digit", name)
		return
	case name != "" && id != "":
		c.fail(path, "the step has an id, so its name would be part of none")
		c.hint("remove name, or id")
		return
	case id != "":
		return
	}
	this := outputName{at: at, name: name, guards: slices.Clone(c.guards)}
	for _, other := range c.ids[topic] {
		if other.name != name || exclude(other.guards, this.guards) {
			continue
		}
		if name == "" {
			c.fail(at, "%s writes %q too, and neither step has a name: both outputs of an event would have one id", other.at, topic)
			c.hint("write `name: NAME` in the newer step: the ids of its outputs end with " + topic + "#NAME")
		} else {
			c.fail(path, "%s writes %q by the name %q too: both outputs of an event would have one id", other.at, topic, name)
			c.hint("give one of the steps another name")
		}
		return
	}
	c.ids[topic] = append(c.ids[topic], this)
}

// exclude reports whether no event passes both guards of one step and those of another:
// they are in two cases of one route.
func exclude(a, b []*step.Guard) bool {
	return slices.ContainsFunc(a, func(g *step.Guard) bool {
		return slices.ContainsFunc(b, func(h *step.Guard) bool { return g.Slot == h.Slot && g.Case != h.Case })
	})
}

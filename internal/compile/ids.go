package compile

import (
	"slices"

	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// outputName is the name of a step that writes a topic.
type outputName struct {
	at     string // path of the topic in the step
	name   string // "" if the step has no name
	guards []*operator.Guard
}

// outputName checks that the outputs of a step have ids of their own, and that dead
// letters can name the step: no two steps that one event may take write a topic by one name.
func (c *compiler) outputName(at, path, topic, name string) {
	if name != "" && !naming.Identifier(name) {
		c.Fail(path, "%q is not a name: use letters, digits and '_', not starting with a digit", name)
		return
	}
	this := outputName{at: at, name: name, guards: slices.Clone(c.guards)}
	for _, other := range c.ids[topic] {
		if other.name != name || exclude(other.guards, this.guards) {
			continue
		}
		if name == "" {
			c.Fail(at, "%s writes %q too, and neither step has a name", other.at, topic)
			c.Hint("write `name: NAME` in the newer step: the ids of its outputs end with " + topic + "#NAME, and dead letters name the step by it")
		} else {
			c.Fail(path, "%s writes %q by the name %q too", other.at, topic, name)
			c.Hint("give one of the steps another name")
		}
		return
	}
	c.ids[topic] = append(c.ids[topic], this)
}

// exclude reports whether no event passes both guards of one step and those of another:
// they are in two cases of one route.
func exclude(a, b []*operator.Guard) bool {
	return slices.ContainsFunc(a, func(g *operator.Guard) bool {
		return slices.ContainsFunc(b, func(h *operator.Guard) bool { return g.Slot == h.Slot && g.Case != h.Case })
	})
}

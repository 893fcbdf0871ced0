package compile

import (
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/task/operator"
)

const mixed = "of several types"

// writes notes what an emit writes to a topic: what only some of its emits write
// may be absent.
func (c *compiler) writes(topic string, e *operator.Emit) {
	before, again := c.written[topic]
	var here []string
	for i, slot := range e.Values {
		name, err := strconv.Unquote(string(e.Names[i][:len(e.Names[i])-1]))
		if err != nil {
			continue // it was quoted by strconv
		}
		here = append(here, name)
		of := slot.Type
		at := slices.IndexFunc(before, func(f lang.Field) bool { return f.Name == name })
		if at < 0 {
			of.Optional = of.Optional || again
			before = append(before, lang.Field{Name: name, Type: of.String()})
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

package compile

import "github.com/afterbay/afterbay/internal/lang"

// step compiles a step of a kind that does not bind itself.
func (c *compiler) step(path string, s lang.Step) {
	switch s := s.(type) {
	case *lang.Lookup:
		c.lookup(path, s)
	case *lang.Fetch:
		c.fetch(path, s)
	case *lang.Score:
		c.score(path, s)
	}
}

// output returns the index of a topic that the pipeline writes.
func (c *compiler) output(topic string) int {
	i := c.Outputs.Index(topic)
	c.plan.Outputs = c.Outputs.Topics
	return i
}

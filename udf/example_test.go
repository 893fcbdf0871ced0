package udf_test

import (
	"fmt"
	"time"

	"github.com/afterbay/afterbay/udf"
)

// visits counts the events of a key, and forgets the key after an hour of silence.
var visits = udf.Function{
	Version: 1, Keyed: true,
	Event: func(c *udf.Context) error {
		seen := append(c.Get("seen"), 'x')
		c.Put("seen", seen)
		c.SetInt("visits", int64(len(seen)))
		c.SetTimer("forget", c.Time.Add(time.Hour))
		return nil
	},
	Timer: func(c *udf.Context) error {
		c.Put("seen", nil)
		return nil
	},
}

// memory is a Host for tests of a function: it has the state of one key, and the outputs.
type memory struct {
	udf.Host
	state map[string][]byte
	ints  map[string]int64
}

func (m *memory) Get(name string) []byte             { return m.state[name] }
func (m *memory) Put(name string, v []byte)          { m.state[name] = v }
func (m *memory) SetInt(name string, v int64)        { m.ints[name] = v }
func (m *memory) SetTimer(name string, at time.Time) {}

// A function is called with a Context. In a pipeline the engine makes it; a test may make
// its own. Example_customStep of package afterbay shows a function in a pipeline.
func ExampleFunction() {
	m := &memory{state: map[string][]byte{}, ints: map[string]int64{}}
	for range 3 {
		if err := visits.Event(&udf.Context{Key: "ann", Time: time.Unix(0, 0), Host: m}); err != nil {
			panic(err)
		}
	}
	fmt.Println(m.ints["visits"])
	// Output: 3
}

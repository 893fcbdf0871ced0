package operator

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/udf"
)

// Invocation is one call of a function. It is what the function sees as udf.Host.
type Invocation struct {
	ID        string
	Key       string
	Time      time.Time // of the event or timer
	Watermark time.Time // zero before the first event
	Offset    int64     // of the event, or of the one that the timer is called before
	Timer     string    // name of the timer that is due; "" for an event
	After     int64     // what the timer has of it

	Row     *value.Row // nil for a timer
	Inputs  []value.Slot
	Outputs []value.Slot
	Topics  []string
	State   *State // as of before the call, which does not change it; nil where the function is not keyed

	seen udf.Context
	next *State // the state as this call leaves it; nil while it is as before
	made []udf.Output
	fail error
}

// input returns the slot of an input. Asking for a name that the call does not
// give is a mistake in the program.
func (c *Invocation) input(name string, kinds ...value.Kind) value.Slot {
	return find("input", c.Inputs, name, kinds)
}

func find(what string, slots []value.Slot, name string, kinds []value.Kind) value.Slot {
	i := slices.IndexFunc(slots, func(s value.Slot) bool { return s.Name == name })
	if i < 0 {
		panic(fmt.Sprintf("%s %q is not named by the call step", what, name))
	}
	if len(kinds) > 0 && !slices.Contains(kinds, slots[i].Type.Kind) {
		panic(fmt.Sprintf("%s %q is of type %v", what, name, slots[i].Type))
	}
	return slots[i]
}

// Has reports whether an input is there: an optional one may be absent, and
// reads as the zero value.
func (c *Invocation) Has(name string) bool {
	return c.Row.Has(c.input(name))
}

// Text returns an input of type string, bytes or raw, the text of a value of JSON. It is valid during the call;
// strings.Clone it to keep it.
func (c *Invocation) Text(name string) string {
	if s := c.input(name, value.String, value.Bytes, value.Raw); c.Row.Has(s) {
		return c.Row.Text(s)
	}
	return ""
}

// Texts returns an input of type string[].
func (c *Invocation) Texts(name string) []string {
	if s := c.input(name, value.List|value.String); c.Row.Has(s) {
		return slices.Collect(value.EachString(c.Row.Text(s)))
	}
	return nil
}

// Int returns an input of type int.
func (c *Invocation) Int(name string) int64 {
	if s := c.input(name, value.Int); c.Row.Has(s) {
		return c.Row.Int(s)
	}
	return 0
}

// Number returns an input of type number, int or bool.
func (c *Invocation) Number(name string) float64 {
	if s := c.input(name, value.Number, value.Int, value.Bool); c.Row.Has(s) {
		return c.Row.AsNumber(s)
	}
	return 0
}

// Bool returns an input of type bool.
func (c *Invocation) Bool(name string) bool {
	s := c.input(name, value.Bool)
	return c.Row.Has(s) && c.Row.Bool(s)
}

// At returns an input of type time.
func (c *Invocation) At(name string) time.Time {
	if s := c.input(name, value.Time); c.Row.Has(s) {
		return time.UnixMicro(c.Row.Int(s)).UTC()
	}
	return time.Time{}
}

// SetText sets an output of type string or bytes. One that is larger than a text or the
// texts of an event may be, 1 MiB and 4 MiB, fails the call.
func (c *Invocation) SetText(name, v string) {
	slot := find("output", c.Outputs, name, []value.Kind{value.String, value.Bytes})
	if err := c.Row.Make(&slot, v); err != nil {
		c.failed(fmt.Errorf("output %q: %w", name, err))
	}
}

// SetInt sets an output of type int.
func (c *Invocation) SetInt(name string, v int64) {
	c.Row.SetInt(find("output", c.Outputs, name, []value.Kind{value.Int}), v)
}

// SetNumber sets an output of type number. One that is not finite fails the
// call.
func (c *Invocation) SetNumber(name string, v float64) {
	slot := find("output", c.Outputs, name, []value.Kind{value.Number})
	if !value.Finite(v) {
		c.failed(fmt.Errorf("output %q is %v: a number is finite", name, v))
		return
	}
	c.Row.SetNumber(slot, v)
}

// SetBool sets an output of type bool.
func (c *Invocation) SetBool(name string, v bool) {
	c.Row.SetBool(find("output", c.Outputs, name, []value.Kind{value.Bool}), v)
}

// SetAt sets an output of type time.
func (c *Invocation) SetAt(name string, v time.Time) {
	c.Row.SetInt(find("output", c.Outputs, name, []value.Kind{value.Time}), v.UnixMicro())
}

func (c *Invocation) failed(err error) {
	if c.fail == nil {
		c.fail = err
	}
}

// state returns the key's state as the call sees it.
func (c *Invocation) state() *State {
	if c.State == nil {
		panic("the function has no state: set Keyed")
	}
	if c.next != nil {
		return c.next
	}
	return c.State
}

// change returns the key's state for writing.
func (c *Invocation) change() *State {
	if c.state(); c.next == nil {
		c.next = c.State.clone()
	}
	return c.next
}

// Get returns a value of the key's state, nil where there is none. It must not
// be changed.
func (c *Invocation) Get(name string) []byte { return c.state().Values[name] }

// Put sets a value of the key's state; nil deletes it. The value is kept.
func (c *Invocation) Put(name string, v []byte) {
	s := c.change()
	if v == nil {
		delete(s.Values, name)
		return
	}
	s.Values[name] = v
}

// forget deletes all values of the key's state.
func (c *Invocation) forget() { clear(c.change().Values) }

// SetTimer asks for a call of Timer when the watermark reaches at, which is
// rounded up to the microsecond. A key has one timer of a name: the new time
// replaces the old. It is due at the next event of the partition at the
// earliest, also where its time is reached already. One that a timer sets for after itself,
// by time and name, may be due before the same event.
func (c *Invocation) SetTimer(name string, at time.Time) {
	if name == "" {
		c.failed(errors.New("a timer needs a name"))
		return
	}
	s := c.change()
	s.stop(name)
	if len(s.Timers) >= udf.TimersMax {
		c.failed(fmt.Errorf("timer %q: a key has at most %d", name, udf.TimersMax))
		return
	}
	t := Timer{Name: strings.Clone(name), At: at.Add(time.Microsecond - 1).UnixMicro(), After: c.Offset, SetBy: HashOf(c.ID)}
	if c.Timer != "" {
		by := Timer{Name: c.Timer, At: c.Time.UnixMicro()}
		if t.Compare(by) > 0 {
			t.After = c.After
		}
	}
	i, _ := slices.BinarySearchFunc(s.Timers, t, Timer.Compare)
	s.Timers = slices.Insert(s.Timers, i, t)
}

// StopTimer takes a timer back. It does nothing where there is none.
func (c *Invocation) StopTimer(name string) { c.change().stop(name) }

// Emit writes a record when the step is committed, behind those that the event
// wrote before. The call fails if two outputs to a topic have the same Name, or none,
// since their ids would be equal.
func (c *Invocation) Emit(o udf.Output) {
	switch {
	case !slices.Contains(c.Topics, o.Topic):
		panic(fmt.Sprintf("topic %q is not named by the call step", o.Topic))
	case !naming.Identifier(o.Name) && o.Name != "":
		c.failed(fmt.Errorf("the output to %q has the name %q: use letters, digits and '_', not starting with a digit", o.Topic, o.Name))
	case o.ID == "" && slices.ContainsFunc(c.made, func(e udf.Output) bool { return e.ID == "" && e.Topic == o.Topic && e.Name == o.Name }):
		c.failed(fmt.Errorf("two outputs to %q have the name %q, and so the same id: give each a Name of its own", o.Topic, o.Name))
	case len(c.made) == udf.EmitsMax:
		c.failed(fmt.Errorf("a call writes at most %d outputs", udf.EmitsMax))
	default:
		c.made = append(c.made, o)
	}
}

// Effects is what a call that succeeded asks for.
type Effects struct {
	State   *State // nil where it is as before
	Outputs []udf.Output
}

// Call makes the call of f and returns its effects, or why it failed.
func (c *Invocation) Call(f *udf.Function) (effects Effects, err error) {
	defer func() {
		if r := recover(); r != nil {
			effects, err = Effects{}, fmt.Errorf("panic: %v", r)
		}
	}()
	call := f.Event
	if c.Timer != "" {
		call = f.Timer
	}
	c.seen = udf.Context{ID: c.ID, Key: c.Key, Time: c.Time, Watermark: c.Watermark, Offset: c.Offset, Timer: c.Timer, Host: c}
	if err := call(&c.seen); err != nil {
		return Effects{}, err
	}
	if c.next != nil && c.fail == nil {
		c.fail = c.next.check()
	}
	if c.fail != nil {
		return Effects{}, c.fail
	}
	return Effects{c.next, c.made}, nil
}

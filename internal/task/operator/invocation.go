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

// Invocation is one call of a function. The function sees it as udf.Host.
type Invocation struct {
	ID        string
	Key       string
	Time      time.Time // of the event or timer
	Watermark time.Time // zero before the first event
	Offset    int64     // offset of the event; for a timer, of the event that it fires before
	Timer     string    // name of the timer that is due; "" for an event
	After     int64     // Timer.After of the due timer

	Row     *value.Row // nil for a timer
	Inputs  []value.Slot
	Outputs []value.Slot
	Topics  []string
	State   *State // state before the call, which the call does not change; nil if the function is not keyed

	seen udf.Context
	next *State // state after the call; nil while it is unchanged
	made []udf.Output
	fail error
}

// input returns the slot of an input. It panics if the call has no input of that name, because that
// is a mistake in the program.
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

// Has reports whether an input is present. An optional input may be absent, and then reads as the
// zero value.
func (c *Invocation) Has(name string) bool {
	return c.Row.Has(c.input(name))
}

// Text returns an input of type string, bytes or raw. A raw input is the text of a JSON value. The
// text is valid only during the call. Use strings.Clone to keep it.
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

// SetText sets an output of type string or bytes. The call fails if the text is over 1 MiB or all
// texts of the event are over 4 MiB.
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

// SetNumber sets an output of type number. The call fails if the number is not finite.
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

// Get returns a value of the key's state, or nil if it is not set. The caller must not change the
// value.
func (c *Invocation) Get(name string) []byte { return c.state().Values[name] }

// Put sets a value of the key's state; nil deletes it. The state keeps the value, so the caller
// must not change it later.
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

// SetTimer requests a call of Timer when the watermark reaches at. It rounds at up to the
// microsecond. A key has at most one timer of each name: a new time replaces the old one. A timer
// is due at the next event of the partition at the earliest, even if its time is already reached.
// If a timer sets another timer that comes after itself, by time and name, both may fire before the
// same event.
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

// StopTimer cancels a timer. It does nothing if the timer is not set.
func (c *Invocation) StopTimer(name string) { c.change().stop(name) }

// Emit writes a record when the transaction is committed, after the records that the event wrote
// before. The call fails if two outputs to a topic have the same Name, or both have none, because
// their ids would be equal.
func (c *Invocation) Emit(o udf.Output) {
	switch {
	case !slices.Contains(c.Topics, o.Topic):
		panic(fmt.Sprintf("topic %q is not named by the call step", o.Topic))
	case !naming.Identifier(o.Name) && o.Name != "":
		c.failed(fmt.Errorf("the output to %q has the name %q: use letters, digits and '_', not starting with a digit", o.Topic, o.Name))
	case o.ID == "" && slices.ContainsFunc(c.made, func(e udf.Output) bool { return e.ID == "" && e.Topic == o.Topic && e.Name == o.Name }):
		c.failed(fmt.Errorf("two outputs to %q have the name %q, and so the same id: give each a separate Name", o.Topic, o.Name))
	case len(c.made) == udf.EmitsMax:
		c.failed(fmt.Errorf("a call writes at most %d outputs", udf.EmitsMax))
	default:
		c.made = append(c.made, o)
	}
}

// Effects holds the results of a successful call.
type Effects struct {
	State   *State // nil if it is unchanged
	Outputs []udf.Output
}

// Call calls f and returns its effects, or an error if it failed or panicked.
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

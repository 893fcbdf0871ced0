package value

import "fmt"

// Limits of the texts that the steps of an event make: values of kind string, bytes and string[].
// Other limits apply to other texts: the size of the record to what an event brings, the max of a
// group to its lists, and the type to a vector.
const (
	TextMax  = 1 << 20 // bytes of one text
	TextsMax = 4 << 20 // bytes of all texts of an event
)

// Excess is the error for a text that exceeds a limit.
type Excess struct {
	Size int  // bytes
	All  bool // Size is the size of all texts of the event
}

// Error returns the size and the limit.
func (e *Excess) Error() string {
	if e.All {
		return fmt.Sprintf("the texts that the steps of the event make have %d bytes, over the limit of %d", e.Size, TextsMax)
	}
	return fmt.Sprintf("a text of %d bytes is over the limit of %d", e.Size, TextMax)
}

// Begin starts the evaluation of an expression. r may be nil.
func (r *Row) Begin() {
	if r != nil {
		r.working = 0
	}
}

// Compose reserves memory for a text that an expression is about to compose. The texts of one
// evaluation count together with those that the event has. A nil row stands for a constant
// expression: only the text itself is checked.
func (r *Row) Compose(size int) error {
	switch {
	case size > TextMax:
		return &Excess{Size: size}
	case r == nil:
		return nil
	case r.made+r.working+size > TextsMax:
		return &Excess{Size: r.made + r.working + size, All: true}
	}
	r.working += size
	return nil
}

// Make stores a text that a step made. On an error the slot stays unchanged. s is a pointer because
// a Slot and a text together do not fit in registers.
func (r *Row) Make(s *Slot, v string) error {
	if s.Type.Kind != Vector {
		before := 0
		if r.Has(*s) {
			before = len(r.Str[s.Index])
		}
		if err := r.count(len(v), before); err != nil {
			return err
		}
	}
	r.SetText(*s, v)
	return nil
}

// Made counts the text that a step has read into a slot. On an error the slot becomes absent.
func (r *Row) Made(s Slot) error {
	if !s.Type.Kind.Text() || s.Type.Kind == Vector || !r.Has(s) {
		return nil
	}
	err := r.count(len(r.Str[s.Index]), 0)
	if err != nil {
		r.Clear(s)
	}
	return err
}

// Drop clears a slot with a text that Make or Made counted.
func (r *Row) Drop(s Slot) {
	if s.Type.Kind.Text() && s.Type.Kind != Vector && r.Has(s) {
		r.made -= len(r.Str[s.Index])
	}
	r.Clear(s)
}

// Recount counts the texts of slots in a stored row, for the slots that steps fill.
func (r *Row) Recount(slots []Slot) error {
	r.made = 0
	for _, s := range slots {
		if err := r.Made(s); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil
}

// count replaces the size before with size in the count.
func (r *Row) count(size, before int) error {
	made := r.made + size - before
	switch {
	case size > TextMax:
		return &Excess{Size: size}
	case made > TextsMax:
		return &Excess{Size: made, All: true}
	}
	r.made = made
	return nil
}

package avro

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
)

// op is the action of a step on the next bytes.
type op uint8

const (
	skipBytes   op = iota + 1 // n bytes
	skipVarints               // n varints
	skipTexts                 // n texts or byte strings
	skipBlocks                // an array
	skipPairs                 // a map
	call                      // runs the program of a record
	choose                    // reads the branch of a union and jumps to branches[index]
	jump                      // jumps to step n
	clearSlot                 // clears the slot: the value is absent
	refuse                    // makes the event a dead letter, with a reason
	readBool
	readInt     // int to a slot of kind int
	readLong    // int or long to a slot of kind int
	readNumber  // to a slot of kind number
	readText    // to a slot of kind string
	readSymbol  // enum to a slot of kind string
	readBytes   //
	readFixed   // fixed to a slot of kind bytes
	readInstant // text to a slot of kind time
	readTicks   // long to a slot of kind time: n ticks are a microsecond, or a tick is -n microseconds
	readDays    // int to a slot of kind time
	readVector  // array of ints, longs, floats or doubles
	readList    // from an array
	readMap     //
)

// step is a step of a program.
type step struct {
	op       op
	n        int
	want     *decode.Field // the field to fill; nil if the step skips
	of       *node         // the Avro type to read
	item     *step         // reads an element of a list or map
	items    *program      // program of the items of an array or map, or of a call
	branches []int         // for a union: index of the first step of each branch
	reason   string
}

// program reads the values of a type.
type program struct {
	steps []step
	empty bool // the values have no bytes
}

// Decoder reads fields of records of one schema. It is immutable after Schema.Decoder and safe for
// concurrent use.
type Decoder struct{ program program }

var _ decode.Format = (*Schema)(nil)

// tree holds the fields to read from a type: its value, or its fields by name.
type tree struct {
	want  *decode.Field
	below map[string]*tree
}

func treeOf(fields []decode.Field) (*tree, error) {
	root := &tree{}
	for i := range fields {
		at := root
		path, ok := fields[i].Members()
		if !ok {
			return nil, fmt.Errorf("field %q: its path goes through a list, which is not possible in Avro", fields[i].Name)
		}
		for _, part := range path {
			if at.want != nil {
				return nil, fmt.Errorf("field %q is part of field %q, which is wanted whole", fields[i].Name, at.want.Name)
			}
			next := at.below[part]
			if next == nil {
				if next = (&tree{}); at.below == nil {
					at.below = map[string]*tree{}
				}
				at.below[part] = next
			}
			at = next
		}
		if at.want != nil || at.below != nil {
			return nil, fmt.Errorf("field %q is wanted twice", fields[i].Name)
		}
		at.want = &fields[i]
	}
	return root, nil
}

// each yields all fields to read.
func (t *tree) each(yield func(*decode.Field)) {
	if t.want != nil {
		yield(t.want)
	}
	for _, name := range t.names() {
		t.below[name].each(yield)
	}
}

// names returns the names of the fields below, sorted.
func (t *tree) names() []string { return slices.Sorted(maps.Keys(t.below)) }

// Decoder returns a decoder of the fields. The error names each field that records of the schema
// cannot fill.
func (s *Schema) Decoder(fields []decode.Field) (decode.Decoder, error) {
	if s.root.kind != record {
		return nil, fmt.Errorf("the schema is of type %s: want a record", s.root.named)
	}
	wants, err := treeOf(slices.Clone(fields))
	if err != nil {
		return nil, err
	}
	c := compiler{skips: map[*node]*program{}}
	c.record(s.root, wants)
	if c.full() {
		return nil, fmt.Errorf("the schema and the fields make a program of more than %d steps", stepsMax)
	}
	if len(c.faults) > 0 {
		return nil, errors.New(strings.Join(c.faults, "; "))
	}
	return &Decoder{program{steps: c.out}}, nil
}

// stepsMax limits the steps of a program.
const stepsMax = 1 << 18

// compiler makes a program.
type compiler struct {
	out    []step
	steps  int // steps of this program and of those that it calls
	fence  int // do not merge with steps before it: other steps jump to its position
	skips  map[*node]*program
	faults []string
}

func (c *compiler) emit(s step) {
	if c.steps++; !c.full() {
		c.out = append(c.out, s)
	}
}

func (c *compiler) full() bool { return c.steps > stepsMax }

// record reads the wanted fields of a record.
func (c *compiler) record(n *node, t *tree) {
	for _, f := range n.fields {
		if sub := t.below[f.name]; sub != nil {
			c.read(f.of, sub)
		} else {
			c.skip(f.of)
		}
	}
	for _, name := range t.names() {
		if !slices.ContainsFunc(n.fields, func(f field) bool { return f.name == name }) {
			c.absent(t.below[name], "the schema has no such field")
		}
	}
}

// absent clears the wanted fields. A field that is not optional makes the schema unusable.
func (c *compiler) absent(t *tree, reason string) {
	t.each(func(f *decode.Field) {
		if !f.Slot.Type.Optional {
			c.faults = append(c.faults, fmt.Sprintf("field %q is required: %s", f.Name, reason))
		}
		c.emit(step{op: clearSlot, want: f})
	})
}

// null reads the wanted fields of a null.
func (c *compiler) null(t *tree) {
	t.each(func(f *decode.Field) {
		if f.Slot.Type.Optional {
			c.emit(step{op: clearSlot, want: f})
		} else {
			c.emit(step{op: refuse, want: f, reason: "null but required: want " + f.Slot.Type.String()})
		}
	})
}

// read reads the wanted fields of a value.
func (c *compiler) read(n *node, t *tree) {
	switch {
	case c.full():
	case n.kind == null:
		c.null(t)
	case n.kind == union:
		c.union(n, t)
	case t.want == nil && n.kind == record:
		c.record(n, t)
	case t.want == nil:
		t.each(func(f *decode.Field) {
			c.faults = append(c.faults, fmt.Sprintf("field %q is part of a %s in the schema: want a record", f.Name, n.named))
		})
	default:
		if s := reading(n, t.want); s.op != 0 {
			c.emit(s)
			return
		}
		c.faults = append(c.faults, mistyped(n, t.want))
	}
}

func mistyped(n *node, f *decode.Field) string {
	return fmt.Sprintf("field %q is of type %s in the schema: want %s", f.Name, n.named, f.Slot.Type.String())
}

// union reads one of several types. If a type does not fit, each event with it gets an error. If no
// type fits, the schema gets an error.
func (c *compiler) union(n *node, t *tree) {
	before, fits := c.faults, false
	var misfits []string
	c.branches(n, func(branch *node) {
		at := len(c.out)
		c.faults = nil
		c.read(branch, t)
		if len(c.faults) > 0 {
			misfits = append(misfits, c.faults...)
			c.out = append(c.out[:at], step{op: refuse, want: t.first(), reason: strings.Join(c.faults, "; ")})
		} else if branch.kind != null {
			fits = true
		}
	})
	if c.faults = before; !fits {
		c.faults = append(c.faults, misfits...)
	}
}

// branches makes the steps of each branch of a union. All branches continue after the last.
func (c *compiler) branches(n *node, each func(branch *node)) {
	at := len(c.out)
	c.emit(step{op: choose})
	begins, ends := make([]int, len(n.branches)), []int(nil)
	for i, branch := range n.branches {
		if i > 0 {
			ends = append(ends, len(c.out))
			c.emit(step{op: jump})
		}
		c.fence = len(c.out)
		begins[i] = c.fence
		each(branch)
	}
	if c.fence = len(c.out); c.full() {
		return
	}
	for _, end := range ends {
		c.out[end].n = c.fence
	}
	c.out[at].branches = begins
}

// first returns the first field to read.
func (t *tree) first() (first *decode.Field) {
	t.each(func(f *decode.Field) {
		if first == nil {
			first = f
		}
	})
	return first
}

// skip skips a value. It merges equal consecutive steps.
func (c *compiler) skip(n *node) {
	s := step{n: 1}
	switch n.kind {
	case null:
		return
	case boolean:
		s.op = skipBytes
	case integer, long, enum:
		s.op = skipVarints
	case float:
		s.op, s.n = skipBytes, 4
	case double:
		s.op, s.n = skipBytes, 8
	case fixed:
		s.op, s.n = skipBytes, n.size
	case bytesType, text:
		s.op = skipTexts
	case array:
		s.op, s.items = skipBlocks, c.skipping(n.items)
	case dictionary:
		s.op, s.items = skipPairs, c.skipping(n.items)
	case record:
		s.op, s.items = call, c.skipping(n)
	case union:
		c.branches(n, c.skip)
		return
	}
	if n.empty || c.full() {
		return
	}
	if last := len(c.out) - 1; last >= c.fence && c.out[last].op == s.op && s.op <= skipTexts {
		c.out[last].n += s.n
		return
	}
	c.emit(s)
}

// skipping returns a program that skips the values of a type.
func (c *compiler) skipping(n *node) *program {
	if p := c.skips[n]; p != nil {
		return p
	}
	p := &program{empty: n.empty}
	c.skips[n] = p
	out, fence := c.out, c.fence
	c.out, c.fence = nil, 0
	if n.kind == record {
		for _, f := range n.fields {
			c.skip(f.of)
		}
	} else {
		c.skip(n)
	}
	p.steps, c.out, c.fence = c.out, out, fence
	return p
}

// reading returns the step that reads a value into the slot of a field. Its op is 0 if the type
// does not fit.
func reading(n *node, f *decode.Field) step {
	slot := f.Slot.Type.Kind
	s := step{want: f, of: n}
	switch {
	case slot == value.Vector && n.kind == array && n.items.kind >= integer && n.items.kind <= double:
		s.op = readVector
	case slot.IsList() && n.kind == array:
		s.element(readList, slot.Element())
	case slot.IsMap() && n.kind == dictionary:
		s.element(readMap, slot.Element())
	case slot != value.Vector && !slot.IsList() && !slot.IsMap():
		s.op = scalar(n, slot)
	}
	if s.op == readTicks {
		s.n = ticks[n.logical]
	}
	return s
}

// element makes the step read elements of a kind.
func (s *step) element(by op, slot value.Kind) {
	if one := scalar(s.of.items, slot); one != 0 {
		s.op, s.item = by, &step{op: one, want: s.want, of: s.of.items, n: ticks[s.of.items.logical]}
	}
}

// scalar returns the op that reads a type into a slot of a kind, or 0 if the type does not fit.
func scalar(n *node, slot value.Kind) op {
	decimal := n.logical == "decimal" && (n.kind == bytesType || n.kind == fixed)
	switch {
	case slot == value.Time && n.kind == long && ticks[n.logical] != 0:
		return readTicks
	case slot == value.Time && n.kind == integer && n.logical == "date":
		return readDays
	case slot == value.Number && (n.kind >= integer && n.kind <= double || decimal):
		return readNumber
	}
	return map[value.Kind]map[kind]op{
		value.Bool: {boolean: readBool}, value.Int: {integer: readInt, long: readLong}, value.String: {text: readText, enum: readSymbol},
		value.Bytes: {bytesType: readBytes, fixed: readFixed}, value.Time: {text: readInstant},
	}[slot][n.kind]
}

// ticks holds the unit of logical types of long: the ticks in a microsecond or, if negative, the
// microseconds in a tick.
var ticks = map[string]int{"timestamp-millis": -1000, "timestamp-micros": 1, "timestamp-nanos": 1000}

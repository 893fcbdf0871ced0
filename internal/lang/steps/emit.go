package steps

import (
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Emit writes an output record.
type Emit struct {
	Topic string
	Key   string // a name; "" is the input's key, and its partition with it
	When  string
	// Delete is an expression of type bool. If it is true, the record has no value, which deletes
	// its key. "" means never.
	Delete string            `json:",omitempty"`
	ID     string            // expression of type string; "" means pipeline:event:topic, with #Name at the end if there is a name
	Name   string            `json:",omitempty"` // distinguishes several steps that write Topic; one of them needs no name
	Names  []string          // names; dots become _; event.* stands for all fields, feature.* for all columns
	Value  []Member          // instead of Names
	Format lang.OutputFormat `json:",omitzero"`
}

// Member is a member of an output's object: the value of an expression, or an object of Members.
type Member struct {
	Name    string
	Expr    string
	Members []Member `json:",omitempty"`
}

// StepKind implements Step.
func (*Emit) StepKind() *lang.StepKind { return &emitKind }

var emitKind = lang.KindOf("emit", spec.Outputs, readEmit, "{topic: decisions, value: [tx, fraud.score, action]}", "writes an output record")

var readEmit = spec.MappingOf(emitFields)

var emitFields = []spec.Field[Emit]{
	{Name: "topic", Affects: spec.Outputs, Required: true, Form: spec.Into(func(e *Emit) *string { return &e.Topic }, spec.ReadName),
		Example: "decisions", Help: "the topic that is written"},
	{Name: "key", Affects: spec.Outputs, Form: spec.Into(func(e *Emit) *string { return &e.Key }, spec.ReadName), Example: "customer", Help: "the output's key, of type string or int"},
	{Name: "when", Affects: spec.Outputs, Form: spec.Into(func(e *Emit) *string { return &e.When }, lang.ReadBool),
		Example: `action == "block"`, Help: "for which events", Absent: "always"},
	{Name: "delete", Affects: spec.Outputs, Form: spec.Into(func(e *Emit) *string { return &e.Delete }, lang.ReadBool),
		Example: `op == "d"`, Help: "condition for events that write a tombstone: a record with a key and no value. It deletes the row of the key in tables and in the sinks `postgres` and `redis`", Absent: "for none"},
	{Name: "id", Affects: spec.Outputs, Form: spec.Into(func(e *Emit) *string { return &e.ID }, spec.ReadExpression), Example: `'"freeze:" + tx'`, Help: "the output's id, of type string",
		Absent: "`pipeline:event:topic`, with `#name` behind it if the step has a name"},
	{Name: "name", Affects: spec.Outputs, Form: spec.Into(func(e *Emit) *string { return &e.Name }, spec.ReadName), Example: "refund",
		Help: "the end of the output's id; of the steps that write a topic, one needs none", Absent: "the id ends with the topic"},
	{Name: "value", Affects: spec.Outputs, Form: spec.OneOf("write `[name]` or `{name: expression}`",
		spec.List, spec.Into(func(e *Emit) *[]string { return &e.Names }, lang.ReadNames),
		spec.Mapping, spec.Into(func(e *Emit) *[]Member { return &e.Value }, membersForm(maxObjects))),
		Example: "[tx, fraud.score, action]", Help: "a list of names: a dot in a name becomes `_`, `event.*` is all fields of the event, and `spend.*` all columns of the feature `spend`. Or a mapping that is the JSON object: each member is an expression or an object again, `{tx: tx, card: {country: country}}`", Absent: "the names of `decide`"},
	{Name: "format", Affects: spec.Outputs, Form: spec.Into(func(e *Emit) *lang.OutputFormat { return &e.Format }, lang.ReadOutputFormat),
		Example: "{avro: decision.avsc}", Absent: "json", Help: "how the value is encoded. All emits of a topic have one format. A value that does not fit, such as a text that is not a symbol of an enum, makes a dead letter"},
	{Name: "on_failure", Affects: spec.Outputs, Instead: "remove it: an event that cannot be emitted is a dead letter"},
}

// maxObjects limits the nesting of objects in an output, the outermost included. Lists and maps
// have their own limit.
const maxObjects = 8

// membersForm reads the members of an object that may nest depth objects.
func membersForm(depth int) spec.Form[[]Member] {
	value := spec.Into(func(m *Member) *string { return &m.Expr }, spec.ReadExpression)
	if depth == 1 {
		read := value.Read
		value.Read = func(r *spec.Reader, n *spec.Node, path string, into *Member) {
			if n.Kind == spec.Mapping {
				r.Fail(n.Offset, path, tooDeep, "write an expression here")
				return
			}
			read(r, n, path, into)
		}
	} else {
		value = spec.OneOf("write an expression, or `{name: expression}`", spec.Scalar, value,
			spec.Mapping, spec.Into(func(m *Member) *[]Member { return &m.Members }, membersForm(depth-1)))
	}
	members := spec.Named(func(m *Member) *string { return &m.Name }, value)
	members.Shape.Text = "names, each with an expression, or with such names again, which make an object"
	return members
}

var tooDeep = fmt.Sprintf("the objects of a value are at most %d deep", maxObjects)

// Declare implements Step.
func (*Emit) Declare(*lang.Declared) {}

// Effect implements Step.
func (e *Emit) Effect() lang.Effects {
	return lang.Effects{InFailure: true, Writes: []lang.Write{{Topic: e.Topic, Emit: true, Always: e.When == "", Key: e.Key}}}
}

// maxEmits is the largest number of emits in a pipeline: an event has one bit for each.
const maxEmits = 64

// Bind implements Step.
func (e *Emit) Bind(s *lang.Scope, path string) {
	if s.Outputs.Emits == maxEmits {
		s.Fail(path, "a pipeline has at most %d emits", maxEmits)
		return
	}
	s.Writable(path+".topic", e.Topic)
	stage := &operator.Emit{Index: s.Outputs.Emits, Output: s.Outputs.Index(e.Topic), Topic: e.Topic, Name: e.Name}
	s.Outputs.Emits++
	s.Outputs.Writers++
	if e.When != "" {
		stage.When = s.Expr(path+".when", e.When, value.Bool)
	}
	if e.Key != "" {
		for _, slot := range s.Slots(path+".key", e.Key) {
			if slot.Type.Optional || slot.Type.Kind != value.String && slot.Type.Kind != value.Int {
				s.Fail(path+".key", "%q is of type %v: a key is a string or int that is always there", e.Key, slot.Type)
			}
			stage.Key = &slot
		}
	}
	waves := s.Fed(stage.When)
	s.OutputName(path+".topic", path+".name", e.Topic, e.Name)
	if e.ID != "" {
		slot, fed := computed(s, path+".id", "id", e.ID, &stage.Object, value.String)
		stage.ID, waves = slot, waves || fed
	}
	if e.Delete != "" {
		slot, fed := computed(s, path+".delete", "delete", e.Delete, &stage.Object, value.Bool)
		stage.Delete, waves = slot, waves || fed
	}
	names := e.Names
	if names == nil && e.Value == nil {
		names = decided(s)
	}
	waves = bindObject(s, path+".value", names, e.Value, &stage.Object) || waves
	s.Outputs.Wrote(e.Topic, stage, e.keyMembers(s, stage))
	s.Formatted(path+".format", e.Format, stage)
	s.Add(e, path, boundEmit{*stage, waves})
}

// keyMembers returns the members of the value that equal the text of the record's key.
func (e *Emit) keyMembers(s *lang.Scope, stage *operator.Emit) (names []string) {
	key := stage.Key
	if key == nil {
		for _, in := range s.Pipeline.EachInput() {
			if slot, ok := s.Names.Lookup(in.Key); ok && inputKeyed(s, in.Key) && !in.KeyInJSON() {
				key = &slot
			}
		}
	}
	for i, slot := range stage.Values {
		if key != nil && len(stage.Members[i]) == 1 && slot.Index == key.Index && slot.Type == key.Type {
			names = append(names, stage.Members[i][0])
		}
	}
	return names
}

// boundEmit writes a record.
type boundEmit struct {
	operator operator.Emit // without the table that stores the records as rows
	waves    bool
}

// Place implements Bound.
func (b boundEmit) Place() lang.Place { return lang.Place{Waves: b.waves, Adds: true} }

// Lower implements Bound.
func (b boundEmit) Lower(p *lang.Plan, _ lang.At) operator.Operator {
	b.operator.Table = p.Writes(b.operator.Topic)
	b.operator.Encoder = p.Encoders[b.operator.Index]
	return &b.operator
}

// computed gives an expression of an object its own slot, so that an evaluation error belongs to
// its step. A plain name cannot fail and never changes, so it keeps its slot. computed hides the
// name of the slot, because the author of the file did not list it. It also reports whether the
// expression reads a fed-back feature.
func computed(s *lang.Scope, path, name, source string, into *operator.Object, want ...value.Kind) (slot *value.Slot, fed bool) {
	program := s.Expr(path, source, want...)
	if program == nil {
		return nil, false
	}
	fed = s.Fed(program)
	if name, ok := program.Name(); ok {
		slot, _ := s.Names.Slot(name)
		slot.Name = s.HiddenName()
		return &slot, fed
	}
	made, ok := s.Make(path, s.HiddenName(), program.Type())
	if !ok {
		return nil, false
	}
	into.Compute = append(into.Compute, operator.Assign{Name: name, Slot: made, Program: program})
	return &made, fed
}

// bindObject resolves an object of names or members. It reports whether the object reads a fed-back
// feature.
func bindObject(s *lang.Scope, path string, names []string, members []Member, into *operator.Object) (waves bool) {
	o := object{scope: s, into: into, names: map[string]bool{}}
	for i, name := range names {
		at := fmt.Sprintf("%s[%d]", path, i)
		for _, slot := range s.Slots(at, name) {
			o.waves = o.waves || s.FedSlots(slot)
			o.add(at, strings.ReplaceAll(slot.Name, ".", "_"), slot)
		}
	}
	o.members(path, members)
	if into.After = o.before; len(into.Values) == 0 && len(s.Errs) == 0 {
		s.Fail(path, "missing: write the names to emit, or add a decide step")
	}
	return o.waves
}

// object is the object of an output while it is built.
type object struct {
	scope  *lang.Scope
	into   *operator.Object
	above  []string        // names of the members that enclose the current object
	names  map[string]bool // members of the current object
	before []byte          // JSON text before the next value
	waves  bool            // one of the values so far reads a fed-back feature
}

// members adds members to the current object.
func (o *object) members(path string, list []Member) {
	for i := range list {
		m := &list[i]
		at := path + "." + m.Name
		switch {
		case m.Members == nil:
			name := strings.Join(append([]string{"value"}, append(o.above, m.Name)...), ".")
			if slot, fed := computed(o.scope, at, name, m.Expr, o.into); slot != nil {
				o.waves = o.waves || fed
				o.add(at, m.Name, *slot)
			}
		case len(o.above)+1 == maxObjects:
			o.scope.Fail(at, "%s", tooDeep)
		case o.name(at, m.Name):
			above, names := o.above, o.names
			o.above, o.names, o.before = append(slices.Clone(above), m.Name), map[string]bool{}, append(o.before, '{')
			o.members(at, m.Members)
			o.above, o.names, o.before = above, names, append(o.before, '}')
		}
	}
}

// add adds a member with a value.
func (o *object) add(at, name string, slot value.Slot) {
	o.scope.NoContent(at, slot)
	if !o.name(at, name) {
		return
	}
	o.into.Members = append(o.into.Members, append(slices.Clone(o.above), name))
	o.into.Before, o.before = append(o.into.Before, o.before), nil
	o.into.Values = append(o.into.Values, slot)
}

// name begins a member. It reports whether the name is new in the object.
func (o *object) name(at, name string) bool {
	if o.names[name] {
		o.scope.Fail(at, "the value has two entries %q", name)
		return false
	}
	if len(o.names) > 0 {
		o.before = append(o.before, ',')
	}
	o.names[name] = true
	o.before = expression.AppendName(o.before, name)
	return true
}

// decided returns the names of the decide steps above that are in scope: the default value of an
// emit.
func decided(s *lang.Scope) []string {
	var names []string
	for step := range lang.EachStep(s.Pipeline.Steps) {
		d, ok := step.(interface{ Decided() []lang.Binding })
		if !ok {
			continue
		}
		for _, b := range d.Decided() {
			if _, ok := s.Names.Lookup(b.Name); ok && !slices.Contains(names, b.Name) {
				names = append(names, b.Name)
			}
		}
	}
	return names
}

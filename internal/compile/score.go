package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/models/batch"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/udf"
)

const (
	defaultBatch = 64    // rows of a call
	singlesBatch = 1_024 // of a call that makes one request a row
)

func (c *compiler) score(path string, s *lang.Score) {
	m, ok := c.models[s.Model]
	i := slices.IndexFunc(c.Pipeline.Models, func(m lang.Model) bool { return m.Name == s.Model })
	if !ok && i >= 0 && isInline(&c.Pipeline.Models[i]) {
		m, ok = c.openInline(path, s, &c.Pipeline.Models[i])
	}
	if !ok {
		if i < 0 {
			c.Fail(path+".model", "no model is named %q", s.Model)
			var known []string
			for _, m := range c.Pipeline.Models {
				known = append(known, m.Name)
			}
			if near := expression.Nearest(s.Model, known); near != "" {
				c.Hint("did you mean " + near + "?")
			}
			return
		}
		if c.rows && len(c.Errs) == 0 {
			c.Ended = true
			return
		}
		for _, o := range c.Pipeline.Models[i].Outputs {
			c.Names.Broken[cmp.Or(s.As, s.Model)+"."+o.Name] = true
		}
		return
	}
	if s.Batch.Size < 0 || s.Batch.Size > 4096 {
		c.Fail(path+".batch.size", "%d is out of range: use 1 to 4096 rows", s.Batch.Size)
	}
	policy := m.Info().Batch
	stage := &operator.Score{Batch: operator.Batch{
		Kind: "score", Model: m.Model, Name: m.name, Asks: m.asks, Size: cmp.Or(s.Batch.Size, policy.Size, defaultBatch), ByLength: policy.ByLength,
	}}
	// An answer that is kept is used when it is durable, so not in place.
	stage.Async = s.Async || c.Async || m.calling != nil && m.calling.Always
	if s.When != "" {
		stage.When = c.Expr(path+".when", s.When, value.Bool)
	}
	if wait := cmp.Or(s.Batch.Wait, policy.Wait); wait > 0 && !stage.Async {
		shared := batch.NewShared(m.Model, model.Policy{Size: stage.Size, Wait: wait, ByLength: stage.ByLength}, 0)
		stage.Model, stage.Shared, c.plan.Shared = shared, true, append(c.plan.Shared, shared)
	}
	c.scoreInputs(path, s, m, stage)
	c.scoreContents(path, m.Info(), stage)
	c.onFailure(path+".on_failure", s.OnFailure, stage)
	c.scoreOutputs(path, s, m, stage)
	c.scoreState(path, s, m, stage)
	c.scoreCalling(path, s, m, stage)
	if m.Info().RowsMax == 1 && cmp.Or(s.Batch.Size, policy.Size) == 0 && !stage.Shared && !stage.Contents {
		stage.Size = singlesBatch // a request that is late then holds up one place, and not the next batch
	}
	c.partial(path+".partial", s, m, stage)
	stage.Model = &batch.Counted{Model: stage.Model}
	place := lang.Place{Waves: true}
	if calling := stage.Calling; calling != nil {
		if place.Ordered, place.Queues = s.Ordered, lang.QueuesSaid; calling.Implied && !stage.Async {
			place.Queues = lang.QueuesFailed
		}
	}
	c.Add(s, path, lang.Ready(stage, place))
}

// scoreInputs resolves the model's inputs, in the model's order.
func (c *compiler) scoreInputs(path string, s *lang.Score, m loadedModel, stage *operator.Score) {
	before := len(c.Errs)
	info := m.Info().WithoutState()
	columns := columnsOf(info)
	var list []lang.Given
	if s.ByName != nil {
		list = c.byName(path+".inputs", s.ByName, info)
	}
	for i, name := range s.Inputs {
		list = append(list, c.Givens(fmt.Sprintf("%s.inputs[%d]", path, i), name)...)
	}
	width := 0
	for _, g := range list {
		width += g.Width()
	}
	if len(c.Errs) == before && c.withoutValue(path+".inputs", s) {
		return // what introduces it was reported
	}
	whole, at := len(c.Errs) == before && width == len(columns), 0
	for _, g := range list {
		switch { // which input is meant is known where all are there, or does not matter
		case whole:
			for _, in := range columns[at : at+g.Width()] {
				if !c.fits(g, in) {
					break
				}
			}
			at += g.Width()
		case alike(columns):
			c.fits(g, columns[0])
		}
	}
	switch {
	case len(c.Errs) > before:
	case !whole:
		c.Fail(path+".inputs", "model %s takes %d inputs, %d are given", m.name, len(columns), width)
		c.Hint("its file has no names of them: give them in the order of training")
		if names := info.Names(); names != nil {
			c.Hint("it takes, in order: " + strings.Join(names, ", "))
		}
	default:
		slots := make([]value.Slot, len(list))
		for i, g := range list {
			if slots[i] = g.Slot; g.Program != nil {
				stage.Compute = append(stage.Compute, operator.Assign{Name: g.Slot.Name, Slot: g.Slot, Program: g.Program})
			}
		}
		if s.ByName == nil && len(columns) == len(info.Inputs) && len(slots) == len(columns) {
			c.checkOrder(path+".inputs", m, slots, info.Names())
		}
		assignInputs(stage, slots, columns)
	}
}

// withoutValue reports whether an input of a score stands for nothing.
func (c *compiler) withoutValue(path string, s *lang.Score) bool {
	for i := range s.Inputs {
		if len(c.GivenAt(fmt.Sprintf("%s[%d]", path, i))) == 0 {
			return true
		}
	}
	return slices.ContainsFunc(s.ByName, func(b lang.Binding) bool { return len(c.GivenAt(path+"."+b.Name)) == 0 })
}

// columnsOf returns the input that each column of a row is of.
func columnsOf(info model.Info) []model.Input {
	var columns []model.Input
	for _, in := range info.Inputs {
		for range in.Size() {
			columns = append(columns, in)
		}
	}
	return columns
}

// alike reports whether the same names fit all columns.
func alike(columns []model.Input) bool {
	return len(columns) > 0 && !slices.ContainsFunc(columns, func(in model.Input) bool {
		return in.Type != columns[0].Type || in.Categories != nil
	})
}

// fits checks that a name is of a type that the model takes.
func (c *compiler) fits(g lang.Given, in model.Input) bool {
	kind := g.Slot.Type.Kind
	switch {
	case kind == value.Vector && in.Type == model.Number && in.Categories != nil:
		c.Fail(g.Path, "%q is of type %v: input %s of the model is a category", g.Slot.Name, g.Slot.Type, in.Name)
		c.Hint("give each input of the model a name of its own")
	case in.Type == model.Number && (kind <= value.Number || kind == value.Vector || kind == value.String && in.Categories != nil):
		return true
	case in.Type == model.Number:
		c.Fail(g.Path, "%q is of type %v: the model takes a number here", g.Slot.Name, g.Slot.Type)
		if kind == value.String {
			c.Mistyped(g.Slot.Name, value.Number)
		}
		key := g.Slot.Name
		if g.Slot.Type.Optional {
			key += ` ?? ""`
		}
		c.Hint(map[value.Kind]string{
			value.String: "look it up in a table of constants: TABLE[" + key + "] ?? -1",
			value.Time:   "write int(" + g.Slot.Name + "), microseconds since 1970",
		}[kind])
	case kind == value.Strings:
		c.Fail(g.Path, "%q is of type %v: the model takes one text here", g.Slot.Name, g.Slot.Type)
		c.Hint("write join(" + g.Slot.Name + ", \" \")")
	case !kind.Text() || kind == value.Vector:
		c.Fail(g.Path, "%q is of type %v: the model takes %s here", g.Slot.Name, g.Slot.Type, map[model.Type]string{model.String: "a text", model.Bytes: "bytes"}[in.Type])
		if kind <= value.Time && in.Type == model.String {
			c.Hint("write string(" + g.Slot.Name + ")")
		}
	default:
		return true
	}
	return false
}

// assignInputs gives each column of the model's rows its name.
func assignInputs(stage *operator.Score, slots []value.Slot, columns []model.Input) {
	at := 0
	for _, slot := range slots {
		in := columns[at]
		at += max(slot.Type.Size, 1)
		if in.Type != model.Number {
			stage.Texts = append(stage.Texts, slot)
			continue
		}
		stage.Inputs, stage.Codes = append(stage.Inputs, slot), append(stage.Codes, model.NewCodes(in.Categories))
	}
}

// byName returns what is given for each input, in the model's order.
func (c *compiler) byName(path string, bindings []lang.Binding, info model.Info) []lang.Given {
	names := info.Names()
	if names == nil {
		c.Fail(path, "the model file has no feature names, so inputs cannot be given by name")
		c.Hint("give them as a list, in the order of training")
		return nil
	}
	found := make([][]lang.Given, len(names))
	for _, b := range bindings {
		at := path + "." + b.Name
		i := slices.Index(names, b.Name)
		if i < 0 {
			c.Fail(at, "the model has no feature %q", b.Name)
			c.Hint("it has: " + strings.Join(names, ", "))
			continue
		}
		width := 0
		found[i] = c.Givens(at, b.Expr)
		for _, g := range found[i] {
			width += g.Width()
		}
		if want := info.Inputs[i].Size(); found[i] != nil && width != want {
			c.Fail(at, "the model's feature %q takes %d values, %d are given", b.Name, want, width)
		}
	}
	var list []lang.Given
	for i, name := range names {
		if !slices.ContainsFunc(bindings, func(b lang.Binding) bool { return b.Name == name }) {
			c.Fail(path, "the model's feature %q is not given", name)
		}
		list = append(list, found[i]...)
	}
	return list
}

// checkOrder refuses a list that names the model's own features in another
// order: a mistake that no count would show. Where only some have the model's
// names, it warns of those that have not.
func (c *compiler) checkOrder(path string, m loadedModel, slots []value.Slot, names []string) {
	plain := func(s string) string { return strings.ReplaceAll(s, ".", "_") }
	given, taken := make([]string, len(slots)), make([]string, len(names))
	for i := range slots {
		given[i] = plain(slots[i].Name)
	}
	for i := range names {
		taken[i] = plain(names[i])
	}
	if slices.Equal(given, taken) {
		return
	}
	sortedGiven, sortedTaken := slices.Sorted(slices.Values(given)), slices.Sorted(slices.Values(taken))
	if slices.Equal(sortedGiven, sortedTaken) {
		for i := range given {
			if given[i] != taken[i] {
				c.Fail(path, "the model's input %d is %q, the pipeline gives %q", i, names[i], slots[i].Name)
				c.Hint("it takes, in order: " + strings.Join(names, ", "))
				return
			}
		}
	}
	same := 0
	var others []string
	for i := range given {
		if len(taken) != len(given) || given[i] == taken[i] {
			same++
		} else {
			others = append(others, fmt.Sprintf("%s as %s", slots[i].Name, names[i]))
		}
	}
	if same > 0 && len(others) > 0 {
		c.Warnings = append(c.Warnings, fmt.Sprintf("model %s gets %s: if it was trained on other features, its scores are wrong; inputs: {name: name} says which is which", m.name, strings.Join(others, ", ")))
	}
}

// scoreState has the model's state kept by key, as that of a function: events of
// one key are scored one after the other.
func (c *compiler) scoreState(path string, s *lang.Score, m loadedModel, stage *operator.Score) {
	size := m.Info().State
	if size == 0 {
		return
	}
	c.AboveGroup(path + ".model")
	if most := udf.StateMaxBytes/4 - 32; size > most {
		c.Fail(path+".model", "model %s keeps %d numbers of a key; at most %d", m.name, size, most)
	}
	name := "model " + s.Model + " " + cmp.Or(s.As, s.Model) // which no function is called
	for _, call := range c.Calls {
		if call.Name == name { // in another case of a route
			stage.State = call
		}
	}
	if stage.State == nil {
		stage.State = operator.NewState(len(c.Calls), name)
		c.Calls = append(c.Calls, stage.State)
	}
	c.plan.Feedback = true
}

func (c *compiler) scoreOutputs(path string, s *lang.Score, m loadedModel, stage *operator.Score) {
	prefix := cmp.Or(s.As, s.Model)
	for _, f := range s.Fallback {
		if !slices.ContainsFunc(m.outputs, func(o lang.Field) bool { return o.Name == f.Name }) {
			c.Fail(path+".fallback."+f.Name, "the model has no output %q", f.Name)
		}
	}
	if s.As != "" && !c.Identifier(path+".as", s.As) {
		return
	}
	for i, o := range m.outputs {
		var fallback *expression.Program
		t := m.types[i]
		if i := slices.IndexFunc(s.Fallback, func(f lang.Binding) bool { return f.Name == o.Name }); i >= 0 {
			fallback = c.fallback(path+".fallback."+o.Name, s.Fallback[i].Expr, t)
		}
		t.Optional = t.Optional || s.When != "" && fallback == nil
		slot, ok := c.Make(path, prefix+"."+o.Name, t)
		if !ok {
			return
		}
		stage.Outputs = append(stage.Outputs, slot)
		stage.Fallback = append(stage.Fallback, fallback)
	}
}

// fallback compiles what an output is where there is no answer.
func (c *compiler) fallback(path, source string, t value.Type) *expression.Program {
	program := c.Expr(path, source, t.Kind)
	if program == nil {
		return nil
	}
	if err := program.Fits(t); err != nil {
		c.Fail(path, "%v", err)
		return nil
	}
	return program
}

// outputTypes returns the types that the file gives to the outputs of a model, and
// reports whether the model has as many scores and texts.
func (c *compiler) outputTypes(path string, outputs []lang.Field, info model.Info) (types []value.Type, ok bool) {
	scores, texts, before := 0, 0, len(c.Errs)
	for _, o := range outputs {
		t, err := value.ParseType(o.Type)
		switch {
		case err != nil:
			c.Fail(path+"."+o.Name, "%v", err)
		case t.Kind == value.String, t.Kind == value.Bytes:
			texts++
		case t.Kind != value.Number && t.Kind != value.Vector:
			c.Fail(path+"."+o.Name, "type %q: the output of a model is a number, number[384], string or bytes", o.Type)
		case t.Optional:
			c.Fail(path+"."+o.Name, "type %q: scores are there, only a string or bytes may be absent", o.Type)
		}
		scores += columnsOfType(t)
		types = append(types, t)
	}
	if len(c.Errs) > before {
		return nil, false
	}
	if n := info.Scores(); n != scores {
		c.Fail(path, "the model has %d outputs, %d are named", n, scores)
		c.Hint("name them in the model's order, those of classes by their number: {other: number, fraud: number}")
		return nil, false
	}
	if n := info.Texts(); n != texts {
		c.Fail(path, "the model answers with %d texts, %d are named", n, texts)
		c.Hint("name them in the model's order: {text: string}")
		return nil, false
	}
	return types, true
}

// columnsOfType returns how many scores an output of a type takes.
func columnsOfType(t value.Type) int {
	switch t.Kind {
	case value.Number:
		return 1
	case value.Vector:
		return t.Size
	}
	return 0
}

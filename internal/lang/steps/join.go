package steps

import (
	"cmp"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Join pairs the events of two inputs by event time. The left event of a pair goes on with the
// fields of the right event; the right event ends here.
type Join struct {
	Name   string        // prefix of the names that the join introduces: .matched, .count (with match: last), and .<field> for each field of the right event
	Left   string        // topic of an input
	Right  string        // topic of the other input
	On     []JoinOn      // fields that are equal in a pair, in addition to the key; nil means only the key
	Within time.Duration // how much later than the left event the right event may be, inclusive
	Before time.Duration // how much earlier it may be, inclusive
	Type   string        // left (default), or inner, which drops a left event without a right event
	Match  string        // first (default), last or each
	Max    JoinMax
}

// JoinOn is a field of the left event, and one of the right event, that must be equal.
type JoinOn struct{ Left, Right string }

// JoinMax limits the events that wait beside a partition: an event beyond a limit becomes a dead
// letter.
type JoinMax struct {
	Rows    int // waiting events; 0 is 100,000
	Bytes   int // stored size of waiting events; 0 is 256 MiB
	Matches int // pairs with one event; 0 is 1,000
}

const (
	defaultJoinRows    = 100_000
	defaultJoinBytes   = 256 << 20
	defaultJoinMatches = 1000
)

// StepKind implements Step.
func (*Join) StepKind() *lang.StepKind { return &joinKind }

var joinKind = lang.KindOf("join", spec.State, readJoin,
	"{name: click, left: impressions, right: clicks, on: {id: impression}, within: 10m}", "pairs of the events of two inputs, by event time: the left event continues with the right event's fields")

var readJoin = spec.MappingOf(joinFields)

func joinLeft(o *JoinOn) *string  { return &o.Left }
func joinRight(o *JoinOn) *string { return &o.Right }

var readJoinOn = spec.AnyOrder(joinLeft, spec.Named(joinLeft, spec.Into(joinRight, spec.ReadName)))

var joinFields = []spec.Field[Join]{
	{Name: "name", Affects: spec.State, Required: true, Form: spec.Into(func(j *Join) *string { return &j.Name }, spec.ReadName), Example: "click",
		Help: "prefix of the names that it introduces: `.matched` (whether there is a right), with `match: last` `.count` (how many rights there are), and a name for each field of the right"},
	{Name: "left", Affects: spec.State, Required: true, Form: spec.Into(func(j *Join) *string { return &j.Left }, spec.ReadName), Example: "impressions",
		Help: "the topic of an input: its events continue"},
	{Name: "right", Affects: spec.State, Required: true, Form: spec.Into(func(j *Join) *string { return &j.Right }, spec.ReadName), Example: "clicks",
		Help: "the topic of the other input: its events end in the join"},
	{Name: "on", Affects: spec.State, Form: spec.Into(func(j *Join) *[]JoinOn { return &j.On }, readJoinOn), Example: "{id: impression}", Absent: "the key alone",
		Help: "fields that are equal in a pair, beside the key: one of the left, and one of the right. An event without a value of them has no pair"},
	{Name: "within", Affects: spec.Outputs, Required: true, Form: spec.Into(func(j *Join) *time.Duration { return &j.Within }, spec.Span(0, 30*spec.Day)), Example: "10m",
		Help: "how much later than the left the right of a pair may be, in event time; exactly so much later is a pair"},
	{Name: "before", Affects: spec.Outputs, Form: spec.Into(func(j *Join) *time.Duration { return &j.Before }, spec.Span(0, 30*spec.Day)), Example: "1m", Absent: "0s",
		Help: "how much earlier than the left the right may be"},
	{Name: "type", Affects: spec.Outputs, Form: spec.Into(func(j *Join) *string { return &j.Type }, spec.Choice[string]("left", "inner").Default("left")), Example: "inner",
		Help: "`left`: a left without a right continues when no right can arrive any more. `inner`: it is dropped then"},
	{Name: "match", Affects: spec.State, Form: spec.Into(func(j *Join) *string { return &j.Match }, spec.Choice[string]("first", "last", "each").Default("first")), Example: "last",
		Help: "which right a left is paired with. `first`: the earliest, as soon as no earlier one can arrive. `last`: the latest, when no other can arrive. `each`: every right, at the later event of the pair"},
	{Name: "max", Affects: spec.Outputs, Form: spec.Into(func(j *Join) *JoinMax { return &j.Max }, spec.MappingOf(joinMaxFields)), Example: "{rows: 1000000, bytes: 1GB}", Absent: "as below"},
}

var joinMaxFields = []spec.Field[JoinMax]{
	{Name: "rows", Affects: spec.Outputs, Form: spec.Into(func(m *JoinMax) *int { return &m.Rows }, spec.Whole[int](1, 1<<26).Default(defaultJoinRows)), Example: "1000000"},
	{Name: "bytes", Affects: spec.Outputs, Form: spec.Into(func(m *JoinMax) *int { return &m.Bytes }, spec.Size(1, 1<<40).Default(defaultJoinBytes)), Example: "1GB"},
	{Name: "matches", Affects: spec.Outputs, Form: spec.Into(func(m *JoinMax) *int { return &m.Matches }, spec.Whole[int](1, 1<<16).Default(defaultJoinMatches)), Example: "5000"},
}

// Declare implements Step. It adds no names: steps above a join see left and right events.
func (*Join) Declare(*lang.Declared) {}

// Effect implements Step.
func (*Join) Effect() lang.Effects { return lang.Effects{Collects: true} }

// Keeps implements Keeper.
func (j *Join) Keeps(m *lang.Meaning) []lang.Part {
	return []lang.Part{{Kind: generation.KindJoin, Name: j.Name, Text: lang.PartOf(m, j, joinFields, j)}}
}

var matches = map[string]operator.Match{"": operator.MatchFirst, "first": operator.MatchFirst, "last": operator.MatchLast, "each": operator.MatchEach}

// Bind implements Step. A join makes pairs in log order, before the waves.
func (j *Join) Bind(s *lang.Scope, path string) {
	before := len(s.Errs)
	s.Identifier(path+".name", j.Name)
	if s.IsField(j.Name) {
		s.Fail(path+".name", "%q is a field: a join's own name starts those that it introduces", j.Name)
	}
	switch {
	case len(s.Guards) > 0:
		s.Fail(path, "in a case of a route: the events of both inputs come to a join")
		s.Hint("write the join above the route")
	case len(s.Groups) > 0:
		s.Fail(path, "an event goes through one join or group: this one is below another")
	}
	match, known := matches[j.Match]
	switch {
	case !known:
		s.Fail(path+".match", "unknown match %q: use first, last or each", j.Match)
	case j.Type != "" && j.Type != "left" && j.Type != "inner":
		s.Fail(path+".type", "unknown type %q: use left or inner", j.Type)
	case j.Within < 0 || j.Before < 0:
		s.Fail(path, "within and before are not negative")
	}
	op := &operator.Join{
		Name: j.Name, Before: j.Before, Within: j.Within, Match: match, Inner: j.Type == "inner",
		Most: operator.JoinMax{Rows: cmp.Or(j.Max.Rows, defaultJoinRows), Bytes: cmp.Or(j.Max.Bytes, defaultJoinBytes), Matches: cmp.Or(j.Max.Matches, defaultJoinMatches)},
	}
	left, right := j.inputs(s, path)
	s.Names.Broken[j.Name+".*"] = len(s.Errs) > before // avoid findings that only follow from the errors of the join
	if left == nil || right == nil || len(s.Errs) > before {
		return
	}
	if left == &s.Pipeline.Inputs[1] {
		op.Left = 1
	}
	j.bindOn(s, path, op, left, right)
	j.names(s, path, op, right)
	if len(s.Errs) > before {
		return
	}
	s.Add(j, path, lang.Ready(op, lang.Place{Waves: s.FedSlots(slices.Concat(op.On[0], op.On[1])...), Log: true, Several: match == operator.MatchEach}))
	s.Groups = append(s.Groups, nil)
	s.Joined(j.Name, left, right)
}

// inputs returns the left and the right input, each nil if it does not exist.
func (j *Join) inputs(s *lang.Scope, path string) (left, right *lang.Input) {
	all := s.Pipeline.Inputs
	if len(all) != 2 {
		s.Fail(path, "a join is of two inputs, and the pipeline has %d", max(len(all), 1))
		s.Hint("write inputs: [{topic: ...}, {topic: ...}]")
		return nil, nil
	}
	find := func(word, topic string) *lang.Input {
		at := slices.IndexFunc(all, func(in lang.Input) bool { return in.Topic == topic })
		if at < 0 {
			s.Fail(path+"."+word, "%q is not the topic of an input: use %s or %s", topic, all[0].Topic, all[1].Topic)
			return nil
		}
		return &all[at]
	}
	left, right = find("left", j.Left), find("right", j.Right)
	if left != nil && left == right {
		s.Fail(path+".right", "%q is the left already", j.Right)
		return nil, nil
	}
	return left, right
}

// bindOn resolves the fields that are equal in a pair.
func (j *Join) bindOn(s *lang.Scope, path string, op *operator.Join, left, right *lang.Input) {
	for _, on := range j.On {
		at := path + ".on." + on.Left
		var types [2]string
		for i, side := range []struct {
			in   *lang.Input
			name string
		}{{left, on.Left}, {right, on.Right}} {
			field := slices.IndexFunc(side.in.Fields, func(f lang.Field) bool { return f.Name == side.name })
			if field < 0 {
				s.Fail(at, "%q is not a field of input %s", side.name, side.in.Topic)
				continue
			}
			slot, ok := s.Names.Schema.Lookup(side.name)
			switch {
			case !ok: // the field has a finding already
			case slot.Type.Kind != value.String && slot.Type.Kind != value.Int:
				s.Fail(at, "%q is of type %v: a pair is joined on fields of type string or int", side.name, slot.Type)
			default:
				op.On[i], types[i] = append(op.On[i], slot), slot.Type.Kind.String()
			}
		}
		if types[0] != "" && types[1] != "" && types[0] != types[1] {
			s.Fail(at, "%q is of type %s and %q of type %s", on.Left, types[0], on.Right, types[1])
		}
	}
}

// names introduces the fields of the right event that the left event gets.
func (j *Join) names(s *lang.Scope, path string, op *operator.Join, right *lang.Input) {
	op.Matched, _ = s.Make(path, j.Name+".matched", value.Type{Kind: value.Bool})
	if op.Match == operator.MatchLast {
		if slot, ok := s.Make(path, j.Name+".count", value.Type{Kind: value.Int}); ok {
			op.Count = &slot
		}
	}
	for _, f := range right.Fields {
		field, ok := s.Names.Schema.Lookup(f.Name)
		if !ok {
			continue // the field has a finding already
		}
		own, err := value.ReadType(f.Type)
		if err != nil {
			continue // the field has a finding already
		}
		own.Kind = field.Type.Kind
		own.Optional = own.Optional || !op.Inner
		if slot, ok := s.Make(path, j.Name+"."+f.Name, own); ok {
			op.Fields = append(op.Fields, operator.JoinField{Field: field, Slot: slot})
		}
	}
}

package steps

import (
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Upper introduces a name: a text in capitals.
type Upper struct{ Name, Of string }

// StepKind implements Step.
func (*Upper) StepKind() *lang.StepKind { return &upperKind }

var upperKind = lang.KindOf("upper", spec.Outputs, spec.MappingOf(upperFields), "{name: loud, of: text}", "a text in capitals")

var upperFields = []spec.Field[Upper]{
	{Name: "name", Affects: spec.Outputs, Required: true, Form: spec.Into(func(u *Upper) *string { return &u.Name }, spec.ReadName), Example: "loud", Help: "the name that it introduces"},
	{Name: "of", Affects: spec.Outputs, Required: true, Form: spec.Into(func(u *Upper) *string { return &u.Of }, lang.ReadReference), Example: "text", Help: "a name of type string"},
}

// Declare implements Step.
func (u *Upper) Declare(d *lang.Declared) { d.Add(u.Name) }

// Effect implements Step.
func (*Upper) Effect() lang.Effects { return lang.Effects{InFailure: true} }

// Bind implements Step.
func (u *Upper) Bind(s *lang.Scope, path string) {
	of, text := s.Slots(path+".of", u.Of), value.Type{Kind: value.String}
	if len(of) > 0 && of[0].Type != text {
		s.Fail(path+".of", "%q is of type %v, but %v is needed", u.Of, of[0].Type, text)
	}
	if len(of) != 1 || of[0].Type != text || !s.Identifier(path+".name", u.Name) {
		s.Names.Broken[u.Name] = true
		return
	}
	if slot, ok := s.Make(path+".name", u.Name, text); ok {
		s.Add(u, path, lang.Ready(&operator.Upper{Of: of[0], To: slot}, lang.Place{Waves: s.FedSlots(of...)}))
	}
}

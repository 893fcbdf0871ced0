package protobuf

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
)

var _ decode.Schema = (*Schema)(nil)

// Declared implements decode.Schema. It returns no values of a message in a message, because no
// field can read them.
func (s *Schema) Declared(member string) (list []decode.Declared, open bool) {
	if member != "" {
		return nil, false
	}
	all := s.message.Fields()
	for i := range min(all.Len(), decode.DeclaredMax) {
		of := all.Get(i)
		declared := decode.Declared{Path: []decode.Part{{Name: string(of.Name())}}, Optional: of.HasPresence(), Type: typeOf(of)}
		for _, kind := range decode.DeclaredKinds {
			if (&Decoder{}).add(&decode.Field{Slot: value.Slot{Type: value.Type{Kind: kind}}}, of) {
				declared.Kinds = append(declared.Kinds, kind)
			}
		}
		if of.Kind() == protoreflect.EnumKind && !of.IsList() {
			for k := range of.Enum().Values().Len() {
				declared.Symbols = append(declared.Symbols, string(of.Enum().Values().Get(k).Name()))
			}
		}
		list = append(list, declared)
	}
	return list, false
}

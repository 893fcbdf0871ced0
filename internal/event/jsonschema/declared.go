package jsonschema

import (
	"maps"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
)

var _ decode.Schema = (*Schema)(nil)

// Declared implements decode.Schema. Values are sorted by name. It does not return lists of
// objects.
func (s *Schema) Declared(member string) (list []decode.Declared, open bool) {
	root := &s.root
	if member != "" {
		if root = root.properties[member]; root == nil {
			return nil, true
		}
	}
	return root.declared(nil, nil, false), true
}

// declared appends the values of an object.
func (n *node) declared(list []decode.Declared, at []decode.Part, optional bool) []decode.Declared {
	for _, name := range slices.Sorted(maps.Keys(n.properties)) {
		if len(list) == decode.DeclaredMax {
			break
		}
		of := n.properties[name]
		if of == nil {
			continue // only null fits
		}
		path := append(slices.Clone(at), decode.Part{Name: name})
		types := slices.DeleteFunc(slices.Clone(of.types), func(name string) bool { return name == "null" })
		absent := optional || len(types) < len(of.types) || !slices.Contains(n.required, name)
		if len(of.properties) > 0 && len(path) < decode.DeclaredDepth {
			list = of.declared(list, path, absent)
			continue
		}
		declared := decode.Declared{Path: path, Optional: absent, Type: strings.Join(of.types, " or "), Symbols: of.symbols}
		if len(types) == 1 {
			declared.Kinds = of.kinds(types[0])
		}
		declared.Any = len(declared.Kinds) == 0
		list = append(list, declared)
	}
	return list
}

// kinds returns the field kinds that can read values of a type.
func (n *node) kinds(name string) []value.Kind {
	switch name {
	case "boolean":
		return []value.Kind{value.Bool}
	case "integer":
		return []value.Kind{value.Int, value.Number}
	case "number":
		return []value.Kind{value.Number}
	case "string":
		return []value.Kind{value.String, value.Time}
	case "array":
		if n.items == nil || len(n.items.types) != 1 || n.items.types[0] == "array" {
			return nil
		}
		kinds := n.items.kinds(n.items.types[0])
		for i := range kinds {
			kinds[i] |= value.List
		}
		return kinds
	}
	return nil
}

package avro

import (
	"slices"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
)

var _ decode.Schema = (*Schema)(nil)

// declaredSteps limits the fields that Declared visits. Records inside records can make far more
// fields than the schema has.
const declaredSteps = 10 * decode.DeclaredMax

// Declared implements decode.Schema.
func (s *Schema) Declared(member string) (list []decode.Declared, open bool) {
	d := declaring{steps: declaredSteps}
	root := s.root
	if member != "" {
		i := slices.IndexFunc(root.fields, func(f field) bool { return f.name == member })
		if i < 0 {
			return nil, false
		}
		if root, _ = root.fields[i].of.only(); root == nil {
			return nil, false
		}
	}
	d.record(root, nil, false)
	return d.list, false
}

// only returns the only non-null type of a value, or nil if there are several. nullable reports
// whether the value may be null.
func (n *node) only() (of *node, nullable bool) {
	if n.kind != union {
		return n, n.kind == null
	}
	for _, branch := range n.branches {
		switch {
		case branch.kind == null:
			nullable = true
		case of != nil:
			return nil, nullable || slices.ContainsFunc(n.branches, func(b *node) bool { return b.kind == null })
		default:
			of = branch
		}
	}
	return of, nullable
}

// declaring collects the values of records.
type declaring struct {
	list  []decode.Declared
	steps int
}

// record adds the values of a record.
func (d *declaring) record(n *node, at []decode.Part, optional bool) {
	for _, f := range n.fields {
		if d.steps--; d.steps < 0 || len(d.list) == decode.DeclaredMax {
			return
		}
		path := append(slices.Clone(at), decode.Part{Name: f.name})
		one, nullable := f.of.only()
		if one != nil && one.kind == record && len(path) < decode.DeclaredDepth {
			d.record(one, path, optional || nullable)
			continue
		}
		declared := decode.Declared{Path: path, Optional: optional || nullable, Type: f.of.named}
		switch {
		case one != nil:
			declared.Kinds, declared.Symbols, declared.Type = fitting(one), one.symbols, one.named
		case f.of.kind == union:
			for _, branch := range f.of.branches {
				for _, kind := range fitting(branch) {
					if !slices.Contains(declared.Kinds, kind) {
						declared.Kinds = append(declared.Kinds, kind)
					}
				}
			}
		}
		d.list = append(d.list, declared)
	}
}

// fitting returns the field kinds that can read a type.
func fitting(n *node) (kinds []value.Kind) {
	for _, kind := range decode.DeclaredKinds {
		if f := (decode.Field{Slot: value.Slot{Type: value.Type{Kind: kind}}}); reading(n, &f).op != 0 {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

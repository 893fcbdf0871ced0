// Package avro reads the fields that a pipeline names from Avro records, and writes Avro records.
package avro

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Limits of a schema.
const (
	SchemaMax = 1 << 20 // bytes of its text
	MaxDepth  = 64      // nesting of types in a schema, and of records in a record
	typesMax  = 1 << 16 // types in a schema and its references
)

type kind uint8

const (
	null kind = iota + 1
	boolean
	integer
	long
	float
	double
	bytesType
	text
	fixed
	enum
	array
	dictionary
	record
	union
)

var kinds = map[string]kind{
	"null": null, "boolean": boolean, "int": integer, "long": long, "float": float, "double": double, "bytes": bytesType, "string": text,
	"fixed": fixed, "enum": enum, "array": array, "map": dictionary, "record": record, "error": record,
}

// Schema is the schema that records were written with.
type Schema struct{ root *node }

// node is a type of a schema.
type node struct {
	kind     kind
	named    string // the name for errors
	logical  string
	scale    int     // scale of a decimal
	digits   int     // largest number of digits of a decimal; 0 if the schema does not set it
	size     int     // size of a fixed
	fields   []field // fields of a record
	symbols  []string
	items    *node   // items of an array, or values of a map
	branches []*node // branches of a union

	measured bool // empty is known
	empty    bool // its values have no bytes
}

type field struct {
	name string
	of   *node
}

// Parse reads a schema. references are the texts of schemas with names that it uses. Each reference
// follows the references that it uses itself.
func Parse(schema string, references ...string) (*Schema, error) {
	p := parser{names: map[string]*node{}}
	var root *node
	for i, one := range append(slices.Clone(references), schema) {
		var err error
		if root, err = p.parse(one); err != nil {
			if i < len(references) {
				return nil, fmt.Errorf("reference %d: %w", i+1, err)
			}
			return nil, err
		}
	}
	return &Schema{root}, nil
}

// Column reports whether a record has the JSON form of a key: a scalar, or an object with one text
// or whole number.
func (s *Schema) Column() bool { return s.root.column() }

func (n *node) column() bool {
	switch n.kind {
	case record:
		return len(n.fields) == 1 && n.fields[0].of.whole()
	case union:
		return slices.ContainsFunc(n.branches, (*node).column)
	case dictionary, null:
		return false
	}
	return true
}

// whole reports whether the JSON of a value is a text or a whole number.
func (n *node) whole() bool {
	switch n.kind {
	case integer, long, text, enum:
		return true
	case bytesType, fixed:
		return n.logical != "decimal"
	case union:
		return slices.ContainsFunc(n.branches, (*node).whole)
	}
	return false
}

// parser reads a schema. It remembers the types with names.
type parser struct {
	names map[string]*node
	types int
	all   []*node
}

func (p *parser) parse(schema string) (*node, error) {
	if len(schema) > SchemaMax {
		return nil, fmt.Errorf("the schema has %d bytes: at most %d", len(schema), SchemaMax)
	}
	var tree any
	if err := json.Unmarshal([]byte(schema), &tree); err != nil {
		return nil, fmt.Errorf("the schema is not JSON: %w", err)
	}
	root, err := p.of(tree, "", 1)
	if err != nil {
		return nil, err
	}
	for _, n := range p.all {
		if err := n.measure(map[*node]bool{}); err != nil {
			return nil, err
		}
	}
	return root, nil
}

// node adds a type.
func (p *parser) node(k kind, named string) *node {
	n := &node{kind: k, named: named}
	p.all = append(p.all, n)
	return n
}

// of reads a type in a namespace.
func (p *parser) of(tree any, namespace string, depth int) (*node, error) {
	if p.types++; p.types > typesMax {
		return nil, fmt.Errorf("the schema has more than %d types", typesMax)
	}
	if depth > MaxDepth {
		return nil, fmt.Errorf("types are nested deeper than %d", MaxDepth)
	}
	switch t := tree.(type) {
	case string:
		return p.reference(t, namespace)
	case []any:
		return p.union(t, namespace, depth)
	case map[string]any:
		name, ok := t["type"].(string)
		if !ok {
			return p.of(t["type"], namespace, depth+1)
		}
		if k := kinds[name]; k == 0 {
			return p.reference(name, namespace)
		} else if k == record || k == enum || k == fixed {
			return p.definition(k, t, namespace, depth)
		} else {
			return p.unnamed(k, name, t, namespace, depth)
		}
	}
	return nil, fmt.Errorf("%v is not a type", tree)
}

// reference returns a primitive type, or a type defined before.
func (p *parser) reference(name, namespace string) (*node, error) {
	if k := kinds[name]; k != 0 && k <= text {
		return p.node(k, name), nil
	}
	if of := p.names[fullName(name, namespace)]; of != nil {
		return of, nil
	}
	if of := p.names[name]; of != nil {
		return of, nil
	}
	return nil, fmt.Errorf("unknown type %q", name)
}

func fullName(name, namespace string) string {
	if namespace == "" || strings.Contains(name, ".") {
		return name
	}
	return namespace + "." + name
}

func (p *parser) union(branches []any, namespace string, depth int) (*node, error) {
	u := p.node(union, "")
	var names []string
	for _, tree := range branches {
		branch, err := p.of(tree, namespace, depth+1)
		if err != nil {
			return nil, err
		}
		if branch.kind == union {
			return nil, errors.New("a union stands directly in a union")
		}
		u.branches, names = append(u.branches, branch), append(names, branch.named)
	}
	u.named = "[" + strings.Join(names, ", ") + "]"
	return u, nil
}

// unnamed reads a type without a name: a primitive type, an array or a map.
func (p *parser) unnamed(k kind, name string, t map[string]any, namespace string, depth int) (n *node, err error) {
	n = p.node(k, name)
	n.annotate(t)
	switch k {
	case array:
		n.items, err = p.of(t["items"], namespace, depth+1)
	case dictionary:
		n.items, err = p.of(t["values"], namespace, depth+1)
	}
	return n, err
}

// annotate reads the logical type.
func (n *node) annotate(t map[string]any) {
	if n.logical, _ = t["logicalType"].(string); n.logical != "" {
		n.named += " (" + n.logical + ")"
	}
	scale, _ := t["scale"].(float64)
	n.scale = int(max(min(scale, 1000), 0))
	digits, _ := t["precision"].(float64)
	n.digits = int(max(min(digits, 1000), 0))
}

// definition reads a type with a name.
func (p *parser) definition(k kind, t map[string]any, namespace string, depth int) (*node, error) {
	name, _ := t["name"].(string)
	if name == "" {
		return nil, fmt.Errorf("a type %v has no name", t["type"])
	}
	if own, ok := t["namespace"].(string); ok && !strings.Contains(name, ".") {
		namespace = own
	}
	name = fullName(name, namespace)
	namespace = name[:max(strings.LastIndexByte(name, '.'), 0)]
	if p.names[name] != nil {
		return nil, fmt.Errorf("type %q is defined twice", name)
	}
	n := p.node(k, name)
	n.annotate(t)
	p.names[name] = n
	switch k {
	case fixed:
		size, ok := t["size"].(float64)
		if n.size = int(size); !ok || size != float64(n.size) || size < 0 || size > 1<<30 {
			return nil, fmt.Errorf("fixed %q has the size %v", name, t["size"])
		}
	case enum:
		list, _ := t["symbols"].([]any)
		for _, one := range list {
			symbol, ok := one.(string)
			if !ok {
				return nil, fmt.Errorf("enum %q has the symbol %v", name, one)
			}
			n.symbols = append(n.symbols, symbol)
		}
	case record:
		return n, p.fields(n, t["fields"], namespace, depth)
	}
	return n, nil
}

func (p *parser) fields(n *node, tree any, namespace string, depth int) error {
	list, ok := tree.([]any)
	if !ok {
		return fmt.Errorf("record %q has no list of fields", n.named)
	}
	seen := map[string]bool{}
	for _, one := range list {
		t, _ := one.(map[string]any)
		name, _ := t["name"].(string)
		if name == "" {
			return fmt.Errorf("record %q has a field without a name", n.named)
		}
		if seen[name] {
			return fmt.Errorf("record %q has two fields %q", n.named, name)
		}
		seen[name] = true
		of, err := p.of(t["type"], namespace, depth+1)
		if err != nil {
			return fmt.Errorf("field %q: %w", name, err)
		}
		n.fields = append(n.fields, field{name, of})
	}
	return nil
}

// measure finds out whether the values of a type have no bytes. It refuses a record that contains
// itself in every value, because no such value is finite.
func (n *node) measure(within map[*node]bool) error {
	if n.measured {
		return nil
	}
	if within[n] {
		return fmt.Errorf("record %q is a part of itself in all its values", n.named)
	}
	within[n] = true
	n.empty = n.kind == null || n.kind == fixed && n.size == 0 || n.kind == record
	for _, f := range n.fields {
		if err := f.of.measure(within); err != nil {
			return err
		}
		n.empty = n.empty && f.of.empty
	}
	n.measured = true
	delete(within, n)
	return nil
}

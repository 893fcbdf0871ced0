package compile

import (
	"fmt"
	"strings"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/spec"
)

const (
	declaredLeast = 2 // with this many uses of another type, the declaration of a field is the likeliest error
	declaredShown = 5 // how many of these uses an error names
)

// declarations returns the errors. If several uses of an input field want the same other type, it
// replaces their errors with one error at the declaration of the field, which names the uses.
func declarations(b *bound, all *lang.Findings) spec.Problems {
	places := map[lang.Use][]string{}
	for _, e := range all.Errs {
		if _, declared := declared(b.Pipeline, all.Typed[e].Name); declared {
			places[use(all, e)] = append(places[use(all, e)], e.Path)
		}
	}
	var found spec.Problems
	said := map[lang.Use]bool{}
	for _, e := range all.Errs {
		at := use(all, e)
		switch {
		case len(places[at]) < declaredLeast:
			found = append(found, e)
		case !said[at]:
			found, said[at] = append(found, declaration(b, at.Name, at.Want, places[at])), true
		}
	}
	return found
}

// use returns the use of a name that an error is about.
func use(all *lang.Findings, e *spec.Problem) lang.Use {
	u := all.Typed[e]
	return lang.Use{Name: u.Name, Want: number(u.Want)}
}

// number returns Number for Int, because a number also satisfies a use as int.
func number(kind value.Kind) value.Kind {
	if kind == value.Int {
		return value.Number
	}
	return kind
}

// declared returns the path of the declaration of an input field.
func declared(p *lang.Pipeline, name string) (path string, ok bool) {
	for _, f := range p.Input.Fields {
		if f.Name == name {
			return "input.fields." + name, true
		}
	}
	for i, in := range p.Inputs {
		for _, f := range in.Fields {
			if f.Name == name {
				return fmt.Sprintf("inputs[%d].fields.%s", i, name), true
			}
		}
	}
	return "", false
}

// declaration returns the error for a field that uses want to have another type.
func declaration(b *bound, name string, want value.Kind, places []string) *spec.Problem {
	path, _ := declared(b.Pipeline, name)
	slot, _ := b.Names.Lookup(name)
	hint := fmt.Sprintf("declare `%s: %v` if the events have that type", name, want)
	switch {
	case want == value.Number && slot.Type.Kind == value.String:
		hint += ", or write float(" + name + ") there"
	case want == value.String && slot.Type.Kind < value.String:
		hint += ", or write string(" + name + ") there"
	}
	shown := strings.Join(places[:min(len(places), declaredShown)], ", ")
	if len(places) > declaredShown {
		shown += fmt.Sprintf(" and %d more", len(places)-declaredShown)
	}
	return &spec.Problem{
		Path: path, Message: fmt.Sprintf("%s is a %v, but %d places need a %v: %s", name, slot.Type, len(places), want, shown),
		Hint: hint,
	}
}

package lang

import (
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/lookup"
)

var lookupChoice = choice[Lookup, lookup.Config]{
	of: "lookup", others: slices.Concat(lookupFieldsAbove, lookupFieldsBelow), affects: spec.Outputs,
	more: "a lookup outside of the log keeps no state",
	at:   func(l *Lookup) (*string, *lookup.Config) { return &l.Kind, &l.Config },
}

// LookupKinds returns the fields that choose kinds of lookups, and what is wrong with the
// kinds.
func LookupKinds(kinds []lookup.Kind) ([]spec.Field[Lookup], error) {
	of := make([]kind[lookup.Config], len(kinds))
	for i := range kinds {
		of[i] = kind[lookup.Config](kinds[i])
	}
	return lookupChoice.fields(of)
}

// lookupFields returns the fields of a lookup: one for each kind between those of all.
func (k Kinds) lookupFields() ([]spec.Field[Lookup], error) {
	chosen, err := LookupKinds(k.Lookups)
	all, places := slices.Concat(lookupFieldsAbove, chosen, lookupFieldsBelow), k.lookupPlaces()
	for i := range all {
		if !slices.Contains(places, all[i].Name) {
			continue
		}
		var others []string
		for _, place := range places {
			if place != all[i].Name {
				others = append(others, "`"+place+"`")
			}
		}
		if all[i].Absent = "required"; others != nil {
			all[i].Absent += ", or " + spec.Listed(others, "or")
		}
	}
	return all, err
}

// lookupPlaces returns the fields of a lookup that say where rows are.
func (k Kinds) lookupPlaces() []string {
	places := []string{"table"}
	for _, kind := range k.Lookups {
		places = append(places, kind.Name)
	}
	return places
}

// lookupForm reads a lookup, whose rows are in one place.
func (k Kinds) lookupForm() spec.Form[Lookup] {
	fields, err := k.lookupFields()
	if err != nil {
		panic(err) // Check says so
	}
	f, places := spec.MappingOf(fields), k.lookupPlaces()
	return spec.Form[Lookup]{Read: func(r *spec.Reader, n *spec.Node, path string, into *Lookup) {
		before := len(r.Errors)
		f.Read(r, n, path, into)
		given := 0
		for _, field := range n.Entries {
			if slices.Contains(places, field.Key) {
				given++
			}
		}
		if len(r.Errors) == before && given != 1 {
			r.Fail(r.Places[path].Offset, path, fmt.Sprintf("rows are in one place: a lookup has exactly one of %s", spec.Listed(places, "and")), "name a topic as `table`, or say where else the rows are")
		}
	}, Print: printLookup, Shape: f.Shape}
}

// printLookup prints a lookup by its own kind alone, so that no list of kinds is needed.
func printLookup(p *spec.Printer, path string, l *Lookup) {
	spec.MappingOf(l.fields()).Print(p, path, l)
}

// fields returns the fields of a lookup: of kinds that of its own alone.
func (l *Lookup) fields() []spec.Field[Lookup] {
	var own []spec.Field[Lookup]
	if l.Config != nil {
		table, err := spec.TableOf(l.Config, lookupChoice.absent)
		if err != nil {
			panic(err) // New says so
		}
		own = append(own, lookupChoice.reads(kind[lookup.Config]{Name: l.Kind}, table))
	}
	return slices.Concat(lookupFieldsAbove, own, lookupFieldsBelow)
}

package lang

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"

	"github.com/afterbay/afterbay/internal/spec"
)

// kind is what kinds of all sorts have, such as sink.Kind.
type kind[C any] struct {
	Name    string
	Help    string
	Example string
	New     func() C
}

// check returns what is wrong with the kind apart from its fields.
func (k kind[C]) check() error {
	switch {
	case !kindName.MatchString(k.Name):
		return errors.New("a name is of lower case, digits and _")
	case k.New == nil:
		return errors.New("its New is nil")
	case sameStruct(k.New(), k.New()):
		return errors.New("its New returns the same struct twice: two mappings of a file would share it")
	case k.Help == "" || k.Example == "":
		return errors.New("its Help and Example are needed: the reference page shows them")
	}
	return nil
}

func sameStruct(one, other any) bool {
	a, b := reflect.ValueOf(one), reflect.ValueOf(other)
	return a.Kind() == reflect.Pointer && b.Kind() == reflect.Pointer && !a.IsNil() && a.Type().Elem().Size() > 0 && a.Pointer() == b.Pointer()
}

// choice is how a mapping chooses one of several kinds, by a field with the name of the
// kind. Configs of the kinds are of type C.
type choice[T, C any] struct {
	of      string                 // what has kinds, for errors: sink
	others  []spec.Field[T]        // fields of the mapping that choose no kind
	affects spec.Affects           // what the fields affect that choose
	more    string                 // why no field of a kind affects more
	absent  spec.Affects           // what a field of a kind affects that has no tag for it; 0 makes that an error
	at      func(*T) (*string, *C) // the name of the chosen kind, and its config
}

var kindName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// fields returns the fields that choose the kinds, and what is wrong with the kinds.
func (c *choice[T, C]) fields(kinds []kind[C]) (chosen []spec.Field[T], err error) {
	var errs []error
	for _, kind := range kinds {
		field, err := c.field(kind)
		named := func(o spec.Field[T]) bool { return o.Name == kind.Name }
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s kind %q: %w", c.of, kind.Name, err))
			continue
		case slices.ContainsFunc(c.others, named) || slices.ContainsFunc(chosen, named):
			errs = append(errs, fmt.Errorf("%s kind %q: a field of that name is there", c.of, kind.Name))
		}
		chosen = append(chosen, field)
	}
	return chosen, errors.Join(errs...)
}

// field returns the field that chooses a kind.
func (c *choice[T, C]) field(kind kind[C]) (f spec.Field[T], err error) {
	if err := kind.check(); err != nil {
		return f, err
	}
	config := kind.New()
	table, err := spec.TableOf(config, c.absent)
	if err != nil {
		return f, err
	}
	if err := spec.CheckExample(table, config, kind.Example); err != nil {
		return f, fmt.Errorf("its Example: %w", err)
	}
	spec.Docs{}.Sections(table.Shape, func(s spec.Section) {
		for _, w := range s.Words {
			if w.Accepted && w.Affects > c.affects && err == nil {
				err = fmt.Errorf("the field %s affects %v: %s", spec.Join(s.Path, w.Name), w.Affects, c.more)
			}
		}
	})
	return c.reads(kind, table), err
}

// reads returns the field that chooses a kind whose configs have the table.
func (c *choice[T, C]) reads(kind kind[C], table spec.Table) spec.Field[T] {
	begin := func(v *T) any {
		name, config := c.at(v)
		*name, *config = kind.Name, kind.New()
		return *config
	}
	written := func(v *T) any {
		name, config := c.at(v)
		if *name != kind.Name {
			return nil
		}
		return *config
	}
	return spec.Field[T]{Name: kind.Name, Affects: c.affects, Form: spec.Chosen(begin, written, table), Example: kind.Example, Help: kind.Help}
}

package lang

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"

	"github.com/afterbay/afterbay/internal/spec"
)

// KindIn holds the fields that all sorts of kinds share, such as sink.Kind.
type KindIn[C any] struct {
	Name    string
	Help    string
	Example string
	New     func() C
}

// check returns an error if the kind itself is invalid. It does not check the fields of its config.
func (k KindIn[C]) check() error {
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

// Choice describes a mapping that chooses one of several kinds, by a field with the name of the
// kind. C is the type of the kinds' configs.
type Choice[T, C any] struct {
	Of      string                 // the thing that has kinds, for error messages: sink
	Others  []spec.Field[T]        // fields of the mapping that choose no kind
	Affects spec.Affects           // what the choosing fields affect
	More    string                 // for error messages: why no field of a kind may affect more
	Absent  spec.Affects           // what a field of a kind affects if it has no tag for that; 0 makes a missing tag an error
	At      func(*T) (*string, *C) // returns the name of the chosen kind, and its config
}

var kindName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// Fields returns the fields that choose the kinds. The error lists the invalid kinds.
func (c *Choice[T, C]) Fields(kinds []KindIn[C]) (chosen []spec.Field[T], err error) {
	var errs []error
	for _, kind := range kinds {
		field, err := c.field(kind)
		named := func(o spec.Field[T]) bool { return o.Name == kind.Name }
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s kind %q: %w", c.Of, kind.Name, err))
			continue
		case slices.ContainsFunc(c.Others, named) || slices.ContainsFunc(chosen, named):
			errs = append(errs, fmt.Errorf("%s kind %q: a field with that name exists", c.Of, kind.Name))
		}
		chosen = append(chosen, field)
	}
	return chosen, errors.Join(errs...)
}

// field returns the field that chooses a kind.
func (c *Choice[T, C]) field(kind KindIn[C]) (f spec.Field[T], err error) {
	if err := kind.check(); err != nil {
		return f, err
	}
	config := kind.New()
	table, err := spec.TableOf(config, c.Absent)
	if err != nil {
		return f, err
	}
	if err := spec.CheckExample(table, config, kind.Example); err != nil {
		return f, fmt.Errorf("its Example: %w", err)
	}
	spec.Docs{}.Sections(table.Shape, func(s spec.Section) {
		for _, w := range s.Words {
			if w.Accepted && w.Affects > c.Affects && err == nil {
				err = fmt.Errorf("the field %s affects %v: %s", spec.Join(s.Path, w.Name), w.Affects, c.More)
			}
		}
	})
	return c.Reads(kind, table), err
}

// Reads returns the field that chooses a kind. The table reads the config of the kind.
func (c *Choice[T, C]) Reads(kind KindIn[C], table spec.Table) spec.Field[T] {
	begin := func(v *T) any {
		name, config := c.At(v)
		*name, *config = kind.Name, kind.New()
		return *config
	}
	written := func(v *T) any {
		name, config := c.At(v)
		if *name != kind.Name {
			return nil
		}
		return *config
	}
	return spec.Field[T]{Name: kind.Name, Affects: c.Affects, Form: spec.Chosen(begin, written, table), Example: kind.Example, Help: kind.Help}
}

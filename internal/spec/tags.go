package spec

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The tags of a field, as package sink documents them.
const (
	tagField    = "field"
	tagHelp     = "help"
	tagExample  = "example"
	tagRequired = "required"
	tagDefault  = "default"
	tagAbsent   = "absent"
	tagMin      = "min"
	tagMax      = "max"
	tagChoice   = "choice"
	tagOr       = "or"
	tagUnit     = "unit"
	tagPath     = "path"
	tagSecret   = "secret"
	tagAffects  = "affects"
)

var tags = []string{
	tagField, tagHelp, tagExample, tagRequired, tagDefault, tagAbsent, tagMin, tagMax, tagChoice, tagOr, tagUnit, tagPath, tagSecret, tagAffects,
}

// Bounds of fields without min and max, and the limit of nested structs.
const (
	wholeMax  = 1_000_000_000
	spanMax   = 366 * Day
	sizeMax   = 1 << 40
	taggedMax = 8
)

var durations = reflect.TypeFor[time.Duration]()

// tagged is a struct type with the table that its tags describe.
type tagged struct {
	of       reflect.Type
	fields   []Field[any]
	secrets  map[string]string                       // secret field to the field that names a file with the secret; "" if no field does
	defaults []func(of reflect.Value, beside string) // each sets one field; relative paths are joined with the folder beside
}

// taggedTable returns the table that the tags describe.
func taggedTable(v any, absent Affects) (Table, error) {
	made, err := taggedOf(v, absent)
	if err != nil {
		return Table{}, err
	}
	return made.table(), nil
}

func taggedOf(v any, absent Affects) (*tagged, error) {
	of := reflect.ValueOf(v)
	switch {
	case of.Kind() != reflect.Pointer || of.Type().Elem().Kind() != reflect.Struct:
		return nil, fmt.Errorf("%T is not a pointer to a struct", v)
	case of.IsNil():
		return nil, fmt.Errorf("a nil %T is not a pointer to a struct", v)
	}
	return newTagged(of.Type().Elem(), absent, nil)
}

// newTagged returns the table of a struct that may be nested in others.
func newTagged(of reflect.Type, absent Affects, outer []reflect.Type) (*tagged, error) {
	switch {
	case slices.Contains(outer, of):
		return nil, fmt.Errorf("%v is within itself", of)
	case len(outer) >= taggedMax:
		return nil, fmt.Errorf("%v: structs are nested deeper than %d", of, taggedMax)
	}
	t := &tagged{of: of, secrets: map[string]string{}}
	var errs []error
	for f := range of.Fields() {
		field, given := f.Tag.Lookup(tagField)
		if field == "-" || !f.IsExported() && !f.Anonymous && !given {
			continue
		}
		if err := t.add(f, absent, append(slices.Clip(outer), of)); err != nil {
			errs = append(errs, fmt.Errorf("%v.%s: %w", of, f.Name, err))
		}
	}
	if len(t.fields) == 0 && errs == nil {
		errs = append(errs, fmt.Errorf("%v has no fields", of))
	}
	if errs == nil {
		errs = t.others()
	}
	return t, errors.Join(errs...)
}

// table returns a table that reads into new structs and into existing ones.
func (t *tagged) table() Table {
	inner := MappingOf(t.fields)
	return Table{
		Read: func(r *Reader, n *Node, path string, into *any) {
			t.begin(into, true, r.Folder)
			inner.Read(r, n, path, into)
		},
		Print: inner.Print, Shape: inner.Shape,
	}
}

// begin creates the struct if it does not exist, and sets defaults.
func (t *tagged) begin(into *any, again bool, beside string) reflect.Value {
	if *into == nil {
		*into, again = reflect.New(t.of).Interface(), true
	}
	of := reflect.ValueOf(*into).Elem()
	if again {
		t.setDefaults(of, beside)
	}
	return of
}

func (t *tagged) setDefaults(of reflect.Value, beside string) {
	for _, set := range t.defaults {
		set(of, beside)
	}
}

// add adds a field of the struct to the table.
func (t *tagged) add(f reflect.StructField, absent Affects, outer []reflect.Type) error {
	w := Field[any]{
		Name: f.Tag.Get(tagField), Or: f.Tag.Get(tagOr), Example: f.Tag.Get(tagExample), Help: f.Tag.Get(tagHelp),
		Absent: f.Tag.Get(tagAbsent), Required: f.Tag.Get(tagRequired) == "true", Affects: absent,
	}
	if err := t.check(f, &w); err != nil {
		return err
	}
	form, base, err := formOf(f, w.Affects, outer)
	if err != nil {
		return err
	}
	if f.Type.Kind() == reflect.Struct { // fields of a nested struct have defaults even if the file does not have the struct
		inner, err := newTagged(f.Type, w.Affects, outer)
		if err != nil {
			return err
		}
		t.defaults = append(t.defaults, func(of reflect.Value, beside string) { inner.setDefaults(of.FieldByIndex(f.Index), beside) })
	}
	text, hasDefault := f.Tag.Lookup(tagDefault)
	var otherwise reflect.Value
	if hasDefault {
		if strings.Contains(text, "${") {
			return errors.New("default: an environment variable cannot be a default")
		}
		if otherwise, err = parsed(form, base, w.Name, text); err != nil {
			return fmt.Errorf("default: %w", err)
		}
		t.defaults = append(t.defaults, func(of reflect.Value, beside string) {
			v := of.FieldByIndex(f.Index)
			if v.Set(otherwise.Convert(f.Type)); f.Tag.Get(tagPath) != "" {
				v.SetString(inFolder(beside, v.String()))
			}
		})
	}
	if _, err := parsed(form, base, w.Name, w.Example); err != nil {
		return fmt.Errorf("example: %w", err)
	}
	if secret := f.Tag.Get(tagSecret); secret != "" && secret != "true" {
		t.secrets[w.Name] = secret
	}
	w.Form = t.member(f, form, base, otherwise)
	if w.Absent == "" && !w.Required {
		if w.Absent = text; text == "" {
			w.Absent = "none"
		}
	}
	t.fields = append(t.fields, w)
	return nil
}

// member returns the form that reads and prints one field of a struct.
func (t *tagged) member(f reflect.StructField, form Table, base reflect.Type, otherwise reflect.Value) Table {
	at := func(of *any) (reflect.Value, any) {
		v := t.begin(of, false, "").FieldByIndex(f.Index)
		if base.Kind() == reflect.Pointer {
			return v, v.Interface()
		}
		return v, v.Addr().Convert(reflect.PointerTo(base)).Interface()
	}
	isDefault := func(v reflect.Value) bool {
		if otherwise.IsValid() && f.Tag.Get(tagPath) != "" {
			return fileOfPath(v.String()) == fileOfPath(otherwise.String())
		}
		return otherwise.IsValid() && reflect.DeepEqual(v.Interface(), otherwise.Convert(f.Type).Interface())
	}
	return Table{
		Read: func(r *Reader, n *Node, path string, into *any) {
			v, inner := at(into)
			if base.Kind() == reflect.Pointer {
				v.Set(reflect.New(base.Elem()))
				inner = v.Interface()
			}
			form.Read(r, n, path, &inner)
		},
		Print: func(p *Printer, path string, of *any) {
			switch v, inner := at(of); {
			case base.Kind() == reflect.Pointer && v.IsNil(), isDefault(v):
				p.wrote()
			default:
				p.explicit = p.explicit || base.Kind() == reflect.Pointer || otherwise.IsValid()
				form.Print(p, path, &inner)
			}
		},
		Shape: form.Shape,
	}
}

// parsed reads a text as the value of a field.
func parsed(form Table, base reflect.Type, name, text string) (reflect.Value, error) {
	s := NewSource(name, name+": "+text+"\n")
	documents, found := ReadDocuments(s, &PipelineFiles)
	if len(found) > 0 || documents[0].Root.Kind != Mapping {
		return reflect.Value{}, fmt.Errorf("%s is not YAML", Shorten(text))
	}
	r := &Reader{Source: s, Places: map[string]Place{}, Lookup: func(string) (string, bool) { return "x", true }}
	v := reflect.New(base)
	if base.Kind() == reflect.Pointer {
		v = reflect.New(base.Elem())
	}
	into := v.Interface()
	form.Read(r, documents[0].Root.Entries[0].Value, name, &into)
	if len(r.Errors) > 0 {
		return reflect.Value{}, fmt.Errorf("%s: %s", r.Errors[0].Message, r.Errors[0].Hint)
	}
	return v.Elem(), nil
}

// formOf returns the form of a field, and the type that the form reads: the type of the field, or
// its underlying type. Nested fields without an affects tag inherit that of the field.
func formOf(f reflect.StructField, absent Affects, outer []reflect.Type) (Table, reflect.Type, error) {
	bounded := f.Type.Kind() == reflect.Int || f.Type.Kind() == reflect.Float64 || f.Type == durations
	for _, tag := range []struct {
		name string
		fits bool
	}{
		{tagMin, bounded}, {tagMax, bounded}, {tagUnit, f.Type.Kind() == reflect.Int},
		{tagChoice, f.Type.Kind() == reflect.String}, {tagPath, f.Type.Kind() == reflect.String}, {tagSecret, f.Type.Kind() == reflect.String},
		{tagDefault, slices.Contains([]reflect.Kind{reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64}, f.Type.Kind())},
	} {
		if _, given := f.Tag.Lookup(tag.name); given && !tag.fits {
			return Table{}, nil, fmt.Errorf("the tag %s says nothing about a %v", tag.name, f.Type)
		}
	}
	switch kind := f.Type.Kind(); {
	case f.Type == durations:
		form, err := rangeOf(f, time.Duration(0), spanMax, ParseDuration, Span)
		return form, f.Type, err
	case kind == reflect.String:
		form, err := textForm(f)
		return form, reflect.TypeFor[string](), err
	case kind == reflect.Bool:
		if f.Tag.Get(tagDefault) != "" {
			return erased(Switch()), reflect.TypeFor[bool](), nil
		}
		return erased(OnlyTrue()), reflect.TypeFor[bool](), nil
	case kind == reflect.Int && f.Tag.Get(tagUnit) == "bytes":
		form, err := rangeOf(f, 0, sizeMax, ParseSize, Size)
		return form, reflect.TypeFor[int](), err
	case kind == reflect.Int && f.Tag.Get(tagUnit) != "":
		return Table{}, nil, fmt.Errorf("the tag unit is %q: use bytes", f.Tag.Get(tagUnit))
	case kind == reflect.Int:
		form, err := rangeOf(f, 0, wholeMax, wholeNumber, func(low, high int) Form[int] { return Whole[int](int64(low), int64(high)) })
		return form, reflect.TypeFor[int](), err
	case kind == reflect.Float64:
		form, err := rangeOf(f, math.Inf(-1), math.Inf(1), finite, NumberFrom)
		return form, reflect.TypeFor[float64](), err
	case kind == reflect.Slice && f.Type.Elem() == reflect.TypeFor[string]():
		return erased(ListOf(TextOf("a text"))), reflect.TypeFor[[]string](), nil
	case kind == reflect.Map && f.Type.Key() == reflect.TypeFor[string]() && f.Type.Elem() == reflect.TypeFor[string]():
		return erased(textsByName()), reflect.TypeFor[map[string]string](), nil
	case kind == reflect.Struct, kind == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct:
		of := f.Type
		if kind == reflect.Pointer {
			of = of.Elem()
		}
		inner, err := newTagged(of, absent, outer)
		if err != nil {
			return Table{}, nil, err
		}
		return inner.table(), f.Type, nil
	}
	return Table{}, nil, fmt.Errorf("a field of type %v: use string, bool, int, float64, time.Duration, []string, map[string]string, or a struct of these", f.Type)
}

// rangeOf returns a form for values between the tags min and max.
func rangeOf[T int | float64 | time.Duration](f reflect.StructField, low, high T, parse func(string) (T, bool), form func(low, high T) Form[T]) (Table, error) {
	for _, bound := range []struct {
		tag  string
		into *T
	}{{tagMin, &low}, {tagMax, &high}} {
		text, given := f.Tag.Lookup(bound.tag)
		v, ok := parse(text)
		switch {
		case !given:
		case !ok:
			return Table{}, fmt.Errorf("the tag %s is %q, which is not a value of the field", bound.tag, text)
		default:
			*bound.into = v
		}
	}
	if low > high {
		return Table{}, fmt.Errorf("min %v is above max %v", low, high)
	}
	return erased(form(low, high)), nil
}

func wholeNumber(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil
}

func finite(text string) (float64, bool) {
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil && !math.IsInf(v, 0) && !math.IsNaN(v)
}

// textsByName reads a mapping from names to texts. The order has no meaning.
func textsByName() Form[map[string]string] {
	text := TextOf("a text")
	return Form[map[string]string]{Read: func(r *Reader, n *Node, path string, into *map[string]string) {
		*into = map[string]string{}
		for _, e := range r.entries(n, path, "write `<name>: <text>`") {
			var value string
			text.Read(r, e.Value, Join(path, e.Key), &value)
			(*into)[e.Key] = value
		}
	}, Print: func(p *Printer, path string, v *map[string]string) {
		p.wrote()
		for _, name := range slices.Sorted(maps.Keys(*v)) {
			p.Line(path+"["+strconv.Quote(name)+"]", canonical((*v)[name]))
		}
	}, Shape: Shape{Kind: ANames, Of: []Shape{text.Shape}}}
}

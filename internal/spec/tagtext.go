package spec

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	fieldName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	aTag      = regexp.MustCompile(`^ *([^\x00-\x20:"\x7f]+):("(?:[^"\\]|\\.)*")`)
)

// checkTags returns an error if a field's tags are malformed. Package reflect would silently ignore
// all tags after the first malformed one.
func checkTags(tag reflect.StructTag) error {
	behind := "the beginning"
	seen := map[string]bool{}
	for rest := strings.TrimRight(string(tag), " "); rest != ""; {
		match := aTag.FindStringSubmatch(rest)
		if match == nil {
			return fmt.Errorf("struct tags are not read behind %s: write name:\"value\", with a space between two", behind)
		}
		name, value := match[1], ""
		behind, rest = "`"+strings.TrimLeft(match[0], " ")+"`", rest[len(match[0]):]
		if !slices.Contains(tags, name) {
			if near := Nearest(name, tags); near != "" {
				return fmt.Errorf("unknown tag %s: did you mean %s?", name, near)
			}
			continue // a tag of another package
		}
		value, err := strconv.Unquote(match[2])
		switch {
		case err != nil:
			return fmt.Errorf("the tag %s is not a text of Go: %s", name, match[2])
		case seen[name]:
			return fmt.Errorf("the tag %s occurs twice", name)
		case value == "" && name != tagField && name != tagHelp && name != tagExample: // empty required tags are reported elsewhere
			return fmt.Errorf("the tag %s is empty: remove it", name)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' }):
			return fmt.Errorf("the tag %s is one line of text", name)
		}
		seen[name] = true
	}
	return nil
}

// check returns the errors in the tags of a field that do not depend on its type.
func (t *tagged) check(f reflect.StructField, w *Field[any]) error {
	if err := checkTags(f.Tag); err != nil {
		return err
	}
	_, hasDefault := f.Tag.Lookup(tagDefault)
	switch word, given := f.Tag.Lookup(tagAffects); {
	case f.Anonymous:
		return errors.New("an embedded struct: name the field, or give it the tag field:\"-\"")
	case !f.IsExported():
		return errors.New("a field with tags is exported: begin its name with a capital letter")
	case !fieldName.MatchString(w.Name):
		return fmt.Errorf("the tag field is %q: use lower case, digits and _", w.Name)
	case slices.ContainsFunc(t.fields, func(o Field[any]) bool { return o.Name == w.Name }):
		return fmt.Errorf("a second field is named %s", w.Name)
	case w.Help == "" || w.Example == "":
		return errors.New("the tags help and example are needed: the reference page shows them")
	case !isTrueOrAbsent(f, tagRequired):
		return fmt.Errorf("the tag required is %q: use true, or leave it out", f.Tag.Get(tagRequired))
	case !isTrueOrAbsent(f, tagPath):
		return fmt.Errorf("the tag path is %q: use true, or leave it out", f.Tag.Get(tagPath))
	case w.Required && hasDefault:
		return errors.New("a field that is required has no default")
	case w.Required && f.Type.Kind() == reflect.Bool:
		return errors.New("a bool that is required says nothing: without a default, true is its only value")
	case given:
		at := slices.Index([]string{"nothing", "outputs", "state"}, word)
		if at < 0 {
			return fmt.Errorf("the tag affects is %q: use nothing, outputs or state", word)
		}
		w.Affects = Affects(at + 1)
	case w.Affects == 0:
		return errors.New("the tag affects is needed: nothing, outputs or state, which a change of the field changes")
	}
	return nil
}

func isTrueOrAbsent(f reflect.StructField, tag string) bool {
	return f.Tag.Get(tag) == "true" || f.Tag.Get(tag) == ""
}

// others checks that the fields named in tags exist.
func (t *tagged) others() (errs []error) {
	for _, w := range t.fields {
		for _, by := range []struct{ tag, names string }{{tagOr, w.Or}, {tagSecret, t.secrets[w.Name]}} {
			for name := range strings.SplitSeq(by.names, "|") {
				if name != "" && !slices.ContainsFunc(t.fields, func(o Field[any]) bool { return o.Name == name && name != w.Name }) {
					errs = append(errs, fmt.Errorf("%v: the tag %s of %s names %q, which is not another field", t.of, by.tag, w.Name, name))
				}
			}
		}
	}
	return errs
}

// textForm returns the form of a text.
func textForm(f reflect.StructField) (Table, error) {
	secret, choice := f.Tag.Get(tagSecret), strings.Split(f.Tag.Get(tagChoice), "|")
	_, hasDefault := f.Tag.Lookup(tagDefault)
	var kinds []string
	for _, tag := range []string{tagChoice, tagPath, tagSecret} {
		if f.Tag.Get(tag) != "" {
			kinds = append(kinds, tag)
		}
	}
	sorted := slices.Sorted(slices.Values(choice))
	switch {
	case len(kinds) > 1:
		return Table{}, fmt.Errorf("the tags %s exclude each other", Listed(kinds, "and"))
	case len(kinds) == 0:
		return erased(TextOf("a text")), nil
	case kinds[0] == tagPath:
		return erased(As(fileOfPath, ReadPath)), nil
	case kinds[0] == tagChoice && (sorted[0] == "" || len(slices.Compact(sorted)) < len(choice)):
		return Table{}, errors.New("the tag choice has a word that is empty or there twice")
	case kinds[0] == tagChoice:
		return erased(Choice[string](choice...)), nil
	case hasDefault:
		return Table{}, errors.New("a secret has no default")
	case secret == "true":
		secret = ""
	}
	return erased(Secret(secret)), nil
}

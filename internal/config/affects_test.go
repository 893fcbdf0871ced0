package config

import (
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
)

// eachFingerprinted calls visit with each field that a fingerprint may have.
func eachFingerprinted(t *testing.T, visit func(path string, w spec.About)) {
	t.Helper()
	n := 0
	for _, of := range []struct {
		comments []string
		shape    spec.Shape
	}{{pipelineStructs, spec.MappingOf(builtin.Kinds().Fields()).Shape}, {manifestStructs, spec.MappingOf(builtin.Kinds().ManifestFields()).Shape}} {
		readComments(t, of.comments...).sections(of.shape, func(s spec.Section) {
			for _, w := range s.Words {
				if w.Accepted {
					n++
					visit(spec.Join(s.Path, w.Name), w)
				}
			}
		})
	}
	if n < 250 {
		t.Errorf("only %d fields were looked at", n)
	}
}

func printed(r *spec.Reader, n *spec.Node, w spec.About, least spec.Affects) string {
	return w.Text(r, n, &spec.Printer{Least: least, Again: lang.PrintAgain})
}

// TestEveryFieldSaysWhatItAffects sees that each field has its Affects, and that nothing
// below a field that affects nothing affects something.
func TestEveryFieldSaysWhatItAffects(t *testing.T) {
	affects := map[string]spec.Affects{}
	eachFingerprinted(t, func(path string, w spec.About) {
		affects[path] = w.Affects
		if w.Affects < spec.Nothing || w.Affects > spec.State {
			t.Errorf("%s does not say what it affects", path)
		}
		parent := path[:max(0, strings.LastIndexByte(path, '.'))]
		if affects[parent] == spec.Nothing && w.Affects != spec.Nothing {
			t.Errorf("%s affects %v, below a field that affects nothing", path, w.Affects)
		}
	})
}

// TestFingerprintsHaveWhatAFieldAffects prints each field with its example: one that
// affects nothing has no text, each other has one, and its zero value has none.
func TestFingerprintsHaveWhatAFieldAffects(t *testing.T) {
	eachFingerprinted(t, func(path string, w spec.About) {
		n, r := exampleNode(t, w)
		for _, least := range []spec.Affects{spec.Outputs, spec.State} {
			if text := printed(r, n, w, least); (text != "") != (w.Affects >= least) && !insideOnly(w, least) {
				t.Errorf("%s affects %v, and its text of what affects %v is %q", path, w.Affects, least, text)
			}
			if text := printed(r, nil, w, least); text != "" {
				t.Errorf("%s is absent, and its text is %q", path, text)
			}
		}
	})
}

// insideOnly reports whether a mapping has no field that affects as much.
func insideOnly(w spec.About, least spec.Affects) bool {
	if least != spec.State {
		return false
	}
	switch w.Shape.Kind {
	case spec.AMapping, spec.AStep, spec.AList, spec.ANames, spec.TheSteps, spec.Either:
		return true // an element of it may
	}
	return false
}

// TestDefaultsHaveNoText writes out what holds without a field.
func TestDefaultsHaveNoText(t *testing.T) {
	n := 0
	eachFingerprinted(t, func(path string, w spec.About) {
		text := strings.ReplaceAll(w.Absent, ",", "")
		if strings.HasPrefix(w.Absent, "[") {
			text = w.Absent
		}
		documents, found := spec.ReadDocuments(spec.NewSource("default.yaml", w.Name+": "+text+"\n"), &spec.PipelineFiles)
		if w.Affects == spec.Nothing || text == "" || len(found) > 0 || documents[0].Root.Kind != spec.Mapping || !spec.IsValue(w.Shape.Kind) {
			return
		}
		_, r := exampleNode(t, w)
		value := documents[0].Root.Entries[0].Value
		if w.Try(r, value, w.Name); len(r.Errors) > 0 {
			return // it says what holds in words
		}
		n++
		if text := printed(r, value, w, spec.Outputs); text != "" {
			t.Errorf("%s: its default written out is %q: give its form a Default", path, text)
		}
	})
	if n < 15 {
		t.Errorf("only %d defaults were found", n)
	}
}

package e2e_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/lookup"
	"github.com/afterbay/afterbay/sink"
)

// careless is a kind of sinks whose checks return what they were told to.
type careless struct {
	Path   string `field:"path" affects:"nothing" example:"a" help:"a text"`
	found  []error
	warned []error
	topics *[]string
}

func (c *careless) Check(t sink.Topic) []error {
	if c.topics != nil {
		*c.topics = t.Topics
	}
	return c.found
}

func (c *careless) Open(context.Context, sink.Topic) (sink.Service, error) {
	return sink.Service{}, errors.ErrUnsupported
}
func (c *careless) Describe() string            { return "nowhere" }
func (c *careless) Warnings(sink.Topic) []error { return c.warned }

const withCareless = `pipeline: p
inputs: [{topic: a, key: k, fields: {k: string}}, {topic: b, key: k, fields: {k: string}}]
steps:
  - emit: {topic: out, value: [k]}
sinks: [{from: out, careless: {path: x}}]
`

// carelessly returns the runner, or the error, of a pipeline with a sink of a kind.
func carelessly(t *testing.T, text string, made func() sink.Config) (*pipeline.Runner, error) {
	t.Helper()
	kind := sink.Kind{Name: "careless", Help: "h", Example: "{path: x}", New: made}
	return runnerOf("f.yaml", text, lang.Code{Sinks: []sink.Kind{kind}})
}

// runnerOf returns what runs the pipeline of a text that may name the kinds of code.
func runnerOf(name, text string, code lang.Code) (*pipeline.Runner, error) {
	kinds, err := builtin.Kinds().With(code)
	if err != nil {
		return nil, err
	}
	file, err := lang.ParseBeside(name, []byte(text), nil, kinds)
	if err != nil {
		return nil, err
	}
	p := file.Pipelines[0]
	p.Code = code
	runner, err := builtin.New(p, pipeline.Options{})
	if err != nil {
		return nil, file.Explain(0, err)
	}
	return runner, nil
}

// TestErrorsOfKindsThatAreNilAreNone checks kinds that return what a check found whether it
// found anything or not.
func TestErrorsOfKindsThatAreNilAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		found, warned []error
		want          string
	}{
		"nil":                    {found: []error{nil, nil}, warned: []error{nil}},
		"nil and a mistake":      {found: []error{nil, &sink.Mistake{Field: "path", Err: errors.New("is odd")}}, want: "f.yaml:5:38: sinks[0].careless.path: is odd"},
		"a mistake without what": {found: []error{&sink.Mistake{Field: "path", Hint: "write y"}}, want: "f.yaml:5:38: sinks[0].careless.path: is not valid: write y"},
	} {
		runner, err := carelessly(t, withCareless, func() sink.Config { return &careless{found: c.found, warned: c.warned} })
		switch {
		case c.want == "" && (err != nil || len(runner.Warnings) > 0):
			t.Errorf("%s: %v", name, err)
		case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)):
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// TestASinkIsToldOfAllInputs sees that a sink can refuse to write what the pipeline reads.
func TestASinkIsToldOfAllInputs(t *testing.T) {
	var topics []string
	if _, err := carelessly(t, withCareless, func() sink.Config { return &careless{topics: &topics} }); err != nil {
		t.Fatal(err)
	}
	if slices.Sort(topics); !slices.Equal(topics, []string{"a", "b", "out", "p.dlq"}) {
		t.Errorf("a sink is told of the topics %q", topics)
	}
}

// TestAKindMakesANewConfigEachTime refuses a kind whose sinks would share one struct.
func TestAKindMakesANewConfigEachTime(t *testing.T) {
	one := &careless{}
	const want = `sink kind "careless": its New returns the same struct twice`
	if _, err := carelessly(t, withCareless, func() sink.Config { return one }); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := carelessly(t, withCareless, func() sink.Config { return (*careless)(nil) }); err == nil || !strings.Contains(err.Error(), "nil") {
		t.Errorf("a New that returns a nil pointer: %v", err)
	}
	if _, err := carelessly(t, withCareless, func() sink.Config { return nil }); err == nil || !strings.Contains(err.Error(), "nil") {
		t.Errorf("a New that returns nil: %v", err)
	}
}

// rowless is a kind of lookups that opens nothing, and tells its path.
type rowless struct {
	Path string `field:"path" path:"true" affects:"nothing" example:"a" help:"a text"`
	told *string
}

func (r *rowless) Check(lookup.Step) []error {
	*r.told = r.Path
	return nil
}
func (r *rowless) Open(context.Context, lookup.Step) (lookup.Source, error) { return nil, nil }
func (r *rowless) Describe() string                                         { return "nowhere" }

// TestAKindThatOpensNothingIsAnError opens a lookup that is nil. The path that the file
// gives it is relative to the folder of the file, also of one that was parsed.
func TestAKindThatOpensNothingIsAnError(t *testing.T) {
	var path string
	kind := lookup.Kind{Name: "rowless", Help: "h", Example: "{path: x}", New: func() lookup.Config { return &rowless{told: &path} }}
	const text = `pipeline: p
input: {topic: a, key: k, fields: {k: string}}
steps:
  - lookup: {name: user, rowless: {path: rows/x}, key: k, fields: {a: optional string}}
  - emit: {topic: out, value: [k, user.a]}
`
	const want = "folder/f.yaml:4:26: steps[0].lookup.rowless: it opened nothing"
	if _, err := runnerOf("folder/f.yaml", text, lang.Code{Lookups: []lookup.Kind{kind}}); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if path != filepath.Join("folder", "rows", "x") {
		t.Errorf("the path is %q", path)
	}
}

// TestExamplesOfKindsAreRead refuses a kind whose example no file may have.
func TestExamplesOfKindsAreRead(t *testing.T) {
	kind := sink.Kind{Name: "careless", Help: "h", Example: "{pat: x}", New: func() sink.Config { return &careless{} }}
	const want = `sink kind "careless": its Example: unknown word "pat": did you mean "path"?`
	if _, err := afterbay.Parse("f.yaml", []byte(withCareless), lang.Code{Sinks: []sink.Kind{kind}}); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

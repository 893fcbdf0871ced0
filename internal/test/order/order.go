// Package order generates random pipelines and determines the order of their steps for an event.
// Tests compare the compiler with it, so it imports nothing of the engine.
package order

import (
	"fmt"
	"slices"
	"strings"
)

// Pipeline is a pipeline file. Its input has the fields user, url, a and b.
type Pipeline struct{ Steps []Step }

// Step is one step.
type Step struct {
	Kind      string // the word of the file
	Name      string // of the step: its first name, model output, topic or function
	Uses      []string
	Makes     []string // names that steps below it may read
	Stray     bool     // one of Uses is out of scope
	Features  []Feature
	Cases     []Case
	Model     string // of a score
	Outside   bool   // the rows of a lookup are outside of the log
	Keyed     bool   // a function keeps something of each key
	Async     bool
	Ordered   bool
	OnFailure []Step
	When      bool // a condition, which reads the first of Uses
}

// Feature is the mean of the newest values of a key.
type Feature struct {
	Name string
	Uses []string // one of them may be introduced below
}

// Case is one way of a route. All routes end with a default that drops.
type Case struct {
	Name  string
	Uses  []string
	Async bool
	Steps []Step
}

// Models of random pipelines.
const (
	Plain  = "plain"  // computes in the process
	Called = "called" // has a call
	Far    = "far"    // is outside of the process, and has no call
	Kept   = "kept"   // keeps something of each key
)

// Far and Kept are models in Go, which the test binds.
const head = `pipeline: p
input: {topic: in, key: user, fields: {user: string, url: string, a: number, b: number}}
content: {root: '/nowhere'}
models:
  plain: {file: scenario/testdata/memory.json, version: 1, outputs: {score: number}}
  called: {file: scenario/testdata/memory.json, version: 1, outputs: {score: number}, call: {attempts: 3}}
  far: {go: far, version: 1, outputs: {score: number}}
  kept: {go: kept, version: 1, outputs: {score: number}}
steps:
`

// YAML returns the text of the file.
func (p *Pipeline) YAML() string {
	var b strings.Builder
	b.WriteString(head)
	write(&b, "  ", p.Steps)
	return b.String()
}

func write(b *strings.Builder, indent string, steps []Step) {
	for i := range steps {
		if s := &steps[i]; s.Kind == "route" {
			writeRoute(b, indent, s)
		} else {
			fmt.Fprintf(b, "%s- %s\n", indent, s.line())
		}
	}
}

func writeRoute(b *strings.Builder, indent string, s *Step) {
	fmt.Fprintf(b, "%s- route:\n", indent)
	for _, way := range s.Cases {
		fmt.Fprintf(b, "%s    %s:\n%s      when: %s > 0.1\n", indent, way.Name, indent, sum(way.Uses))
		if way.Async {
			fmt.Fprintf(b, "%s      async: true\n", indent)
		}
		fmt.Fprintf(b, "%s      steps:\n", indent)
		write(b, indent+"        ", way.Steps)
	}
	fmt.Fprintf(b, "%s    default: drop\n", indent)
}

// sum is the expression that reads names, of type number.
func sum(names []string) string {
	terms := slices.Clone(names)
	for i, name := range terms {
		if strings.HasSuffix(name, ".size") {
			terms[i] = "float(" + name + ")"
		}
	}
	return strings.Join(terms, " + ")
}

// line returns a step that is no route as a mapping of one line.
func (s *Step) line() string {
	var words []string
	word := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	switch s.Kind {
	case "let", "decide":
		word("%s: %s", s.Name, sum(s.Uses))
	case "features":
		for _, f := range s.Features {
			word("%s: {value: %s, last: 3, aggregates: [mean]}", f.Name, sum(f.Uses))
		}
	case "lookup":
		word("name: %s, key: user, fields: {n: number}, empty: {n: %s}", s.Name, sum(s.Uses))
		if s.Outside {
			word("http: {url: 'http://127.0.0.1:1/{key}'}")
		} else {
			word("table: users")
		}
	case "fetch":
		word("name: %s, url: url", s.Name)
	case "score":
		word("model: %s, as: %s, inputs: [%s], fallback: {score: 0.5}", s.Model, s.Name, strings.Join(s.Uses, ", "))
	case "call":
		word("go: %s, inputs: [%s]", s.Name, strings.Join(s.Uses, ", "))
		if s.Makes != nil {
			word("outputs: {%s: number}", s.Makes[0])
		}
	case "group":
		word("name: %s, by: user, idle: 60s", s.Name)
	case "emit":
		word("topic: %s, value: {x: %s}", s.Name, sum(s.Uses))
	}
	if s.When {
		word("when: %s > 0.5", s.Uses[0])
	}
	if s.Async {
		word("async: true")
	}
	if s.Ordered {
		word("ordered: true")
	}
	if s.OnFailure != nil {
		var list []string
		for i := range s.OnFailure {
			list = append(list, s.OnFailure[i].line())
		}
		word("on_failure: [%s]", strings.Join(list, ", "))
	}
	if s.Kind == "features" {
		return "features: {" + strings.Join(words, ", ") + "}"
	}
	return "{" + s.Kind + ": {" + strings.Join(words, ", ") + "}}"
}

// Has reports whether is returns true for a step of the pipeline.
func (p *Pipeline) Has(is func(*Step) bool) bool { return anyOf(p.Steps, is) }

func anyOf(steps []Step, is func(*Step) bool) bool {
	for i := range steps {
		s := &steps[i]
		if is(s) || anyOf(s.OnFailure, is) {
			return true
		}
		for _, way := range s.Cases {
			if anyOf(way.Steps, is) {
				return true
			}
		}
	}
	return false
}

package toy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/afterbay/afterbay"
	"github.com/afterbay/afterbay/lookup"
	"github.com/afterbay/afterbay/scenario"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

var code = afterbay.Code{
	Sinks:   []sink.Kind{Lines},
	Lookups: []lookup.Kind{Book},
	Logs:    []stream.Kind{Memory},
}

// payments is a scenario of a pipeline whose decisions go to a file.
func payments(sink string, events int) string {
	var text strings.Builder
	text.WriteString("pipeline\n  pipeline: payments\n  input: {topic: payments, key: card, fields: {card: string, amount: number}}\n  steps:\n    - emit: {topic: decisions, value: [card, amount]}\n  sinks:\n    - {from: decisions, " + sink + "}\n\n")
	for i := range events {
		fmt.Fprintf(&text, "event 10:00:%02d {\"card\": \"c%d\", \"amount\": %d}\n  decisions {\"card\":\"c%d\",\"amount\":%d}\n", i, i%3, i, i%3, i)
	}
	return text.String()
}

// run runs a scenario, and calls between behind each way of it.
func run(t *testing.T, text string, between func(way string)) error {
	t.Helper()
	s, err := scenario.Parse("toy.txt", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	failures, err := s.Run(t.Context(), scenario.Options{Code: code, Logs: []string{"toy:tests"}, Progress: func(way string, _, _ int) {
		if last != "" {
			between(last)
		}
		last = way
	}})
	for _, f := range failures {
		t.Error(f)
	}
	if err == nil {
		between(last)
	}
	return err
}

// TestRecordsBecomeLinesInEveryWay sees each decision in the file, whatever is killed.
func TestRecordsBecomeLinesInEveryWay(t *testing.T) {
	const events = 30
	path := filepath.Join(t.TempDir(), "decisions.ndjson")
	ways := 0
	err := run(t, payments("lines: {path: '"+path+"', header: columns}", events), func(way string) {
		ways++
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		header, rest, _ := bytes.Cut(text, []byte("\n"))
		if want := `[{"Name":"card","Type":"string"},{"Name":"amount","Type":"number"}]`; string(header) != want {
			t.Errorf("%s: the header is %s, want %s", way, header, want)
		}
		values := map[string]string{} // by id
		for line := range bytes.Lines(rest) {
			var read struct {
				ID, Key string
				Value   json.RawMessage
			}
			if err := json.Unmarshal(line, &read); err != nil {
				t.Fatalf("%s: %s: %v", way, line, err)
			}
			if was, ok := values[read.ID]; ok && was != string(read.Value) {
				t.Errorf("%s: %s is %s and %s", way, read.ID, was, read.Value)
			}
			values[read.ID] = string(read.Value)
		}
		found := map[string]bool{}
		for value := range maps.Values(values) {
			found[value] = true
		}
		for i := range events {
			if want := fmt.Sprintf(`{"card":"c%d","amount":%d}`, i%3, i); !found[want] {
				t.Errorf("%s: no line has %s", way, want)
			}
		}
		if len(values) != events {
			t.Errorf("%s: %d ids, want %d", way, len(values), events)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if ways != 7 {
		t.Errorf("it ran in %d ways, want six and that on a log of its own", ways)
	}
}

// TestMistakesHaveTheirPlace sees findings of the tags and of Check with line and column.
func TestMistakesHaveTheirPlace(t *testing.T) {
	for sink, want := range map[string]string{
		"lines: {path: a.csv}":                              "toy.txt:7:37: sinks[0].lines.path: the lines are no CSV: name a file that ends in .ndjson",
		"lines: {pat: a}":                                   `toy.txt:7:31: sinks[0].lines.pat: unknown word "pat": did you mean "path"?`,
		"lines: {sync: true}":                               "toy.txt:7:23: sinks[0].lines: `path` is missing: add `path: ...`",
		"lines: {path: a, bytes: 2MiB}":                     `sinks[0].lines.bytes: "2MiB" is out of range: write a size from 1KiB to 1MiB`,
		"lines: {path: a, header: rows}":                    `sinks[0].lines.header: "rows" is not one of none or columns`,
		"lines: {path: a}, http: {url: 'http://localhost'}": "a sink has exactly one of http, postgres, redis, files, kafka and lines",
		"line: {path: a}":                                   `unknown word "line": did you mean "lines"?`,
	} {
		err := run(t, payments(sink, 1), func(string) {})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", sink, err, want)
		}
	}
}

// TestKindsThatCannotBeAreRefused brings kinds with wrong tags and with names that are taken.
func TestKindsThatCannotBeAreRefused(t *testing.T) {
	taken, wrong, affecting := Lines, Lines, Lines
	taken.Name = "http"
	affecting.New = func() sink.Config {
		return &struct {
			lines `field:"-"`
			Path  string `field:"path" example:"x" help:"x" affects:"outputs"`
		}{}
	}
	wrong.New = func() sink.Config {
		return &struct {
			*lines
			Path string `field:"Path"`
		}{}
	}
	for want, kinds := range map[string][]sink.Kind{
		`sink kind "http": a field with that name exists`:  {taken},
		`sink kind "lines": a field with that name exists`: {Lines, Lines},
		`sink kind "lines": struct`:                        {wrong},
		"the field path affects outputs":                   {affecting},
		`sink kind "": a name is of lower case`:            {{}},
	} {
		if _, err := afterbay.Schema(afterbay.Code{Sinks: kinds}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestSchemaAndReferenceHaveTheKinds sees what editors and people are shown.
func TestSchemaAndReferenceHaveTheKinds(t *testing.T) {
	text, err := afterbay.Schema(code)
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			Engine struct {
				AnyOf []struct{ Properties map[string]map[string]any }
			}
			Sinks struct {
				Items struct {
					Properties map[string]struct {
						Description string
						Required    []string
						Properties  map[string]map[string]any
					}
				}
			}
		}
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	kinds := schema.Properties.Sinks.Items.Properties
	kind := kinds["lines"]
	if kind.Description != Lines.Help || len(kind.Required) != 1 || kind.Properties["header"]["default"] != "none" || kinds["http"].Description == "" {
		t.Errorf("the schema has %+v", kind)
	}
	engines := schema.Properties.Engine.AnyOf
	if last := engines[len(engines)-1].Properties; len(engines) != 3 || last["patience"]["default"] != "5m" {
		t.Errorf("the schema has %+v", engines)
	}
	page, err := afterbay.Reference(code)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| `lines` | a mapping |", "\n## `sinks[].lines`\n",
		"| `path` | the path of a file | required | the file, which is made if it is not there | `path: decisions.ndjson` |",
		"| `bytes` | a size, 1KiB to 1MiB | 64KiB | a longer record is a dead letter | `bytes: 4KiB` |",
		"| `header` | `none`, `columns` | none | what the first line is | `header: columns` |",
		"| `sync` | `true`, `false` | true |",
		"\n## `engine` at toy:NAME: a log in the memory of the process\n",
		"| `patience` | a duration, 10ms to 1h | 5m |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
}

// TestLongRecordsAreRefused sees what becomes a dead letter.
func TestLongRecordsAreRefused(t *testing.T) {
	f := &file{config: &lines{Bytes: 3}}
	var refused *sink.Refused
	if err := f.Deliver(t.Context(), "id", &stream.Record{Value: []byte("1234")}); !errors.As(err, &refused) {
		t.Errorf("it is %v", err)
	}
}

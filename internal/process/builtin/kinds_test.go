package builtin_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/sink"
)

// topic is what the sinks below are told.
var topic = sink.Topic{
	Name: "rows", Pipeline: "fraud", Sink: "rows", Group: "fraud.rows", Log: "kafka://own:1", Topics: []string{"rows", "payments"},
	Columns:   []sink.Column{{Name: "id", Type: "string"}, {Name: "amount", Type: "number"}, {Name: "note", Type: "optional string"}, {Name: "odd"}, {Name: "vector", Type: "number[3]"}},
	Constants: map[string]any{"limit": 0.5, "rank": map[string]any{"a": int64(1)}},
}

// read reads a sink of a file: `http: {...}`.
func read(t *testing.T, text string) lang.Sink {
	t.Helper()
	file, err := lang.Parse("f.yaml", []byte("pipeline: p\ninput: {topic: t, key: k, fields: {k: string}}\nsteps: [emit: {topic: o}]\nsinks: [{from: o, "+text+"}]\n"), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	return file.Pipelines[0].Sinks[0]
}

func TestChecksNameTheFieldThatIsWrong(t *testing.T) {
	for _, c := range []struct {
		text   string
		change func(*sink.Topic)
		want   []string
	}{
		{text: "http: {url: 'https://cards/freeze'}"},
		{text: "http: {url: cards}", want: []string{"url: the URL is not valid"}},
		{text: "http: {url: 'https://me@cards'}", want: []string{"url: it has a user and password"}},
		{text: "files: {url: 'file:///x', columns: {a: int}}"},
		{text: "files: {url: 'file://x', s3: {region: eu}}", want: []string{"url: the URL is not valid", "s3: it has no effect for a folder", ": the emits to rows write odd with several types"}},
		{text: "files: {url: 's3://b/x?y'}", want: []string{"url: the URL has a user, or more than a path", ": the emits to rows write odd"}},
		{text: "files: {url: 'file:///x', format: ndjson, columns: {a: int}}", want: []string{"columns: ndjson stores all members"}},
		{text: "files: {url: 'file:///x', columns: {a: integer, afterbay_x: int}}", want: []string{"columns.a: ", ": the column afterbay_x: names that begin with afterbay_"}},
		{text: "files: {url: 'file:///x'}", change: func(t *sink.Topic) { t.Columns = nil }, want: []string{"columns: missing: no emit writes rows"}},
		{text: "files: {url: 'file:///x'}", change: func(t *sink.Topic) { t.Columns, t.Partial = nil, true }},
		{text: "postgres: {url: 'postgres://h/d', table: t, key: id, columns: {id: id, amount: sum}, version: amount + limit}"},
		{text: "postgres: {url: 'postgres://h/d', table: t, key: amount, columns: {amount: id}}", want: []string{`key: "amount" is of type number`}},
		{text: "postgres: {url: 'postgres://h/d', table: t, key: id, columns: {none: id}}", want: []string{`: the records of "rows" have no "none"`}},
		{text: "postgres: {url: 'postgres://h/d', table: t, key: id, columns: {id: a, amount: a}}", want: []string{`columns: "id" and "amount" go to one column, a`}},
		{text: "postgres: {url: 'postgres://h/d', table: t, key: id, columns: {odd: odd}}", want: []string{`: the emits to "rows" write "odd" with several types`}},
		{text: "postgres: {url: 'postgres://h/d', table: t, key: id, columns: {vector: v}, vector: {column: v}}"},
		{text: "postgres: {url: 'postgres://h/d', table: t, key: id, columns: {amount: v}, vector: {column: v}}", want: []string{`vector.column: "v" is of type number`}},
		{text: "postgres: {url: 'postgres://h/d', table: t, key: id, columns: {id: id}, vector: {column: v}}", want: []string{`vector.column: nothing is written to a column "v"`}},
		{text: "postgres: {url: 'postgres://h/d', table: t, key: id, columns: {id: id}, version: note}", want: []string{"version@1: this is of type"}},
		{text: "postgres: {url: 'postgres://h/d', table: t, key: id, columns: {id: id}}", change: func(t *sink.Topic) { t.Concurrency = 65 }, want: []string{"beside concurrency: 65 connections to a database"}},
		{text: "postgres: {url: 'postgres://h/d', table: t, key: none}", change: func(t *sink.Topic) { t.Partial = true }},
		{text: "redis: {url: 'redis://h:1/0', key: id, columns: {id: id}, version: 'rank[id] ?? 0'}"},
		{text: "redis: {url: 'redis://h:1/0', key: id}", change: func(t *sink.Topic) { t.Columns = nil }, want: []string{`: the types of the records of "rows" are unknown`}},
		{text: "redis: {url: 'redis://h:1/0', key: id, columns: {id: id}, version: limit}", want: []string{"version@1: this is the same for all records"}},
		{text: "kafka: {cluster: 'kafka://other:1', topic: rows}"},
		{text: "kafka: {cluster: 'http://other:1', topic: 'a b'}", want: []string{`topic: "a b" is not the name of a topic`, `cluster: "http://other:1" is not a valid URL`}},
		{text: "kafka: {cluster: {url: 'kafka://other:1', sasl: plain, user: me}, topic: rows}", want: []string{"cluster.sasl: plain without a secret of this cluster"}},
		{text: "kafka: {cluster: 'kafka://own:1', topic: payments}", want: []string{`topic: the pipeline itself reads or writes "payments"`}},
		{text: "kafka: {cluster: 'kafka://own:1', topic: fraud.dlq}", want: []string{`topic: topic "fraud.dlq" has a name that is reserved`}},
	} {
		told := topic
		if c.change != nil {
			c.change(&told)
		}
		var found []string
		for _, err := range read(t, c.text).Config.Check(told) {
			mistake, ok := errors.AsType[*sink.Mistake](err)
			if !ok {
				t.Fatalf("%s: %v names no field", c.text, err)
			}
			place := mistake.Field
			if mistake.Beside {
				place = "beside " + place
			}
			if mistake.Column > 0 {
				place += fmt.Sprintf("@%d", mistake.Column)
			}
			found = append(found, place+": "+mistake.Error())
		}
		for i := range found {
			if i < len(c.want) && strings.HasPrefix(found[i], c.want[i]) {
				found[i] = c.want[i]
			}
		}
		if diff := cmp.Diff(c.want, found); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.text, diff)
		}
	}
}

// TestKindsOpenWhatTheyTake opens a sink of each kind, which asks no server, and says
// where its records go.
func TestKindsOpenWhatTheyTake(t *testing.T) {
	told := topic
	told.Columns = told.Columns[:2]
	seen := map[string]bool{}
	for text, want := range map[string]string{
		"http: {url: 'https://cards/secret/path?token=hush'}":                                                "each, https://cards/...?...",
		"files: {url: 'file://" + t.TempDir() + "/x', rows: 7}":                                              "whole, file://",
		"postgres: {url: 'postgres://h:1/d', table: t, key: id}":                                             "many, postgres://h:1/d table t",
		"redis: {url: 'redis://h:1/0', prefix: 'a:', key: id}":                                               "many, redis://h:1/0 keys a:<id>",
		"kafka: {cluster: {url: 'kafka://h:1', sasl: plain, user: me, password_file: /none}, topic: copies}": "many, kafka://h:1 topic copies",
	} {
		s := read(t, text)
		seen[s.Kind] = true
		service, err := s.Config.Open(t.Context(), told)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		takes := sink.Each
		if taker, ok := s.Config.(sink.Taker); ok {
			takes = taker.Takes()
		}
		way := map[sink.Way]string{sink.Each: "each", sink.Many: "many", sink.Whole: "whole"}[takes]
		if set := map[sink.Way]bool{sink.Each: service.Each != nil, sink.Many: service.Many != nil, sink.Whole: service.Whole != nil}; !set[takes] || service.Kinds() != 1 {
			t.Errorf("%s takes %s, and opened %+v", text, way, service)
		}
		if got := way + ", " + s.Config.Describe(); !strings.HasPrefix(got, want) || strings.Contains(got, "hush") {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
		service.Close()
	}
	for _, kind := range builtin.Kinds().Sinks {
		if !seen[kind.Name] {
			t.Errorf("no sink of kind %s was opened", kind.Name)
		}
	}
}

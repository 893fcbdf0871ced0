package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/lookups/postgres"
	"github.com/afterbay/afterbay/internal/lookups/redis"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/lookup"
	"github.com/afterbay/afterbay/stream"
)

// nearPipeline looks documents up by the vector of its events.
func nearPipeline(s *shelf, change func(*steps.Lookup)) lang.Pipeline {
	p := shelfPipeline(s, func(l *steps.Lookup) {
		l.Key, l.Vector = "", "v"
		l.Where = []lang.Binding{{Name: "owner", Expr: "k"}, {Name: "part", Expr: "n + 1"}}
		if change != nil {
			change(l)
		}
	})
	p.Input.Fields = append(p.Input.Fields, lang.Field{Name: "v", Type: "number[3]"}, lang.Field{Name: "maybe", Type: "optional number[3]"})
	return p
}

func TestWrongLookupsOfNearDocumentsAreRefused(t *testing.T) {
	for why, change := range map[string]func(*steps.Lookup){
		"": nil,
		"redis cannot find documents by a vector":      func(l *steps.Lookup) { l.Kind, l.Config = "redis", &redis.Config{URL: "redis://h"} },
		"lookup.vector: a table cannot find documents": func(l *steps.Lookup) { l.Config, l.Table = nil, "documents" },
		"give table and column instead":                func(l *steps.Lookup) { l.Kind, l.Config = "postgres", &postgres.Config{Query: "select $1"} },
		"table or column is missing":                   func(l *steps.Lookup) { l.Kind, l.Config = "postgres", &postgres.Config{Table: "documents"} },
		"lookup.key: documents are found":              func(l *steps.Lookup) { l.Key = "k" },
		"use 1 to 100 documents":                       func(l *steps.Lookup) { l.Limit = 101 },
		`"far" is not a distance: use cosine`:          func(l *steps.Lookup) { l.Distance = "far" },
		`"n" is of type int`:                           func(l *steps.Lookup) { l.Vector = "n" },
		"is of type optional number[3]":                func(l *steps.Lookup) { l.Vector = "maybe" },
		`filters are of column "owner"`:                func(l *steps.Lookup) { l.Where[1].Name = "owner" },
		"where.part: the expression is of":             func(l *steps.Lookup) { l.Where[1].Expr = "n / 2.0" },
		`unknown name customer`:                        func(l *steps.Lookup) { l.Where[1].Expr = "customer" },
		"is a number, not string":                      func(l *steps.Lookup) { l.Fields[1] = lang.Field{Name: "distance", Type: "string"} },
		"lookup.where: it applies to documents":        func(l *steps.Lookup) { l.Vector, l.Key = "", "k" },
		"lookup.postgres.query: missing":               func(l *steps.Lookup) { l.Vector, l.Key, l.Kind, l.Config = "", "k", "postgres", &postgres.Config{} },
		"lookup.postgres.table: it applies to documents": func(l *steps.Lookup) {
			l.Vector, l.Key, l.Kind, l.Config = "", "k", "postgres", &postgres.Config{Table: "documents"}
		},
	} {
		if _, err := builtin.New(nearPipeline(&shelf{}, change), pipeline.Options{}); why == "" != (err == nil) || why != "" && !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
}

// A vector of a model that cannot be opened is no second finding, and no panic.
func TestVectorOfAModelThatIsNotThere(t *testing.T) {
	p := nearPipeline(&shelf{}, func(l *steps.Lookup) { l.Vector = "embed.vector" })
	p.Models = []lang.Model{{Name: "embed", File: "missing.json", Version: 1, Outputs: []lang.Field{{Name: "vector", Type: "number[3]"}}}}
	p.Steps = slices.Insert(p.Steps, 0, lang.Step(&steps.Score{Model: "embed", Inputs: []string{"v"}}))
	if _, err := builtin.New(p, pipeline.Options{}); err == nil || !strings.Contains(err.Error(), "missing.json") || strings.Contains(err.Error(), "lookup") {
		t.Errorf("want one finding, about the model: %v", err)
	}
}

// What a source of documents is told, and asked for.
func TestSourceOfDocumentsIsToldWhatNewResolved(t *testing.T) {
	p := nearPipeline(&shelf{}, nil)
	if _, err := builtin.New(p, pipeline.Options{}); err != nil {
		t.Fatal(err)
	}
	told := p.Steps[0].(*steps.Lookup).Config.(*onShelf).told
	if told.Limit != 5 || told.Size != 3 || told.Distance != "cosine" || told.Join != "\n\n" || !slices.Equal(told.Where, []string{"owner", "part"}) || told.Name != "row" || len(told.Fields) != 2 {
		t.Errorf("%+v", told)
	}
	list, err := lookup.ParseQuery(lookup.Query([]float64{0.5, -2, 1e9}, [][]byte{[]byte(`a"b`), []byte("7")}))
	if err != nil || strings.Join(list, " ") != `[0.5,-2,1000000000] a"b 7` {
		t.Errorf("%q, %v", list, err)
	}
}

// most is a source without rows that knows the most keys of a call.
type most struct{ keys atomic.Int64 }

func (m *most) Rows(_ context.Context, keys []string) ([][]byte, error) {
	for was := m.keys.Load(); int(was) < len(keys) && !m.keys.CompareAndSwap(was, int64(len(keys))); was = m.keys.Load() {
	}
	return make([][]byte, len(keys)), nil
}

// A vector is a search, so a call has 16 of them where the file does not say.
func TestCallsForDocumentsHaveFewVectors(t *testing.T) {
	source := &most{}
	p := nearPipeline(nil, func(l *steps.Lookup) { l.Config = &onShelf{Source: source} })
	p.Input.Partitions = 1
	var events []stream.Record
	for i := range 200 {
		events = append(events, stream.Record{Partition: stream.Partition{Topic: "in"}, Key: []byte("a"), Value: fmt.Appendf(nil, `{"k":"a","n":%d,"v":[%d,0,1]}`, i, i)})
	}
	answer, _ := runQueueing(t, memory.New(memory.Options{}), p, 1, events)
	if n := len(answer.Values("out")); n != 200 || source.keys.Load() != 16 {
		t.Errorf("%d outputs, and at most %d vectors a call", n, source.keys.Load())
	}
}

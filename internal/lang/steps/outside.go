package steps

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lookups"
	"github.com/afterbay/afterbay/internal/models/category"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/lookup"
)

// sizeMax is the largest number of keys in a call.
const sizeMax = 4096

// boundOutside finds rows outside the log, as a score with a model that finds rows.
type boundOutside struct {
	*Lookup
	path  string
	score operator.Score // without its model and calling
	async bool           // the enclosing case is async
}

// Place implements Bound.
func (b *boundOutside) Place() lang.Place {
	return lang.Place{Waves: true, Queues: lang.QueuesSaid, Ordered: b.Ordered}
}

// Lower implements Bound. Before Open, the operator has no source to ask.
func (b *boundOutside) Lower(*lang.Plan, lang.At) operator.Operator { return &b.score }

// bindOutside binds a lookup outside the log. before is the number of errors before the lookup.
func (l *Lookup) bindOutside(s *lang.Scope, path string, key value.Slot, f *found, before int) {
	if l.Table != "" {
		s.Fail(path, "a lookup has one source of rows, and this one has table and %s", l.Kind)
		s.Hint("remove one of them")
	}
	if l.Cache.TTL < 0 || l.Cache.TTL > 24*time.Hour {
		s.Fail(path+".cache.ttl", "%v is out of range: use 0 to 24h", l.Cache.TTL)
	}
	b := &boundOutside{Lookup: l, path: path, async: s.Async}
	b.score = operator.Score{Batch: operator.Batch{Kind: "lookup", Name: l.Name, Finds: true}, When: f.when, Row: decode.New(f.fields)}
	if l.Vector != "" {
		l.nearest(s, path, &b.score)
	} else {
		b.score.Texts = []value.Slot{key}
	}
	if l.Batch.Size < 0 || l.Batch.Size > sizeMax {
		s.Fail(path+".batch.size", "%d is out of range: use 1 to %d keys", l.Batch.Size, sizeMax)
	}
	l.bindConfig(s, path)
	for i, field := range f.fields {
		b.score.Outputs = append(b.score.Outputs, field.Slot)
		b.score.Fallback = append(b.score.Fallback, f.empty[i])
	}
	unread := l.Vector != "" && len(b.score.Inputs) == 0 // the vector's name is broken by an error already reported
	if !unread && len(s.Errs) == before {
		s.Add(l, path, b)
	}
}

// Open implements Opener.
func (b *boundOutside) Open(r *lang.Resources) lang.Bound {
	before := len(r.Errs)
	call := b.Call
	if call == nil {
		call = &lang.Calling{}
	}
	r.Share(b.path, call)
	calling := r.Call(b.path+".call", call, b.Config.Describe(), b.Name)
	r.KeepAnswers(b.path+".journal", b.Journal, operator.JournalByEvent, calling)
	if len(r.Errs) > before {
		return nil
	}
	m, ok := b.finder(r, calling)
	if !ok {
		return nil
	}
	stage := b.score
	stage.Model, stage.Size, stage.Calling = m, m.AtOnce(), calling
	calling.Ready = m.Ready
	stage.Async = b.Async || b.async || calling.Journal != operator.JournalNone
	return lang.Ready(&stage, b.Place())
}

// bindConfig checks the config that says where rows are.
func (l *Lookup) bindConfig(s *lang.Scope, path string) {
	before := len(s.Errs)
	searcher, searches := l.Config.(lookup.Searcher)
	switch {
	case l.Vector == "":
		s.Found(path, l.Kind, l.Config.Check(l.told(s.Pipeline.Name)))
	case searches:
		s.Found(path, l.Kind, searcher.CheckSearch(l.search(s.Pipeline.Name)))
	default:
		s.Fail(path+".vector", "%s cannot find documents by a vector: use a kind that can, such as postgres", l.Kind)
	}
	if warner, ok := l.Config.(lookup.Warner); ok && len(s.Errs) == before {
		s.Warned(path, l.Kind, warner.Warnings(l.told(s.Pipeline.Name)))
	}
	if _, err := spec.TableOf(l.Config, 0); err != nil {
		s.Fail(path+"."+l.Kind, "%v", err)
	}
}

// told returns the description of a lookup for its kind.
func (l *Lookup) told(pipeline string) lookup.Step {
	told := lookup.Step{Name: l.Name, Pipeline: pipeline}
	for _, f := range l.Fields {
		told.Fields = append(told.Fields, lookup.Field{Name: f.Name, Type: f.Type})
	}
	return told
}

// search returns the description of a lookup by vector for its kind, without the size of the
// vector.
func (l *Lookup) search(pipeline string) lookup.Search {
	return lookup.Search{
		Step: l.told(pipeline), Distance: cmp.Or(l.Distance, "cosine"), Limit: cmp.Or(l.Limit, lang.DefaultNearest),
		Join: cmp.Or(l.Join, lang.DefaultJoin), Where: filtered(l.Where),
	}
}

// finder opens the source of a lookup's rows.
func (b *boundOutside) finder(r *lang.Resources, calling *operator.Calling) (m lookups.Model, ok bool) {
	options := lookups.Options{Size: b.Batch.Size, Timeout: calling.Timeout, Keep: b.Cache.TTL, KeepBytes: b.Cache.Max}
	if b.Call != nil {
		options.Calls = b.Call.Concurrency
	}
	if err := options.Validate(); err != nil {
		r.Fail(b.path, "%v", err)
		return m, false
	}
	var source lookup.Source
	var err error
	search, what := b.search(r.Pipeline.Name), *b.Lookup
	if b.Vector == "" {
		source, err = b.Config.Open(context.Background(), search.Step)
		what.Fields = nil // the row is the same for any selection of fields
	} else {
		options.Size, search.Size = cmp.Or(options.Size, nearestSize), b.score.Inputs[0].Type.Size
		source, err = b.Config.(lookup.Searcher).OpenSearch(context.Background(), search)
	}
	if err == nil && source == nil {
		err = errors.New("it opened nothing")
	}
	if err != nil {
		r.Errs = append(r.Errs, lang.ProblemOf(b.path, b.Kind, err))
		return m, false
	}
	f := lookups.New(source, options)
	what.Empty, what.When = nil, ""
	asked := generation.Hash(what.Canonical())
	if m = lookups.NewModel(f, asked); b.Vector != "" {
		m = lookups.NewNearest(f, asked, search.Size, search.Where)
	}
	r.Opened, r.Finds = append(r.Opened, m), append(r.Finds, lang.Finder{Name: b.Name, Path: b.path, Kind: b.Kind, Finder: f})
	return m, true
}

const (
	nearestLimitMax = 100
	nearestSize     = 16 // vectors in a call: each is one search
)

// nearest binds the vector that documents are found by, and the filters on columns.
func (l *Lookup) nearest(s *lang.Scope, path string, stage *operator.Score) {
	if l.Key != "" {
		s.Fail(path+".key", "documents are found by their vectors: remove it, or vector")
	}
	if l.Limit < 0 || l.Limit > nearestLimitMax {
		s.Fail(path+".limit", "%d is out of range: use 1 to %d documents", l.Limit, nearestLimitMax)
	}
	if !slices.Contains([]string{"", "cosine", "l2", "inner_product"}, l.Distance) {
		s.Fail(path+".distance", "%q is not a distance: use cosine, l2 or inner_product", l.Distance)
	}
	stage.Inputs, stage.Codes = s.Slots(path+".vector", l.Vector), []*category.Codes{nil}
	for i, slot := range stage.Inputs {
		if i > 0 || slot.Type.Kind != value.Vector || slot.Type.Optional {
			s.Fail(path+".vector", "%q is of type %v: vector must be one number[n] that is always there, such as the output of an embedding model", slot.Name, slot.Type)
			break
		}
	}
	for i, w := range l.Where {
		at := path + ".where." + w.Name
		if slices.ContainsFunc(l.Where[:i], func(o lang.Binding) bool { return o.Name == w.Name }) {
			s.Fail(at, "two filters are of column %q", w.Name)
		}
		equals(s, at, w.Expr, stage)
	}
	for _, f := range l.Fields {
		if t, err := value.ParseType(f.Type); f.Name == "distance" && err == nil && t.Kind != value.Number {
			s.Fail(path+".fields.distance", "the distance of a document is a number, not %v", t)
		}
	}
}

// equals gives the value of a filter its own slot. The step computes it when it searches for
// documents.
func equals(s *lang.Scope, path, source string, stage *operator.Score) {
	program := s.Expr(path, source, value.String, value.Int)
	if program == nil {
		return
	}
	if name, ok := program.Name(); ok {
		slot, _ := s.Names.Slot(name)
		stage.Texts = append(stage.Texts, slot)
		return
	}
	if slot, ok := s.Make(path, s.HiddenName(), program.Type()); ok {
		stage.Compute = append(stage.Compute, operator.Assign{Name: "where", Slot: slot, Program: program})
		stage.Texts = append(stage.Texts, slot)
	}
}

func filtered(where []lang.Binding) (names []string) {
	for _, w := range where {
		names = append(names, w.Name)
	}
	return names
}

package compile

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lookups"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/lookup"
)

// sizeMax is the most keys of a call.
const sizeMax = 4096

// lookupOutside compiles the finding of a row outside of the log: a score whose
// model finds rows. before is how many errors there were before the lookup.
func (c *compiler) lookupOutside(path string, s *lang.Lookup, key value.Slot, f *found, before int) {
	if s.Table != "" {
		c.Fail(path, "rows are in one place: there are table and %s", s.Kind)
		c.Hint("remove one of them")
	}
	if s.Cache.TTL < 0 || s.Cache.TTL > 24*time.Hour {
		c.Fail(path+".cache.ttl", "%v is out of range: use 0 to 24h", s.Cache.TTL)
	}
	stage := &operator.Score{Batch: operator.Batch{Kind: "lookup", Name: s.Name, Finds: true}, When: f.when, Row: decode.New(f.fields)}
	if s.Vector != "" {
		c.nearest(path, s, stage)
	} else {
		stage.Texts = []value.Slot{key}
	}
	if s.Batch.Size < 0 || s.Batch.Size > sizeMax {
		c.Fail(path+".batch.size", "%d is out of range: use 1 to %d keys", s.Batch.Size, sizeMax)
	}
	call := s.Call
	if call == nil {
		call = &lang.Calling{}
	}
	c.share(path, call)
	c.lookupConfig(path, s)
	calling := c.callingAt(path+".call", call, s.Config.Describe(), s.Name)
	c.journal(path+".journal", s.Journal, operator.JournalByEvent, calling)
	unread := s.Vector != "" && len(stage.Inputs) == 0 // its name is of something that is said to be wrong
	if unread || len(c.Errs) > before {
		return
	}
	m, ok := c.finder(path, s, stage, calling)
	if !ok {
		return
	}
	stage.Model, stage.Size, stage.Calling = m, m.AtOnce(), calling
	calling.Ready = m.Ready
	stage.Async = s.Async || c.Async || calling.Journal != operator.JournalNone
	for i, field := range f.fields {
		stage.Outputs = append(stage.Outputs, field.Slot)
		stage.Fallback = append(stage.Fallback, f.empty[i])
	}
	c.Add(s, path, lang.Ready(stage, lang.Place{Waves: true, Queues: lang.QueuesSaid, Ordered: s.Ordered}))
}

// lookupConfig checks where rows are.
func (c *compiler) lookupConfig(path string, s *lang.Lookup) {
	before := len(c.Errs)
	searcher, searches := s.Config.(lookup.Searcher)
	switch {
	case s.Vector == "":
		c.found(path, s.Kind, s.Config.Check(c.toldOf(s)))
	case searches:
		c.found(path, s.Kind, searcher.CheckSearch(c.searchOf(s)))
	default:
		c.Fail(path+".vector", "%s finds no documents by a vector: near documents are found by a kind that does, such as postgres", s.Kind)
	}
	if warner, ok := s.Config.(lookup.Warner); ok && len(c.Errs) == before {
		c.warned(path, s.Kind, warner.Warnings(c.toldOf(s)))
	}
	if _, err := spec.TableOf(s.Config, 0); err != nil {
		c.Fail(path+"."+s.Kind, "%v", err)
	}
}

// toldOf returns what a kind is told of a lookup.
func (c *compiler) toldOf(s *lang.Lookup) lookup.Step {
	told := lookup.Step{Name: s.Name, Pipeline: c.Pipeline.Name}
	for _, f := range s.Fields {
		told.Fields = append(told.Fields, lookup.Field(f))
	}
	return told
}

// searchOf returns what a kind is told of a lookup by a vector, but for its size.
func (c *compiler) searchOf(s *lang.Lookup) lookup.Search {
	return lookup.Search{
		Step: c.toldOf(s), Distance: cmp.Or(s.Distance, "cosine"), Limit: cmp.Or(s.Limit, lang.DefaultNearest),
		Join: cmp.Or(s.Join, lang.DefaultJoin), Where: filtered(s.Where),
	}
}

// Finder is what a lookup of a name finds rows with.
type Finder struct {
	Name, Path, Kind string
	*lookups.Finder
}

// checkMax is how long a server may take to say whether it has what a lookup needs.
const checkMax = 10 * time.Second

// Check asks whether rows can be found as the lookup says. It changes nothing.
func (f Finder) Check(ctx context.Context) *spec.Problem {
	ctx, cancel := context.WithTimeout(ctx, checkMax)
	defer cancel()
	err := f.Finder.Check(ctx)
	if err == nil {
		return nil
	}
	return problemOf(f.Path, f.Kind, err)
}

// finder opens where a lookup finds rows.
func (c *compiler) finder(path string, s *lang.Lookup, stage *operator.Score, calling *operator.Calling) (m lookups.Model, ok bool) {
	options := lookups.Options{Size: s.Batch.Size, Timeout: calling.Timeout, Keep: s.Cache.TTL, KeepBytes: s.Cache.Max}
	if s.Call != nil {
		options.Calls = s.Call.Concurrency
	}
	if err := options.Validate(); err != nil {
		c.Fail(path, "%v", err)
		return m, false
	}
	var source lookup.Source
	var err error
	search, what := c.searchOf(s), *s
	if s.Vector == "" {
		source, err = s.Config.Open(context.Background(), search.Step)
		what.Fields = nil // which the row has whatever is read of it
	} else {
		options.Size, search.Size = cmp.Or(options.Size, nearestSize), stage.Inputs[0].Type.Size
		source, err = s.Config.(lookup.Searcher).OpenSearch(context.Background(), search)
	}
	if err == nil && source == nil {
		err = errors.New("it opened nothing")
	}
	if err != nil {
		c.Errs = append(c.Errs, problemOf(path, s.Kind, err))
		return m, false
	}
	f := lookups.New(source, options)
	what.Empty, what.When = nil, ""
	asked := generation.Hash(what.Canonical())
	if m = lookups.NewModel(f, asked); s.Vector != "" {
		m = lookups.NewNearest(f, asked, search.Size, search.Where)
	}
	c.opened, c.finds = append(c.opened, m), append(c.finds, Finder{s.Name, path, s.Kind, f})
	return m, true
}

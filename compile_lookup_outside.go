package afterbay

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lookups"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/lookup"
	"github.com/afterbay/afterbay/step"
)

// sizeMax is the most keys of a call.
const sizeMax = 4096

// lookupOutside compiles the finding of a row outside of the log: a score whose
// model finds rows. before is how many errors there were before the lookup.
func (c *compiler) lookupOutside(path string, s *Lookup, key value.Slot, f *found, before int) {
	places := 0
	for _, there := range []bool{s.Table != "", s.Redis != nil, s.Postgres != nil, s.HTTP != nil} {
		if there {
			places++
		}
	}
	if places > 1 {
		c.fail(path, "rows are in one place: use one of table, redis, postgres and http")
	}
	if s.Cache.TTL < 0 || s.Cache.TTL > 24*time.Hour {
		c.fail(path+".cache.ttl", "%v is out of range: use 0 to 24h", s.Cache.TTL)
	}
	stage := &step.Score{Name: s.Name, When: f.when, Row: decode.New(f.fields)}
	if s.Vector != "" {
		c.nearest(path, s, stage)
	} else {
		stage.Texts = []value.Slot{key}
	}
	if s.Batch.Size < 0 || s.Batch.Size > sizeMax {
		c.fail(path+".batch.size", "%d is out of range: use 1 to %d keys", s.Batch.Size, sizeMax)
	}
	call := s.Call
	if call == nil {
		call = &Calling{}
	}
	c.share(path, call)
	where, field := outsideURL(s)
	c.secretIn(path+field, where)
	calling := c.callingAt(path+".call", call, outsidePlace(s), s.Name)
	c.journal(path+".journal", s.Journal, step.JournalByEvent, calling)
	unread := s.Vector != "" && len(stage.Inputs) == 0 // its name is of something that is said to be wrong
	if unread || len(c.errs) > before {
		return
	}
	m, ok := c.finder(path, s, stage, calling)
	if !ok {
		return
	}
	stage.Model, stage.Size, stage.Calling = m, m.AtOnce(), calling
	calling.Ready = m.Ready
	stage.Async = s.Async || c.async || calling.Journal != step.JournalNone
	for i, field := range f.fields {
		stage.Outputs = append(stage.Outputs, field.Slot)
		stage.Fallback = append(stage.Fallback, f.empty[i])
	}
	c.parkable = true
	if s.Ordered {
		c.plan.Ordered, c.plan.Feedback = true, true
	}
	c.add(node{stage: step.Stage{Name: "lookup", Score: stage}, waves: true})
}

// outsideURL is where the rows are, and the field that says it.
func outsideURL(s *Lookup) (text, field string) {
	switch {
	case s.Redis != nil:
		return s.Redis.URL, ".redis.url"
	case s.Postgres != nil:
		return s.Postgres.URL, ".postgres.url"
	case s.HTTP != nil:
		return s.HTTP.URL, ".http.url"
	}
	return "", ""
}

// outsidePlace returns the URL of the rows, without a password: messages show it.
func outsidePlace(s *Lookup) string {
	text, _ := outsideURL(s)
	u, err := url.Parse(text)
	if err != nil {
		return "" // who opens it says so
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// finder is what a lookup of a name finds rows with.
type finder struct {
	name, path string
	*lookups.Finder
}

// LookupStats is what the lookups of a name found outside of the log.
type LookupStats struct {
	Name string
	lookups.Stats
}

// Lookups counts what the lookups outside of the log do, by name. It may be read at
// any time.
func (r *Runner) Lookups() []LookupStats {
	var all []LookupStats
	for _, f := range r.finds {
		i := slices.IndexFunc(all, func(s LookupStats) bool { return s.Name == f.name })
		if i < 0 { // cases of a route may share a name
			i, all = len(all), append(all, LookupStats{Name: f.name})
		}
		all[i].Stats = all[i].Plus(f.Stats())
	}
	return all
}

// checkMax is how long a server may take to say whether it has what a lookup needs.
const checkMax = 10 * time.Second

// CheckLookups asks where lookups outside of the log find rows and documents whether
// they can be found as the lookups say: Errors, or nil. It changes nothing there.
func (r *Runner) CheckLookups(ctx context.Context) error {
	var found Errors
	for _, f := range r.finds {
		if err := f.check(ctx); err != nil {
			found = append(found, err)
		}
	}
	if found == nil {
		return nil
	}
	return found
}

func (f finder) check(ctx context.Context) *Error {
	ctx, cancel := context.WithTimeout(ctx, checkMax)
	defer cancel()
	err := f.Check(ctx)
	if err == nil {
		return nil
	}
	said := &Error{Path: f.path, Message: err.Error(), Err: err}
	var mistake *lookup.Mistake
	if errors.As(err, &mistake) {
		said.Path, said.Hint = f.path+"."+mistake.Option, mistake.Hint
	}
	return said
}

// finder opens where a lookup finds rows.
func (c *compiler) finder(path string, s *Lookup, stage *step.Score, calling *step.Calling) (m lookups.Model, ok bool) {
	if c.pipeline.Code.Rows == nil {
		c.fail(path, "nothing opens where its rows are")
		c.hint("set Code.Rows of the pipeline, to services.Open of internal/process/services or to a function of your own")
		return m, false
	}
	what := *s
	if s.Vector != "" {
		what.Limit, what.Dimensions = cmp.Or(s.Limit, lang.DefaultNearest), stage.Inputs[0].Type.Size
		what.Distance, what.Join, what.Batch.Size = cmp.Or(s.Distance, "cosine"), cmp.Or(s.Join, lang.DefaultJoin), cmp.Or(s.Batch.Size, nearestSize)
	}
	source, err := c.pipeline.Code.Rows(what)
	if err != nil {
		c.fail(path, "%v", err)
		return m, false
	}
	options := lookups.Options{Size: what.Batch.Size, Timeout: calling.Timeout, Keep: s.Cache.TTL, KeepBytes: s.Cache.Max}
	if s.Call != nil {
		options.Calls = s.Call.Concurrency
	}
	if err := options.Validate(); err != nil {
		c.fail(path, "%v", err)
		return m, false
	}
	f := lookups.New(source, options)
	if s.Vector == "" {
		what.Fields = nil // which the row has whatever is read of it
	}
	what.Empty, what.When = nil, ""
	asked := generation.Hash(what.Canonical())
	if m = lookups.NewModel(f, asked); s.Vector != "" {
		m = lookups.NewNearest(f, asked, what.Dimensions, filtered(s.Where))
	}
	c.opened, c.finds = append(c.opened, m), append(c.finds, finder{s.Name, path, f})
	return m, true
}

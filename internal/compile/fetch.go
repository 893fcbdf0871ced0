package compile

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/fetch"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/sys/s3"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/model"
)

// Bounds of fetches.
const (
	contentMax          = 1 << 30
	defaultFetchTimeout = 30 * time.Second
	impliedTimeout      = time.Hour // of models that nobody gave one
)

// fetched is where content comes from.
type fetched struct {
	url     value.Slot
	by      fetch.Model
	timeout time.Duration
}

// fetch compiles the fetching of content: a score whose model fetches. It is always
// made off the loop, since nobody knows how long it takes, and what it brought is
// recorded.
func (c *compiler) fetch(path string, s *lang.Fetch) {
	before := len(c.Errs)
	c.Identifier(path+".name", s.Name)
	url := c.fetchURL(path, s)
	if s.Max < 0 || s.Max > contentMax {
		c.Fail(path+".max", "%d bytes are out of range: use 1 to %d", s.Max, contentMax)
	}
	stage := &operator.Score{Batch: operator.Batch{Kind: "fetch", Name: s.Name, Size: 1, Async: true, Finds: true}, Texts: []value.Slot{url}}
	if s.When != "" {
		stage.When = c.Expr(path+".when", s.When, value.Bool)
	}
	var call lang.Calling
	if s.Call != nil {
		call = *s.Call
	}
	if !call.Budget {
		call.Timeout = cmp.Or(call.Timeout, defaultFetchTimeout)
	}
	if stage.Calling = c.callingAt(path+".call", &call, "pipeline:"+c.Pipeline.Name, "fetch "+s.Name); stage.Calling.Open == operator.OpenFallback {
		c.Fail(path+".call.breaker.open", "content has no fallback")
		c.Hint("use pause or queue; what is done for an event without its content stands in on_failure")
	}
	kept := s.Journal
	if kept == nil {
		kept = &lang.Journal{}
	}
	c.journal(path+".journal", kept, operator.JournalByEvent, stage.Calling)
	c.onFailure(path+".on_failure", s.OnFailure, stage)
	fields := c.fetchOutputs(path, s, stage)
	fetcher := c.openFetcher()
	if len(c.Errs) > before {
		return
	}
	m := fetch.NewModel(fetcher, url.Type.Kind == value.Strings, int64(cmp.Or(s.Max, lang.DefaultFetchMax)), control.BreakerOptions{Failures: call.Breaker.Failures, Rate: call.Breaker.Rate, Probe: call.Breaker.Probe})
	stage.Model, stage.Row = m, decode.New(fields)
	c.noteContent(path, s, fetched{url, m, stage.Calling.Timeout})
	c.Add(s, path, lang.Ready(stage, lang.Place{Waves: true, Queues: lang.QueuesSaid, Ordered: s.Ordered}))
}

// fetchURL returns the name of what is fetched.
func (c *compiler) fetchURL(path string, s *lang.Fetch) value.Slot {
	at, name, want := path+".url", s.URL, value.String
	if s.URLs != "" {
		at, name, want = path+".urls", s.URLs, value.Strings
	}
	if name == "" || s.URL != "" && s.URLs != "" {
		c.Fail(path, "name what is fetched: by url, or by urls, a list")
		return value.Slot{}
	}
	slots := c.Slots(at, name)
	if len(slots) == 0 {
		return value.Slot{}
	}
	if len(slots) > 1 || slots[0].Type.Kind != want {
		c.Fail(at, "%q is of type %v, where %v is needed", name, slots[0].Type, want)
		if slots[0].Type.Kind == value.Strings {
			c.Hint("a list of URLs is given by urls")
		}
	}
	return slots[0]
}

// fetchOutputs introduces what is known of content.
func (c *compiler) fetchOutputs(path string, s *lang.Fetch, stage *operator.Score) (fields []decode.Field) {
	for _, o := range []struct {
		name string
		kind value.Kind
	}{{"bytes", value.Content}, {"sha256", value.String}, {"size", value.Int}, {"type", value.String}} {
		slot, ok := c.Make(path, s.Name+"."+o.name, value.Type{Kind: o.kind, Optional: s.When != ""})
		if !ok {
			return nil
		}
		fields = append(fields, decode.Field{Name: o.name, Slot: slot})
		stage.Outputs, stage.Fallback = append(stage.Outputs, slot), append(stage.Fallback, nil)
	}
	return fields
}

// noteContent notes where content comes from, by which it is fetched again.
func (c *compiler) noteContent(path string, s *lang.Fetch, from fetched) {
	name := s.Name + ".bytes"
	if other, ok := c.contents[name]; ok && other.url.Name != from.url.Name {
		c.Fail(path+".name", "another case fetches %s from %s, not from %s", s.Name, other.url.Name, from.url.Name)
		c.Hint("give it another name, or both URLs one name by let")
	}
	if c.contents == nil {
		c.contents = map[string]fetched{}
	}
	c.contents[name] = from
}

// openFetcher returns the pipeline's fetcher.
func (c *compiler) openFetcher() *fetch.Fetcher {
	if c.fetcher != nil {
		return c.fetcher
	}
	o := c.Pipeline.Content
	options := fetch.Options{
		Root: o.Root, Hosts: o.Hosts, Plain: o.HTTP, Buckets: o.Buckets, CacheDir: o.Cache.Dir, CacheMax: int64(o.Cache.Max),
		S3: s3.Options{Endpoint: o.S3.Endpoint, Region: o.S3.Region, Credentials: o.S3.Credentials, Profile: o.S3.Profile},
	}
	for i, text := range o.Private {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			c.Fail(fmt.Sprintf("content.private[%d]", i), "%q is no network: write one as 10.2.0.0/16", text)
		}
		options.Private = append(options.Private, network)
	}
	f, err := fetch.New(options)
	if err != nil {
		c.Fail("objects", "%v", err)
		return nil
	}
	c.fetcher = f
	return f
}

// scoreContents gives a model the content that its rows refer to.
func (c *compiler) scoreContents(path string, info model.Info, stage *operator.Score) {
	var types []model.Type
	for _, in := range columnsOf(info.WithoutState()) {
		if in.Type != model.Number {
			types = append(types, in.Type)
		}
	}
	var columns []fetch.Column
	var urls []value.Slot
	for i, slot := range stage.Texts {
		if slot.Type.Kind != value.Content {
			continue
		}
		from := c.contents[slot.Name]
		columns = append(columns, fetch.Column{At: i, Text: types[i] == model.String, From: from.by, Timeout: from.timeout})
		urls = append(urls, from.url)
	}
	switch {
	case columns == nil:
	case info.State > 0:
		c.Fail(path+".model", "model %s keeps something of each key, so it is called in the place of an event, and content may have to be fetched again", stage.Name)
	default:
		stage.Model, stage.Texts, stage.Contents = fetch.NewContents(stage.Model, columns), append(stage.Texts, urls...), true
	}
}

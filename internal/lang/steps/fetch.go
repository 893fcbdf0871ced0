package steps

import (
	"cmp"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/fetch"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// Fetch fetches the content of a URL off the loop: a file, an object of S3, or an HTTPS resource.
// It records the hash of the content. If the content differs when it is needed again, the event
// becomes a dead letter.
type Fetch struct {
	Name string
	URL  string // a name of kind string: file:///folder/name, s3://bucket/key, https://host/path
	URLs string // instead of URL: a name of kind string[]; the contents are concatenated in order
	Max  int    // bytes of all URLs together; beyond this limit the event becomes a dead letter; 0 is 10 MiB
	When string // expression of type bool; "" means always. If it is false, the names are absent, so they are optional

	Call    *lang.Calling // how to make the request; nil means a zero Calling with a timeout of 30 s. Each host and bucket has its own breaker
	Journal *lang.Journal // stores the hash and the size of the content for each event; nil stores them too
	Ordered bool          // an event is queued if an earlier event of its key is queued

	// OnFailure runs for an event with unavailable content, like Score.OnFailure.
	OnFailure []lang.Step
}

// StepKind implements Step.
func (*Fetch) StepKind() *lang.StepKind { return &fetchKind }

var fetchKind = lang.KindOf("fetch", spec.State, readFetch, "{name: shot, url: url, max: 10MB}", "fetches the content of a URL (a file, an S3 object or HTTPS) asynchronously, and records its hash. If the content differs when it is needed again, the event becomes a dead letter")

var readFetch = spec.MappingOf(fetchFields)

var fetchFields = []spec.Field[Fetch]{
	{Name: "name", Affects: spec.Outputs, Required: true, Form: spec.Into(func(f *Fetch) *string { return &f.Name }, spec.ReadName), Example: "shot",
		Help: "prefix of the names that the step introduces: `shot.bytes`, for models only, `shot.sha256`, `shot.size` and `shot.type`, the media type, from the response or from the first bytes"},
	{Name: "url", Affects: spec.Outputs, Required: true, Or: "urls", Form: spec.Into(func(f *Fetch) *string { return &f.URL }, spec.ReadName), Example: "url",
		Help: "a name of type string: file:///folder/name, s3://bucket/key or https://host/path"},
	{Name: "urls", Affects: spec.Outputs, Or: "url", Form: spec.Into(func(f *Fetch) *string { return &f.URLs }, spec.ReadName), Example: "parts.url", Absent: "required, or `url`",
		Help: "instead of `url`: a name of type string[]: the contents of all URLs, joined in order"},
	{Name: "max", Affects: spec.Outputs, Form: spec.Into(func(f *Fetch) *int { return &f.Max }, spec.Size(1, 1<<30).Default(lang.DefaultFetchMax)), Example: "64MB"},
	{Name: "when", Affects: spec.Outputs, Form: spec.Into(func(f *Fetch) *string { return &f.When }, lang.ReadBool), Example: `kind == "image"`,
		Absent: "always", Help: "condition for events; the names are optional then"},
	{Name: "call", Affects: spec.Nothing, Form: spec.Optional(func(f *Fetch) **lang.Calling { return &f.Call }, spec.MappingOf(lang.CallingFields)), Example: "{timeout: 10s, attempts: 5, backoff: {base: 1s, max: 1m}}",
		Help: "how it is called. Each host and each bucket has its own breaker, so only events that need an unavailable one are queued", Absent: "as below, with a timeout of 30s"},
	{Name: "journal", Affects: spec.Nothing, Form: spec.Optional(func(f *Fetch) **lang.Journal { return &f.Journal }, lang.ReadJournal), Example: "{retention: 30d}", Absent: "they are",
		Help: "whether to keep the hash and size of each event's content beside the partition, so that the event gets the same content when it is computed again"},
	{Name: "ordered", Affects: spec.Outputs, Form: spec.Into(func(f *Fetch) *bool { return &f.Ordered }, spec.OnlyTrue()), Example: "true", Absent: "queued events continue in any order"},
	{Name: "on_failure", Affects: spec.State, Form: spec.Into(func(f *Fetch) *[]lang.Step { return &f.OnFailure }, lang.ReadSteps), Example: "[emit: {topic: unseen, value: [customer]}]", Absent: "it is a dead letter",
		Help: "steps for an event without its content: let, decide, call and emit; it is a dead letter too, unless they write something"},
}

// Declare implements Step.
func (f *Fetch) Declare(d *lang.Declared) {
	d.Add(f.Name+".bytes", f.Name+".sha256", f.Name+".size", f.Name+".type")
}

// Effect implements Step.
func (f *Fetch) Effect() lang.Effects { return lang.Effects{Fails: true, OnFailure: f.OnFailure} }

const (
	contentMax          = 1 << 30 // of fetched content
	defaultFetchTimeout = 30 * time.Second
)

// boundFetch fetches content as a score with a model that fetches. It always runs off the loop,
// because its duration is unknown and the result is recorded.
type boundFetch struct {
	*Fetch
	path      string
	url       value.Slot
	score     operator.Score // without its model and calling
	onFailure []lang.Node
}

// Place implements Bound.
func (b *boundFetch) Place() lang.Place {
	return lang.Place{Waves: true, Queues: lang.QueuesSaid, Ordered: b.Ordered, Failure: b.onFailure}
}

// Lower implements Bound.
func (b *boundFetch) Lower(p *lang.Plan, _ lang.At) operator.Operator {
	stage := b.score
	stage.OnFailure = p.Lowered(b.onFailure)
	return &stage
}

// Bind implements Step.
func (f *Fetch) Bind(s *lang.Scope, path string) {
	before := len(s.Errs)
	s.Identifier(path+".name", f.Name)
	b := &boundFetch{Fetch: f, path: path, url: f.bindURL(s, path)}
	if f.Max < 0 || f.Max > contentMax {
		s.Fail(path+".max", "%d bytes are out of range: use 1 to %d", f.Max, contentMax)
	}
	b.score = operator.Score{Batch: operator.Batch{Kind: "fetch", Name: f.Name, Size: 1, Async: true, Finds: true}, Texts: []value.Slot{b.url}}
	if f.When != "" {
		b.score.When = s.Expr(path+".when", f.When, value.Bool)
	}
	own := len(s.Errs)
	b.onFailure = s.OnFailure(path+".on_failure", f.OnFailure)
	before += len(s.Errs) - own // errors in on_failure do not make the fetch itself unknown
	b.score.Row = decode.New(f.bindOutputs(s, path, &b.score))
	if len(s.Errs) > before {
		return
	}
	for _, n := range s.Nodes {
		if other, ok := n.Bound.(*boundFetch); ok && other.Name == f.Name && other.url.Name != b.url.Name {
			s.Fail(path+".name", "another case fetches %s from %s, not from %s", f.Name, other.url.Name, b.url.Name)
			s.Hint("give it another name, or both URLs one name by let")
			break
		}
	}
	s.Add(f, path, b)
}

// Open implements Opener.
func (b *boundFetch) Open(r *lang.Resources) lang.Bound {
	before := len(r.Errs)
	var call lang.Calling
	if b.Call != nil {
		call = *b.Call
	}
	if !call.Budget {
		call.Timeout = cmp.Or(call.Timeout, defaultFetchTimeout)
	}
	opened := *b
	calling := r.Call(b.path+".call", &call, "pipeline:"+r.Pipeline.Name, "fetch "+b.Name)
	if opened.score.Calling = calling; calling.Open == operator.OpenFallback {
		r.Fail(b.path+".call.breaker.open", "content has no fallback")
		r.Hint("use pause or queue; write the steps for an event without its content in on_failure")
	}
	kept := b.Journal
	if kept == nil {
		kept = &lang.Journal{}
	}
	r.KeepAnswers(b.path+".journal", kept, operator.JournalByEvent, calling)
	fetcher := r.OpenFetcher()
	if len(r.Errs) > before {
		return nil
	}
	m := fetch.NewModel(fetcher, b.url.Type.Kind == value.List|value.String, int64(cmp.Or(b.Max, lang.DefaultFetchMax)), control.BreakerOptions{Failures: call.Breaker.Failures, Rate: call.Breaker.Rate, Probe: call.Breaker.Probe})
	opened.score.Model = m
	if r.Contents == nil {
		r.Contents = map[string]lang.Fetched{}
	}
	r.Contents[b.Name+".bytes"] = lang.Fetched{URL: b.url, From: fetch.Column{From: m, Timeout: calling.Timeout}}
	return &opened
}

// bindURL returns the slot of the URL or URLs.
func (f *Fetch) bindURL(s *lang.Scope, path string) value.Slot {
	at, name, want := path+".url", f.URL, value.String
	if f.URLs != "" {
		at, name, want = path+".urls", f.URLs, value.List|value.String
	}
	if name == "" || f.URL != "" && f.URLs != "" {
		s.Fail(path, "name the content to fetch: one by url, or a list by urls")
		return value.Slot{}
	}
	slots := s.Slots(at, name)
	if len(slots) == 0 {
		return value.Slot{}
	}
	if len(slots) > 1 || slots[0].Type.Kind != want {
		s.Fail(at, "%q is of type %v, but %v is needed", name, slots[0].Type, want)
		if slots[0].Type.Kind == value.List|value.String {
			s.Hint("a list of URLs is given by urls")
		}
	}
	return slots[0]
}

// bindOutputs introduces the names of the content and of its properties.
func (f *Fetch) bindOutputs(s *lang.Scope, path string, stage *operator.Score) (fields []decode.Field) {
	for _, o := range []struct {
		name string
		kind value.Kind
	}{{"bytes", value.Content}, {"sha256", value.String}, {"size", value.Int}, {"type", value.String}} {
		slot, ok := s.Make(path, f.Name+"."+o.name, value.Type{Kind: o.kind, Optional: f.When != ""})
		if !ok {
			return nil
		}
		fields = append(fields, decode.Field{Name: o.name, Slot: slot})
		stage.Outputs, stage.Fallback = append(stage.Outputs, slot), append(stage.Fallback, nil)
	}
	return fields
}

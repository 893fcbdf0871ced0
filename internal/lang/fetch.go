package lang

import "github.com/afterbay/afterbay/internal/spec"

// Fetch brings the content that a URL names, of a file, of an object of S3 or by
// HTTPS, off the loop, and records its hash: content that is another when it is
// needed again makes a dead letter.
type Fetch struct {
	Name string
	URL  string // a name of kind string: file:///folder/name, s3://bucket/key, https://host/path
	URLs string // instead of URL: a name of kind string[], whose content is that of each, one behind the other
	Max  int    // bytes, of all URLs, beyond which content is a dead letter; 0 is 10 MiB
	When string // expression of type bool; "" is always. Without it the names are optional

	Call    *Calling // how it is called for; nil is its zero value, with a timeout of 30 s. Its breaker is that of each host and bucket
	Journal *Journal // keeps the hash and the size of what each event was given; nil keeps it too
	Ordered bool     // the events of a key are queued behind one of it that is queued

	// OnFailure is done for an event whose content is not to be had, as Score.OnFailure.
	OnFailure []Step
}

// StepKind implements Step.
func (*Fetch) StepKind() *StepKind { return &fetchKind }

var fetchKind = stepKind("fetch", spec.State, readFetch, "{name: shot, url: url, max: 10MB}", "brings the content that a URL names, of a file, of an object of S3 or by HTTPS, off the loop, and records its hash: content that is another when it is needed again makes a dead letter")

var readFetch = spec.MappingOf(fetchFields)

var fetchFields = []spec.Field[Fetch]{
	{Name: "name", Affects: spec.Outputs, Required: true, Form: spec.Into(func(f *Fetch) *string { return &f.Name }, spec.ReadName), Example: "shot",
		Help: "what it introduces is behind this name: `shot.bytes`, which only models are given, `shot.sha256`, `shot.size` and `shot.type`, the media type that was told or that the first bytes look like"},
	{Name: "url", Affects: spec.Outputs, Required: true, Or: "urls", Form: spec.Into(func(f *Fetch) *string { return &f.URL }, spec.ReadName), Example: "url",
		Help: "a name of type string: file:///folder/name, s3://bucket/key or https://host/path"},
	{Name: "urls", Affects: spec.Outputs, Or: "url", Form: spec.Into(func(f *Fetch) *string { return &f.URLs }, spec.ReadName), Example: "parts.url", Absent: "required, or `url`",
		Help: "instead of `url`: a name of type string[], whose content is that of each, one behind the other"},
	{Name: "max", Affects: spec.Outputs, Form: spec.Into(func(f *Fetch) *int { return &f.Max }, spec.Size(1, 1<<30).Default(DefaultFetchMax)), Example: "64MB"},
	{Name: "when", Affects: spec.Outputs, Form: spec.Into(func(f *Fetch) *string { return &f.When }, readBool), Example: `kind == "image"`,
		Absent: "always", Help: "for which events; the names are optional then"},
	{Name: "call", Affects: spec.Nothing, Form: spec.Optional(func(f *Fetch) **Calling { return &f.Call }, spec.MappingOf(callingFields)), Example: "{timeout: 10s, attempts: 5, backoff: {base: 1s, max: 1m}}",
		Help: "how it is called for: its breaker is one of each host and bucket, so that events wait, queued, for those that are down, and others do not", Absent: "as below, with a timeout of 30s"},
	{Name: "journal", Affects: spec.Nothing, Form: spec.Optional(func(f *Fetch) **Journal { return &f.Journal }, readJournal), Example: "{retention: 30d}", Absent: "they are",
		Help: "whether hash and size of what each event was given are kept beside the partition, so that it is given the same whenever it is computed again"},
	{Name: "ordered", Affects: spec.Outputs, Form: spec.Into(func(f *Fetch) *bool { return &f.Ordered }, spec.OnlyTrue()), Example: "true", Absent: "what is queued is done with in any order"},
	{Name: "on_failure", Affects: spec.State, Form: spec.Into(func(f *Fetch) *[]Step { return &f.OnFailure }, readSteps), Example: "[emit: {topic: unseen, value: [customer]}]", Absent: "it is a dead letter",
		Help: "steps for an event whose content is not to be had: let, decide, call and emit; it is a dead letter too, unless they write something"},
}

// Declare implements Step.
func (f *Fetch) Declare(d *Declared) {
	d.Add(f.Name+".bytes", f.Name+".sha256", f.Name+".size", f.Name+".type")
}

// Effect implements Step.
func (f *Fetch) Effect() Effects { return Effects{Fails: true, OnFailure: f.OnFailure} }

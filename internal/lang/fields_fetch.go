package lang

import (
	"github.com/afterbay/afterbay/internal/spec"
)

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

// anyFolder is the one form of a folder that is there: which folder it is decides nothing.
func anyFolder(path string) string {
	if path == "" {
		return ""
	}
	return "a folder"
}

var contentFields = []spec.Field[Content]{
	{Name: "root", Affects: spec.Outputs, Form: spec.Into(func(o *Content) *string { return &o.Root }, spec.As(anyFolder, spec.TextOf("the path of a folder"))), Example: "/data/uploads", Absent: "no files"},
	{Name: "hosts", Affects: spec.Outputs, Form: spec.Into(func(o *Content) *[]string { return &o.Hosts }, setOf(spec.ReadName)), Example: "[files.example.com, '*.media.example.com']", Absent: "any"},
	{Name: "private", Affects: spec.Outputs, Form: spec.Into(func(o *Content) *[]string { return &o.Private }, setOf(spec.TextOf("a network"))), Example: "[10.2.0.0/16]", Absent: "none"},
	{Name: "http", Affects: spec.Outputs, Form: spec.Into(func(o *Content) *bool { return &o.HTTP }, spec.OnlyTrue()), Example: "true", Absent: "https alone"},
	{Name: "buckets", Affects: spec.Outputs, Form: spec.Into(func(o *Content) *[]string { return &o.Buckets }, setOf(spec.ReadName)), Example: "[calls, shots]", Absent: "none"},
	{Name: "s3", Affects: spec.Nothing, Form: spec.Into(func(o *Content) *spec.ObjectStore { return &o.S3 }, spec.MappingOf(spec.StoreFields)), Example: "{endpoint: 'https://store.example.com', region: eu-west-1}", Absent: "as below"},
	{Name: "cache", Affects: spec.Nothing, Form: spec.Into(func(o *Content) *ContentCache { return &o.Cache }, spec.MappingOf(cacheFields)), Example: "{dir: /data/content, max: 10GiB}", Absent: "as below"},
}

var cacheFields = []spec.Field[ContentCache]{
	{Name: "dir", Affects: spec.Nothing, Form: spec.Into(func(c *ContentCache) *string { return &c.Dir }, spec.TextOf("the path of a folder")), Example: "/data/content"},
	{Name: "max", Affects: spec.Nothing, Form: spec.Into(func(c *ContentCache) *int { return &c.Max }, spec.Size(1, 1<<44)), Example: "10GiB"},
}

package config

import "github.com/afterbay/afterbay"

var fetchWords = []word[afterbay.Fetch]{
	{name: "name", required: true, form: field(func(f *afterbay.Fetch) *string { return &f.Name }, readName), example: "shot",
		means: "what it introduces is behind this name: `shot.bytes`, which only models are given, `shot.sha256`, `shot.size` and `shot.type`, the media type that was told or that the first bytes look like"},
	{name: "url", required: true, or: "urls", form: field(func(f *afterbay.Fetch) *string { return &f.URL }, readName), example: "url",
		means: "a name of type string: file:///folder/name, s3://bucket/key or https://host/path"},
	{name: "urls", or: "url", form: field(func(f *afterbay.Fetch) *string { return &f.URLs }, readName), example: "parts.url", absent: "required, or `url`",
		means: "instead of `url`: a name of type string[], whose content is that of each, one behind the other"},
	{name: "max", form: field(func(f *afterbay.Fetch) *int { return &f.Max }, size(1, 1<<30)), example: "64MB"},
	{name: "when", form: field(func(f *afterbay.Fetch) *string { return &f.When }, readBool), example: `kind == "image"`,
		absent: "always", means: "for which events; the names are optional then"},
	{name: "call", form: optional(func(f *afterbay.Fetch) **afterbay.Calling { return &f.Call }, words(callingWords)), example: "{timeout: 10s, attempts: 5, backoff: {base: 1s, max: 1m}}",
		means: "how it is called for: its breaker is one of each host and bucket, so that events wait, parked, for those that are down, and others do not", absent: "as below, with a timeout of 30s"},
	{name: "journal", form: optional(func(f *afterbay.Fetch) **afterbay.Journal { return &f.Journal }, readJournal), example: "{keep: 30d}", absent: "they are",
		means: "whether hash and size of what each event was given are kept beside the partition, so that it is given the same whenever it is computed again"},
	{name: "ordered", form: field(func(f *afterbay.Fetch) *bool { return &f.Ordered }, onlyTrue()), example: "true", absent: "what is parked is done with in any order"},
	{name: "on_failure", form: field(func(f *afterbay.Fetch) *[]afterbay.Step { return &f.OnFailure }, readSteps), example: "[emit: {topic: unseen, value: [customer]}]", absent: "it is a dead letter",
		means: "steps for an event whose content is not to be had: let, decide, call and emit; it is a dead letter too, unless they write something"},
}

var objectsWords = []word[afterbay.Objects]{
	{name: "root", form: field(func(o *afterbay.Objects) *string { return &o.Root }, textOf("the path of a folder")), example: "/data/uploads", absent: "no files"},
	{name: "hosts", form: field(func(o *afterbay.Objects) *[]string { return &o.Hosts }, listOf(readName)), example: "[files.example.com, '*.media.example.com']", absent: "any"},
	{name: "private", form: field(func(o *afterbay.Objects) *[]string { return &o.Private }, listOf(textOf("a network"))), example: "[10.2.0.0/16]", absent: "none"},
	{name: "http", form: field(func(o *afterbay.Objects) *bool { return &o.HTTP }, onlyTrue()), example: "true", absent: "https alone"},
	{name: "buckets", form: field(func(o *afterbay.Objects) *[]string { return &o.Buckets }, listOf(readName)), example: "[calls, shots]", absent: "none"},
	{name: "s3", form: field(func(o *afterbay.Objects) *afterbay.ObjectStore { return &o.S3 }, words(storeWords)), example: "{endpoint: 'https://store.example.com', region: eu-west-1}", absent: "as below"},
	{name: "cache", form: field(func(o *afterbay.Objects) *afterbay.ContentCache { return &o.Cache }, words(cacheWords)), example: "{dir: /data/content, max: 10GiB}", absent: "as below"},
}

var storeWords = []word[afterbay.ObjectStore]{
	{name: "endpoint", form: field(func(s *afterbay.ObjectStore) *string { return &s.Endpoint }, readURL), example: "https://store.example.com"},
	{name: "region", form: field(func(s *afterbay.ObjectStore) *string { return &s.Region }, readName), example: "eu-west-1"},
	{name: "credentials", form: field(func(s *afterbay.ObjectStore) *string { return &s.Credentials }, readPath), example: "/run/secrets/aws"},
	{name: "profile", form: field(func(s *afterbay.ObjectStore) *string { return &s.Profile }, readName), example: "support"},
}

var cacheWords = []word[afterbay.ContentCache]{
	{name: "dir", form: field(func(c *afterbay.ContentCache) *string { return &c.Dir }, textOf("the path of a folder")), example: "/data/content"},
	{name: "max", form: field(func(c *afterbay.ContentCache) *int { return &c.Max }, size(1, 1<<44)), example: "10GiB"},
}

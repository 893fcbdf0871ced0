package lang

import (
	"time"

	"github.com/afterbay/afterbay/internal/spec"
)

const ofOutside = "of a lookup outside of the log"

var lookupFieldsAbove = []spec.Field[Lookup]{
	{Name: "name", Affects: spec.Outputs, Required: true, Form: spec.Into(func(l *Lookup) *string { return &l.Name }, spec.ReadName), Example: "profile"},
	{Name: "table", Affects: spec.State, Form: spec.Into(func(l *Lookup) *string { return &l.Table }, spec.ReadName), Example: "users"},
}

var lookupFieldsBelow = []spec.Field[Lookup]{
	{Name: "key", Affects: spec.Outputs, Required: true, Or: "vector", Form: spec.Into(func(l *Lookup) *string { return &l.Key }, spec.ReadName),
		Example: "user", Help: "what the row is found by, of type string or int", Absent: "required, or `vector`"},
	{Name: "vector", Affects: spec.Outputs, Form: spec.Into(func(l *Lookup) *string { return &l.Vector }, spec.ReadName), Example: "embed.vector", Absent: "required, or `key`",
		Help: "of type `number[n]`: instead of the row of a key, the documents of `postgres` that are nearest to it"},
	{Name: "limit", Affects: spec.Outputs, Form: spec.Into(func(l *Lookup) *int { return &l.Limit }, spec.Whole[int](1, 100).Default(DefaultNearest)), Example: "3", Help: "how many documents are found at most"},
	{Name: "where", Affects: spec.Outputs, Form: spec.Into(func(l *Lookup) *[]Binding { return &l.Where }, readBindingSet),
		Example: "{customer: customer, kind: '\"chat\"'}", Absent: "all documents", Help: "columns, each with an expression of type string or int that it equals"},
	{Name: "distance", Affects: spec.Outputs, Form: spec.Into(func(l *Lookup) *string { return &l.Distance }, spec.Choice[string]("cosine", "l2", "inner_product").Default("cosine")), Example: "l2", Help: "what is near: the less, the nearer"},
	{Name: "join", Affects: spec.Outputs, Form: spec.Into(func(l *Lookup) *string { return &l.Join }, spec.TextOf("a text").Default(DefaultJoin)), Example: "', '", Help: "what stands between the texts of documents"},
	{Name: "when", Affects: spec.Outputs, Form: spec.Into(func(l *Lookup) *string { return &l.When }, readBool), Example: `kind == "post"`,
		Absent: "always", Help: "for which events; others find no row"},
	{Name: "fields", Affects: spec.Outputs, Required: true, Form: spec.Into(func(l *Lookup) *[]Field { return &l.Fields }, readFields),
		Example: "{trusted: bool, level: optional int}", Help: "what is read of the row, and its types: names behind that of the lookup, as `profile.trusted`"},
	{Name: "empty", Affects: spec.Outputs, Form: spec.Into(func(l *Lookup) *[]Binding { return &l.Empty }, readBindingSet),
		Example: "{trusted: false}", Help: "what fields are where there is no row: names to expressions", Absent: "they are optional"},
	{Name: "cache", Affects: spec.Nothing, Form: spec.Into(func(l *Lookup) *RowCache { return &l.Cache }, spec.MappingOf(rowCacheFields)), Example: "{ttl: 1m, max: 256MiB}",
		Help: ofOutside + ": keeps rows in the memory of the process", Absent: "it is asked for each event"},
	{Name: "batch", Affects: spec.Nothing, Form: spec.Into(func(l *Lookup) *RowBatch { return &l.Batch }, spec.MappingOf(rowBatchFields)), Example: "{size: 500}", Help: ofOutside + ": which keys share a call", Absent: "as below"},
	{Name: "journal", Affects: spec.Nothing, Form: spec.Optional(func(l *Lookup) **Journal { return &l.Journal }, readJournal), Example: "true", Absent: "none are",
		Help: "keeps the row of each event beside the partition, so that it sees that row whenever it is computed again; every event is queued then"},
	{Name: "call", Affects: spec.Nothing, Form: spec.Optional(func(l *Lookup) **Calling { return &l.Call }, spec.MappingOf(callingFields)), Example: "{timeout: 500ms, breaker: {open: queue}}",
		Help: ofOutside + ": how it is called, that may be slow, late or down", Absent: "as below"},
	{Name: "async", Affects: spec.Outputs, Form: spec.Into(func(l *Lookup) *bool { return &l.Async }, spec.OnlyTrue()), Example: "true", Absent: "events wait for the rows of those before them"},
	{Name: "ordered", Affects: spec.Outputs, Form: spec.Into(func(l *Lookup) *bool { return &l.Ordered }, spec.OnlyTrue()), Example: "true", Absent: "what is queued is done with in any order"},
}

var rowCacheFields = []spec.Field[RowCache]{
	{Name: "ttl", Affects: spec.Nothing, Required: true, Form: spec.Into(func(c *RowCache) *time.Duration { return &c.TTL }, spec.Span(time.Millisecond, spec.Day)), Example: "1m",
		Help: "how long a row, or that there is none, is used without asking again"},
	{Name: "max", Affects: spec.Nothing, Form: spec.Into(func(c *RowCache) *int { return &c.Max }, spec.Size(1<<10, 1<<40)), Example: "256MiB"},
}

var rowBatchFields = []spec.Field[RowBatch]{
	{Name: "size", Affects: spec.Nothing, Form: spec.Into(func(b *RowBatch) *int { return &b.Size }, spec.Whole[int](1, 4096)), Example: "500"},
}

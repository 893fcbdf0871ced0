package config

import (
	"regexp"
	"time"

	"github.com/afterbay/afterbay"
)

const ofOutside = "of a lookup outside of the log"

var lookupWords = []word[afterbay.Lookup]{
	{name: "name", required: true, form: field(func(l *afterbay.Lookup) *string { return &l.Name }, readName), example: "profile"},
	{name: "table", form: field(func(l *afterbay.Lookup) *string { return &l.Table }, readName), example: "users", absent: "required, or `redis`, `postgres` or `http`"},
	{name: "redis", form: optional(func(l *afterbay.Lookup) **afterbay.Redis { return &l.Redis }, words(redisWords)),
		example: "{url: 'redis://cache:6379/0', prefix: 'user:'}", absent: "required, or `table`, `postgres` or `http`"},
	{name: "postgres", form: optional(func(l *afterbay.Lookup) **afterbay.Postgres { return &l.Postgres }, words(postgresWords)),
		example: "{url: '${DATABASE_URL}', query: 'select name, to_jsonb(users) from users where name = any($1)'}", absent: "required, or `table`, `redis` or `http`"},
	{name: "http", form: optional(func(l *afterbay.Lookup) **afterbay.HTTPRows { return &l.HTTP }, words(httpRowsWords)),
		example: "{url: 'https://users.example.com/{key}'}", absent: "required, or `table`, `redis` or `postgres`"},
	{name: "key", required: true, or: "vector", form: field(func(l *afterbay.Lookup) *string { return &l.Key }, readName),
		example: "user", means: "what the row is found by, of type string or int", absent: "required, or `vector`"},
	{name: "vector", form: field(func(l *afterbay.Lookup) *string { return &l.Vector }, readName), example: "embed.vector", absent: "required, or `key`",
		means: "of type `number[n]`: instead of the row of a key, the documents of `postgres` that are nearest to it"},
	{name: "limit", form: field(func(l *afterbay.Lookup) *int { return &l.Limit }, whole[int](1, 100)), example: "3", means: "how many documents are found at most"},
	{name: "where", form: field(func(l *afterbay.Lookup) *[]afterbay.Binding { return &l.Where }, readBindings),
		example: "{customer: customer, kind: '\"chat\"'}", absent: "all documents", means: "columns, each with an expression of type string or int that it equals"},
	{name: "distance", form: field(func(l *afterbay.Lookup) *string { return &l.Distance }, choice[string]("cosine", "l2", "inner_product")), example: "l2", means: "what is near: the less, the nearer"},
	{name: "join", form: field(func(l *afterbay.Lookup) *string { return &l.Join }, textOf("a text")), example: "', '", means: "what stands between the texts of documents"},
	{name: "when", form: field(func(l *afterbay.Lookup) *string { return &l.When }, readBool), example: `kind == "post"`,
		absent: "always", means: "for which events; others find no row"},
	{name: "fields", required: true, form: field(func(l *afterbay.Lookup) *[]afterbay.Field { return &l.Fields }, readFields),
		example: "{trusted: bool, level: optional int}", means: "what is read of the row, and its types: names behind that of the lookup, as `profile.trusted`"},
	{name: "empty", form: field(func(l *afterbay.Lookup) *[]afterbay.Binding { return &l.Empty }, readBindings),
		example: "{trusted: false}", means: "what fields are where there is no row: names to expressions", absent: "they are optional"},
	{name: "keep", form: field(func(l *afterbay.Lookup) *time.Duration { return &l.Keep }, span(time.Millisecond, day)), example: "1m",
		means: ofOutside + ": how long a row, or that there is none, is used without asking again", absent: "it is asked for each event"},
	{name: "keep_max", form: field(func(l *afterbay.Lookup) *int { return &l.KeepMax }, size(1<<10, 1<<40)), example: "256MiB"},
	{name: "size", form: field(func(l *afterbay.Lookup) *int { return &l.Size }, whole[int](1, 4096)), example: "500"},
	{name: "journal", form: optional(func(l *afterbay.Lookup) **afterbay.Journal { return &l.Journal }, readJournal), example: "true", absent: "none are",
		means: "keeps the row of each event beside the partition, so that it sees that row whenever it is computed again; every event is parked then"},
	{name: "call", form: optional(func(l *afterbay.Lookup) **afterbay.Calling { return &l.Call }, words(callingWords)), example: "{timeout: 500ms, breaker: {open: park}}",
		means: ofOutside + ": how it is called, that may be slow, late or down", absent: "as below"},
	{name: "async", form: field(func(l *afterbay.Lookup) *bool { return &l.Async }, onlyTrue()), example: "true", absent: "events wait for the rows of those before them"},
	{name: "ordered", form: field(func(l *afterbay.Lookup) *bool { return &l.Ordered }, onlyTrue()), example: "true", absent: "what is parked is done with in any order"},
}

var redisWords = []word[afterbay.Redis]{
	{name: "url", required: true, form: field(func(r *afterbay.Redis) *string { return &r.URL }, address()), example: "redis://cache:6379/0"},
	{name: "prefix", form: field(func(r *afterbay.Redis) *string { return &r.Prefix }, textOf("a text")), example: "'user:'", absent: "none"},
}

var postgresWords = []word[afterbay.Postgres]{
	{name: "url", required: true, form: field(func(p *afterbay.Postgres) *string { return &p.URL }, address()), example: "${DATABASE_URL}"},
	{name: "query", required: true, or: "table", form: field(func(p *afterbay.Postgres) *string { return &p.Query }, textOf("a query")),
		example: "select name, to_jsonb(users) from users where name = any($1)", absent: "required, or `table`"},
	{name: "table", form: field(func(p *afterbay.Postgres) *string { return &p.Table }, readName), example: "documents", absent: "required, or `query`", means: "instead of `query`, of a lookup by `vector`: where the documents are, behind a schema or not"},
	{name: "column", form: field(func(p *afterbay.Postgres) *string { return &p.Column }, readName), example: "embedding", absent: "required with `table`", means: "of vectors: its type is vector or halfvec of pgvector"},
}

var httpRowsWords = []word[afterbay.HTTPRows]{
	{name: "url", required: true, form: field(func(h *afterbay.HTTPRows) *string { return &h.URL }, readURL), example: "https://users.example.com/{key}"},
	{name: "headers", form: field(func(h *afterbay.HTTPRows) *[]afterbay.Header { return &h.Headers },
		named(func(h *afterbay.Header) *string { return &h.Name }, field(func(h *afterbay.Header) *string { return &h.Value }, readHeader))),
		example: "{X-Team: risk}", absent: "none", means: "names and values, of every request"},
	{name: "token", or: "token_file", form: field(func(h *afterbay.HTTPRows) *string { return &h.Token }, secret("token_file")), example: "${USERS_TOKEN}"},
	{name: "token_file", form: field(func(h *afterbay.HTTPRows) *string { return &h.TokenFile }, readPath), example: "/run/secrets/users"},
}

var aPassword = regexp.MustCompile(`://[^/@]*:([^/]+)@`)

// address reads the URL of a server, whose password only the environment may say.
func address() form[string] {
	const hint = "write ${NAME} for it or for the whole URL, and export NAME=..."
	return form[string]{func(r *reader, n *node, path string, into *string) {
		if said := aPassword.FindStringSubmatch(n.text); n.kind == scalar && said != nil && !aVariable.MatchString(said[1]) && !r.full() {
			found := r.source.errorAt(n.offset, path, "a password has no place in the file", hint)
			found.Excerpt = ""
			r.errors = append(r.errors, found)
			return
		}
		readURL.read(r, n, path, into)
	}, readURL.shape}
}

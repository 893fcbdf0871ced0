package config

import (
	"slices"
	"time"

	"github.com/afterbay/afterbay"
)

var sinkWords = []word[afterbay.Sink]{
	{name: "from", required: true, form: field(func(s *afterbay.Sink) *string { return &s.From }, readName), example: "freezes"},
	{name: "name", form: field(func(s *afterbay.Sink) *string { return &s.Name }, readName), example: "cards", absent: "the topic's name",
		means: "its consumer group is `<pipeline>.<name>`, and its dead letters go to `dlq.<pipeline>.<name>`; it is not g and a number, as in `g2` or `g2.cards`, which are of generations that afterbay rederive made"},
	{name: "http", form: optional(func(s *afterbay.Sink) **afterbay.HTTPSink { return &s.HTTP }, words(httpWords)),
		example: "{url: 'https://cards.example.com/freeze'}", means: "the service: it gets a request for each record, with the value as its body and the id as its Idempotency-Key", absent: "one of http, postgres, redis, files and kafka is required"},
	{name: "postgres", form: optional(func(s *afterbay.Sink) **afterbay.PostgresSink { return &s.Postgres }, words(postgresSinkWords)),
		example: "{url: '${DATABASE_URL}', table: artifacts, key: id}", means: "a table of PostgreSQL that has a row for each key, of the newest event", absent: "see `http`"},
	{name: "redis", form: optional(func(s *afterbay.Sink) **afterbay.RedisSink { return &s.Redis }, words(redisSinkWords)),
		example: "{url: 'redis://cache:6379/0', prefix: 'artifact:', key: id}", means: "a hash or JSON text for each key, of the newest event, on a server of Redis", absent: "see `http`"},
	{name: "files", form: optional(func(s *afterbay.Sink) **afterbay.FilesSink { return &s.Files }, words(filesWords)),
		example: "{url: 'file:///data/decisions', rows: 10000, wait: 1m}", absent: "see `http`", means: "a folder or a bucket: the records are kept there as objects, each record in one of them"},
	{name: "kafka", form: optional(func(s *afterbay.Sink) **afterbay.KafkaSink { return &s.Kafka }, words(kafkaSinkWords)),
		example: "{cluster: 'kafka://other-1:9092', topic: decisions}", absent: "see `http`", means: "a topic of another cluster of Kafka"},
	{name: "timeout", form: field(func(s *afterbay.Sink) *time.Duration { return &s.Timeout }, span(time.Millisecond, 10*time.Minute)), example: "10s"},
	{name: "concurrency", form: field(func(s *afterbay.Sink) *int { return &s.Concurrency }, whole[int](1, 1024)), example: "4"},
	{name: "window", form: field(func(s *afterbay.Sink) *time.Duration { return &s.Window }, span(time.Second, 366*day)), example: "72h"},
	{name: "max", form: field(func(s *afterbay.Sink) *int { return &s.Max }, whole[int](1024, 40_000_000)), example: "100000"},
	{name: "expire", form: field(func(s *afterbay.Sink) *time.Duration { return &s.Expire }, span(time.Second, 366*day)), example: "24h", absent: "it is tried for ever"},
}

// clusterWords are those of an engine but for what says nothing about a cluster that
// is written to alone.
var clusterWords = slices.DeleteFunc(slices.Clone(engineWords), func(w word[afterbay.Engine]) bool {
	return slices.Contains([]string{"rack", "groups", "replication"}, w.name)
})

var readCluster = oneOf("write kafka://HOST:PORT, or `{url: ...}`", scalar, field(engineURL, readURL), mapping, words(clusterWords))

var kafkaSinkWords = []word[afterbay.KafkaSink]{
	{name: "cluster", required: true, form: field(func(t *afterbay.KafkaSink) *afterbay.Engine { return &t.Cluster }, readCluster),
		example: "{url: 'kafka+tls://other-1:9093', sasl: scram-sha-512, user: fraud, password_file: /run/secrets/other}", means: "how it is reached: written like `engine`"},
	{name: "topic", required: true, form: field(func(t *afterbay.KafkaSink) *string { return &t.Topic }, readName), example: "decisions", means: "a topic of it, which is to be there"},
	{name: "exactly_once", form: field(func(t *afterbay.KafkaSink) *bool { return &t.ExactlyOnce }, onlyTrue()), example: "true", absent: "what was under way at a crash comes again"},
}

var filesWords = []word[afterbay.FilesSink]{
	{name: "url", required: true, form: field(func(f *afterbay.FilesSink) *string { return &f.URL }, readURL), example: "'s3://bucket/decisions'"},
	{name: "s3", form: field(func(f *afterbay.FilesSink) *afterbay.ObjectStore { return &f.S3 }, words(storeWords)), example: "{endpoint: 'https://store.example.com', region: eu-west-1}", absent: "as below", means: "where the server of a bucket is, and who asks"},
	{name: "format", form: field(func(f *afterbay.FilesSink) *string { return &f.Format }, choice[string]("parquet", "ndjson")), example: "ndjson", absent: "parquet",
		means: "what an object is"},
	{name: "compress", form: field(func(f *afterbay.FilesSink) *string { return &f.Compress }, choice[string]("gzip", "zstd")), example: "zstd", absent: "parquet is compressed by snappy, ndjson is not",
		means: "how it is compressed"},
	{name: "rows", form: field(func(f *afterbay.FilesSink) *int { return &f.Rows }, whole[int](1, 10_000_000)), example: "10000", means: "most records of an object"},
	{name: "bytes", form: field(func(f *afterbay.FilesSink) *int { return &f.Bytes }, size(1, 1<<30)), example: "16MiB", means: "of the keys, values and headers of its records, beyond which it is complete"},
	{name: "wait", form: field(func(f *afterbay.FilesSink) *time.Duration { return &f.Wait }, span(time.Second, day)), example: "1m", means: "since the first of its records came, after which it is complete"},
	{name: "columns", form: field(func(f *afterbay.FilesSink) *[]afterbay.Field { return &f.Columns }, readFields), example: "{customer: string, amount: number}",
		absent: "those of the `emit` steps that write the topic", means: "of parquet: members of the values and their types; each may be absent"},
}

var httpWords = []word[afterbay.HTTPSink]{
	{name: "url", required: true, form: field(func(h *afterbay.HTTPSink) *string { return &h.URL }, readURL), example: "https://cards.example.com/freeze"},
	{name: "method", form: field(func(h *afterbay.HTTPSink) *string { return &h.Method }, choice[string]("POST", "PUT", "PATCH")), example: "PUT", absent: "POST",
		means: "of the request"},
	{name: "headers", form: field(func(h *afterbay.HTTPSink) *[]afterbay.Header { return &h.Headers },
		named(func(h *afterbay.Header) *string { return &h.Name }, field(func(h *afterbay.Header) *string { return &h.Value }, readHeader))),
		example: "{X-Team: risk}", absent: "none", means: "names and values, of every request"},
	{name: "token", or: "token_file", form: field(func(h *afterbay.HTTPSink) *string { return &h.Token }, secret("token_file")), example: "${CARD_TOKEN}"},
	{name: "token_file", form: field(func(h *afterbay.HTTPSink) *string { return &h.TokenFile }, readPath), example: "/run/secrets/cards"},
}

var postgresSinkWords = []word[afterbay.PostgresSink]{
	{name: "url", required: true, form: field(func(t *afterbay.PostgresSink) *string { return &t.URL }, address()), example: "${DATABASE_URL}"},
	{name: "table", required: true, form: field(func(t *afterbay.PostgresSink) *string { return &t.Table }, readName), example: "artifacts"},
	{name: "key", required: true, form: field(func(t *afterbay.PostgresSink) *string { return &t.Key }, readName), example: "id", means: "the name of the records, of type string or int, that rows are found by"},
	{name: "columns", form: field(func(t *afterbay.PostgresSink) *[]afterbay.Column { return &t.Columns },
		named(func(c *afterbay.Column) *string { return &c.Name }, field(func(c *afterbay.Column) *string { return &c.Column }, readName))),
		example: "{id: id, body: text}", absent: "every name is written, to the column of its name", means: "names of the records, each with its column: what is not among them is not written"},
	{name: "vector", form: optional(func(t *afterbay.PostgresSink) **afterbay.Vector { return &t.Vector }, words(vectorWords)),
		example: "{column: embed_vector, index: hnsw}", absent: "none", means: "the column of pgvector's type `vector`; other vectors are of type `real[]`"},
	{name: "version", form: field(func(t *afterbay.PostgresSink) *string { return &t.Version }, readExpression), example: "revision ?? 0",
		absent: "a row of another partition than the first one of its key is a dead letter",
		means:  "an int, number or time, of the names of the records and constants, that says which of two rows of a key is newer, also where their events are of different partitions"},
	{name: "exactly_once", form: field(func(t *afterbay.PostgresSink) *bool { return &t.ExactlyOnce }, onlyTrue()), example: "true",
		absent: "a row that comes again, and is not newer, changes nothing", means: "keeps positions in the table `afterbay_positions`, in the transactions of the rows: nothing is written twice, also where rows are deleted meanwhile, and an earlier owner of a partition writes nothing"},
}

var redisSinkWords = []word[afterbay.RedisSink]{
	{name: "url", required: true, form: field(func(k *afterbay.RedisSink) *string { return &k.URL }, address()), example: "redis://cache:6379/0"},
	{name: "prefix", form: field(func(k *afterbay.RedisSink) *string { return &k.Prefix }, textOf("a text")), example: "'artifact:'", absent: "none"},
	{name: "key", required: true, form: field(func(k *afterbay.RedisSink) *string { return &k.Key }, readName), example: "id", means: "the name of the records, of type string or int, that keys are made of"},
	{name: "as", form: field(func(k *afterbay.RedisSink) *string { return &k.As }, choice[string]("hash", "json")), example: "json", absent: "hash", means: "what the value of a key is: a hash, or a JSON text"},
	{name: "columns", form: field(func(k *afterbay.RedisSink) *[]afterbay.Column { return &k.Columns },
		named(func(c *afterbay.Column) *string { return &c.Name }, field(func(c *afterbay.Column) *string { return &c.Column }, readName))),
		example: "{id: id, body: text}", absent: "every name is written, to the field of its name", means: "names of the records, each with its field: what is not among them is not written"},
	{name: "ttl", form: field(func(k *afterbay.RedisSink) *time.Duration { return &k.TTL }, span(time.Millisecond, 366*day)), example: "24h", absent: "keys stay"},
	{name: "version", form: field(func(k *afterbay.RedisSink) *string { return &k.Version }, readExpression), example: "updated_at",
		absent: "a record of another partition than the first one of its key is a dead letter",
		means:  "an int, number or time, of the names of the records and constants, that says which of two records of a key is newer, also where their events are of different partitions"},
}

var vectorWords = []word[afterbay.Vector]{
	{name: "column", required: true, form: field(func(v *afterbay.Vector) *string { return &v.Column }, readName), example: "embed_vector"},
	{name: "index", form: field(func(v *afterbay.Vector) *string { return &v.Index }, choice[string]("hnsw")), example: "hnsw", absent: "none is made",
		means: "made while rows are written, which it makes many times slower: it is best in a sink of its own"},
	{name: "distance", form: field(func(v *afterbay.Vector) *string { return &v.Distance }, choice[string]("cosine", "l2", "inner_product")), example: "l2", absent: "cosine", means: "that the index is for"},
}

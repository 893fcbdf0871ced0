package lang

import (
	"time"

	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/spec"
)

var sinkFields = []spec.Field[Sink]{
	{Name: "from", Affects: spec.Nothing, Required: true, Form: spec.Into(func(s *Sink) *string { return &s.From }, spec.ReadName), Example: "freezes"},
	{Name: "name", Affects: spec.Nothing, Form: spec.Into(func(s *Sink) *string { return &s.Name }, spec.ReadName), Example: "cards", Absent: "the topic's name",
		Help: "its consumer group is `<pipeline>.<name>`, and its dead letters go to `<pipeline>.<name>.dlq`; it does not end in `dlq`, `redrive`, `sequence` or `outcomes`, does not begin with `repartition` or g and a number, as in `g2.cards`, and has no part `changelog`"},
	{Name: "http", Affects: spec.Nothing, Form: spec.Optional(func(s *Sink) **HTTPSink { return &s.HTTP }, spec.MappingOf(httpFields)),
		Example: "{url: 'https://cards.example.com/freeze'}", Help: "the service: it gets a request for each record, with the value as its body and the id as its Idempotency-Key", Absent: "one of http, postgres, redis, files and kafka is required"},
	{Name: "postgres", Affects: spec.Nothing, Form: spec.Optional(func(s *Sink) **PostgresSink { return &s.Postgres }, spec.MappingOf(postgresSinkFields)),
		Example: "{url: '${DATABASE_URL}', table: artifacts, key: id}", Help: "a table of PostgreSQL that has a row for each key, of the newest event", Absent: "see `http`"},
	{Name: "redis", Affects: spec.Nothing, Form: spec.Optional(func(s *Sink) **RedisSink { return &s.Redis }, spec.MappingOf(redisSinkFields)),
		Example: "{url: 'redis://cache:6379/0', prefix: 'artifact:', key: id}", Help: "a hash or JSON text for each key, of the newest event, on a server of Redis", Absent: "see `http`"},
	{Name: "files", Affects: spec.Nothing, Form: spec.Optional(func(s *Sink) **FilesSink { return &s.Files }, spec.MappingOf(filesFields)),
		Example: "{url: 'file:///data/decisions', rows: 10000, wait: 1m}", Absent: "see `http`", Help: "a folder or a bucket: the records are kept there as objects, each record in one of them"},
	{Name: "kafka", Affects: spec.Nothing, Form: spec.Optional(func(s *Sink) **KafkaSink { return &s.Kafka }, spec.MappingOf(kafkaSinkFields)),
		Example: "{cluster: 'kafka://other-1:9092', topic: decisions}", Absent: "see `http`", Help: "a topic of another cluster of Kafka"},
	{Name: "timeout", Affects: spec.Nothing, Form: spec.Into(func(s *Sink) *time.Duration { return &s.Timeout }, spec.Span(time.Millisecond, 10*time.Minute)), Example: "10s"},
	{Name: "concurrency", Affects: spec.Nothing, Form: spec.Into(func(s *Sink) *int { return &s.Concurrency }, spec.Whole[int](1, 1024)), Example: "4"},
	{Name: "window", Affects: spec.Nothing, Form: spec.Into(func(s *Sink) *time.Duration { return &s.Window }, spec.Span(time.Second, 366*spec.Day)), Example: "72h"},
	{Name: "max", Affects: spec.Nothing, Form: spec.Into(func(s *Sink) *int { return &s.Max }, spec.Whole[int](1024, 40_000_000)), Example: "100000"},
	{Name: "expire", Affects: spec.Nothing, Form: spec.Into(func(s *Sink) *time.Duration { return &s.Expire }, spec.Span(time.Second, 366*spec.Day)), Example: "24h", Absent: "it is tried for ever"},
}

var kafkaSinkFields = []spec.Field[KafkaSink]{
	{Name: "cluster", Affects: spec.Nothing, Required: true, Form: spec.Into(func(t *KafkaSink) *Engine { return &t.Cluster }, kafka.ReadCluster),
		Example: "{url: 'kafka+tls://other-1:9093', sasl: scram-sha-512, user: fraud, password_file: /run/secrets/other}", Help: "how it is reached: written like `engine`"},
	{Name: "topic", Affects: spec.Nothing, Required: true, Form: spec.Into(func(t *KafkaSink) *string { return &t.Topic }, spec.ReadName), Example: "decisions", Help: "a topic of it, which is to be there"},
	{Name: "exactly_once", Affects: spec.Nothing, Form: spec.Into(func(t *KafkaSink) *bool { return &t.ExactlyOnce }, spec.OnlyTrue()), Example: "true", Absent: "what was under way at a crash comes again"},
}

var filesFields = []spec.Field[FilesSink]{
	{Name: "url", Affects: spec.Nothing, Required: true, Form: spec.Into(func(f *FilesSink) *string { return &f.URL }, spec.ReadURL), Example: "'s3://bucket/decisions'"},
	{Name: "s3", Affects: spec.Nothing, Form: spec.Into(func(f *FilesSink) *ObjectStore { return &f.S3 }, spec.MappingOf(storeFields)), Example: "{endpoint: 'https://store.example.com', region: eu-west-1}", Absent: "as below", Help: "where the server of a bucket is, and who asks"},
	{Name: "format", Affects: spec.Nothing, Form: spec.Into(func(f *FilesSink) *string { return &f.Format }, spec.Choice[string]("parquet", "ndjson")), Example: "ndjson", Absent: "parquet",
		Help: "what an object is"},
	{Name: "compression", Affects: spec.Nothing, Form: spec.Into(func(f *FilesSink) *string { return &f.Compression }, spec.Choice[string]("gzip", "zstd")), Example: "zstd", Absent: "parquet is compressed by snappy, ndjson is not",
		Help: "how it is compressed"},
	{Name: "rows", Affects: spec.Nothing, Form: spec.Into(func(f *FilesSink) *int { return &f.Rows }, spec.Whole[int](1, 10_000_000)), Example: "10000", Help: "most records of an object"},
	{Name: "bytes", Affects: spec.Nothing, Form: spec.Into(func(f *FilesSink) *int { return &f.Bytes }, spec.Size(1, 1<<30)), Example: "16MiB", Help: "of the keys, values and headers of its records, beyond which it is complete"},
	{Name: "wait", Affects: spec.Nothing, Form: spec.Into(func(f *FilesSink) *time.Duration { return &f.Wait }, spec.Span(time.Second, spec.Day)), Example: "1m", Help: "since the first of its records came, after which it is complete"},
	{Name: "columns", Affects: spec.Nothing, Form: spec.Into(func(f *FilesSink) *[]Field { return &f.Columns }, readFields), Example: "{customer: string, amount: number}",
		Absent: "those of the `emit` steps that write the topic", Help: "of parquet: members of the values and their types; each may be absent"},
}

var httpFields = []spec.Field[HTTPSink]{
	{Name: "url", Affects: spec.Nothing, Required: true, Form: spec.Into(func(h *HTTPSink) *string { return &h.URL }, spec.ReadURL), Example: "https://cards.example.com/freeze"},
	{Name: "method", Affects: spec.Nothing, Form: spec.Into(func(h *HTTPSink) *string { return &h.Method }, spec.Choice[string]("POST", "PUT", "PATCH")), Example: "PUT", Absent: "POST",
		Help: "of the request"},
	{Name: "headers", Affects: spec.Nothing, Form: spec.Into(func(h *HTTPSink) *[]Header { return &h.Headers }, readHeaders),
		Example: "{X-Team: risk}", Absent: "none", Help: "names and values, of every request"},
	{Name: "token", Affects: spec.Nothing, Or: "token_file", Form: spec.Into(func(h *HTTPSink) *string { return &h.Token }, spec.Secret("token_file")), Example: "${CARD_TOKEN}"},
	{Name: "token_file", Affects: spec.Nothing, Form: spec.Into(func(h *HTTPSink) *string { return &h.TokenFile }, spec.ReadPath), Example: "/run/secrets/cards"},
}

var postgresSinkFields = []spec.Field[PostgresSink]{
	{Name: "url", Affects: spec.Nothing, Required: true, Form: spec.Into(func(t *PostgresSink) *string { return &t.URL }, spec.ReadAddress), Example: "${DATABASE_URL}"},
	{Name: "table", Affects: spec.Nothing, Required: true, Form: spec.Into(func(t *PostgresSink) *string { return &t.Table }, spec.ReadName), Example: "artifacts"},
	{Name: "key", Affects: spec.Nothing, Required: true, Form: spec.Into(func(t *PostgresSink) *string { return &t.Key }, spec.ReadName), Example: "id", Help: "the name of the records, of type string or int, that rows are found by"},
	{Name: "columns", Affects: spec.Nothing, Form: spec.Into(func(t *PostgresSink) *[]Column { return &t.Columns },
		spec.Named(func(c *Column) *string { return &c.Name }, spec.Into(func(c *Column) *string { return &c.Column }, spec.ReadName))),
		Example: "{id: id, body: text}", Absent: "every name is written, to the column of its name", Help: "names of the records, each with its column: what is not among them is not written"},
	{Name: "vector", Affects: spec.Nothing, Form: spec.Optional(func(t *PostgresSink) **Vector { return &t.Vector }, spec.MappingOf(vectorFields)),
		Example: "{column: embed_vector, index: hnsw}", Absent: "none", Help: "the column of pgvector's type `vector`; other vectors are of type `real[]`"},
	{Name: "version", Affects: spec.Nothing, Form: spec.Into(func(t *PostgresSink) *string { return &t.Version }, spec.ReadExpression), Example: "revision ?? 0",
		Absent: "a row of another partition than the first one of its key is a dead letter",
		Help:   "an int, number or time, of the names of the records and constants, that says which of two rows of a key is newer, also where their events are of different partitions"},
	{Name: "exactly_once", Affects: spec.Nothing, Form: spec.Into(func(t *PostgresSink) *bool { return &t.ExactlyOnce }, spec.OnlyTrue()), Example: "true",
		Absent: "a row that comes again, and is not newer, changes nothing", Help: "keeps positions in the table `afterbay_positions`, in the transactions of the rows: nothing is written twice, also where rows are deleted meanwhile, and an earlier owner of a partition writes nothing"},
}

var redisSinkFields = []spec.Field[RedisSink]{
	{Name: "url", Affects: spec.Nothing, Required: true, Form: spec.Into(func(k *RedisSink) *string { return &k.URL }, spec.ReadAddress), Example: "redis://cache:6379/0"},
	{Name: "prefix", Affects: spec.Nothing, Form: spec.Into(func(k *RedisSink) *string { return &k.Prefix }, spec.TextOf("a text")), Example: "'artifact:'", Absent: "none"},
	{Name: "key", Affects: spec.Nothing, Required: true, Form: spec.Into(func(k *RedisSink) *string { return &k.Key }, spec.ReadName), Example: "id", Help: "the name of the records, of type string or int, that keys are made of"},
	{Name: "as", Affects: spec.Nothing, Form: spec.Into(func(k *RedisSink) *string { return &k.As }, spec.Choice[string]("hash", "json")), Example: "json", Absent: "hash", Help: "what the value of a key is: a hash, or a JSON text"},
	{Name: "columns", Affects: spec.Nothing, Form: spec.Into(func(k *RedisSink) *[]Column { return &k.Columns },
		spec.Named(func(c *Column) *string { return &c.Name }, spec.Into(func(c *Column) *string { return &c.Column }, spec.ReadName))),
		Example: "{id: id, body: text}", Absent: "every name is written, to the field of its name", Help: "names of the records, each with its field: what is not among them is not written"},
	{Name: "ttl", Affects: spec.Nothing, Form: spec.Into(func(k *RedisSink) *time.Duration { return &k.TTL }, spec.Span(time.Millisecond, 366*spec.Day)), Example: "24h", Absent: "keys stay"},
	{Name: "version", Affects: spec.Nothing, Form: spec.Into(func(k *RedisSink) *string { return &k.Version }, spec.ReadExpression), Example: "updated_at",
		Absent: "a record of another partition than the first one of its key is a dead letter",
		Help:   "an int, number or time, of the names of the records and constants, that says which of two records of a key is newer, also where their events are of different partitions"},
}

var vectorFields = []spec.Field[Vector]{
	{Name: "column", Affects: spec.Nothing, Required: true, Form: spec.Into(func(v *Vector) *string { return &v.Column }, spec.ReadName), Example: "embed_vector"},
	{Name: "index", Affects: spec.Nothing, Form: spec.Into(func(v *Vector) *string { return &v.Index }, spec.Choice[string]("hnsw")), Example: "hnsw", Absent: "none is made",
		Help: "made while rows are written, which it makes many times slower: it is best in a sink of its own"},
	{Name: "distance", Affects: spec.Nothing, Form: spec.Into(func(v *Vector) *string { return &v.Distance }, spec.Choice[string]("cosine", "l2", "inner_product")), Example: "l2", Absent: "cosine", Help: "that the index is for"},
}

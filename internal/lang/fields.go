package lang

import (
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// The fields of a pipeline file, mapping by mapping, in the order of the documentation. A field
// without a form is reserved: it is part of the language but not implemented. The JSON Schema and
// the reference page are made from these tables and from the comments of the struct fields.

var (
	ReadReference   = spec.Reads(rename, spec.ReadName) // the name of a field, a let or a value that a step introduces
	ReadBool        = spec.Reads(expression.Rename, spec.TextOf("an expression of type bool"))
	ReadNames       = spec.ListOf(spec.ReadName)
	ReadBindings    = spec.Named(bindingName, spec.Into(bindingExpr, spec.ReadExpression))
	ReadBindingSet  = spec.AnyOrder(bindingName, ReadBindings)
	ReadFields      = spec.Named(fieldName, spec.Into(fieldType, spec.ReadType))
	ReadEventFields = spec.Named(fieldName, spec.OneOf("write a type, or {path: device.os, type: string}", spec.Scalar, spec.Into(fieldType, spec.ReadType), spec.Mapping, readPathField))
	ReadLate        = spec.Choice[string]("dlq", "drop", "include").Default("dlq")
	readInput       = spec.MappingOf(inputFields)
	ReadRowEnvelope = spec.Choice[envelope.Kind](string(envelope.Debezium))
	readEnvelope    = spec.Choice[envelope.Kind](string(envelope.Debezium), string(envelope.CloudEvents))
	readLayout      = spec.TextOf("a layout such as 2006-01-02 15:04:05")
	readCommand     = spec.Program(spec.ListOf(spec.TextOf("a text")))
	ReadShare       = spec.Span(time.Microsecond, spec.Day)
	ReadSteps       = spec.Form[[]Step]{
		Read: func(r *spec.Reader, n *spec.Node, path string, into *[]Step) { r.Again(r, n, path, into) }, Shape: spec.Shape{Kind: spec.TheSteps},
		Print: func(p *spec.Printer, path string, list *[]Step) { p.Again(p, path, list) },
	}
)

// LatePolicies maps the words of the file to the policies for late events.
var LatePolicies = map[string]operator.LatePolicy{"": operator.LateDead, "dlq": operator.LateDead, "drop": operator.LateDrop, "include": operator.LateInclude}

// rename maps a name with word, unless word is nil or the name is empty.
func rename(name string, word func(name string) string) string {
	if word == nil || name == "" {
		return name
	}
	return word(name)
}

// setOf reads a list in any order: the order has no meaning.
func setOf(f spec.Form[string]) spec.Form[[]string] {
	return spec.AnyOrder(func(text *string) *string { return text }, spec.ListOf(f))
}

// pathField is the long form of a field of an event, with a path.
type pathField struct {
	Path, Type, From string
	Optional         bool
}

var pathFieldFields = []spec.Field[pathField]{
	{Name: "path", Affects: spec.Outputs, Form: spec.Into(func(f *pathField) *string { return &f.Path }, spec.TextOf("a path")), Example: "device.os", Absent: "the name of the field",
		Help: "the path of the value in the record: names with dots between them. A name with other characters is quoted, `'\"user-id\".os'`; `items[0].price` is of the first element of a list, and `items[].price` of all elements, which makes a list such as `number[]`"},
	{Name: "from", Affects: spec.Outputs, Form: spec.Into(func(f *pathField) *string { return &f.From }, spec.Choice[string](FromData, FromEnvelope, FromKey).Default(FromData)), Example: "envelope", Absent: "data",
		Help: "where the value is read from: `data`, the data of the record; `envelope`, such as `op` of Debezium or the attribute `id` of CloudEvents; `key`, the key of the record, a string or an int without a path. The fields of an `each` are always read from the element"},
	{Name: "type", Affects: spec.Outputs, Required: true, Form: spec.Into(func(f *pathField) *string { return &f.Type }, spec.ReadType), Example: "string", Help: "of the value, as in the short form"},
	{Name: "optional", Affects: spec.Outputs, Form: spec.Into(func(f *pathField) *bool { return &f.Optional }, spec.OnlyTrue()), Example: "true", Absent: "the value is always there", Help: "whether the value may be absent. It is absent if the path ends early, or at null"},
}

// readPathField reads the long form of a field. It stores an optional type as the short form does,
// so that both forms have the same fingerprint.
var readPathField = spec.Form[Field]{
	Read: func(r *spec.Reader, n *spec.Node, path string, into *Field) {
		var long pathField
		longField.Read(r, n, path, &long)
		into.Path, into.Type, into.From = long.Path, long.Type, long.From
		if long.Optional && !strings.HasPrefix(long.Type, "optional ") {
			into.Type = "optional " + long.Type
		}
	},
	Print: func(p *spec.Printer, path string, f *Field) {
		if f.Path != "" {
			p.Line(path+".path", f.Path)
		}
		if f.From != "" && f.From != FromData {
			p.Line(path+".from", f.From)
		}
	},
	Shape: longField.Shape,
}

var longField = spec.MappingOf(pathFieldFields)

func constantName(c *spec.Constant) *string { return &c.Name }
func bindingName(b *Binding) *string        { return &b.Name }
func bindingExpr(b *Binding) *string        { return &b.Expr }
func fieldName(f *Field) *string            { return &f.Name }
func fieldType(f *Field) *string            { return &f.Type }

// pipelineFieldsAbove and pipelineFieldsBelow are the fields above and below steps that depend on
// no kind.
var pipelineFieldsAbove = []spec.Field[Pipeline]{
	{Name: "pipeline", Affects: spec.Outputs, Required: true, Form: spec.Into(func(p *Pipeline) *string { return &p.Name }, spec.ReadName),
		Example: "fraud", Help: "its name: also that of the consumer group and of its state"},
	{Name: "input", Affects: spec.State, Required: true, Or: "inputs", Form: spec.Into(func(p *Pipeline) *Input { return &p.Input }, readInput),
		Example: "{topic: payments, key: customer, fields: {customer: string, amount: number}}"},
	{Name: "inputs", Affects: spec.State, Form: spec.Into(func(p *Pipeline) *[]Input { return &p.Inputs }, spec.ListOf(readInput)),
		Example: "[{topic: chats, key: user, fields: {user: string}}, {topic: calls, key: user, fields: {user: string}}]",
		Help:    "several topics, each written like `input`, repartitioned through the topic `<pipeline>.repartition`", Absent: "required, or `input`"},
	{Name: "delivery", Affects: spec.Nothing, Form: spec.Into(func(p *Pipeline) *Delivery { return &p.Delivery },
		spec.Choice[Delivery](string(ExactlyOnce), string(AtLeastOnce), string(AtMostOnce))),
		Example: "at-least-once"},
	{Name: "replies", Affects: spec.Outputs, Form: spec.Into(func(p *Pipeline) *[]string { return &p.Replies }, setOf(spec.TextOf("a topic"))),
		Example: "[decisions]", Absent: "no topic replies to clients", Help: "topics that hold replies to clients of a gateway, or lead to replies. An event of a client that leaves no record in them (it is filtered, or a member of a group) ends in the topic `<pipeline>.ended`"},
	{Name: "commit", Affects: spec.Nothing, Form: spec.Into(func(p *Pipeline) *Commit { return &p.Commit }, spec.MappingOf(commitFields)),
		Example: "{interval: 20ms}", Absent: "as below"},
	{Name: "queue", Affects: spec.Nothing, Form: spec.Into(func(p *Pipeline) *Queue { return &p.Queue }, spec.MappingOf(queueFields)),
		Example: "{max: 2000, high: 1500, low: 500}", Absent: "as below",
		Help: "limits the queued events of a process: they wait for a model that is slow or down, or behind such an event of their key. At `high` queued events the process stops reading, until `low` are left"},
	{Name: "priority", Affects: spec.Nothing, Form: spec.Into(func(p *Pipeline) *Priority { return &p.Priority }, spec.MappingOf(priorityFields)),
		Example: "{high: amount > 1000, low: batch}", Absent: "all events are normal", Help: "which queued events are called for first"},
	{Name: "tenant", Affects: spec.Nothing, Form: spec.Into(func(p *Pipeline) *Tenant { return &p.Tenant }, spec.MappingOf(tenantFields)),
		Example: "{by: merchant, max: 1000}", Absent: "one for all", Help: "the tenants of events: calls for queued events take turns by tenant"},
	{Name: "budget", Affects: spec.Nothing, Form: spec.Into(func(p *Pipeline) *Budget { return &p.Budget }, spec.MappingOf(budgetFields)),
		Example: "{p99: 50ms, model: 25ms}", Absent: "no budget", Help: "how long an event may take, from its append until its outputs are durable. `afterbay budget` compares it with the measured times"},
	{Name: "lag", Affects: spec.Nothing, Form: spec.Into(func(p *Pipeline) *Lag { return &p.Lag }, spec.MappingOf(lagFields)),
		Example: "{warn: 10s, critical: 60s}", Absent: "no bounds"},
	{Name: "dlq", Affects: spec.Nothing, Form: spec.Into(func(p *Pipeline) *DeadLetters { return &p.DeadLetters }, spec.MappingOf(deadLettersFields)),
		Example: "{stop_above: 5%/1m}", Absent: "it never stops"},
	{Name: "engine", Affects: spec.Nothing, // Kinds.forms sets its form, which depends on the kinds of logs
		Example: "kafka://broker-1:9092,broker-2:9092", Absent: "the log of a data directory",
		Help: "the log that `afterbay run` works on, unless `--engine` or `AFTERBAY_ENGINE` names one. One pipeline of a process is enough"},
	{Name: "models", Affects: spec.Outputs, Form: spec.Into(func(p *Pipeline) *[]Model { return &p.Models },
		spec.Named(func(m *Model) *string { return &m.Name }, spec.MappingOf(modelFields))),
		Example: "{fraud: {file: fraud.ubj, version: 3, outputs: {score: number}}}", Help: "the models, by name", Absent: "none"},
	{Name: "constants", Affects: spec.Outputs, Form: spec.Into(func(p *Pipeline) *[]spec.Constant { return &p.Constants },
		spec.AnyOrder(constantName, spec.Named(constantName, spec.ConstantForm()))),
		Example: "{limit: 0.5, region: {US: 0, GB: 1}}", Absent: "none",
		Help: "the constants, by name: a value, or a table that is read as `table[key] ?? otherwise`"},
}

var pipelineFieldsBelow = []spec.Field[Pipeline]{
	{Name: "content", Affects: spec.Outputs, Form: spec.Into(func(p *Pipeline) *Content { return &p.Content }, spec.MappingOf(contentFields)),
		Example: "{hosts: [files.example.com], buckets: [calls]}", Absent: "content from public hosts, by https", Help: "limits of `fetch` steps: allowed sources, and the content that is kept"},
	{Name: "schema_registry", Affects: spec.Nothing, Form: spec.Into(func(p *Pipeline) *Registry { return &p.Registry }, readRegistry), Example: "https://schemas.example.com", Absent: "needed if a format reads or writes by a registry",
		Help: "URL of a schema registry with Confluent's API, or a mapping with its URL and credentials"},
}

var inputFields = []spec.Field[Input]{
	{Name: "topic", Affects: spec.State, Required: true, Form: spec.Into(func(in *Input) *string { return &in.Topic }, spec.ReadName),
		Example: "payments", Help: "the topic that is read"},
	{Name: "partitions", Affects: spec.Nothing, Form: spec.Into(func(in *Input) *int32 { return &in.Partitions }, spec.Whole[int32](1, 1024)),
		Example: "8", Help: "the partitions of the topic, if the engine creates it"},
	{Name: "key", Affects: spec.State, Required: true, Form: spec.Into(func(in *Input) *string { return &in.Key }, ReadReference), Example: "customer",
		Help: "a field of type string or int: events of one key share state and order"},
	{Name: "time", Affects: spec.State, Form: spec.Into(func(in *Input) *EventTime { return &in.Time }, spec.MappingOf(timeFields)),
		Example: "{field: ts, unit: ms, lateness: 5s}", Absent: "the time of the append"},
	{Name: "fields", Affects: spec.Outputs, Required: true, Form: spec.Into(func(in *Input) *[]Field { return &in.Fields }, ReadEventFields),
		Example: "{customer: string, amount: number, country: optional string}"},
	{Name: "format", Affects: spec.Outputs, Form: spec.Into(func(in *Input) *Format { return &in.Format }, readFormat),
		Example: "{avro: payment.avsc}", Absent: "json",
		Help: "how the value of a record is encoded: a name, or a mapping for a format with options. With `schema_registry` it begins with the id of its schema, and the registry says whether it is Avro, Protobuf or JSON. `afterbay produce` and HTTP send each line as it is, so they fit `json`, `csv`, `text` and `raw`"},
	{Name: "envelope", Affects: spec.Outputs, Form: spec.Into(func(in *Input) *envelope.Kind { return &in.Envelope }, readEnvelope),
		Example: "debezium", Absent: "the value of a record is its data",
		Help: "the wrapper around the data. `debezium`: a change event; its data is the row after the change, or before it for a deletion. `cloudevents`: a CloudEvent, as a JSON object or with headers `ce_*`"},
	{Name: "max_bytes", Affects: spec.Outputs, Form: spec.Into(func(in *Input) *int { return &in.MaxBytes }, spec.Size(1, 1<<20).Default(DefaultMaxBytes)), Example: "64KiB"},
	{Name: "dedupe", Affects: spec.Outputs, Form: spec.Optional(func(in *Input) **Dedupe { return &in.Dedupe }, spec.MappingOf(dedupeFields)),
		Example: "{id: tx, window: 24h}",
		Help:    "drops a duplicate: an event whose id is among the last `max` ids of its partition, if the earlier event is less than `window` before the newest event time"},
	{Name: "backlog", Affects: spec.Nothing, Form: spec.Into(func(in *Input) *Backlog { return &in.Backlog }, spec.MappingOf(backlogFields)),
		Example: "{max: 1000000, high: 750000, low: 250000}", Absent: "only the size of the log limits them",
		Help: "how many records of the topic may wait for the pipeline: `POST /v1/topics/{topic}` answers 429 while too many wait"},
	{Name: "repartition", Affects: spec.Outputs, Form: spec.Into(func(in *Input) *int32 { return &in.Repartition }, spec.Whole[int32](1, 1024)),
		Example: "8", Absent: "the topic itself is read; of several inputs 4",
		Help: "for a topic that is written with another key: its events are first copied by `key` to the topic `<pipeline>.repartition`, which has this number of partitions"},
}

var readFormat = spec.OneOf("write json, csv, text, raw, schema_registry, {csv: {columns: [a, b]}}, {avro: <file>} or {protobuf: {file: <file>, message: <name>}}",
	spec.Scalar, spec.Into(func(f *Format) *string { return &f.Name }, spec.Choice[string]("json", FormatCSV, FormatText, FormatRaw, FormatRegistry).Default("json")), spec.Mapping, spec.MappingOf(formatFields))

// ReadRowFormat reads the encoding of the rows of a table.
var ReadRowFormat = spec.OneOf("write json, schema_registry, {avro: <file>} or {protobuf: {file: <file>, message: <name>}}",
	spec.Scalar, spec.Into(func(f *Format) *string { return &f.Name }, spec.Choice[string]("json", FormatRegistry).Default("json")), spec.Mapping, spec.MappingOf(rowFormatFields))

var rowFormatFields = []spec.Field[Format]{
	{Name: "avro", Affects: spec.State, Form: spec.Into(func(f *Format) *string { return &f.Avro }, ReadPinnedFile), Example: "customer.avsc", Absent: "another format",
		Help: "the file of the schema that rows are written with, without a prefix of a registry. Keys are text"},
	{Name: "protobuf", Affects: spec.State, Form: spec.Into(func(f *Format) *Protobuf { return &f.Protobuf }, spec.MappingOf(rowProtobufFields)), Example: "{file: shop.proto, message: shop.Customer}", Absent: "another format",
		Help: "the message type of rows, without a prefix of a registry. Keys are text"},
}

var rowProtobufFields = []spec.Field[Protobuf]{
	{Name: "file", Affects: spec.State, Required: true, Form: spec.Into(func(p *Protobuf) *string { return &p.File }, ReadPinnedFile), Example: "shop.proto", Help: protobufFields[0].Help},
	{Name: "message", Affects: spec.State, Form: spec.Into(func(p *Protobuf) *string { return &p.Message }, spec.ReadName), Example: "shop.Customer", Absent: "the first message of the file", Help: "the full name of the message type"},
}

var readRegistry = spec.OneOf("write https://HOST:PORT or {url: https://HOST:PORT, user: NAME, password: ${NAME}}",
	spec.Scalar, spec.Into(func(r *Registry) *string { return &r.URL }, spec.ReadURL), spec.Mapping, spec.MappingOf(registryFields))

var registryFields = []spec.Field[Registry]{
	{Name: "url", Affects: spec.Nothing, Required: true, Form: spec.Into(func(r *Registry) *string { return &r.URL }, spec.ReadURL), Example: "https://schemas.example.com", Help: "http or https. Credentials need https, except to a loopback address. Redirects are not followed"},
	{Name: "user", Affects: spec.Nothing, Form: spec.Into(func(r *Registry) *string { return &r.User }, spec.TextOf("the name of a user")), Example: "afterbay", Absent: "none", Help: "of basic authentication, with `password`"},
	{Name: "password", Affects: spec.Nothing, Form: spec.Into(func(r *Registry) *string { return &r.Password }, spec.Secret("")), Example: "${REGISTRY_PASSWORD}", Absent: "none", Help: "of `user`"},
	{Name: "token", Affects: spec.Nothing, Or: "token_file", Form: spec.Into(func(r *Registry) *string { return &r.Token }, spec.Secret("token_file")), Example: "${REGISTRY_TOKEN}", Absent: "none", Help: "sent as `Authorization: Bearer`"},
	{Name: "token_file", Affects: spec.Nothing, Form: spec.Into(func(r *Registry) *string { return &r.TokenFile }, spec.ReadPath), Example: "/run/secrets/registry", Absent: "none", Help: "a file of the token, read at each request"},
}

var formatFields = []spec.Field[Format]{
	{Name: "csv", Affects: spec.Outputs, Form: spec.Optional(func(f *Format) **CSV { return &f.CSV }, spec.MappingOf(csvFields)), Example: "{delimiter: ';', columns: [id, name, total]}", Absent: "another format",
		Help: "each event is one line, without a header. `format: csv` alone means commas, double quotes and the fields as columns"},
	{Name: "avro", Affects: spec.Outputs, Form: spec.Into(func(f *Format) *string { return &f.Avro }, spec.ReadPath), Example: "payment.avsc", Absent: "another format",
		Help: "the file of the schema that events are written with, without a prefix of a registry. Fields of the event that `fields` does not name are skipped; unions with null are optional fields"},
	{Name: "protobuf", Affects: spec.Outputs, Form: spec.Into(func(f *Format) *Protobuf { return &f.Protobuf }, spec.MappingOf(protobufFields)), Example: "{file: shop.proto, message: shop.Payment}", Absent: "another format",
		Help: "the message type of events, without a prefix of a registry. Fields without presence that an event does not have are 0, false or empty; others are optional fields"},
}

var csvFields = []spec.Field[CSV]{
	{Name: "delimiter", Affects: spec.Outputs, Form: spec.Into(func(c *CSV) *string { return &c.Delimiter }, spec.TextOf("one character")), Example: "';'", Absent: "a comma", Help: "the separator of columns: one ASCII character, such as `\"\\t\"`"},
	{Name: "quote", Affects: spec.Outputs, Form: spec.Into(func(c *CSV) *string { return &c.Quote }, spec.TextOf("one character, or none")), Example: "none", Absent: "a double quote", Help: "the quote around values with delimiters, quotes or line breaks: one character, or `none`. Within such a value it is doubled"},
	{Name: "columns", Affects: spec.Outputs, Form: spec.Into(func(c *CSV) *[]string { return &c.Columns }, spec.ListOf(spec.TextOf("a column name"))), Example: "[id, name, total]", Absent: "the fields, in their order",
		Help: "the names of all columns. A field reads the column with its name, or with its `path`. Others are skipped"},
}

var protobufFields = []spec.Field[Protobuf]{
	{Name: "file", Affects: spec.Outputs, Required: true, Form: spec.Into(func(p *Protobuf) *string { return &p.File }, spec.ReadPath), Example: "shop.proto",
		Help: "a `.proto` file (its imports are below its folder), or a FileDescriptorSet, as `protoc --include_imports --descriptor_set_out` makes it"},
	{Name: "message", Affects: spec.Outputs, Form: spec.Into(func(p *Protobuf) *string { return &p.Message }, spec.ReadName), Example: "shop.Payment", Absent: "the first message of the file", Help: "the full name of the message type"},
}

var backlogFields = []spec.Field[Backlog]{
	{Name: "max", Affects: spec.Nothing, Required: true, Form: spec.Into(func(b *Backlog) *int { return &b.Max }, spec.Whole[int](1, 1_000_000_000)), Example: "1000000",
		Help: "how many records may wait at most"},
	{Name: "high", Affects: spec.Nothing, Form: spec.Into(func(b *Backlog) *int { return &b.High }, spec.Whole[int](1, 1_000_000_000)), Example: "750000",
		Help: "at this number the server accepts no more, until `low` are left"},
	{Name: "low", Affects: spec.Nothing, Form: spec.Into(func(b *Backlog) *int { return &b.Low }, spec.Whole[int](0, 1_000_000_000)), Example: "250000",
		Help: "at this number the server accepts records again"},
}

var dedupeFields = []spec.Field[Dedupe]{
	{Name: "id", Affects: spec.State, Required: true, Form: spec.Into(func(d *Dedupe) *string { return &d.ID }, ReadReference), Example: "tx", Help: "a field of type string or int"},
	{Name: "window", Affects: spec.Outputs, Form: spec.Into(func(d *Dedupe) *time.Duration { return &d.Window }, spec.Span(time.Second, 366*spec.Day).Default(DefaultDedupeWindow)), Example: "1h",
		Help: "how long an id is remembered, in event time"},
	{Name: "max", Affects: spec.Outputs, Form: spec.Into(func(d *Dedupe) *int { return &d.Max }, spec.Whole[int](1, 40_000_000).Default(DefaultDedupeMax)), Example: "100000"},
}

var timeFields = []spec.Field[EventTime]{
	{Name: "field", Affects: spec.State, Form: spec.Into(func(t *EventTime) *string { return &t.Field }, ReadReference),
		Example: "ts", Help: "the field with the event's time"},
	{Name: "unit", Affects: spec.State, Form: spec.Into(func(t *EventTime) *string { return &t.Unit }, readTimeUnit),
		Example: "ms", Absent: "needed with `field`, without `format`", Help: "how the time is written: s, ms, us or ns since 1970 in a field of type int or number, rfc3339 in one of type time"},
	{Name: "format", Affects: spec.State, Form: spec.Into(func(t *EventTime) *string { return &t.Format }, readLayout), Example: "2006-01-02 15:04:05", Absent: "needed with `field`, without `unit`",
		Help: "how the time is written in a field of type string: a layout, which is how 2 January 2006, 15:04:05 in the zone -0700 stands there. A time without a zone is UTC"},
	{Name: "lateness", Affects: spec.Outputs, Form: spec.Into(func(t *EventTime) *time.Duration { return &t.Lateness }, spec.Span(0, 30*spec.Day)), Example: "5s"},
	{Name: "late", Affects: spec.Outputs, Form: spec.OneOf("write dlq, drop, include or {topic: <name>}",
		spec.Scalar, spec.Into(func(t *EventTime) *string { return &t.Late }, ReadLate), spec.Mapping, spec.MappingOf(lateFields)),
		Example: "{topic: late-payments}", Help: "how to handle an event before the watermark: `dlq` makes a dead letter, `drop` removes it, `include` handles it like other events, a topic gets a record of it. Without `field`, `lateness` and `late`, only records of another pipeline can be late, and none with `repartition` or `inputs`"},
	{Name: "max_ahead", Affects: spec.Outputs, Form: spec.Into(func(t *EventTime) *time.Duration { return &t.MaxAhead }, spec.Span(time.Millisecond, 30*spec.Day).Default(DefaultMaxAhead)), Example: "5m"},
	{Name: "idle", Affects: spec.Outputs, Form: spec.OrWord("never", func(t *EventTime) *bool { return &t.NeverIdle }, spec.Into(func(t *EventTime) *time.Duration { return &t.Idle }, spec.Span(100*time.Millisecond, spec.Day))), Example: "30s", Absent: "only events advance the time; with `repartition` or `inputs` 1s, and 100ms if the time is that of the append",
		Help: "how long a partition may be read to its end and have no event. After that its time follows the clock, this much behind it: groups, timers and windows end without an event, and an event with an older time is late. With `repartition` or `inputs`: how long the events of other partitions wait for that partition; `never` waits without limit"},
	{Name: "order", Affects: spec.State, Form: spec.Into(func(t *EventTime) *string { return &t.Order }, spec.Choice[string]("time", OrderArrival).Default("time")), Example: "arrival", Absent: "time",
		Help: "with `repartition` or `inputs`: the order of events of several partitions. `time` is the order of their event times, the same in every run; `arrival` is the order of their copies, which waits for no other partition"},
	{Name: "wait", Affects: spec.Outputs, Form: spec.Into(func(t *EventTime) *time.Duration { return &t.Wait }, spec.Span(0, 30*spec.Day)), Example: "2s", Absent: "0s",
		Help: "with `repartition` or `inputs`: how long to wait for an event that is out of order in its own partition; at most `lateness`"},
}

// TimeUnits maps the units of numeric times to durations.
var TimeUnits = map[string]time.Duration{"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond, "ns": time.Nanosecond}

var readTimeUnit = spec.Choice[string]("s", "ms", "us", "ns", "rfc3339")

// RowTimeFields are the fields of a RowTime.
var RowTimeFields = []spec.Field[RowTime]{
	{Name: "field", Affects: spec.State, Required: true, Form: spec.Into(func(t *RowTime) *string { return &t.Field }, spec.ReadName), Example: "since", Help: "the field of the row with the time"},
	{Name: "unit", Affects: spec.State, Form: spec.Into(func(t *RowTime) *string { return &t.Unit }, readTimeUnit), Example: "ms", Absent: "needed without `format`", Help: "how the time is written, as in `input.time`"},
	{Name: "format", Affects: spec.State, Form: spec.Into(func(t *RowTime) *string { return &t.Format }, readLayout), Example: "2006-01-02 15:04:05", Absent: "needed without `unit`", Help: "how the time is written in a text: a layout, as in `input.time`"},
}

var lateFields = []spec.Field[EventTime]{
	{Name: "topic", Affects: spec.Outputs, Required: true, Form: spec.Into(func(t *EventTime) *string { return &t.LateTo }, spec.ReadName), Example: "late-payments"},
}

var commitFields = []spec.Field[Commit]{
	{Name: "interval", Affects: spec.Nothing, Form: spec.Into(func(c *Commit) *time.Duration { return &c.Interval }, spec.Span(time.Millisecond, time.Minute)), Example: "20ms"},
	{Name: "size", Affects: spec.Nothing, Form: spec.Into(func(c *Commit) *int { return &c.Size }, spec.Whole[int](1, 1<<20)), Example: "1000"},
}

var deadLettersFields = []spec.Field[DeadLetters]{
	{Name: "stop_above", Affects: spec.Nothing, Required: true, Form: spec.Into(func(d *DeadLetters) *spec.Share { return &d.StopAbove }, spec.ShareForm()), Example: "5%/1m"},
}

var budgetFields = []spec.Field[Budget]{
	{Name: "p99", Affects: spec.Nothing, Required: true, Form: spec.Into(func(b *Budget) *time.Duration { return &b.P99 }, ReadShare), Example: "50ms", Help: "the limit that 99 of 100 events keep"},
	{Name: "queue", Affects: spec.Nothing, Form: spec.Into(func(b *Budget) *time.Duration { return &b.Queue }, ReadShare), Example: "10ms"},
	{Name: "order", Affects: spec.Nothing, Form: spec.Into(func(b *Budget) *time.Duration { return &b.Order }, ReadShare), Example: "20ms", Help: "the wait for other partitions, if events of several partitions are read in the order of their times"},
	{Name: "feature", Affects: spec.Nothing, Form: spec.Into(func(b *Budget) *time.Duration { return &b.Feature }, ReadShare), Example: "5ms"},
	{Name: "model", Affects: spec.Nothing, Form: spec.Into(func(b *Budget) *time.Duration { return &b.Model }, ReadShare), Example: "25ms"},
	{Name: "emit", Affects: spec.Nothing, Form: spec.Into(func(b *Budget) *time.Duration { return &b.Emit }, ReadShare), Example: "1ms"},
	{Name: "commit", Affects: spec.Nothing, Form: spec.Into(func(b *Budget) *time.Duration { return &b.Commit }, ReadShare), Example: "9ms"},
}

const (
	treesMeans  = "for an XGBoost file with early stopping: use all trees, or the trees up to the best iteration"
	treesAbsent = "best if XGBoost's scikit-learn wrapper saved the file, all if a Booster did"
)

var modelFields = []spec.Field[Model]{
	{Name: "file", Affects: spec.Outputs, Required: true, Or: "go|url|process", Form: spec.Into(func(m *Model) *string { return &m.File }, spec.TextOf("the path of a model file")),
		Example: "fraud.ubj", Help: "a model of trees (XGBoost .json or .ubj, LightGBM .txt, CatBoost .json, .onnx), a text model, or the manifest, .yaml, of any model; relative to the pipeline file"},
	{Name: "go", Affects: spec.Outputs, Or: "url|process", Form: spec.Into(func(m *Model) *string { return &m.Go }, spec.ReadName), Example: "tone", Absent: "required, or `file`", Help: "instead of `file`: a model that the program which embeds the library gives"},
	{Name: "version", Affects: spec.Outputs, Required: true, Form: spec.Into(func(m *Model) *int { return &m.Version }, spec.Version()), Example: "3"},
	{Name: "trees", Affects: spec.Outputs, Form: spec.Into(func(m *Model) *string { return &m.Trees }, spec.Choice[string]("all", "best")), Example: "best", Absent: treesAbsent, Help: treesMeans},
	{Name: "outputs", Affects: spec.Outputs, Required: true, Form: spec.Into(func(m *Model) *[]Field { return &m.Outputs }, ReadFields),
		Example: "{score: number}", Help: "the model's outputs, in its order, and their types: number, number[384] for 384 numbers, string or bytes"},
	{Name: "url", Affects: spec.Outputs, Or: "process", Form: spec.Into(func(m *Model) *string { return &m.URL }, spec.PathOf(spec.ReadURL)), Example: "grpc://models:8001/bert", Absent: "required, or `file`",
		Help: "instead of `file`: a model on a server with the Open Inference Protocol, in this `version`. The first score that uses it defines its inputs. Tokens and other APIs need a manifest"},
	{Name: "process", Affects: spec.Outputs, Form: spec.Into(func(m *Model) *[]string { return &m.Process }, readCommand), Example: "[python3, worker.py, asr.py]", Absent: "required, or `file`",
		Help: "instead of `file`: a program that is the model, as one of kind process, and its arguments, run in the folder of the pipeline file"},
	{Name: "call", Affects: spec.Nothing, Form: spec.Optional(func(m *Model) **Calling { return &m.Call }, spec.MappingOf(CallingFields)),
		Example: "{timeout: 3s, attempts: 3, breaker: {failures: 5, probe: 30s, open: queue}}", Absent: "at once, and an error is a dead letter; `{}` for models of kinds remote and process"},
	{Name: "journal", Affects: spec.Nothing, Form: spec.Optional(func(m *Model) **Journal { return &m.Journal },
		ReadJournal),
		Example: "{by: request, price: 0.002}", Absent: "for models of kinds remote and process, the answers for events that are queued",
		Help: "keeps the answers of the model beside the partition, so that a crash or a retry repeats only calls in flight; its scores are `async` then"},
	{Name: "candidates", Affects: spec.Nothing, Form: spec.Into(func(m *Model) *[]Candidate { return &m.Candidates }, spec.ListOf(spec.MappingOf(candidateFields))),
		Example: "[{file: fraud-4.ubj, version: 4, mode: shadow}]", Absent: "none",
		Help: "models that run beside this one, over the same events, with state of their own. A pipeline has at most 4"},
	{Name: "profile", Affects: spec.Nothing, Form: spec.Optional(func(m *Model) **Profile { return &m.Profile }, spec.MappingOf(profileFields)),
		Example: "{file: fraud-3.profile.json, sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}", Absent: "none",
		Help: "the profile of the rows that the model was trained with; its features are those that each score gives the model, by name and type"},
}

var CallingFields = []spec.Field[Calling]{
	{Name: "timeout", Affects: spec.Nothing, Form: spec.OrWord("budget", func(c *Calling) *bool { return &c.Budget }, spec.Into(func(c *Calling) *time.Duration { return &c.Timeout }, spec.Span(time.Millisecond, time.Hour))),
		Example: "10s"},
	{Name: "attempts", Affects: spec.Nothing, Form: spec.Into(func(c *Calling) *int { return &c.Attempts }, spec.Whole[int](1, 1000)), Example: "5"},
	{Name: "backoff", Affects: spec.Nothing, Form: spec.Into(func(c *Calling) *Backoff { return &c.Backoff }, spec.MappingOf(backoffFields)), Example: "{base: 1s, max: 1m}", Absent: "as below"},
	{Name: "concurrency", Affects: spec.Nothing, Form: spec.Into(func(c *Calling) *int { return &c.Concurrency }, spec.Whole[int](1, 4096)), Example: "4"},
	{Name: "start", Affects: spec.Nothing, Form: spec.Into(func(c *Calling) *int { return &c.Start }, spec.Whole[int](1, 4096)), Example: "16"},
	{Name: "expire", Affects: spec.Nothing, Form: spec.Into(func(c *Calling) *time.Duration { return &c.Expire }, spec.Span(time.Millisecond, 366*spec.Day)), Example: "24h"},
	{Name: "breaker", Affects: spec.Nothing, Form: spec.Into(func(c *Calling) *Breaker { return &c.Breaker }, spec.MappingOf(breakerFields)), Example: "{failures: 5, probe: 30s, open: queue}", Absent: "as below"},
}

var ReadJournal = spec.OneOf("write true, false or {by: ...}", spec.Scalar, spec.Into(func(j *Journal) *bool { return &j.Off }, spec.Not()), spec.Mapping, spec.MappingOf(journalFields))

var journalFields = []spec.Field[Journal]{
	{Name: "by", Affects: spec.Nothing, Form: spec.Into(func(j *Journal) *string { return &j.By }, spec.Choice[string]("request", "event")), Example: "event",
		Help: "`request`: events with equal requests share an answer. `event`: each event has its own answer", Absent: "event for chat, transcriptions and lookups, request for others"},
	{Name: "retention", Affects: spec.Nothing, Form: spec.Into(func(j *Journal) *time.Duration { return &j.Retention }, spec.Span(time.Minute, 366*spec.Day)), Example: "30d"},
	{Name: "max", Affects: spec.Nothing, Form: spec.Into(func(j *Journal) *int { return &j.Max }, spec.Size(2<<20, 1<<40)), Example: "1GiB"},
	{Name: "price", Affects: spec.Nothing, Form: spec.Into(func(j *Journal) *float64 { return &j.Price }, spec.Number()), Example: "0.002"},
}

var backoffFields = []spec.Field[Backoff]{
	{Name: "base", Affects: spec.Nothing, Form: spec.Into(func(b *Backoff) *time.Duration { return &b.Base }, spec.Span(time.Millisecond, time.Hour)), Example: "1s"},
	{Name: "max", Affects: spec.Nothing, Form: spec.Into(func(b *Backoff) *time.Duration { return &b.Max }, spec.Span(time.Millisecond, spec.Day)), Example: "1m"},
}

var breakerFields = []spec.Field[Breaker]{
	{Name: "failures", Affects: spec.Nothing, Form: spec.Into(func(b *Breaker) *int { return &b.Failures }, spec.Whole[int](1, 1000)), Example: "5"},
	{Name: "rate", Affects: spec.Nothing, Form: spec.Into(func(b *Breaker) *float64 { return &b.Rate }, spec.Fraction()), Example: "0.2"},
	{Name: "probe", Affects: spec.Nothing, Form: spec.Into(func(b *Breaker) *time.Duration { return &b.Probe }, spec.Span(time.Millisecond, time.Hour)), Example: "10s"},
	{Name: "open", Affects: spec.Nothing, Form: spec.Into(func(b *Breaker) *string { return &b.Open }, spec.Choice[string]("pause", "queue", "fallback")), Example: "queue",
		Help: "the effect of an open breaker: `pause` stops reading, `queue` puts events into the async queue, `fallback` uses the score's `fallback` and marks the outputs"},
}

var queueFields = []spec.Field[Queue]{
	{Name: "max", Affects: spec.Nothing, Form: spec.Into(func(p *Queue) *int { return &p.Max }, spec.Whole[int](1, 10_000_000)), Example: "100000"},
	{Name: "high", Affects: spec.Nothing, Form: spec.Into(func(p *Queue) *int { return &p.High }, spec.Whole[int](1, 10_000_000)), Example: "75000",
		Help: "at this number the process stops reading, until `low` are left"},
	{Name: "low", Affects: spec.Nothing, Form: spec.Into(func(p *Queue) *int { return &p.Low }, spec.Whole[int](0, 10_000_000)), Example: "25000",
		Help: "at this number the process reads again"},
}

var priorityFields = []spec.Field[Priority]{
	{Name: "high", Affects: spec.Nothing, Form: spec.Into(func(p *Priority) *string { return &p.High }, ReadBool), Example: "amount > 1000", Absent: "none",
		Help: "a condition for events: it may use fields of events and constants"},
	{Name: "low", Affects: spec.Nothing, Form: spec.Into(func(p *Priority) *string { return &p.Low }, ReadBool), Example: "batch", Absent: "none"},
	{Name: "weights", Affects: spec.Nothing, Form: spec.Into(func(p *Priority) *[]int { return &p.Weights }, spec.ListOf(spec.Whole[int](1, 1000))), Example: "[16, 4, 1]", Absent: "[8, 4, 1]"},
	{Name: "age", Affects: spec.Nothing, Form: spec.Into(func(p *Priority) *time.Duration { return &p.Age }, spec.Span(time.Millisecond, spec.Day)), Example: "1s"},
}

var tenantFields = []spec.Field[Tenant]{
	{Name: "by", Affects: spec.Nothing, Required: true, Form: spec.Into(func(t *Tenant) *string { return &t.By }, spec.ReadExpression), Example: "merchant",
		Help: "the tenant of an event, as a text: the expression may use fields of events and constants"},
	{Name: "max", Affects: spec.Nothing, Form: spec.Into(func(t *Tenant) *int { return &t.Max }, spec.Whole[int](1, 10_000_000)), Example: "1000",
		Help: "how many events of a tenant may wait. Further events are given up like failed scores: `on_failure`, or a dead letter"},
}

// PrintAgain prints a list of steps inside a step.
func PrintAgain(p *spec.Printer, path string, values any) {
	spec.ListOf(printedStep).Print(p, path, values.(*[]Step))
}

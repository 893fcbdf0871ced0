package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/afterbay/afterbay"
)

// What the pipeline file may say, mapping by mapping, in the order of the
// documentation. A word without a form is part of the language but not built.
// The JSON Schema and the reference page are made from these tables and the
// comments of the fields that the words set.

var (
	readName       = textOf("a name")
	readExpression = textOf("an expression")
	readBool       = textOf("an expression of type bool")
	readType       = textOf("a type such as string, int, number or optional string")
	readNames      = listOf(readName)
	readBindings   = named(bindingName, field(bindingExpr, readExpression))
	readFields     = named(fieldName, field(fieldType, readType))
	readLate       = choice[string]("dlq", "drop", "include")
	readInput      = words(inputWords)
	readLayout     = textOf("a layout such as 2006-01-02 15:04:05")
	readURL        = textOf("a URL")
	readHeader     = textOf("the value of a header")
	readShare      = span(time.Microsecond, day)
	readPath       = textOf("the path of a file")
	readSteps      = form[[]afterbay.Step]{
		func(r *reader, n *node, path string, into *[]afterbay.Step) { r.again(r, n, path, into) }, shape{kind: theSteps},
	}
)

func bindingName(b *afterbay.Binding) *string { return &b.Name }
func bindingExpr(b *afterbay.Binding) *string { return &b.Expr }
func fieldName(f *afterbay.Field) *string     { return &f.Name }
func fieldType(f *afterbay.Field) *string     { return &f.Type }

var pipelineWords = []word[afterbay.Pipeline]{
	{name: "pipeline", required: true, form: field(func(p *afterbay.Pipeline) *string { return &p.Name }, readName),
		example: "fraud", means: "its name: also that of the consumer group and of its state"},
	{name: "input", required: true, or: "inputs", form: field(func(p *afterbay.Pipeline) *afterbay.Input { return &p.Input }, readInput),
		example: "{topic: payments, key: customer, fields: {customer: string, amount: number}}"},
	{name: "inputs", form: field(func(p *afterbay.Pipeline) *[]afterbay.Input { return &p.Inputs }, listOf(readInput)),
		example: "[{topic: chats, key: user, fields: {user: string}}, {topic: calls, key: user, fields: {user: string}}]",
		means:   "several topics, each written like `input`, merged through the topic `<pipeline>.merged`", absent: "required, or `input`"},
	{name: "delivery", form: field(func(p *afterbay.Pipeline) *afterbay.Delivery { return &p.Delivery },
		choice[afterbay.Delivery](string(afterbay.ExactlyOnce), string(afterbay.AtLeastOnce), string(afterbay.AtMostOnce))),
		example: "at-least-once"},
	{name: "answers", form: field(func(p *afterbay.Pipeline) *[]string { return &p.Answers }, listOf(textOf("a topic"))),
		example: "[decisions]", absent: "nothing is for clients", means: "topics by which events that clients sent by a gateway are answered, or go on: one that leaves no record in them, since it is filtered or a member of a group, ends in the topic `<pipeline>.ended`"},
	{name: "commit", form: field(func(p *afterbay.Pipeline) *afterbay.Commit { return &p.Commit }, words(commitWords)),
		example: "{interval: 20ms}", absent: "as below"},
	{name: "queue", form: field(func(p *afterbay.Pipeline) *afterbay.Queue { return &p.Queue }, words(queueWords)),
		example: "{max: 2000, high: 1500, low: 500}", absent: "as below",
		means: "bounds the events of a process that wait off the loop: for a model that is slow or down, or behind an event of their key that does; at `high` of them nothing more is read, until there are `low`"},
	{name: "priority", form: field(func(p *afterbay.Pipeline) *afterbay.Priority { return &p.Priority }, words(priorityWords)),
		example: "{high: amount > 1000, low: batch}", absent: "all events are normal", means: "which of the events that wait off the loop are called for first"},
	{name: "tenant", form: field(func(p *afterbay.Pipeline) *afterbay.Tenant { return &p.Tenant }, words(tenantWords)),
		example: "{by: merchant, max: 1000}", absent: "one for all", means: "whose events are: those that wait off the loop are called for in turns of their tenants"},
	{name: "budget", form: field(func(p *afterbay.Pipeline) *afterbay.Budget { return &p.Budget }, words(budgetWords)),
		example: "{p99: 50ms, model: 25ms}", absent: "no budget", means: "how long an event may take, from its append until its outputs are durable: `afterbay budget` compares"},
	{name: "lag", form: field(func(p *afterbay.Pipeline) *afterbay.Lag { return &p.Lag }, words(lagWords)),
		example: "{warn: 10s, critical: 60s}", absent: "no bounds"},
	{name: "dlq", form: field(func(p *afterbay.Pipeline) *afterbay.DeadLetters { return &p.DeadLetters }, words(deadLettersWords)),
		example: "{abort_above: 5%/1m}", absent: "it never stops"},
	{name: "engine", form: field(func(p *afterbay.Pipeline) *afterbay.Engine { return &p.Engine }, readEngine),
		example: "kafka://broker-1:9092,broker-2:9092", absent: "the log of a data directory",
		means: "the log that `afterbay run` works on, unless `--engine` or `AFTERBAY_ENGINE` names one; once is enough where several pipelines run in one process"},
	{name: "models", form: field(func(p *afterbay.Pipeline) *[]afterbay.Model { return &p.Models },
		named(func(m *afterbay.Model) *string { return &m.Name }, words(modelWords))),
		example: "{fraud: {file: fraud.ubj, version: 3, outputs: {score: number}}}", means: "names, each of a model", absent: "none"},
	{name: "constants", form: field(func(p *afterbay.Pipeline) *[]afterbay.Constant { return &p.Constants },
		named(func(c *afterbay.Constant) *string { return &c.Name }, constant())),
		example: "{limit: 0.5, region: {US: 0, GB: 1}}", absent: "none",
		means: "names, each of a value, or of a table that is read as `table[key] ?? otherwise`"},
	{name: "steps", required: true, form: field(func(p *afterbay.Pipeline) *[]afterbay.Step { return &p.Steps }, listOf(step())),
		example: "[emit: {topic: decisions, value: [customer, amount]}]", means: "what happens to an event, in this order"},
	{name: "objects", form: field(func(p *afterbay.Pipeline) *afterbay.Objects { return &p.Objects }, words(objectsWords)),
		example: "{hosts: [files.example.com], buckets: [calls]}", absent: "content from public hosts, by https", means: "what `fetch` steps may fetch, and what is kept of it"},
	{name: "sinks", form: field(func(p *afterbay.Pipeline) *[]afterbay.Sink { return &p.Sinks }, listOf(words(sinkWords))),
		example: "[{from: freezes, http: {url: 'https://cards.example.com/freeze'}}]", absent: "none",
		means: "services that get the records of topics, from `afterbay run`, each record until the service took it"},
}

var inputWords = []word[afterbay.Input]{
	{name: "topic", required: true, form: field(func(in *afterbay.Input) *string { return &in.Topic }, readName),
		example: "payments", means: "the topic that is read"},
	{name: "partitions", form: field(func(in *afterbay.Input) *int32 { return &in.Partitions }, whole[int32](1, 1024)),
		example: "8", means: "partitions of the topic, where it has to be created"},
	{name: "key", required: true, form: field(func(in *afterbay.Input) *string { return &in.Key }, readName), example: "customer",
		means: "a field of type string or int: events of one key share state and order"},
	{name: "time", form: field(func(in *afterbay.Input) *afterbay.EventTime { return &in.Time }, words(timeWords)),
		example: "{field: ts, unit: ms, lateness: 5s}", absent: "the time of the append"},
	{name: "fields", required: true, form: field(func(in *afterbay.Input) *[]afterbay.Field { return &in.Fields }, readFields),
		example: "{customer: string, amount: number, country: optional string}"},
	{name: "max_bytes", form: field(func(in *afterbay.Input) *int { return &in.MaxBytes }, size(1, 1<<20)), example: "64KiB"},
	{name: "dedupe", form: optional(func(in *afterbay.Input) **afterbay.Dedupe { return &in.Dedupe }, words(dedupeWords)),
		example: "{id: tx, window: 24h}",
		means:   "drops an event if its id is among the last `max` ids that arrived in its partition and the event with that id is less than `window` before the newest event time"},
	{name: "backlog", form: field(func(in *afterbay.Input) *afterbay.Backlog { return &in.Backlog }, words(backlogWords)),
		example: "{max: 1000000, high: 750000, low: 250000}", absent: "only the size of the log limits them",
		means: "the records of the topic that may wait for the pipeline: `POST /v1/topics/{topic}` answers 429 while there are too many"},
	{name: "repartition", form: field(func(in *afterbay.Input) *int32 { return &in.Repartition }, whole[int32](1, 1024)),
		example: "8", absent: "the topic itself is read; of several inputs 4",
		means: "where the topic is written with another key: its events are first copied to the topic `<pipeline>.merged`, of so many partitions, by `key`"},
}

var backlogWords = []word[afterbay.Backlog]{
	{name: "max", required: true, form: field(func(b *afterbay.Backlog) *int { return &b.Max }, whole[int](1, 1_000_000_000)), example: "1000000",
		means: "most that may wait"},
	{name: "high", form: field(func(b *afterbay.Backlog) *int { return &b.High }, whole[int](1, 1_000_000_000)), example: "750000",
		means: "from here on no more are taken, until there are as few as `low`"},
	{name: "low", form: field(func(b *afterbay.Backlog) *int { return &b.Low }, whole[int](0, 1_000_000_000)), example: "250000",
		means: "as few as are to be left before more are taken"},
}

var dedupeWords = []word[afterbay.Dedupe]{
	{name: "id", required: true, form: field(func(d *afterbay.Dedupe) *string { return &d.ID }, readName), example: "tx", means: "a field of type string or int"},
	{name: "window", form: field(func(d *afterbay.Dedupe) *time.Duration { return &d.Window }, span(time.Second, 366*day)), example: "1h",
		means: "how long an id is remembered, in event time"},
	{name: "max", form: field(func(d *afterbay.Dedupe) *int { return &d.Max }, whole[int](1, 40_000_000)), example: "100000"},
}

var timeWords = []word[afterbay.EventTime]{
	{name: "field", form: field(func(t *afterbay.EventTime) *string { return &t.Field }, readName),
		example: "ts", means: "the field with the event's time"},
	{name: "unit", form: field(func(t *afterbay.EventTime) *string { return &t.Unit }, choice[string]("s", "ms", "us", "ns", "rfc3339")),
		example: "ms", absent: "needed with `field`, without `format`", means: "how the time is written: s, ms, us or ns since 1970 in a field of type int or number, rfc3339 in one of type time"},
	{name: "format", form: field(func(t *afterbay.EventTime) *string { return &t.Format }, readLayout), example: "2006-01-02 15:04:05", absent: "needed with `field`, without `unit`",
		means: "how the time is written in a field of type string: a layout, which is how 2 January 2006, 15:04:05 in the zone -0700 stands there. A time without a zone is UTC"},
	{name: "lateness", form: field(func(t *afterbay.EventTime) *time.Duration { return &t.Lateness }, span(0, 30*day)), example: "5s"},
	{name: "late", form: oneOf("write dlq, drop, include or {topic: <name>}",
		scalar, field(func(t *afterbay.EventTime) *string { return &t.Late }, readLate), mapping, words(lateWords)),
		example: "{topic: late-payments}", means: "what becomes of an event before the watermark: a dead letter, nothing, an event like others, or a record of another topic; of a topic that is read without `field`, `lateness` and `late` only what another pipeline wrote can be late, and nothing where it is copied by `repartition` or with other topics"},
	{name: "max_ahead", form: field(func(t *afterbay.EventTime) *time.Duration { return &t.MaxAhead }, span(time.Millisecond, 30*day)), example: "5m"},
	{name: "idle", form: field(func(t *afterbay.EventTime) *time.Duration { return &t.Idle }, span(100*time.Millisecond, day)), example: "30s", absent: "time moves with the events alone",
		means: "how long a partition stands at its end without an event before its time goes on with the clock, by so much: groups, timers and windows end though no event comes, and what comes with an older time than that is late"},
}

var lateWords = []word[afterbay.EventTime]{
	{name: "topic", required: true, form: field(func(t *afterbay.EventTime) *string { return &t.LateTo }, readName), example: "late-payments"},
}

var commitWords = []word[afterbay.Commit]{
	{name: "interval", form: field(func(c *afterbay.Commit) *time.Duration { return &c.Interval }, span(time.Millisecond, time.Minute)), example: "20ms"},
	{name: "size", form: field(func(c *afterbay.Commit) *int { return &c.Size }, whole[int](1, 1<<20)), example: "1000"},
}

var lagWords = []word[afterbay.Lag]{
	{name: "warn", form: field(func(l *afterbay.Lag) *time.Duration { return &l.Warn }, span(time.Second, 30*day)), example: "10s"},
	{name: "critical", form: field(func(l *afterbay.Lag) *time.Duration { return &l.Critical }, span(time.Second, 30*day)), example: "60s"},
}

var deadLettersWords = []word[afterbay.DeadLetters]{
	{name: "abort_above", required: true, form: field(func(d *afterbay.DeadLetters) *afterbay.Share { return &d.AbortAbove }, share()), example: "5%/1m"},
}

var budgetWords = []word[afterbay.Budget]{
	{name: "p99", required: true, form: field(func(b *afterbay.Budget) *time.Duration { return &b.P99 }, readShare), example: "50ms", means: "what 99 of 100 events keep"},
	{name: "queue", form: field(func(b *afterbay.Budget) *time.Duration { return &b.Queue }, readShare), example: "10ms"},
	{name: "feature", form: field(func(b *afterbay.Budget) *time.Duration { return &b.Feature }, readShare), example: "5ms"},
	{name: "model", form: field(func(b *afterbay.Budget) *time.Duration { return &b.Model }, readShare), example: "25ms"},
	{name: "emit", form: field(func(b *afterbay.Budget) *time.Duration { return &b.Emit }, readShare), example: "1ms"},
	{name: "commit", form: field(func(b *afterbay.Budget) *time.Duration { return &b.Commit }, readShare), example: "9ms"},
}

var readEngine = oneOf("write kafka://HOST:PORT, or `{url: ...}`", scalar, field(engineURL, readURL), mapping, words(engineWords))

func engineURL(e *afterbay.Engine) *string { return &e.URL }

var engineWords = []word[afterbay.Engine]{
	{name: "url", required: true, form: field(engineURL, readURL), example: "kafka+tls://broker-1:9093"},
	{name: "ca", form: field(func(e *afterbay.Engine) *string { return &e.CA }, readPath), example: "ca.pem"},
	{name: "cert", form: field(func(e *afterbay.Engine) *string { return &e.Cert }, readPath), example: "client.pem"},
	{name: "key", form: field(func(e *afterbay.Engine) *string { return &e.Key }, readPath), example: "client.key"},
	{name: "sasl", form: field(func(e *afterbay.Engine) *string { return &e.SASL }, choice[string]("plain", "scram-sha-256", "scram-sha-512", "oauthbearer")),
		example: "scram-sha-512", means: "how to say who is there"},
	{name: "user", form: field(func(e *afterbay.Engine) *string { return &e.User }, readName), example: "fraud"},
	{name: "password", or: "password_file", form: field(func(e *afterbay.Engine) *string { return &e.Password }, secret("password_file")), example: "${KAFKA_PASSWORD}"},
	{name: "password_file", form: field(func(e *afterbay.Engine) *string { return &e.PasswordFile }, readPath), example: "/run/secrets/kafka"},
	{name: "token", or: "token_file", form: field(func(e *afterbay.Engine) *string { return &e.Token }, secret("token_file")), example: "${KAFKA_TOKEN}"},
	{name: "token_file", or: "token_url", form: field(func(e *afterbay.Engine) *string { return &e.TokenFile }, readPath), example: "/run/secrets/token"},
	{name: "token_url", or: "token", form: field(func(e *afterbay.Engine) *string { return &e.TokenURL }, readURL), example: "https://login.example.com/oauth2/token"},
	{name: "scope", form: field(func(e *afterbay.Engine) *string { return &e.Scope }, readName), example: "kafka"},
	{name: "client_id", form: field(func(e *afterbay.Engine) *string { return &e.ClientID }, readName), example: "fraud-1"},
	{name: "rack", form: field(func(e *afterbay.Engine) *string { return &e.Rack }, readName), example: "eu-west-1a"},
	{name: "groups", form: field(func(e *afterbay.Engine) *string { return &e.Groups }, choice[string]("classic", "server")), example: "server",
		means: "who assigns partitions: the members (classic), or the brokers (server: KIP-848, Kafka 4.0)"},
	{name: "replication", form: field(func(e *afterbay.Engine) *int { return &e.Replication }, whole[int](1, 1<<15-1)), example: "3"},
}

const (
	treesMeans  = "of a file of XGBoost that stopped early: which trees count, all or those up to the best iteration"
	treesAbsent = "best if XGBoost's scikit-learn wrapper saved the file, all if a Booster did"
)

var modelWords = []word[afterbay.Model]{
	{name: "file", required: true, or: "go|url|process", form: field(func(m *afterbay.Model) *string { return &m.File }, textOf("the path of a model file")),
		example: "fraud.ubj", means: "a model of trees (XGBoost .json or .ubj, LightGBM .txt, CatBoost .json, .onnx), a text model, or the manifest, .yaml, of any model; relative to the pipeline file"},
	{name: "go", or: "url|process", form: field(func(m *afterbay.Model) *string { return &m.Go }, readName), example: "tone", absent: "required, or `file`", means: "instead of `file`: a model that the program which embeds the library gives"},
	{name: "version", required: true, form: field(func(m *afterbay.Model) *int { return &m.Version }, version()), example: "3"},
	{name: "trees", form: field(func(m *afterbay.Model) *string { return &m.Trees }, choice[string]("all", "best")), example: "best", absent: treesAbsent, means: treesMeans},
	{name: "outputs", required: true, form: field(func(m *afterbay.Model) *[]afterbay.Field { return &m.Outputs }, readFields),
		example: "{score: number}", means: "the model's outputs, in its order, and their types: number, number[384] for so many, string or bytes"},
	{name: "url", or: "process", form: field(func(m *afterbay.Model) *string { return &m.URL }, readURL), example: "grpc://models:8001/bert", absent: "required, or `file`",
		means: "instead of `file`: a model on a server of the Open Inference Protocol, of this `version` there; its inputs are what the first score that uses it gives. Tokens, other APIs and the like take a manifest"},
	{name: "process", form: field(func(m *afterbay.Model) *[]string { return &m.Process }, listOf(textOf("a text"))), example: "[python3, worker.py, asr.py]", absent: "required, or `file`",
		means: "instead of `file`: a program that is the model, as one of kind process, and its arguments, run in the folder of the pipeline file"},
	{name: "call", form: optional(func(m *afterbay.Model) **afterbay.Calling { return &m.Call }, words(callingWords)),
		example: "{timeout: 3s, attempts: 3, breaker: {failures: 5, probe: 30s, open: park}}", absent: "at once, and an error is a dead letter; `{}` for models of kinds remote and process"},
	{name: "journal", form: optional(func(m *afterbay.Model) **afterbay.Journal { return &m.Journal },
		readJournal),
		example: "{by: request, price: 0.002}", absent: "for models of kinds remote and process, the answers for events that are parked",
		means: "keeps the answers of the model beside the partition, so that a crash or a retry asks again only for what was under way; its scores are `async` then"},
}

var callingWords = []word[afterbay.Calling]{
	{name: "timeout", form: orWord("budget", func(c *afterbay.Calling) *bool { return &c.Budget }, field(func(c *afterbay.Calling) *time.Duration { return &c.Timeout }, span(time.Millisecond, time.Hour))),
		example: "10s"},
	{name: "attempts", form: field(func(c *afterbay.Calling) *int { return &c.Attempts }, whole[int](1, 1000)), example: "5"},
	{name: "backoff", form: field(func(c *afterbay.Calling) *afterbay.Backoff { return &c.Backoff }, words(backoffWords)), example: "{base: 1s, max: 1m}", absent: "as below"},
	{name: "concurrency", form: field(func(c *afterbay.Calling) *int { return &c.Concurrency }, whole[int](1, 4096)), example: "4"},
	{name: "start", form: field(func(c *afterbay.Calling) *int { return &c.Start }, whole[int](1, 4096)), example: "16"},
	{name: "expire", form: field(func(c *afterbay.Calling) *time.Duration { return &c.Expire }, span(time.Millisecond, 366*day)), example: "24h"},
	{name: "breaker", form: field(func(c *afterbay.Calling) *afterbay.Breaker { return &c.Breaker }, words(breakerWords)), example: "{failures: 5, probe: 30s, open: park}", absent: "as below"},
}

var readJournal = oneOf("write true, false or {by: ...}", scalar, field(func(j *afterbay.Journal) *bool { return &j.Off }, not()), mapping, words(journalWords))

var journalWords = []word[afterbay.Journal]{
	{name: "by", form: field(func(j *afterbay.Journal) *string { return &j.By }, choice[string]("request", "event")), example: "event",
		means: "request, where events that ask the same share an answer, or event, where each has its own", absent: "event for chat, transcriptions and lookups, request for others"},
	{name: "keep", form: field(func(j *afterbay.Journal) *time.Duration { return &j.Keep }, span(time.Minute, 366*day)), example: "30d"},
	{name: "max", form: field(func(j *afterbay.Journal) *int { return &j.Max }, size(2<<20, 1<<40)), example: "1GiB"},
	{name: "price", form: field(func(j *afterbay.Journal) *float64 { return &j.Price }, number()), example: "0.002"},
}

var backoffWords = []word[afterbay.Backoff]{
	{name: "base", form: field(func(b *afterbay.Backoff) *time.Duration { return &b.Base }, span(time.Millisecond, time.Hour)), example: "1s"},
	{name: "max", form: field(func(b *afterbay.Backoff) *time.Duration { return &b.Max }, span(time.Millisecond, day)), example: "1m"},
}

var breakerWords = []word[afterbay.Breaker]{
	{name: "failures", form: field(func(b *afterbay.Breaker) *int { return &b.Failures }, whole[int](1, 1000)), example: "5"},
	{name: "rate", form: field(func(b *afterbay.Breaker) *float64 { return &b.Rate }, fraction()), example: "0.2"},
	{name: "probe", form: field(func(b *afterbay.Breaker) *time.Duration { return &b.Probe }, span(time.Millisecond, time.Hour)), example: "10s"},
	{name: "open", form: field(func(b *afterbay.Breaker) *string { return &b.Open }, choice[string]("pause", "park", "fallback")), example: "park",
		means: "what happens meanwhile: nothing is read, events are parked, or scores are their `fallback`, which outputs are marked with"},
}

var queueWords = []word[afterbay.Queue]{
	{name: "max", form: field(func(p *afterbay.Queue) *int { return &p.Max }, whole[int](1, 10_000_000)), example: "100000"},
	{name: "high", form: field(func(p *afterbay.Queue) *int { return &p.High }, whole[int](1, 10_000_000)), example: "75000",
		means: "from here on nothing is read, until there are as few as `low`"},
	{name: "low", form: field(func(p *afterbay.Queue) *int { return &p.Low }, whole[int](0, 10_000_000)), example: "25000",
		means: "as few as are to be left before it is read on"},
}

var priorityWords = []word[afterbay.Priority]{
	{name: "high", form: field(func(p *afterbay.Priority) *string { return &p.High }, readBool), example: "amount > 1000", absent: "none",
		means: "which events are: over what is read of events and constants"},
	{name: "low", form: field(func(p *afterbay.Priority) *string { return &p.Low }, readBool), example: "batch", absent: "none"},
	{name: "weights", form: field(func(p *afterbay.Priority) *[]int { return &p.Weights }, listOf(whole[int](1, 1000))), example: "[16, 4, 1]", absent: "[8, 4, 1]"},
	{name: "age", form: field(func(p *afterbay.Priority) *time.Duration { return &p.Age }, span(time.Millisecond, day)), example: "1s"},
}

var tenantWords = []word[afterbay.Tenant]{
	{name: "by", required: true, form: field(func(t *afterbay.Tenant) *string { return &t.By }, readExpression), example: "merchant",
		means: "whose an event is, a text: an expression over what is read of events and constants"},
	{name: "max", form: field(func(t *afterbay.Tenant) *int { return &t.Max }, whole[int](1, 10_000_000)), example: "1000",
		means: "events of a tenant that may wait; the next ones are given up as if their score had failed: `on_failure`, or a dead letter"},
}

var stepWords = []word[afterbay.Step]{
	{name: "let", form: field(func(s *afterbay.Step) *[]afterbay.Binding { return &s.Let }, readBindings),
		example: `{large: "amount > 100"}`, means: "names, each the value of an expression"},
	{name: "features", form: field(func(s *afterbay.Step) *[]afterbay.Feature { return &s.Features },
		named(func(f *afterbay.Feature) *string { return &f.Name }, words(featureWords))),
		example: "{spend: {value: amount, windows: [60s, 24h], aggregates: [count, sum]}}", means: "names, each a feature of the event's key"},
	{name: "lookup", form: optional(func(s *afterbay.Step) **afterbay.Lookup { return &s.Lookup }, words(lookupWords)),
		example: "{name: profile, table: users, key: user, fields: {trusted: bool}, empty: {trusted: false}}"},
	{name: "score", form: optional(func(s *afterbay.Step) **afterbay.Score { return &s.Score }, words(scoreWords)),
		example: "{model: fraud, inputs: [spend.*, amount]}"},
	{name: "call", form: optional(func(s *afterbay.Step) **afterbay.Call { return &s.Call }, words(callWords)),
		example: "{go: language, inputs: [text], outputs: {lang: string}}"},
	{name: "route", form: field(func(s *afterbay.Step) *[]afterbay.Case { return &s.Route }, route()),
		example: "{small: {when: amount < 10, steps: drop}, default: dlq}",
		means:   "cases: an event takes the first whose condition holds, and what no case takes goes to the last, `default`"},
	{name: "group", form: optional(func(s *afterbay.Step) **afterbay.Group { return &s.Group }, words(groupWords)),
		example: "{name: parts, by: call, order: part, end: last, idle: 60s}", means: "events that are collected until they are whole, and go on as one"},
	{name: "decide", form: field(func(s *afterbay.Step) *[]afterbay.Binding { return &s.Decide }, readBindings),
		example: `{action: 'fraud.score > 0.9 ? "block" : "allow"'}`, means: "like `let`; the names are what `emit` writes where it does not say what"},
	{name: "emit", form: optional(func(s *afterbay.Step) **afterbay.Emit { return &s.Emit }, words(emitWords)),
		example: "{topic: decisions, value: [tx, fraud.score, action]}"},
	{name: "fetch", form: optional(func(s *afterbay.Step) **afterbay.Fetch { return &s.Fetch }, words(fetchWords)),
		example: "{name: shot, url: url, max: 10MB}"},
}

const oneShape = "one of `windows`, `last` and `elapsed` is required"

var featureWords = []word[afterbay.Feature]{
	{name: "value", form: field(func(f *afterbay.Feature) *string { return &f.Value }, readExpression),
		example: "amount", means: "what is aggregated, of type number or int"},
	{name: "when", form: field(func(f *afterbay.Feature) *string { return &f.When }, readBool), example: "amount > 0", means: "which events count"},
	{name: "windows", form: field(func(f *afterbay.Feature) *[]string { return &f.Windows }, listOf(window())),
		example: "[60s, 24h/1h]", absent: oneShape},
	{name: "last", form: field(func(f *afterbay.Feature) *int { return &f.Last }, whole[int](1, 1000)), example: "10", absent: oneShape},
	{name: "elapsed", form: field(func(f *afterbay.Feature) *bool { return &f.Elapsed }, onlyTrue()), example: "true", absent: oneShape},
	{name: "aggregates", form: field(func(f *afterbay.Feature) *[]string { return &f.Aggregates },
		listOf(choice[string]("count", "sum", "mean", "max", "min"))),
		example: "[count, sum]", means: "what is read of windows or of the last values", absent: "needed but with `elapsed`"},
	{name: "decimals", form: optional(func(f *afterbay.Feature) **int { return &f.Decimals }, whole[int](0, 9)),
		example: "2", absent: "numbers are added as they are"},
	{name: "empty", form: optional(func(f *afterbay.Feature) **float64 { return &f.Empty }, number()), example: "-1"},
	{name: "max", form: field(func(f *afterbay.Feature) *int { return &f.Max }, whole[int](64, 1<<20)),
		example: "1000", means: "entries of exact windows of a key"},
	{name: "overflow", form: field(func(f *afterbay.Feature) *string { return &f.Overflow }, choice[string]("pane", "dlq")), example: "dlq"},
}

var scoreWords = []word[afterbay.Score]{
	{name: "model", required: true, form: field(func(s *afterbay.Score) *string { return &s.Model }, readName),
		example: "fraud", means: "one of `models`"},
	{name: "as", form: field(func(s *afterbay.Score) *string { return &s.As }, readName), example: "second"},
	{name: "when", form: field(func(s *afterbay.Score) *string { return &s.When }, readBool), example: "amount > 100", absent: "always"},
	{name: "inputs", required: true, form: oneOf("write `[name, expression]` or `{name: expression}`",
		list, field(func(s *afterbay.Score) *[]string { return &s.Inputs }, listOf(readExpression)),
		mapping, field(func(s *afterbay.Score) *[]afterbay.Binding { return &s.ByName }, readBindings)),
		example: "[spend.*, amount / 100]"},
	{name: "fallback", form: field(func(s *afterbay.Score) *[]afterbay.Binding { return &s.Fallback }, readBindings),
		example: "{score: 0.5}", means: "outputs of a score that is skipped: names to expressions", absent: "they are optional"},
	{name: "batch", form: field(func(s *afterbay.Score) *afterbay.Batch { return &s.Batch }, words(batchWords)),
		example: "{size: 256, wait: 2ms}", absent: "as below"},
	{name: "async", form: field(func(s *afterbay.Score) *bool { return &s.Async }, onlyTrue()), example: "true", absent: "events wait for the scores of those before them",
		means: "events are parked, and scored off the loop: those that need no score do not wait for them"},
	{name: "ordered", form: field(func(s *afterbay.Score) *bool { return &s.Ordered }, onlyTrue()), example: "true", absent: "what is parked is done with in any order",
		means: "the events of a key are parked behind one of it that is, and are done with in their order"},
	{name: "partial", form: optional(func(s *afterbay.Score) **afterbay.Partial { return &s.Partial }, words(partialWords)), example: "{topic: drafts, every: 250ms}", absent: "no records of them",
		means: "the words that a chat model has said so far, as records, while an `async` score waits for the rest: {id, model_output}, all words of the event in each. The output of the pipeline is the answer"},
	{name: "on_failure", form: field(func(s *afterbay.Score) *[]afterbay.Step { return &s.OnFailure }, readSteps), example: "[emit: {topic: unscored, value: [tx]}]", absent: "it is a dead letter",
		means: "steps for an event that is given up: let, decide, call and emit; it is a dead letter too, unless they write something"},
}

var partialWords = []word[afterbay.Partial]{
	{name: "topic", required: true, form: field(func(p *afterbay.Partial) *string { return &p.Topic }, readName), example: "drafts", means: "a topic"},
	{name: "every", form: field(func(p *afterbay.Partial) *time.Duration { return &p.Every }, span(time.Millisecond, time.Minute)), example: "100ms"},
}

var batchWords = []word[afterbay.Batch]{
	{name: "size", form: field(func(b *afterbay.Batch) *int { return &b.Size }, whole[int](1, 4096)), example: "256"},
	{name: "wait", form: field(func(b *afterbay.Batch) *time.Duration { return &b.Wait }, span(0, time.Minute)), example: "2ms"},
}

var callWords = []word[afterbay.Call]{
	{name: "go", required: true, form: field(func(c *afterbay.Call) *string { return &c.Go }, readName), example: "language"},
	{name: "when", form: field(func(c *afterbay.Call) *string { return &c.When }, readBool), example: `lang == "en"`, absent: "always"},
	{name: "inputs", form: field(func(c *afterbay.Call) *[]string { return &c.Inputs }, readNames), example: "[text, spend.*]", absent: "none"},
	{name: "outputs", form: field(func(c *afterbay.Call) *[]afterbay.Field { return &c.Outputs }, readFields),
		example: "{lang: string, sure: optional number}", means: "names that it introduces, and their types", absent: "none"},
	{name: "topics", form: field(func(c *afterbay.Call) *[]string { return &c.Topics }, readNames), example: "[alerts]", absent: "none"},
}

// caseWords are the words of a case with a condition.
var caseWords = []word[afterbay.Case]{
	{name: "when", required: true, form: field(func(c *afterbay.Case) *string { return &c.When }, readBool), example: "amount < 10", means: "whether it takes the event"},
	{name: "steps", required: true, form: caseSteps, example: `[let: {body: 'text ?? ""'}]`, means: caseStepsMean},
	{name: "async", form: field(func(c *afterbay.Case) *bool { return &c.Async }, onlyTrue()), example: "true", absent: "its scores are computed in the place of the event",
		means: "all its scores are `async`"},
	caseBudget,
}

var caseBudget = word[afterbay.Case]{
	name: "budget", form: field(func(c *afterbay.Case) *time.Duration { return &c.Budget }, readShare), example: "30s", absent: "the pipeline's `budget`",
	means: "what 99 of 100 of its events keep, from their append until their outputs are durable; of the first route alone",
}

// defaultWords are the words of the case that takes what no other does.
var defaultWords = []word[afterbay.Case]{
	{name: "steps", required: true, form: caseSteps, example: "drop", means: caseStepsMean},
	caseBudget,
	{name: "when", refused: "`default` has no condition", instead: "remove it: the default takes every event that no case takes"},
}

const caseStepsMean = "what happens to the event; dlq makes it a dead letter, drop ends it, and what the steps above it did stays"

var (
	caseEnd   = field(func(c *afterbay.Case) *string { return &c.Then }, choice[string]("dlq", "drop"))
	caseSteps = oneOf("write a list of steps, dlq or drop", scalar, caseEnd, list,
		field(func(c *afterbay.Case) *[]afterbay.Step { return &c.Steps }, readSteps))
)

// route reads the cases of a route, in their order.
func route() form[[]afterbay.Case] {
	condition, last := words(caseWords), oneOf("write dlq, drop or {steps: ...}", scalar, caseEnd, mapping, words(defaultWords))
	cases := named(func(c *afterbay.Case) *string { return &c.Name }, form[afterbay.Case]{
		func(r *reader, n *node, path string, into *afterbay.Case) {
			if into.Name == "default" {
				last.read(r, n, path, into)
			} else {
				condition.read(r, n, path, into)
			}
		}, condition.shape,
	})
	cases.shape.last = &last.shape
	return form[[]afterbay.Case]{func(r *reader, n *node, path string, into *[]afterbay.Case) {
		cases.read(r, n, path, into)
		for i, c := range *into {
			if below := (*into)[i+1:]; c.Name == "default" && len(below) > 0 {
				at := join(path, c.Name)
				r.fail(r.places[at].offset, at, "`default` must be the last case", "move it below "+shorten(below[len(below)-1].Name))
			}
		}
	}, cases.shape}
}

var emitWords = []word[afterbay.Emit]{
	{name: "topic", required: true, form: field(func(e *afterbay.Emit) *string { return &e.Topic }, readName),
		example: "decisions", means: "the topic that is written"},
	{name: "key", form: field(func(e *afterbay.Emit) *string { return &e.Key }, readName), example: "customer", means: "the output's key, of type string or int"},
	{name: "when", form: field(func(e *afterbay.Emit) *string { return &e.When }, readBool),
		example: `action == "block"`, means: "for which events", absent: "always"},
	{name: "id", form: field(func(e *afterbay.Emit) *string { return &e.ID }, readExpression), example: `'"freeze:" + tx'`, means: "the output's id, of type string"},
	{name: "value", form: oneOf("write `[name]` or `{name: expression}`",
		list, field(func(e *afterbay.Emit) *[]string { return &e.Names }, readNames),
		mapping, field(func(e *afterbay.Emit) *[]afterbay.Binding { return &e.Value }, readBindings)),
		example: "[tx, fraud.score, action]", absent: "the names of `decide`"},
	{name: "on_failure", instead: "remove it: an event that cannot be emitted is a dead letter"},
}

// readAgain reads the steps below steps.
func readAgain(r *reader, n *node, path string, into any) {
	listOf(step()).read(r, n, path, into.(*[]afterbay.Step))
}

// step reads one step: a mapping of one word.
func step() form[afterbay.Step] {
	f := words(stepWords)
	f.shape.kind = aStep
	return form[afterbay.Step]{func(r *reader, n *node, path string, into *afterbay.Step) {
		if n.kind == mapping && len(n.entries) > 1 {
			first, second := n.entries[0], n.entries[1]
			hint := fmt.Sprintf("indent %s below %s", shorten(second.key), shorten(first.key))
			if slices.ContainsFunc(stepWords, func(w word[afterbay.Step]) bool { return w.name == second.key }) {
				hint = fmt.Sprintf("write `- %s: ...` as a step of its own", second.key)
			}
			r.fail(second.offset, path, fmt.Sprintf("a step is one word, and %s is its second", shorten(second.key)), hint)
			return
		}
		f.read(r, n, path, into)
	}, f.shape}
}

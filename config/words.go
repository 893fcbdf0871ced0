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
	readInputs     = named(bindingName, field(bindingExpr, readName))
	readFields     = named(fieldName, field(fieldType, readType))
	readLate       = choice[string]("dlq", "drop", "include")
	readInput      = words(inputWords)
	readURL        = textOf("a URL")
	readPath       = textOf("the path of a file")
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
	{name: "commit", form: field(func(p *afterbay.Pipeline) *afterbay.Commit { return &p.Commit }, words(commitWords)),
		example: "{interval: 20ms}", absent: "as below"},
	{name: "queue", instead: "remove it: the bounds are built in"},
	{name: "budget", instead: "remove it, and watch the latency in the metrics"},
	{name: "lag", form: field(func(p *afterbay.Pipeline) *afterbay.Lag { return &p.Lag }, words(lagWords)),
		example: "{warn: 10s, critical: 60s}", absent: "no bounds"},
	{name: "engine", form: field(func(p *afterbay.Pipeline) *afterbay.Engine { return &p.Engine },
		oneOf("write kafka://HOST:PORT, or `{url: ...}`", scalar, field(engineURL, readURL), mapping, words(engineWords))),
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
	{name: "sinks", instead: "remove it, and read the emitted topic with a program of your own"},
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
		example: "{id: tx, window: 24h}"},
	{name: "repartition", form: field(func(in *afterbay.Input) *int32 { return &in.Repartition }, whole[int32](1, 1024)),
		example: "8", absent: "the topic itself is read; of several inputs 4",
		means: "where the topic is written with another key: its events are first copied to the topic `<pipeline>.merged`, of so many partitions, by `key`"},
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
		example: "ms", absent: "needed with `field`", means: "how the time is written: s, ms, us or ns since 1970 in a field of type int, rfc3339 in one of type time"},
	{name: "lateness", form: field(func(t *afterbay.EventTime) *time.Duration { return &t.Lateness }, span(0, 30*day)), example: "5s"},
	{name: "late", form: oneOf("write dlq, drop, include or {topic: <name>}",
		scalar, field(func(t *afterbay.EventTime) *string { return &t.Late }, readLate), mapping, words(lateWords)),
		example: "{topic: late-payments}", means: "what becomes of an event before the watermark: a dead letter, nothing, an event like others, or a record of another topic"},
	{name: "max_ahead", form: field(func(t *afterbay.EventTime) *time.Duration { return &t.MaxAhead }, span(time.Millisecond, 30*day)), example: "5m"},
	{name: "idle", instead: "remove it: time moves with the events"},
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

var modelWords = []word[afterbay.Model]{
	{name: "file", required: true, or: "go", form: field(func(m *afterbay.Model) *string { return &m.File }, textOf("the path of a model file")),
		example: "fraud.ubj", means: "an XGBoost model, .json or .ubj; relative to the pipeline file"},
	{name: "go", form: field(func(m *afterbay.Model) *string { return &m.Go }, readName), example: "tone", absent: "required, or `file`"},
	{name: "version", required: true, form: field(func(m *afterbay.Model) *int { return &m.Version }, version()), example: "3"},
	{name: "outputs", required: true, form: field(func(m *afterbay.Model) *[]afterbay.Field { return &m.Outputs }, readFields),
		example: "{score: number}", means: "the model's outputs, in its order, and their types"},
	{name: "url", instead: "use a model `file`"},
	{name: "process", instead: "use a model `file`"},
	{name: "call", instead: "remove it: a model `file` is called in the process"},
	{name: "journal", instead: "remove it: the answers of a model `file` need none"},
}

var stepWords = []word[afterbay.Step]{
	{name: "let", form: field(func(s *afterbay.Step) *[]afterbay.Binding { return &s.Let }, readBindings),
		example: `{large: "amount > 100"}`, means: "names, each the value of an expression"},
	{name: "features", form: field(func(s *afterbay.Step) *[]afterbay.Feature { return &s.Features },
		named(func(f *afterbay.Feature) *string { return &f.Name }, words(featureWords))),
		example: "{spend: {value: amount, windows: [60s, 24h], aggregates: [count, sum]}}", means: "names, each a feature of the event's key"},
	{name: "score", form: optional(func(s *afterbay.Step) **afterbay.Score { return &s.Score }, words(scoreWords)),
		example: "{model: fraud, inputs: [spend.*, amount]}"},
	{name: "call", form: optional(func(s *afterbay.Step) **afterbay.Call { return &s.Call }, words(callWords)),
		example: "{go: language, inputs: [text], outputs: {lang: string}}"},
	{name: "route", form: field(func(s *afterbay.Step) *[]afterbay.Case { return &s.Route }, route()),
		example: "{small: {when: amount < 10, steps: drop}, default: dlq}",
		means:   "cases: an event takes the first whose condition holds, and what no case takes goes to the last, `default`"},
	{name: "decide", form: field(func(s *afterbay.Step) *[]afterbay.Binding { return &s.Decide }, readBindings),
		example: `{action: 'fraud.score > 0.9 ? "block" : "allow"'}`, means: "like `let`; the names are what `emit` writes where it does not say what"},
	{name: "emit", form: optional(func(s *afterbay.Step) **afterbay.Emit { return &s.Emit }, words(emitWords)),
		example: "{topic: decisions, value: [tx, fraud.score, action]}"},
	{name: "lookup", instead: "put the columns into the events before the topic, or a small table into `constants`"},
	{name: "group", instead: "put events together before the topic"},
	{name: "fetch", instead: "put the content into the events before the topic"},
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
	{name: "inputs", required: true, form: oneOf("write `[name]` or `{name: expression}`",
		list, field(func(s *afterbay.Score) *[]string { return &s.Inputs }, readNames),
		mapping, field(func(s *afterbay.Score) *[]afterbay.Binding { return &s.ByName }, readInputs)),
		example: "[spend.*, amount]"},
	{name: "fallback", form: field(func(s *afterbay.Score) *[]afterbay.Binding { return &s.Fallback }, readBindings),
		example: "{score: 0.5}", means: "outputs of a score that is skipped: names to expressions", absent: "they are optional"},
	{name: "batch", form: field(func(s *afterbay.Score) *afterbay.Batch { return &s.Batch }, words(batchWords)),
		example: "{size: 256, wait: 2ms}", absent: "as below"},
	{name: "async", instead: "remove it: a model `file` answers at once"},
	{name: "on_failure", instead: "remove it: an event that cannot be scored is a dead letter"},
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
	{name: "async", instead: "remove it: every case is done before the event's next step"},
}

// defaultWords are the words of the case that takes what no other does.
var defaultWords = []word[afterbay.Case]{
	{name: "steps", required: true, form: caseSteps, example: "drop", means: caseStepsMean},
	{name: "when", refused: "`default` has no condition", instead: "remove it: the default takes every event that no case takes"},
}

const caseStepsMean = "what happens to the event; dlq makes it a dead letter, drop ends it, and what the steps above it did stays"

var (
	caseEnd   = field(func(c *afterbay.Case) *string { return &c.Then }, choice[string]("dlq", "drop"))
	caseSteps = oneOf("write a list of steps, dlq or drop", scalar, caseEnd, list,
		field(func(c *afterbay.Case) *[]afterbay.Step { return &c.Steps }, form[[]afterbay.Step]{
			func(r *reader, n *node, path string, into *[]afterbay.Step) { r.steps(r, n, path, into) }, shape{kind: theSteps},
		}))
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

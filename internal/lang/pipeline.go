package lang

import (
	"fmt"
	"iter"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/lookup"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/udf"
)

// Pipeline is one pipeline, as the pipeline file writes it. Its zero values are the file's
// defaults.
type Pipeline struct {
	Name      string // also the consumer group and the name of the pipeline's state
	Input     Input
	Inputs    []Input  // instead of Input: several topics, repartitioned through the topic <name>.repartition
	Delivery  Delivery // "" is exactly-once
	Replies   []string // topics with records that are replies to gateway clients, or lead to replies: a client's event without a record in them ends in the topic <name>.ended; nil means that the pipeline has no clients
	Commit    Commit
	Models    []Model
	Constants []spec.Constant
	Steps     []Step

	Content     Content // sources that fetch steps may use
	Registry    Registry
	Sinks       []Sink // used by Runner.Deliver
	DeadLetters DeadLetters

	Budget Budget
	Lag    Lag
	Queue  Queue

	Priority Priority
	Tenant   Tenant

	Engine Engine // used by programs that open the log, such as afterbay run; a Runner gets its log as an argument
	Code   Code   // the Go code that the steps name
}

// EachInput yields the inputs of a pipeline, each with its path.
func (p *Pipeline) EachInput() iter.Seq2[string, *Input] {
	return func(yield func(string, *Input) bool) {
		if len(p.Inputs) == 0 {
			yield("input", &p.Input)
			return
		}
		for i := range p.Inputs {
			if !yield(InputPath(i), &p.Inputs[i]) {
				return
			}
		}
	}
}

// InputPath returns the path of one of several inputs.
func InputPath(i int) string { return fmt.Sprintf("inputs[%d]", i) }

// Code holds the Go code that a pipeline calls by name, from the program that embeds it.
type Code struct {
	Functions map[string]udf.Function // for call steps
	Models    map[string]model.Model  // for Model.Go
	Sinks     []sink.Kind             // kinds that pipeline files may name in addition to the built-in ones
	Lookups   []lookup.Kind           // like Sinks, for lookups outside the log
	Logs      []stream.Kind           // like Sinks, for logs that `engine` may name

	ModelKinds []model.Kind // like Sinks, for models of manifests
}

// Delivery says how often an output may be written for an event after a crash.
type Delivery string

// The delivery modes. The embedded log commits outputs, state and offsets in one frame, so every
// mode is exactly-once there.
const (
	ExactlyOnce Delivery = "exactly-once"
	AtLeastOnce Delivery = "at-least-once"
	AtMostOnce  Delivery = "at-most-once"
)

// Input says what the pipeline reads.
type Input struct {
	Topic      string
	Partitions int32         // partitions of the topic if the engine creates it; 0 is 4
	Key        string        // a field of kind string or int: events of one key share state and order
	Time       EventTime     // when the event happened
	Fields     []Field       // the fields to read from an event
	Format     Format        // encoding of events
	Envelope   envelope.Kind // envelope around the data of events
	MaxBytes   int           // a larger value is a dead letter; 0 is 1 MiB
	Dedupe     *Dedupe       // nil takes every event
	Backlog    Backlog       // limits the unprocessed records of the topic

	// Repartition is set if the topic is written with another key. The engine then copies its
	// events, by Key, to the topic <name>.repartition with this number of partitions. 0 reads the
	// topic itself. Several inputs are always copied; 0 then means 4.
	Repartition int32
}

// KeyInJSON reports whether the record keys that the pipeline reads, and that emits pass on, may be
// JSON.
func (in *Input) KeyInJSON() bool { return in.Envelope == envelope.Debezium && in.Repartition == 0 }

// Format is the encoding of an input's records. The zero value is JSON.
type Format struct {
	Name string // json, or one of the names below
	Avro string // the file of the schema that the records were written with

	Protobuf Protobuf
	CSV      *CSV // a dialect; nil means another format, or FormatCSV with its defaults
}

// Kinds returns how many formats with options are set.
func (f *Format) Kinds() (n int) {
	for _, given := range []bool{f.CSV != nil, f.Avro != "", f.Protobuf.File != ""} {
		if given {
			n++
		}
	}
	return n
}

// IsJSON reports whether values are JSON objects.
func (f *Format) IsJSON() bool { return *f == (Format{}) || *f == (Format{Name: "json"}) }

// Names of formats.
const (
	FormatCSV  = "csv"
	FormatText = "text"
	FormatRaw  = "raw"
)

// CSV is a dialect of CSV.
type CSV struct {
	Delimiter string   // one character; "" is a comma
	Quote     string   // one character, or none; "" is a double quote
	Columns   []string // names of the columns; nil means the fields in their order
}

// FormatRegistry is the format of records that begin with the id of their schema in
// Pipeline.Registry.
const FormatRegistry = "schema_registry"

// Registry is a schema registry that implements Confluent's API.
type Registry struct {
	URL            string
	User, Password string
	Token          string // sent as Authorization: Bearer
	TokenFile      string // a file with the token, read for each request
}

// Protobuf is the message type of records.
type Protobuf struct {
	File    string // a .proto file, or a FileDescriptorSet
	Message string // its full name; "" is the first message of the file
}

// Backlog limits the records of a topic that wait for the pipeline. From High records on, sources
// that send by HTTP get a 429 response that says when to retry, until Low records are left. The
// zero value limits the records only by the size of the log.
type Backlog struct {
	Max  int // records that may wait; 0 is no bound
	High int // 0 is three quarters of Max
	Low  int // 0 is a third of High, where that is 0 too
}

// Dedupe drops an event under two conditions: its id is among the last Max ids that arrived in its
// partition, and the event with that id is less than Window before the newest event time.
type Dedupe struct {
	ID     string        // a field of kind string or int
	Window time.Duration // in event time; 0 is 24 h
	Max    int           // ids remembered for each partition, the newest by arrival, 32 bytes of memory each; 0 is 1,000,000
}

// EventTime says where an event's time stands, and how far events may be out of order.
type EventTime struct {
	Field     string        // "" takes the time of the append
	Unit      string        // s, ms, us, ns (field of type int or number) or rfc3339 (time)
	Format    string        // instead of Unit: the layout of a field of type string, as package time has it; without a zone it is UTC
	Lateness  time.Duration // the watermark is the newest event time minus this; 0 is none
	Late      string        // how to handle an event before the watermark: dlq (default), drop, include
	LateTo    string        // instead of Late: the topic that gets late events unchanged
	Idle      time.Duration // idle time. At the end of a single input without events, the watermark then advances with the clock, in steps of this size; 0 means never. With events from several partitions, an idle partition then stops delaying the others; 0 means 1 s, or 100 ms if event time is the time of the append
	NeverIdle bool          // with events from several partitions: a partition without events delays the others without limit
	Order     string        // with events from several partitions: time (default) or arrival
	Wait      time.Duration // with events from several partitions: how long to wait for an event that is out of order within its partition
	MaxAhead  time.Duration // an event with a time further after its append becomes a dead letter; 0 is 1 h
}

// Settings for inputs with events from several partitions: the arrival order, and the default time
// to wait for an idle partition.
const (
	OrderArrival        = "arrival"
	DefaultIdle         = time.Second
	DefaultIdleAppended = 100 * time.Millisecond
)

// ByArrival reports whether events of several partitions are processed in order of arrival.
func (t *EventTime) ByArrival() bool { return t.Order == OrderArrival }

// RowTime says where to find the time when a row of a table becomes valid.
type RowTime struct {
	Field  string // a field of the row; "" takes the time of the append
	Unit   string // s, ms, us, ns (an int or number) or rfc3339
	Format string // instead of Unit: the layout of a string, as package time has it; without a zone it is UTC
}

// Field is a name and its type, as the file writes them: "amount", "number".
type Field struct {
	Name, Type string
	Path       string // of a field of an event: to its value; "" is the member of the record with the name
	From       string // of a field of an event: what Path is in; "" is FromData
}

// The origins of a field's value.
const (
	FromData     = "data"
	FromEnvelope = "envelope"
	FromKey      = "key"
)

// KeyPath returns where the key stands in records: a name or a path.
func (in *Input) KeyPath() string { return in.PathOf(in.Key) }

// PathOf returns where a field stands in records: a name or a path.
func (in *Input) PathOf(field string) string {
	var path []decode.Part
	from := FromData
	for _, f := range in.Fields {
		if long, err := decode.ParsePath(f.Path); f.Name == field && err == nil {
			path = long
		}
		if f.Name == field && f.From != "" {
			from = f.From
		}
	}
	if data := in.Envelope.Data(); data != "" && from == FromData {
		if path == nil {
			path = []decode.Part{{Name: field}}
		}
		path = append([]decode.Part{{Name: data}}, path...)
	}
	if path == nil {
		return field
	}
	return decode.PathText(path)
}

// Commit says how often transactions are committed.
type Commit struct {
	Interval time.Duration // shortest time between two commits; 0 is 2 ms, on Kafka 50 ms, or the log's own if a transaction shares the sync of its inputs
	Size     int           // most events in a transaction; 0 is 8,192
}

// Budget limits the time of an event, from its append until its outputs are durable. An event over
// the limit is counted for the phase that exceeded its share the most.
type Budget struct {
	P99     time.Duration // limit that 99 of 100 events keep; 0 is no budget
	Queue   time.Duration // share for the time from the append until the event is read; 0 is an equal part of what the other shares leave
	Order   time.Duration // share for the time until an event's turn in the order of several source partitions; 0 is an equal part of what the other shares leave
	Feature time.Duration // share for decoding, features and expressions; 0 is an equal part of what the other shares leave
	Model   time.Duration // share for calls of models; 0 is an equal part of what the other shares leave
	Emit    time.Duration // share for making the outputs; 0 is an equal part of what the other shares leave
	Commit  time.Duration // share for the time until the outputs are durable; 0 is an equal part of what the other shares leave
}

// Queue limits the events of a process that wait off the loop: for a model that is slow or down, or
// behind an event of their key. At High queued events the pipeline stops reading, and it resumes at
// Low: see control.Gate.
type Queue struct {
	Max  int // most queued events; 0 is 10,000
	High int // 0 is three quarters of Max
	Low  int // 0 is a third of High, where that is 0 too
}

// Priority says which queued events are called for first. An event that is
// neither high nor low is normal.
type Priority struct {
	High    string        // expression of type bool over fields of events and constants; "" means that no event is high
	Low     string        // events of low priority; an event that is also high is high
	Weights []int         // shares of the calls for high, normal and low events while all three wait; nil is 8, 4, 1
	Age     time.Duration // after this time a waiting event counts twice its weight, after twice this time three times, and so on up to the weight of high events; 0 is 10 s
}

// Tenant assigns events to tenants. Within a class, tenants with events that wait off the loop take
// turns, one event each, however many a tenant has.
type Tenant struct {
	By  string // expression of type string over fields of events and constants; "" is one tenant
	Max int    // events of a tenant that may wait in the process; beyond this limit its next events are given up; 0 is any number
}

// DeadLetters says when a pipeline stops because too many of its events become dead letters.
type DeadLetters struct {
	StopAbove spec.Share // if a greater share of the events, and at least 10 events, become dead letters, the process stops reading and is not ready until it is resumed or restarted; the zero value never stops
}

// Sink delivers the records of a topic to a service. It retries each record until the service
// accepts it.
type Sink struct {
	From        string        // a topic that the pipeline writes
	Name        string        // name of the sink: its consumer group is <pipeline>.<name>, and its dead letters go to <pipeline>.<name>.dlq; "" is the topic's name
	Kind        string        // the name of the kind, which is also the field of the file with Config
	Config      sink.Config   // where the records go
	Timeout     time.Duration // timeout of a call, which is then retried; 0 is 3 s, 30 s for a database, and 2 m for an object store
	Concurrency int           // concurrent calls, one at a time for each key; for a database the connections, up to 64, over which its rows are spread by key; 0 is 16, and 4 for a database and an object store
	Window      time.Duration // for `http`: event time during which an id that the service accepted is not delivered again; 0 is 24 h
	Max         int           // for `http`: ids remembered for each partition, 32 bytes of memory each; 0 is 1,000,000
	Expire      time.Duration // a record that the service does not accept for this time becomes a dead letter; 0 is never
}

// Model names a model file and its outputs.
type Model struct {
	Name    string
	File    string   // a model, or its manifest if the name ends with .yaml
	Go      string   // instead of File: a name in afterbay.Code.Models
	URL     string   // instead of File: a model with that version on a server of the Open Inference Protocol, grpc://host:port/model, grpcs://, http:// or https://
	Process []string // instead of File: a program that runs the model, as for kind process, and its arguments
	Dir     string   // working directory of Process; "" is that of this process
	Version int      // at least 1, and equal to that of the manifest if there is one: "latest" is not a version
	Outputs []Field
	Trees   string // for an XGBoost File: all, or best, the trees up to the best iteration; "" means the default of tree.Options

	// Manifest is the content of File if File is a manifest. The model is only usable if it matches
	// its manifest.
	Manifest *model.Manifest

	// Call says how to call a model that may be slow or down: events are then queued until it
	// answers. nil calls inline, and an error belongs to the event, except for kinds remote and
	// process, which use a zero Calling.
	Call *Calling
	// Journal says whether the model's answers are kept. With nil, a model of kind remote or
	// process keeps the answers to calls for queued events.
	Journal *Journal

	Candidates []Candidate // models that run beside this one, over the same events
	Profile    *Profile    // profile of the training rows; nil if the file names none
}

// Inline reports whether the pipeline file itself describes the model, as a URL or as a program to
// run.
func (m *Model) Inline() bool { return m.URL != "" || m.Process != nil }

// Journal keeps the answers of a model beside the partition of their events. After a crash or a
// retry, only calls that were in flight are repeated. An identical request of another event uses
// the kept answer. The zero value keeps the answer to every call. The model's scores are then
// async, because an answer is used only when it is durable.
type Journal struct {
	Off       bool          // none are kept
	By        string        // request: identical requests share an answer; event: each event has its own; "" is event for chat, transcriptions and lookups, and request for others
	Retention time.Duration // in event time; 0 is 7 days, and the largest value among the models of the pipeline applies to all
	Max       int           // bytes of answers beside a partition; beyond this limit the oldest are deleted; 0 is 256 MiB, and the largest value among the models of the pipeline applies to all
	Price     float64       // price of an answer, for afterbay journal stats; 0 is unknown
}

// Calling says how to call a model that may be slow or down.
type Calling struct {
	Timeout     time.Duration // timeout of a call; 0 is the timeout of the model itself, or 1 h if it computes on this machine, or 3 s
	Budget      bool          // use the share of the pipeline's budget for calls as the timeout
	Attempts    int           // attempts for an event that fails by its own fault, before it becomes a dead letter; an event that the model refuses becomes one at once; 0 is 3
	Backoff     Backoff       // delay between the attempts for an event
	Concurrency int           // most concurrent calls for queued events; 0 is 16, or remote.calls of the model's manifest
	Start       int           // concurrent calls for queued events until the first are answered, then Concurrency at most; 0 is 4, or Concurrency if that is less
	Expire      time.Duration // time in the queue after which an event becomes a dead letter; 0 is never
	Breaker     Breaker
}

// Backoff limits the delay before the next attempt: a random delay from 0 to a ceiling that doubles
// with each attempt.
type Backoff struct {
	Base time.Duration // first ceiling; 0 is 200 ms
	Max  time.Duration // last ceiling; 0 is 30 s
}

// Breaker says when calls pause, and what happens meanwhile.
type Breaker struct {
	Failures int           // consecutive failed calls by the model's fault, for different events, with no later call answered; 0 is 5
	Rate     float64       // share of failed calls by the model's fault, among at least 20 calls of the last 10 s; 0 is 0.5
	Probe    time.Duration // time until a probe call; 0 is 30 s
	Open     string        // pause (default) stops reading, queue continues with the events that need no call, fallback uses the scores' fallback
}

// Step is one step. Its type is its kind.
type Step interface {
	// StepKind returns the kind of the step.
	StepKind() *StepKind

	// Declare adds the names that the step makes.
	Declare(*Declared)

	// Effect returns what the step may do with an event.
	Effect() Effects

	// Bind resolves the names of the step, types its expressions and adds the bound step to the
	// scope. It reports errors as findings of the scope.
	Bind(s *Scope, path string)
}

// Content says which sources may be fetched, and how content is cached.
type Content struct {
	Root    string   // absolute path of the folder that contains the files; links must not lead out of it; "" is no files
	Hosts   []string // hosts that may be asked with HTTPS; *.example.com stands for all hosts below example.com; nil is any
	Private []string // networks, such as 10.2.0.0/16, with private addresses that may be asked
	HTTP    bool     // allow http too, without encryption
	Buckets []string // buckets of S3 that may be read; * stands for any; nil is none
	S3      spec.ObjectStore
	Cache   ContentCache
}

// ContentCache stores content by its hash, so that equal content is stored once, and an event that
// waits for a model does not fetch it again.
type ContentCache struct {
	Dir string // a folder that outlives the process; "" is memory
	Max int    // bytes; beyond this limit the least recently used content is deleted; 0 is 256 MiB
}

// Binding introduces a name as the value of an expression.
type Binding struct{ Name, Expr string }

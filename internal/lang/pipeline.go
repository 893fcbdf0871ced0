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

// Pipeline is one pipeline: what the pipeline file writes, in Go. Its zero
// values are the file's defaults.
type Pipeline struct {
	Name      string // also the consumer group and the name of its state
	Input     Input
	Inputs    []Input  // instead of Input: several topics, repartitioned through the topic <name>.repartition
	Delivery  Delivery // "" is exactly-once
	Replies   []string // topics whose records are replies to clients of a gateway, or lead to replies: an event of a client without a record in them ends in the topic <name>.ended; nil is without clients
	Commit    Commit
	Models    []Model
	Constants []spec.Constant
	Steps     []Step

	Content     Content // what fetch steps may fetch
	Registry    Registry
	Sinks       []Sink // for Runner.Deliver
	DeadLetters DeadLetters

	Budget Budget
	Lag    Lag
	Queue  Queue

	Priority Priority
	Tenant   Tenant

	Engine Engine // for who opens the log, as afterbay run does: a Runner is given one
	Code   Code   // what the steps name that is written in Go
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

// Code is what a pipeline calls by name in the program that embeds it.
type Code struct {
	Functions map[string]udf.Function // of call steps
	Models    map[string]model.Model  // of Model.Go
	Sinks     []sink.Kind             // that pipeline files may name beside the built-in ones
	Lookups   []lookup.Kind           // as Sinks, of lookups outside of the log
	Logs      []stream.Kind           // as Sinks, of logs that `engine` may name

	ModelKinds []model.Kind // as Sinks, of models of manifests
}

// Delivery is how often an output is written for an event after a crash.
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
	Partitions int32         // of the topic where it has to be created; 0 is 4
	Key        string        // a field of kind string or int: events of one key share state and order
	Time       EventTime     // when the event happened
	Fields     []Field       // what is read from an event
	Format     Format        // how events are written
	Envelope   envelope.Kind // what the data of events stands in
	MaxBytes   int           // a larger value is a dead letter; 0 is 1 MiB
	Dedupe     *Dedupe       // nil takes every event
	Backlog    Backlog       // bounds what waits in the topic

	// Repartition is set where the topic is written with another key: its events
	// are first copied to the topic <name>.repartition, of so many partitions, by Key.
	// 0 reads the topic itself; of several inputs, which are always copied, it
	// is then 4.
	Repartition int32
}

// KeyInJSON reports whether the record keys that the pipeline reads, and that emits pass on, may be
// JSON.
func (in *Input) KeyInJSON() bool { return in.Envelope == envelope.Debezium && in.Repartition == 0 }

// Format is how the records of an input are written. The zero value is JSON.
type Format struct {
	Name string // json, or one of the names below
	Avro string // the file of the schema that they were written with

	Protobuf Protobuf
	CSV      *CSV // a dialect; nil is another format, or that of FormatCSV
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
	Columns   []string // nil takes the fields in their order
}

// FormatRegistry is the format of records that begin with the id of their schema in
// Pipeline.Registry.
const FormatRegistry = "schema_registry"

// Registry is a schema registry that speaks Confluent's API.
type Registry struct {
	URL            string
	User, Password string
	Token          string // sent as Authorization: Bearer
	TokenFile      string // a file of the token, read at each request
}

// Protobuf is the message type of records.
type Protobuf struct {
	File    string // a .proto file, or a FileDescriptorSet
	Message string // its full name; "" is the first of the file
}

// Backlog bounds the records of a topic that wait for the pipeline: sources that
// send them by HTTP are turned away, with 429 and when to come back, from High on
// until they are down at Low. The zero value limits them only by the size of the log.
type Backlog struct {
	Max  int // that may wait; 0 is no bound
	High int // 0 is three quarters of Max
	Low  int // 0 is a third of High, where that is 0 too
}

// Dedupe drops an event if its id is among the last Max ids that arrived in its partition and the
// event with that id is less than Window before the newest event time.
type Dedupe struct {
	ID     string        // a field of kind string or int
	Window time.Duration // of event time; 0 is 24 h
	Max    int           // ids remembered by partition, the last by arrival, 32 bytes of memory each; 0 is 1,000,000
}

// EventTime says where an event's time stands and how far events may be out of
// order.
type EventTime struct {
	Field     string        // "" takes the time of the append
	Unit      string        // s, ms, us, ns (field of type int or number) or rfc3339 (time)
	Format    string        // instead of Unit: the layout of a field of type string, as package time has it; without a zone it is UTC
	Lateness  time.Duration // the watermark is the newest time seen less this; 0 is none
	Late      string        // how to handle an event before the watermark: dlq (default), drop, include
	LateTo    string        // instead of Late: the topic it is written to as it came
	Idle      time.Duration // at the end of the topic without an event, after which time goes on with the clock, by so much at a time; 0 is never. Where events of several partitions meet: after which a partition without an event holds the others back no longer; 0 is 1 s, and 100 ms if the time is that of the append
	NeverIdle bool          // where events of several partitions meet: a partition without an event holds the others back for ever
	Order     string        // where events of several partitions meet: time (default) or arrival
	Wait      time.Duration // where events of several partitions meet: how long an event is waited for that is out of order in its own partition
	MaxAhead  time.Duration // a time further past the append is a dead letter; 0 is 1 h
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

// RowTime says where the time stands from which a row of a table is valid.
type RowTime struct {
	Field  string // of the row; "" takes the time of the append
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

// Commit says how often steps are committed.
type Commit struct {
	Interval time.Duration // shortest time between two commits; 0 is 2 ms, on Kafka 50 ms, or the log's own where a step shares the sync of its inputs
	Size     int           // most events in a step; 0 is 8,192
}

// Budget says how long an event may take, from its append until its outputs are
// durable. Events over it are counted by the phase that took the most beyond its
// share.
type Budget struct {
	P99     time.Duration // which 99 of 100 events keep; 0 is no budget
	Queue   time.Duration // share of the time from the append to the reading; 0 is an equal part of what the other shares leave
	Order   time.Duration // of the time until an event's turn in the order of several source partitions; 0 is an equal part of what the other shares leave
	Feature time.Duration // of decoding, features and expressions; 0 is an equal part of what the other shares leave
	Model   time.Duration // of calls of models; 0 is an equal part of what the other shares leave
	Emit    time.Duration // of making the outputs; 0 is an equal part of what the other shares leave
	Commit  time.Duration // of the time until the outputs are durable; 0 is an equal part of what the other shares leave
}

// Queue bounds the events of a process that wait off the loop: for a model that
// is slow or down, or behind an event of their key that does. Reading makes High
// of them at most, and then nothing is read until they are down at Low: see
// control.Gate.
type Queue struct {
	Max  int // that there may be; 0 is 10,000
	High int // 0 is three quarters of Max
	Low  int // 0 is a third of High, where that is 0 too
}

// Priority says which of the events that wait off the loop are called for first. An
// event that is neither high nor low is normal.
type Priority struct {
	High    string        // expression of type bool over what is read of events and constants; "" is none
	Low     string        // events of low priority; one that is also high is high
	Weights []int         // shares of the calls that high, normal and low events get while all wait; nil is 8, 4, 1
	Age     time.Duration // after which waiting events count twice their weight, after twice as long three times, up to that of high ones; 0 is 10 s
}

// Tenant says whose events are. Those of a class that wait off the loop are called
// for in turns of their tenants, one event each, however many a tenant has.
type Tenant struct {
	By  string // expression of type string over what is read of events and constants; "" is one tenant
	Max int    // events of a tenant that may wait in the process, beyond which its next ones are given up; 0 is any number
}

// DeadLetters says when a pipeline stops because too many of its events
// become dead letters.
type DeadLetters struct {
	StopAbove spec.Share // where more of the events become dead letters, at least 10, the process stops reading, and is not ready, until it is told to go on or started again; the zero value never stops
}

// Sink hands the records of a topic to a service, each until the service took it.
type Sink struct {
	From        string        // a topic that the pipeline writes
	Name        string        // of the sink: its consumer group is <pipeline>.<name>, its dead letters go to <pipeline>.<name>.dlq; "" is the topic's name
	Kind        string        // the field that has Config
	Config      sink.Config   // where the records go
	Timeout     time.Duration // of a call, which is then made again; 0 is 3 s, and 30 s of a database and 2 m of an object
	Concurrency int           // calls at once, those of a key one after the other; of a database the connections that its rows are spread over by key, up to 64; 0 is 16, and 4 of a database and of objects
	Window      time.Duration // of `http`: event time in which an id that the service took is not handed to it again; 0 is 24 h
	Max         int           // of `http`: ids remembered by partition, 32 bytes of memory each; 0 is 1,000,000
	Expire      time.Duration // a record that the service did not take for so long is a dead letter; 0 is never
}

// Model names a model file and its outputs.
type Model struct {
	Name    string
	File    string   // a model, or its manifest where it ends with .yaml
	Go      string   // instead of File: a name in afterbay.Code.Models
	URL     string   // instead of File: a model of that version on a server of the Open Inference Protocol, grpc://host:port/model, grpcs://, http:// or https://
	Process []string // instead of File: a program that is the model, as one of kind process, and its arguments
	Dir     string   // that Process runs in; "" is that of this process
	Version int      // at least 1, that of the manifest where there is one: "latest" is not a version
	Outputs []Field
	Trees   string // of a File of XGBoost: all, or best, those up to the best iteration; "" is as tree.Options says

	// Manifest is what the file says where it is a manifest: the model is only
	// usable where all of it holds.
	Manifest *model.Manifest

	// Call says how the model is called where it may be slow, late or down: events
	// are then queued until it answers. nil calls at once, and an error is the
	// event's, but for models of kinds remote and process, whose nil is a zero
	// Calling.
	Call *Calling
	// Journal says whether the model's answers are kept. nil keeps, of models of
	// kinds remote and process, those of calls that are made for queued events.
	Journal *Journal
}

// Inline reports whether the pipeline file itself describes the model, as a URL or as a program to
// run.
func (m *Model) Inline() bool { return m.URL != "" || m.Process != nil }

// Journal keeps the answers of a model beside the partition of their events, so
// that a crash, a retry or another event that asks the same asks again only for
// what was under way. The zero value keeps the answer to every call: the model's
// scores are async then, since an answer is used when it is durable.
type Journal struct {
	Off       bool          // none are kept
	By        string        // request, where events that ask the same share an answer, or event, where each has its own; "" is event for chat, transcriptions and lookups, and request for others
	Retention time.Duration // of event time; 0 is 7 days, and the most that a model of the pipeline says counts for all
	Max       int           // bytes of answers beside a partition, beyond which the oldest go; 0 is 256 MiB, and the most that a model of the pipeline says counts for all
	Price     float64       // of an answer, for afterbay journal stats; 0 is unknown
}

// Calling says how a model is called that may be slow, late or down.
type Calling struct {
	Timeout     time.Duration // of a call; 0 is that of the model itself, or 1 h of one that computes here, or 3 s
	Budget      bool          // the share of the pipeline's budget that calls have
	Attempts    int           // of an event that fails by its own fault, before it is a dead letter, as one is at once that the model refuses; 0 is 3
	Backoff     Backoff       // between the attempts of an event
	Concurrency int           // most calls of queued events at a time; 0 is 16, or remote.calls of the model's manifest
	Start       int           // calls of queued events at a time until the first are answered, then Concurrency at most; 0 is 4, or Concurrency if that is less
	Expire      time.Duration // since an event was queued, after which it is a dead letter; 0 is never
	Breaker     Breaker
}

// Backoff bounds the time from an attempt to the next: any from 0 to a ceiling that
// doubles with each.
type Backoff struct {
	Base time.Duration // first ceiling; 0 is 200 ms
	Max  time.Duration // last ceiling; 0 is 30 s
}

// Breaker says when no calls are made for a while, and what happens meanwhile.
type Breaker struct {
	Failures int           // calls in a row that fail by the model's fault, of different events, with no later call answered; 0 is 5
	Rate     float64       // share of the calls of the last 10 s, of 20 or more, that fail by the model's fault; 0 is 0.5
	Probe    time.Duration // until a call tries whether it works again; 0 is 30 s
	Open     string        // pause (default) reads no more, queue goes on with the events that need no call, fallback takes the scores' fallback
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

// Content says what may be fetched, and what is kept of it.
type Content struct {
	Root    string   // the absolute path of the folder that files are in, out of which no link leads; "" is no files
	Hosts   []string // that are asked by HTTPS, where *.example.com is all below one; nil is any
	Private []string // networks, as 10.2.0.0/16, whose addresses are asked though they are private
	HTTP    bool     // also http, without encryption
	Buckets []string // of S3, that are read, where * is any; nil is none
	S3      spec.ObjectStore
	Cache   ContentCache
}

// ContentCache keeps content by its hash, so that equal content is kept once and what
// waits for a model is not fetched again.
type ContentCache struct {
	Dir string // a folder, that outlives the process; "" is memory
	Max int    // bytes, beyond which what was used longest ago goes; 0 is 256 MiB
}

// Binding introduces a name as the value of an expression.
type Binding struct{ Name, Expr string }

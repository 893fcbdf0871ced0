package afterbay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/ops/explain"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// Options configure how an Engine runs pipelines. They do not change results. The zero value is a
// good default.
type Options struct {
	Code   Code         // its Logs are kinds of logs that Open knows in addition to the built-in ones
	Logger *slog.Logger // nil discards all messages

	// Data is the folder for the engine's own files if its log is shared: a copy of the state, and
	// the identity with which it takes its partitions again after a restart. "" is the folder data.
	Data string

	Parallelism int   // members of the group of each pipeline; 0 is one per core
	StateBytes  int64 // memory for the state of all pipelines, in bytes; 0 is 1 GiB

	Listen    string // host:port of the HTTP server, as in afterbay run; port 0 takes a free one; "" runs no server
	TokenFile string // tokens of the HTTP server with their roles; reread when the file changes; "" uses no file
	Gateway   string // a gateway file; Run serves its clients; "" runs no gateway

	// Traces receives the spans of all events that arrive with a sampled trace, and of a share
	// TraceShare of the events without a trace. Members call it at the same time. It must not
	// block. nil turns tracing off.
	Traces     func([]Span)
	TraceShare float64 // from 0 to 1

	// If another process holds the data directory, Attach makes the engine work through that
	// process. Run and WaitIdle then return an error.
	Attach bool
}

// Span is one span of an event's trace.
type Span = observe.Span

// Status describes the state of an engine. GET /v1/status returns the same value.
type Status = admin.Status

// Explanation describes where an output or an event came from.
type Explanation = explain.Report

// Engine runs pipelines over one log, with their sinks, lookups and models, an HTTP server and a
// gateway. It does the same as the command afterbay run. Its methods are safe for concurrent use.
type Engine struct {
	options   Options
	process   *process.Process // nil if another process holds the data directory
	directory inspect.Directory
	closeLog  func() error
	begun     chan struct{} // closed when the pipelines start
	begin     sync.Once
	ended     chan struct{} // closed when Run returns

	mu        sync.Mutex // guards pipelines
	pipelines *Pipelines // the pipelines that Run runs
}

// Open opens a log and returns an engine over it. The URL has one of these forms:
//
//   - The folder of a data directory. Open creates it if it does not exist.
//   - memory:, a log that is lost when the engine is closed.
//   - kafka://HOST:PORT, with settings behind a question mark.
//   - A URL of a kind of log in Options.Code.
//
// Open returns an error if Listen can be reached from other machines and TokenFile is "". The
// caller closes the engine.
func Open(ctx context.Context, url string, o Options) (*Engine, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Parallelism < 0 || o.StateBytes < 0 {
		return nil, errors.New("open: Parallelism and StateBytes are 0 or more")
	}
	if host, _, err := net.SplitHostPort(o.Listen); err == nil && !access.Loopback(host) && o.TokenFile == "" {
		return nil, fmt.Errorf("open: Listen %q can be reached from other machines, and any client could read and write without a token: set TokenFile, or listen on 127.0.0.1", o.Listen)
	}
	kinds, err := builtin.KindsWith(o.Code)
	if err != nil {
		return nil, err
	}
	data := o.Data
	if data == "" {
		data = "data"
	}
	if _, known := kinds.Log(url); !known && !strings.Contains(url, ":") {
		url, data = "embedded", url
	}
	at, err := process.EngineAt(kinds, url, "open log")
	if err != nil {
		return nil, err
	}
	at.Program = true
	e := &Engine{options: o, begun: make(chan struct{}), ended: make(chan struct{})}
	of, err := e.processOptions(data)
	if err != nil {
		return nil, err
	}
	if e.process, err = process.Open(ctx, at, of); err == nil {
		e.directory, e.closeLog = e.process.Directory(), e.process.Close
		return e, nil
	}
	if !o.Attach || !process.Held(err) {
		return nil, err
	}
	e.directory, e.closeLog, err = at.Attach(ctx, o.Logger, data, false)
	return e, err
}

// processOptions returns the options of the process that holds the log.
func (e *Engine) processOptions(data string) (process.Options, error) {
	o := process.Options{
		Data: data, StateBytes: e.stateBytes() / 4 * 3, Logger: e.options.Logger, Loader: &process.Loader{},
		Listen: e.options.Listen != "", Started: func(process.Running) { e.begin.Do(func() { close(e.begun) }) },
	}
	tokens, err := process.Tokens(e.options.TokenFile, e.options.Logger)
	o.HTTP = admin.Options{Address: e.options.Listen, Tokens: tokens}
	return o, err
}

func (e *Engine) stateBytes() int64 {
	if e.options.StateBytes > 0 {
		return e.options.StateBytes
	}
	return 1 << 30
}

// errAttached is the error of methods that need to run the pipelines while another process does.
var errAttached = errors.New("another process holds the data directory and runs its pipelines")

// Run creates missing topics, and runs pipelines and their sinks until ctx is done. It then
// finishes the work in progress and returns nil. An error in the contents of a file has file, line,
// column and field. Run can be called once per engine.
func (e *Engine) Run(ctx context.Context, p *Pipelines) (err error) {
	if e.process == nil {
		return errAttached
	}
	e.mu.Lock()
	again := e.pipelines != nil
	if !again {
		e.pipelines = p
	}
	e.mu.Unlock()
	if again {
		return errors.New("run: an engine runs once: open another one")
	}
	defer close(e.ended)
	kinds, err := builtin.Kinds().With(p.code)
	if err != nil {
		return err
	}
	loader := e.process.Loader
	loader.Kinds, loader.Code, loader.Logger = kinds, p.code, e.options.Logger
	defer loader.Close()
	o := pipeline.Options{Members: process.Members(e.options.Parallelism), Traces: e.options.Traces, TraceShare: e.options.TraceShare}
	loaded, err := loader.Make(p.files, o, func(n int) int64 { return e.stateBytes() / 4 / int64(max(1, n)) })
	if err != nil {
		return err
	}
	if e.options.Gateway != "" {
		if err := e.process.AddGateway(e.options.Gateway, kinds, loaded); err != nil {
			return err
		}
	}
	return e.process.Run(ctx, loaded)
}

// Ready blocks until Run has created the topics and the pipelines start. It returns an error if Run
// ends or ctx is done first. If the engine works through another process, Ready returns nil at
// once.
func (e *Engine) Ready(ctx context.Context) error {
	if e.process == nil {
		return nil
	}
	select {
	case <-e.begun:
		return nil
	case <-e.ended:
		return errors.New("the pipelines have not begun: Run returned an error")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WaitIdle blocks until the pipelines of Run have processed all input that the log held at the time
// of the call. They have then committed it, their async queues are empty, and their sinks have
// delivered. WaitIdle returns the error of ctx if ctx is done first.
func (e *Engine) WaitIdle(ctx context.Context) error {
	if e.process == nil {
		return errAttached
	}
	if err := e.Ready(ctx); err != nil {
		return err
	}
	if err := e.process.WaitIdle(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// Append appends records to a topic and blocks until they are durable. Each record goes to the
// partition of its key; its Partition field is ignored. If a record has no key, Append takes
// the topic's key field from its value. Append returns an error for topics that the engine keeps for
// itself.
func (e *Engine) Append(ctx context.Context, topic string, records ...stream.Record) (err error) {
	field := "" // stays "" if another process holds the log: that process finds the keys
	if local, ok := e.directory.(*inspect.Local); ok {
		switch takes, err := local.Takes(ctx, topic); {
		case err != nil:
			return err
		case !takes:
			return fmt.Errorf("topic %q belongs to the engine: append to the input of a pipeline", topic)
		}
		if slices.ContainsFunc(records, func(r stream.Record) bool { return r.Key == nil }) {
			if field, err = local.KeyOf(ctx, topic); err != nil {
				return err
			}
		}
	}
	placed := make([]stream.Record, len(records))
	for i, r := range records {
		placed[i] = r
		placed[i].Partition = stream.Partition{Topic: topic, Index: stream.ByKey}
		if r.Key == nil {
			placed[i].Key = ingest.NewRecord(topic, field, r.Value).Key
		}
	}
	return e.directory.Append(ctx, placed...)
}

// Tail yields the records of all partitions of a topic, starting at an offset. It then waits for
// new records until ctx is done. A negative offset -n starts n records before the end of each
// partition. Tail ends after it has yielded an error. It ends without an error when ctx is done.
func (e *Engine) Tail(ctx context.Context, topic string, from stream.Offset) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		q := inspect.Query{Topic: topic, Partition: inspect.AllPartitions, From: int64(from), Follow: true}
		for r, err := range e.directory.Records(ctx, q) {
			if err != nil && ctx.Err() != nil {
				return
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// Status returns the current state of the pipelines.
func (e *Engine) Status(ctx context.Context) (*Status, error) {
	if client, ok := e.directory.(*admin.Client); ok {
		status, err := client.Status(ctx)
		return &status, err
	}
	status, err := e.process.Status(ctx)
	return &status, err
}

// Explain reports where an output came from: its event, the events before that event, and the steps
// that computed it. If a pipeline of Run computed it, the report also has the row that it was
// computed from. The id is the header afterbay-id of an output or a dead letter, or
// topic/partition@offset.
func (e *Engine) Explain(ctx context.Context, id string) (*Explanation, error) {
	o := explain.Options{Directory: e.directory, ModelKinds: builtin.Kinds().Models}
	e.mu.Lock()
	if e.pipelines != nil {
		o.Pipelines = e.pipelines.all()
	}
	e.mu.Unlock()
	report, err := explain.Explain(ctx, id, o)
	if err != nil {
		return nil, fmt.Errorf("explain %s: %w", id, err)
	}
	return report, nil
}

// Close closes the log. Call it after Run has returned.
func (e *Engine) Close() error { return e.closeLog() }

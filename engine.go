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

// Options say how an Engine runs pipelines. They do not change results. The zero value is a
// good default.
type Options struct {
	Code   Code         // the kinds of logs among it are those that Open knows beside the built-in ones
	Logger *slog.Logger // nil discards

	// Data is the folder where an engine keeps what is its own if its log is shared: a copy
	// of the state, and the identity by which it takes up its partitions again. "" is data.
	Data string

	Parallelism int   // members of the group of each pipeline; 0 is one a core
	StateBytes  int64 // memory for the state of all pipelines; 0 is 1 GiB

	Listen    string // host:port of the HTTP server, as of afterbay run; port 0 takes a free one, "" is no server
	TokenFile string // tokens of the HTTP server with their roles, read again when it changes; "" is no file
	Gateway   string // a gateway file, whose clients Run serves; "" serves none

	// Traces takes the spans of events, as observe.Tracer says: of those that come with a
	// trace, and of a share of the others. It must not block. nil takes none.
	Traces     func([]Span)
	TraceShare float64 // 0 to 1

	// Attach works through the process that holds the data directory, if one does, with
	// all methods but Run and WaitIdle.
	Attach bool
}

// Span is a part of the trace of an event.
type Span = observe.Span

// Status is what an engine does, as GET /v1/status replies with it.
type Status = admin.Status

// Explanation is what is known about an output or an event.
type Explanation = explain.Report

// Engine runs pipelines over one log, with their sinks, lookups and models, a server of
// HTTP and a gateway, exactly as the command afterbay run does. Its methods may be called at
// the same time.
type Engine struct {
	options   Options
	process   *process.Process // nil if another process holds the directory
	directory inspect.Directory
	closeLog  func() error
	begun     chan struct{} // closed when the pipelines begin
	begin     sync.Once
	ended     chan struct{} // closed when Run returns

	mu        sync.Mutex // guards pipelines
	pipelines *Pipelines // that run
}

// Open opens a log. The URL is the folder of a data directory, which is made if it is not
// there; memory:, which is forgotten when the engine is closed; kafka://HOST:PORT, with
// settings behind a question mark; or that of a kind of Code. The caller closes the engine.
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

// processOptions returns the options of the process.
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

// errAttached says that another process runs the pipelines.
var errAttached = errors.New("another process holds the data directory and runs its pipelines")

// Run runs pipelines and their sinks until ctx is done, and returns nil then: with what is
// begun it is done. It makes the topics that are not there. An error in what the files say
// has file, line, column and field. Run is called once.
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

// Ready returns when Run has made the topics and the pipelines begin. It returns an error if
// Run ends before, or ctx.
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

// WaitIdle returns when the pipelines of Run have committed all input that there was at the
// call, have no event in an async queue, and their sinks are done. It returns the error of
// ctx when that is done before.
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

// Append appends records to a topic, each to the partition of its key. A record without a key
// gets the field of its value that the topic is keyed by. Append returns when the records are
// durable. It does not look at their Partition. Topics that the engine keeps for itself take no
// records.
func (e *Engine) Append(ctx context.Context, topic string, records ...stream.Record) (err error) {
	field := "" // if another process holds the log, it takes the keys
	if local, ok := e.directory.(*inspect.Local); ok {
		switch takes, err := local.Takes(ctx, topic); {
		case err != nil:
			return err
		case !takes:
			return fmt.Errorf("topic %q is the engine's own: append to the input of a pipeline", topic)
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

// Tail yields the records of all partitions of a topic, from an offset on, and then those
// that come, until ctx is done. An offset below 0 is so many records before the end of each
// partition. An error is the last that is yielded; it is nil's when ctx is done.
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

// Status returns what the pipelines do.
func (e *Engine) Status(ctx context.Context) (*Status, error) {
	if client, ok := e.directory.(*admin.Client); ok {
		status, err := client.Status(ctx)
		return &status, err
	}
	status, err := e.process.Status(ctx)
	return &status, err
}

// Explain says where an output came from: its event and the events before that, what
// computed it and, if it is of a pipeline of Run, the row that it was computed from. The id
// is the header afterbay-id of an output or a dead letter, or topic/partition@offset.
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

// Close closes the log. Run must have returned.
func (e *Engine) Close() error { return e.closeLog() }

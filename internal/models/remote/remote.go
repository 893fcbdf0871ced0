// Package remote scores with models that a server holds: by the Open Inference
// Protocol, version 2, of Triton, KServe, MLServer and others, over gRPC with raw
// tensors, HTTP with binary tensors, or HTTP with JSON; by OpenAI's embeddings,
// moderations, chat completions and transcriptions, which many servers speak; and
// by JSON of any shape. What a server says of its model is compared with what the
// pipeline gives when the model is loaded, and every answer with what was asked.
//
// A call is made once, but for rows that a server finds too many: they are asked
// for by halves. What is retried, and after how long, is for callers to decide, by
// the Fault of an Error.
package remote

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/model"
)

// Fault says why a call failed.
type Fault int

// The faults, each of which asks for something else of the caller.
const (
	// Late is no answer in time.
	Late Fault = iota + 1
	// Unreachable is no connection, one that broke before the answer was
	// complete, or a server that says that it is too busy or not ready.
	Unreachable
	// Refused is a server that refuses these rows.
	Refused
	// Failed is a server that fails.
	Failed
	// Malformed is an answer to something else: not of the protocol, of another
	// shape, version or type, or not a number.
	Malformed
	// Unfit is an answer to one row that is valid in the protocol, but does not fit the
	// outputs of the model, such as one of a chat model that breaks its schema.
	Unfit
	// Denied is a server that lets nobody in, or has no such model.
	Denied
)

// String returns the word for a fault.
func (f Fault) String() string {
	switch f {
	case Late:
		return "late"
	case Unreachable:
		return "unreachable"
	case Refused:
		return "refused"
	case Failed:
		return "failed"
	case Malformed:
		return "malformed answer"
	case Unfit:
		return "unfit answer"
	case Denied:
		return "denied"
	}
	return fmt.Sprintf("fault %d", int(f))
}

// Error is a call that a server did not answer as it should.
type Error struct {
	Fault Fault
	Err   error         // what happened
	After time.Duration // how long to wait before the next call, where the server says so; else 0

	status int  // of HTTP, where there was one
	large  bool // the rows are too many for a call
	busy   bool // the server has too much to do
	outage bool // it answers no request
}

// Error says what happened.
func (e *Error) Error() string { return fmt.Sprintf("%v: %v", e.Fault, e.Err) }

// Unwrap returns what happened.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is model.ErrAway and the server is away: it is not
// there, not ready, or fails as a whole.
func (e *Error) Is(target error) bool {
	return target == model.ErrAway && (e.Fault == Late || e.Fault == Unreachable || e.Fault == Failed)
}

// Busy reports whether the server says that it has too much to do.
func (e *Error) Busy() bool { return e.busy }

// Outage reports whether no connection could be made, or the server refuses the
// credentials.
func (e *Error) Outage() bool { return e.outage }

// RetryAfter returns After.
func (e *Error) RetryAfter() time.Duration { return e.After }

// Blame says that only what the server refused, or answered unfitly, is the rows'
// fault.
func (e *Error) Blame() model.Blame {
	switch e.Fault {
	case Unfit:
		return model.BlameAnswer
	case Late, Unreachable, Denied:
		return model.BlameWay
	case Failed, Malformed:
		return model.BlameModel
	}
	return model.BlameRows
}

func fault(f Fault, format string, args ...any) error {
	return &Error{Fault: f, Err: fmt.Errorf(format, args...)}
}

// server is what is called, by the API that it speaks. Errors are of type *Error,
// but for those of ctx. It may keep no rows and no scores.
type server interface {
	// describe returns what the options say of the model.
	describe() model.Info
	// agree compares the options with what the server says.
	agree(ctx context.Context) (model.Info, error)
	// ready returns why the server answers no rows, as far as it says, or nil.
	ready(ctx context.Context) error
	// check returns why a row cannot be sent, or nil.
	check(values []float64, bytes [][]byte) error
	// fits returns an error for rows of another width.
	fits(rows model.Rows) error
	// rowsMax is the most rows of a call; 0 is any number.
	rowsMax() int
	// ask makes a call, and writes what the rows are answered with, all of it.
	ask(ctx context.Context, rows model.Rows, into model.Answer) error
	close()
}

// Model is a model that a server holds. It is safe for concurrent use. Close
// ends its connections.
type Model struct {
	options  Options
	server   server
	info     model.Info
	agreed   atomic.Bool   // with the server
	asking   chan struct{} // held by the call that finds out
	slots    chan struct{} // one for each call under way, but for those that their caller bounds
	callsMax int           // as the options say; 0 is that they do not
	most     atomic.Int64  // rows of a call, since the server found more too large; 0 is any number
	full     atomic.Int64  // calls of so many
}

var (
	_ model.Answerer  = (*Model)(nil)
	_ model.Connector = (*Model)(nil)
	_ model.Readier   = (*Model)(nil)
)

// Load is Open and Connect. Of the Open Inference Protocol, what the options leave
// open is taken from the server's metadata.
func Load(ctx context.Context, options Options) (*Model, error) {
	m, err := open(options)
	if err != nil {
		return nil, explainLoad(options, err)
	}
	if err := m.Connect(ctx); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Open returns a model as its options describe it, outputs among them, and asks its
// server nothing. Until the server was reached, each call first asks what Connect
// asks. Where the server has another model than the options describe, calls fail as
// Denied.
func Open(options Options) (*Model, error) {
	m, err := open(options)
	if err == nil && len(m.info.Outputs) == 0 {
		m.Close()
		err = errors.New("outputs are missing: list them, because the server is not asked for them")
	}
	if err != nil {
		return nil, explainLoad(options, err)
	}
	return m, nil
}

func explainLoad(options Options, err error) error {
	var failed *Error
	if errors.As(err, &failed) && failed.Fault == Unreachable {
		err = fmt.Errorf("%w: see that its server runs, or name another address", err)
	}
	return fmt.Errorf("load remote model %s: %w", options.Model, err)
}

func open(options Options) (*Model, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	o := options.withDefaults()
	to, err := url.Parse(o.URL)
	if err != nil {
		return nil, err
	}
	m := &Model{options: o, callsMax: options.Calls, slots: make(chan struct{}, o.Calls), asking: make(chan struct{}, 1)}
	if m.server, err = newServer(&m.options, to); err != nil {
		return nil, err
	}
	m.describe(m.server.describe())
	return m, nil
}

// describe takes a description, and adds what the options say of calls.
func (m *Model) describe(info model.Info) {
	o := &m.options
	info.Request, info.Generative, info.Timeout = o.request(), o.API == Chat || o.API == Transcriptions, o.Timeout
	info.RowsMax, info.CallsMax = m.server.rowsMax(), m.callsMax
	m.info = info
}

// Connect asks the server for the metadata of its model and compares names, order,
// types and shapes of its inputs, its outputs and versions with the options. Servers
// of other APIs, which have none, are asked whether they are there. Nothing is
// scored.
func (m *Model) Connect(ctx context.Context) error {
	info, err := m.agree(ctx)
	if err != nil {
		return explainLoad(m.options, err)
	}
	m.describe(info)
	return nil
}

// Ready implements model.Readier. It asks a server of the Open Inference Protocol
// whether the model is ready, and one of another API what Connect asks.
func (m *Model) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.options.Timeout)
	defer cancel()
	if err := m.server.ready(ctx); err != nil {
		return m.explain(ctx, err)
	}
	return nil
}

func (m *Model) agree(ctx context.Context) (model.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, m.options.Timeout)
	defer cancel()
	info, err := m.server.agree(ctx)
	if err != nil {
		return info, m.explain(ctx, err)
	}
	m.agreed.Store(true)
	return info, nil
}

// connect agrees with the server unless that is done. One call does it, others
// wait for it.
func (m *Model) connect(ctx context.Context) error {
	if m.agreed.Load() {
		return nil
	}
	select {
	case m.asking <- struct{}{}:
		defer func() { <-m.asking }()
	case <-ctx.Done():
		return fault(Late, "another call asks the server for its model: %w", ctx.Err())
	}
	if m.agreed.Load() {
		return nil
	}
	_, err := m.agree(ctx)
	if err != nil && !errors.As(err, new(*Error)) && ctx.Err() == nil {
		return &Error{Fault: Denied, Err: fmt.Errorf("the server has another model than the pipeline describes: %w", err)}
	}
	return err
}

func newServer(o *Options, to *url.URL) (server, error) {
	switch o.API {
	case Embeddings, Moderations:
		return &texts{newOpenAI(o, to)}, nil
	case Chat:
		return newChat(o, to)
	case Transcriptions:
		return &transcriptions{newOpenAI(o, to)}, nil
	case HTTP:
		return newMapped(o, to)
	}
	return newOpenInference(o, to)
}

// Close ends idle connections. Calls under way go on.
func (m *Model) Close() error {
	m.server.close()
	return nil
}

// Info describes the model.
func (m *Model) Info() model.Info { return m.info }

// Check returns why a row cannot be sent, or nil: a missing value goes into
// floating-point numbers of gRPC and binary tensors, and into JSON of API HTTP.
func (m *Model) Check(values []float64, bytes [][]byte) error { return m.server.check(values, bytes) }

// Predict asks the server for the scores of the rows. A call that waits for its
// turn waits within Options.Timeout. Where the API takes a call for each row, as
// many are made at a time as Options.Calls, each within Options.Timeout, and rows
// fail by themselves. An error is ctx's own, where it was cancelled, model.RowErrors
// or wraps an *Error.
func (m *Model) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	if m.info.Texts() > 0 {
		return &Error{Fault: Refused, Err: calling.ErrTexts}
	}
	return m.Answer(ctx, rows, scores, nil)
}

// Answer implements model.Answerer, as Predict does model.Model. A chat model whose
// only output is a text streams it to model.CallOf(ctx).Part.
func (m *Model) Answer(ctx context.Context, rows model.Rows, scores []float32, texts [][]byte) error {
	n, width, words := rows.Len(), m.info.Scores(), m.info.Texts()
	if err := m.server.fits(rows); err != nil {
		return err
	}
	if len(scores) < n*width || len(texts) < n*words {
		return fmt.Errorf("room for %d scores and %d texts of %d rows of %d and %d", len(scores), len(texts), n, width, words)
	}
	of := func(lo, hi int) model.Answer {
		return model.Answer{Scores: scores[lo*width : hi*width], Texts: texts[lo*words : hi*words]}
	}
	bound := m.server.rowsMax()
	if bound == 1 && n > 1 {
		return m.each(ctx, rows, of)
	}
	most := int(m.most.Load())
	for lo := 0; lo < n; {
		hi := n
		for _, limit := range [...]int{bound, most} {
			if limit > 0 {
				hi = min(hi, lo+limit)
			}
		}
		err := m.call(ctx, rows.Slice(lo, hi), of(lo, hi))
		var failed *Error
		switch {
		case err == nil:
			if hi-lo == most && m.full.Add(1)%64 == 0 { // rows may be smaller by now
				most++
				m.most.CompareAndSwap(int64(most-1), int64(most))
			}
			lo = hi
		case hi-lo > 1 && errors.As(err, &failed) && failed.large:
			most = (hi - lo + 1) / 2
			m.most.Store(int64(most))
		default:
			return err
		}
	}
	return nil
}

// call asks about rows once, when it is its turn. The error is ctx's, where it was
// cancelled, or wraps an *Error.
func (m *Model) call(ctx context.Context, rows model.Rows, into model.Answer) error {
	timeout := m.options.Timeout
	if each := model.CallOf(ctx).Timeout; each > 0 {
		timeout = min(timeout, each)
	}
	calling, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := m.turn(calling)
	if err == nil {
		defer m.leave(ctx)
		if err = m.connect(calling); err == nil {
			err = m.server.ask(calling, rows, into)
		}
	}
	if err == nil {
		return nil
	}
	if canceled := ctx.Err(); canceled != nil && !errors.Is(canceled, context.DeadlineExceeded) {
		return canceled
	}
	return fmt.Errorf("%s: %w", m.options.URL, m.explain(calling, err))
}

// turn waits for a slot, unless the caller bounds the calls under way and the options
// do not.
func (m *Model) turn(ctx context.Context) error {
	if m.unbounded(ctx) {
		return nil
	}
	select {
	case m.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault(Late, "%d calls were under way: %w", m.options.Calls, context.DeadlineExceeded)
	}
}

func (m *Model) leave(ctx context.Context) {
	if !m.unbounded(ctx) {
		<-m.slots
	}
}

func (m *Model) unbounded(ctx context.Context) bool {
	return m.callsMax == 0 && model.CallOf(ctx).OffLoop
}

// explain makes Late of whatever happened to a call whose time is over.
func (m *Model) explain(ctx context.Context, err error) error {
	var failed *Error
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && !(errors.As(err, &failed) && (failed.Fault == Malformed || failed.Fault == Late && errors.Is(err, context.DeadlineExceeded))) {
		return &Error{Fault: Late, Err: fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)}
	}
	return err
}

// Package remote scores with models on a server. It supports three groups of APIs:
//
//   - the Open Inference Protocol, version 2, of Triton, KServe, MLServer and others:
//     over gRPC with raw tensors, HTTP with binary tensors, or HTTP with JSON
//   - OpenAI's embeddings, moderations, chat completions and transcriptions, which
//     many servers implement
//   - JSON of any shape
//
// When the model is loaded, the package compares the server's metadata with the pipeline's inputs.
// It compares every answer with its request.
//
// A call is made once, with one exception: if a server finds the rows too many, they are sent in
// halves. The caller decides about retries and their delay, by the Fault of an Error.
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

// The faults. Each requires another reaction of the caller.
const (
	// Late means that no answer arrived in time.
	Late Fault = iota + 1
	// Unreachable means that there was no connection, that it broke before the answer was complete,
	// or that the server reports that it is too busy or not ready.
	Unreachable
	// Refused means that the server refuses these rows.
	Refused
	// Failed means that the server failed.
	Failed
	// Malformed means that the answer does not match the request: it is not of the protocol, has
	// another shape, version or type, or is not a number.
	Malformed
	// Unfit means that the answer to one row is valid in the protocol but does not fit the outputs
	// of the model. An example is an answer of a chat model that breaks its schema.
	Unfit
	// Denied means that the server rejects the credentials, or does not have the model.
	Denied
)

// String returns the name of a fault.
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

// Error is a failed call to a server.
type Error struct {
	Fault Fault
	Err   error         // the cause
	After time.Duration // delay before the next call, if the server names one; else 0

	status int  // HTTP status, if there was one
	large  bool // the rows are too many for a call
	busy   bool // the server is overloaded
	outage bool // the server answers no request
}

// Error returns the fault and its cause.
func (e *Error) Error() string { return fmt.Sprintf("%v: %v", e.Fault, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is model.ErrAway and the server is away: it is unreachable, not ready,
// or fails as a whole.
func (e *Error) Is(target error) bool {
	return target == model.ErrAway && (e.Fault == Late || e.Fault == Unreachable || e.Fault == Failed)
}

// Busy reports whether the server says that it is overloaded.
func (e *Error) Busy() bool { return e.busy }

// Outage reports whether no connection could be made, or the server rejects the credentials.
func (e *Error) Outage() bool { return e.outage }

// RetryAfter returns After.
func (e *Error) RetryAfter() time.Duration { return e.After }

// Blame blames the rows only if the server refused them, or its answer is unfit.
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

// server is the client of one API. Its errors are *Error or those of ctx. It must not keep rows or
// scores.
type server interface {
	// describe returns the description of the model from the options.
	describe() model.Info
	// agree compares the options with the server's metadata.
	agree(ctx context.Context) (model.Info, error)
	// ready returns nil if the server can answer rows, as far as it reports, else the reason.
	ready(ctx context.Context) error
	// check returns nil if a row can be sent, else the reason.
	check(values []float64, bytes [][]byte) error
	// fits returns an error for rows of another width.
	fits(rows model.Rows) error
	// rowsMax returns the most rows per call; 0 means no limit.
	rowsMax() int
	// ask makes a call, and writes the complete answers of the rows.
	ask(ctx context.Context, rows model.Rows, into model.Answer) error
	close()
}

// Model is a model on a server. It is safe for concurrent use. Close ends its connections.
type Model struct {
	options  Options
	server   server
	info     model.Info
	agreed   atomic.Bool   // agree succeeded
	asking   chan struct{} // held by the call that runs agree
	slots    chan struct{} // one for each concurrent call, except calls that the caller bounds
	callsMax int           // from the options; 0 if they do not set it
	most     atomic.Int64  // most rows per call, after the server found more too large; 0 means no limit
	full     atomic.Int64  // calls with the most rows
}

var (
	_ model.Answerer  = (*Model)(nil)
	_ model.Connector = (*Model)(nil)
	_ model.Readier   = (*Model)(nil)
)

// Load does Open and Connect. For the Open Inference Protocol, it takes values that the options
// leave open from the server's metadata.
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

// Open returns a model as its options describe it, including outputs. It does not contact the
// server. Until the server was reached, each call first does what Connect does. If the server's
// model differs from the options, calls fail as Denied.
func Open(options Options) (*Model, error) {
	m, err := open(options)
	if err == nil && len(m.info.Outputs) == 0 {
		m.Close()
		err = errors.New("outputs are missing: list them, because this API does not describe them")
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

// describe sets the description, and adds the options about calls.
func (m *Model) describe(info model.Info) {
	o := &m.options
	info.Request, info.Generative, info.Timeout = o.request(), o.API == Chat || o.API == Transcriptions, o.Timeout
	info.RowsMax, info.CallsMax = m.server.rowsMax(), m.callsMax
	m.info = info
}

// Connect compares the options with the metadata of the server's model: names, order, types and
// shapes of its inputs, its outputs and versions. Servers of other APIs have no metadata; Connect
// only checks that they can be reached. It scores nothing.
func (m *Model) Connect(ctx context.Context) error {
	info, err := m.agree(ctx)
	if err != nil {
		return explainLoad(m.options, err)
	}
	m.describe(info)
	return nil
}

// Ready implements model.Readier. It asks a server of the Open Inference Protocol whether the model
// is ready. For another API it does what Connect does.
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

// connect runs agree once. One call runs it, and the others wait for it.
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

// Close ends idle connections. Calls in flight continue.
func (m *Model) Close() error {
	m.server.close()
	return nil
}

// Info describes the model.
func (m *Model) Info() model.Info { return m.info }

// Check returns nil if a row can be sent, else the reason. A missing value can be sent as a
// floating-point number over gRPC or in binary tensors, and in JSON of API HTTP.
func (m *Model) Check(values []float64, bytes [][]byte) error { return m.server.check(values, bytes) }

// Predict requests the scores of the rows. A call waits for a slot within Options.Timeout. If the
// API takes one call per row, Options.Calls calls run concurrently, each within Options.Timeout,
// and rows fail individually. An error is ctx's own if it was cancelled, is model.RowErrors, or
// wraps an *Error.
func (m *Model) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	if m.info.Texts() > 0 {
		return &Error{Fault: Refused, Err: calling.ErrTexts}
	}
	return m.Answer(ctx, rows, scores, nil)
}

// Answer implements model.Answerer, as Predict implements model.Model. If the only output of a chat
// model is a text, Answer streams it to model.CallOf(ctx).Part.
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
			if hi-lo == most && m.full.Add(1)%64 == 0 { // rows may be smaller now
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

// call sends rows once, after it got a slot. The error is ctx's if it was cancelled, or wraps an
// *Error.
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

// turn waits for a slot. It does not wait if the caller bounds the concurrent calls and the options
// do not.
func (m *Model) turn(ctx context.Context) error {
	if m.unbounded(ctx) {
		return nil
	}
	select {
	case m.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault(Late, "%d calls were in flight: %w", m.options.Calls, context.DeadlineExceeded)
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

// explain turns any error of a call past its deadline into Late.
func (m *Model) explain(ctx context.Context, err error) error {
	var failed *Error
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && !(errors.As(err, &failed) && (failed.Fault == Malformed || failed.Fault == Late && errors.Is(err, context.DeadlineExceeded))) {
		return &Error{Fault: Late, Err: fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)}
	}
	return err
}

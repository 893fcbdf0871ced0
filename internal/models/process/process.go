// Package process scores with any program, in Python or another language. It runs a pool of worker
// processes that read requests from stdin, answer on stdout, and are restarted when they end. A
// worker that dies, hangs or grows too large costs one call, which another worker repeats. If no
// worker survives a call, its error contains the last output of the last one to stderr.
//
// A worker writes a ModelMetadataResponse of the Open Inference Protocol when it is ready. Then it
// writes a ModelInferResponse for each ModelInferRequest, with the same id. Each message follows
// its length in 4 bytes, little-endian. All numbers of a row are in one tensor, "values", of FP32
// and shape [rows, numbers]; each text or other bytes is a tensor of BYTES. Contents are raw. A
// response with a parameter "error" refuses the rows. When stdin ends, a worker exits. The file
// that Helper returns does all of this for a function in Python.
package process

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/internal/models/oip"
	"github.com/afterbay/afterbay/model"
)

//go:embed worker.py
var helper string

// Helper returns a Python file that turns a function into a worker, without dependencies: python3
// worker.py model.py. Its first lines explain the usage.
func Helper() string { return helper }

const (
	workersMax   = 256
	attemptsMax  = 16
	restartFirst = 100 * time.Millisecond
	restartMax   = 30 * time.Second
	quitTime     = 2 * time.Second
)

// Options say what to run. Command and Inputs are required.
type Options struct {
	// Command is the program and its arguments.
	Command []string
	// Dir is the folder that it runs in; "" means that of this process.
	Dir string
	// Env has NAME=value pairs that are added to the environment.
	Env []string
	// Variables name variables of this process's environment that the program gets. It also gets
	// PATH, HOME, LANG and TMPDIR, and no others. Names that begin with AFTERBAY_ are refused,
	// because these variables hold the engine's own secrets.
	Variables []string

	// Inputs are the columns of a row, in order. A worker that names its inputs
	// when it starts must name these.
	Inputs []model.Input
	// Outputs are the outputs with the scores. If empty, the score is one number per row of the
	// first output.
	Outputs []model.Output

	// Workers is the number of processes: 0 means 2, at most 256.
	Workers int
	// Attempts is how many workers a call is tried on: 0 means 2, at most 16.
	Attempts int
	// Timeout bounds the time of a worker for an answer, and the wait of a call for a worker: 0
	// means 30 s. A worker that takes longer is killed.
	Timeout time.Duration
	// StartTimeout bounds the start of a worker: 0 means 60 s.
	StartTimeout time.Duration
	// MemoryBytesMax is the resident memory at which a worker is killed: 0 means 2 GiB. It is
	// checked ten times a second, on Linux, and excludes the worker's own children.
	MemoryBytesMax int64

	// Pure declares that the program has no side effects. It stores nothing and calls no other
	// service, and the scores of a row depend on that row alone. Events may then be scored before
	// they are durable.
	Pure bool
	// Digest is the sha256 of the files that the program loads, as in Info; "" if unknown.
	Digest string
	// Stderr also gets what workers write to stderr, if it is not nil.
	Stderr io.Writer
}

// Validate returns all errors of the options.
func (o Options) Validate() error {
	var list []error
	check := func(wrong bool, format string, args ...any) {
		if wrong {
			list = append(list, fmt.Errorf(format, args...))
		}
	}
	check(len(o.Command) == 0 || o.Command[0] == "", "no command: it is the program to run and its arguments")
	for _, name := range o.Variables {
		check(!variableName.MatchString(name), "%q is not a name of a variable of the environment", name)
		check(strings.HasPrefix(strings.ToUpper(name), ownVariables), "the variable %s belongs to the engine and may hold secrets: give the program another variable", name)
	}
	check(o.Workers < 0 || o.Workers > workersMax, "%d workers: each is a process, 1 to %d are possible", o.Workers, workersMax)
	check(o.Attempts < 0 || o.Attempts > attemptsMax, "%d attempts: rows that end workers would end them all, 1 to %d are possible", o.Attempts, attemptsMax)
	check(o.Timeout < 0 || o.StartTimeout < 0, "a timeout is negative")
	check(o.MemoryBytesMax < 0, "a memory limit of %d bytes is negative", o.MemoryBytesMax)
	return errors.Join(append(list, oip.CheckInputs(o.Inputs), oip.CheckOutputs(o.Outputs))...)
}

func (o Options) withDefaults() Options {
	if len(o.Outputs) == 0 {
		o.Outputs = []model.Output{{Size: 1}}
	}
	if o.Workers == 0 {
		o.Workers = 2
	}
	if o.Attempts == 0 {
		o.Attempts = 2
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = time.Minute
	}
	if o.MemoryBytesMax == 0 {
		o.MemoryBytesMax = 2 << 30
	}
	return o
}

// Model is a pool of workers, which Connect starts. It is safe for concurrent use; each worker runs
// one call at a time. Close ends the workers.
type Model struct {
	started bool
	options Options
	layout  *oip.Layout
	info    model.Info
	calls   chan *call
	closing chan struct{}
	close   sync.Once
	group   sync.WaitGroup // goroutines of supervise
	ids     atomic.Uint64
	lost    atomic.Pointer[string] // why the last worker was lost
	unready atomic.Pointer[error]  // why the last start of a worker failed; nil if it succeeded
}

var (
	_ model.Answerer  = (*Model)(nil)
	_ model.Connector = (*Model)(nil)
	_ model.Readier   = (*Model)(nil)
)

// call is a request on its way to a worker. The goroutine that takes it must answer it.
type call struct {
	id     string
	frame  []byte
	answer chan answer // of capacity one, so that the sender does not wait for a caller that gave up
}

type answer struct {
	response oip.Response
	err      error // the worker is lost
}

// awayError is the error of a call that got no worker.
type awayError struct{ error }

// Blame reports that the error is not about the rows.
func (awayError) Blame() model.Blame { return model.BlameWay }

var errClosed error = awayError{errors.New("the model is closed")}

// Start opens a model and connects it.
func Start(ctx context.Context, options Options) (*Model, error) {
	m, err := Open(options)
	if err != nil {
		return nil, err
	}
	if err := m.Connect(ctx); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Open describes the model by its options. It runs no program; Connect does.
func Open(options Options) (*Model, error) {
	if err := options.Validate(); err != nil {
		return nil, fmt.Errorf("model process: %w", err)
	}
	options = options.withDefaults()
	layout, err := oip.Packed(options.Inputs, "values")
	if err != nil {
		return nil, fmt.Errorf("model process: %w", err)
	}
	program := strings.Join(append([]string{filepath.Base(options.Command[0])}, options.Command[1:]...), " ")
	return &Model{
		options: options, layout: layout, calls: make(chan *call), closing: make(chan struct{}),
		info: model.Info{
			Kind: "process", Digest: options.Digest, Inputs: options.Inputs, Outputs: options.Outputs, Remote: !options.Pure,
			Request: program, Timeout: time.Duration(2*options.Attempts) * options.Timeout, // for a worker, and for its answer
			Describe: fmt.Sprintf("%s, workers: %d", program, options.Workers),
		},
	}, nil
}

// Connect implements model.Connector: it starts the workers and waits until all are ready. If a
// worker cannot start, the error contains its stderr. After an error the caller must close the
// model.
func (m *Model) Connect(ctx context.Context) error {
	if m.started {
		return nil
	}
	m.started = true
	ready := make(chan error, m.options.Workers)
	for range m.options.Workers {
		m.group.Go(func() { m.supervise(ready) })
	}
	for range m.options.Workers {
		var err error
		select {
		case err = <-ready:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("start %s: %w", m.info.Request, err)
		}
	}
	return nil
}

// Close ends the workers and waits for them: an idle worker has two seconds to exit. Calls in
// flight fail.
func (m *Model) Close() error {
	m.close.Do(func() { close(m.closing) })
	m.group.Wait()
	return nil
}

// Ready implements model.Readier: a program is ready unless its newest worker failed to start. A
// worker that takes too long is replaced.
func (m *Model) Ready(context.Context) error {
	if err := m.unready.Load(); err != nil {
		return *err
	}
	return nil
}

// Info describes the model.
func (m *Model) Info() model.Info { return m.info }

// Check returns nil if a row can be sent to a worker, else the reason. A missing number is sent as
// NaN; a missing text is refused.
func (m *Model) Check(values []float64, bytes [][]byte) error { return m.layout.Check(values, bytes) }

// Predict scores the rows on a worker. If the worker is lost meanwhile, it is replaced, and the
// call is retried on up to Options.Attempts workers. When ctx ends, Predict returns. The worker
// completes its answer, which is discarded.
func (m *Model) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	if m.info.Texts() > 0 {
		return calling.ErrTexts
	}
	return m.Answer(ctx, rows, scores, nil)
}

// Answer implements model.Answerer, as Predict implements model.Model.
func (m *Model) Answer(ctx context.Context, rows model.Rows, scores []float32, texts [][]byte) error {
	n, width, words := rows.Len(), m.info.Scores(), m.info.Texts()
	if err := m.layout.Fits(rows); err != nil {
		return err
	}
	if len(scores) < n*width || len(texts) < n*words {
		return fmt.Errorf("room for %d scores and %d texts of %d rows of %d and %d", len(scores), len(texts), n, width, words)
	}
	if n == 0 {
		return nil
	}
	c, err := m.encode(rows)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		a, err := m.try(ctx, c)
		switch {
		case err != nil:
			return err
		case a.err == nil && a.response.Error != "":
			return fmt.Errorf("the worker refuses the rows: %s", a.response.Error)
		case a.err == nil:
			return oip.Answers(a.response.Outputs, m.info.Outputs, n, model.Answer{Scores: scores[:n*width], Texts: texts[:n*words]})
		case attempt == m.options.Attempts:
			return fmt.Errorf("%d of %d tries lost their worker, the last: %w", attempt, attempt, a.err)
		}
	}
}

// encode builds a frame of the rows: its length and a ModelInferRequest.
func (m *Model) encode(rows model.Rows) (*call, error) {
	id := strconv.FormatUint(m.ids.Add(1), 10)
	request := oip.Request{ID: id, Inputs: m.layout.Fill(nil, rows)}
	frame := request.Append(make([]byte, 4, 256+5*len(rows.Values)))
	if uint64(len(frame)-4) > math.MaxUint32 {
		return nil, fmt.Errorf("%d rows are %d bytes: at most 2^32 are possible", rows.Len(), len(frame))
	}
	setLength(frame)
	return &call{id: id, frame: frame}, nil
}

// try gives the call to a worker and waits for the answer. It fails if no worker took the call or
// the caller gave up.
func (m *Model) try(ctx context.Context, c *call) (answer, error) {
	again := &call{id: c.id, frame: c.frame, answer: make(chan answer, 1)}
	timer := time.NewTimer(m.options.Timeout)
	defer timer.Stop()
	select {
	case m.calls <- again:
	case <-ctx.Done():
		return answer{}, ctx.Err()
	case <-m.closing:
		return answer{}, errClosed
	case <-timer.C:
		err := fmt.Errorf("no worker was free within %v", m.options.Timeout)
		if lost := m.lost.Load(); lost != nil {
			err = fmt.Errorf("%w; the last one lost: %s", err, *lost)
		}
		return answer{}, awayError{err}
	}
	select {
	case a := <-again.answer:
		if errors.Is(a.err, errClosed) {
			return answer{}, errClosed
		}
		return a, nil
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
}

// supervise keeps one worker running until the model is closed. It reports to ready whether the
// first one started; if not, it returns.
func (m *Model) supervise(ready chan<- error) {
	for failures := 0; ; failures++ {
		w, err := m.launch()
		unready := &err
		if err == nil {
			unready = nil
		}
		m.unready.Store(unready)
		if ready != nil {
			ready <- err
			if ready = nil; err != nil {
				return
			}
		}
		if err == nil {
			var answered bool
			if answered, err = m.feed(w); answered {
				failures = 0
			}
		}
		if errors.Is(err, errClosed) {
			return
		}
		text := err.Error()
		m.lost.Store(&text)
		select {
		case <-m.closing:
			return
		case <-time.After(pause(failures)):
		}
	}
}

// pause returns the delay before a worker is restarted: none after a worker that had answered, then
// doubled each time.
func pause(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	return min(restartFirst<<min(failures-1, 16), restartMax)
}

// launch starts a worker and waits until it is ready.
func (m *Model) launch() (*worker, error) {
	w, err := spawn(&m.options)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(m.options.StartTimeout)
	defer timer.Stop()
	select {
	case f := <-w.frames:
		if err = f.err; err == nil {
			err = m.greet(f.data)
		}
	case <-timer.C:
		err = fmt.Errorf("it was not ready within %v", m.options.StartTimeout)
	case <-m.closing:
		err = errClosed
	}
	if err != nil {
		return nil, w.end(err)
	}
	return w, nil
}

// greet checks the metadata of a worker.
func (m *Model) greet(data []byte) error {
	metadata, err := oip.ParseMetadata(data)
	if err != nil {
		return fmt.Errorf("its first message is not its metadata: %w", err)
	}
	if len(metadata.Inputs) == 0 {
		return nil
	}
	if len(metadata.Inputs) != len(m.options.Inputs) {
		return fmt.Errorf("it has %d inputs, where %d are given", len(metadata.Inputs), len(m.options.Inputs))
	}
	for i, in := range m.options.Inputs {
		if name := metadata.Inputs[i].Name; name != in.Name {
			return fmt.Errorf("its input %d is %q, where %q is given: names and their order must be the same", i+1, name, in.Name)
		}
	}
	return nil
}

// feed gives calls to a worker until it is lost or the model is closed, and returns the reason. It
// answers every call that the worker took.
func (m *Model) feed(w *worker) (answered bool, err error) {
	for {
		select {
		case c := <-m.calls:
			var a answer
			if a.response, err = m.exchange(w, c); err != nil {
				a.err = w.end(err)
				c.answer <- a
				return answered, a.err
			}
			answered = true
			c.answer <- a
		case f := <-w.frames:
			if f.err == nil {
				f.err = errors.New("it wrote to stdout, which is for answers, unasked")
			}
			return answered, w.end(f.err)
		case <-m.closing:
			return answered, w.quit()
		}
	}
}

// exchange sends a request and waits for the answer. After an error the state of the worker is
// unknown.
func (m *Model) exchange(w *worker, c *call) (oip.Response, error) {
	timer := time.NewTimer(m.options.Timeout)
	defer timer.Stop()
	late := fmt.Errorf("it did not answer within %v", m.options.Timeout)
	if err := w.send(c.frame, time.Now().Add(m.options.Timeout)); err != nil {
		return oip.Response{}, err
	}
	var response oip.Response
	select {
	case f := <-w.frames:
		if f.err != nil {
			return response, f.err
		}
		var err error
		if response, err = oip.ParseResponse(f.data); err != nil {
			return response, fmt.Errorf("its answer is not a ModelInferResponse: %w", err)
		}
		if response.ID != c.id {
			return response, fmt.Errorf("its answer is for request %q, not %q", response.ID, c.id)
		}
		return response, nil
	case <-timer.C:
		return response, late
	case <-m.closing:
		return response, errClosed
	}
}

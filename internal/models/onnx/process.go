package onnx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/afterbay/afterbay/internal/models/oip"
	"github.com/afterbay/afterbay/internal/models/onnx/internal/wire"
)

const (
	restartFirst  = 100 * time.Millisecond
	restartMax    = 10 * time.Second
	complaintsMax = 4 << 10
	graphBytesMax = 16 << 20
)

// deathError reports that the worker process died or is unusable. A new one may answer.
type deathError struct{ err error }

func (e *deathError) Error() string { return "the process of ONNX Runtime " + e.err.Error() }
func (e *deathError) Unwrap() error { return e.err }

var errLate = errors.New("gave no answer in time and was ended")

// process is a running worker. It is not safe for concurrent use.
type process struct {
	graph      wire.Graph
	command    *exec.Cmd
	in         io.WriteCloser
	out        io.Reader
	complaints *tail
	timeout    time.Duration
	late       atomic.Bool // it was killed because it did not answer in time
	bytesMax   int64       // most bytes of an answer
	request    []byte
	answer     []byte
}

// tail keeps the last bytes written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b[max(0, len(b)-complaintsMax):]...)
	t.kept = t.kept[max(0, len(t.kept)-complaintsMax):]
	return len(b), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.kept))
}

// start starts a worker and waits until it has described its model. The worker is killed when ctx
// ends.
func start(ctx context.Context, name string, arguments []string, timeout, startTimeout time.Duration, bytesMax int64) (*process, error) {
	p := &process{command: exec.CommandContext(ctx, name, arguments...), complaints: &tail{}, timeout: timeout, bytesMax: bytesMax}
	p.command.Env = environment()
	p.command.Stderr = p.complaints
	p.command.WaitDelay = time.Second
	in, err := p.command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.in, p.out = in, out
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	timer := p.watch(startTimeout)
	frame, err := wire.ReadFrame(p.out, nil, graphBytesMax)
	timer.Stop()
	if err != nil {
		err = p.death(err)
		p.end()
		return nil, err
	}
	if p.graph, err = wire.ParseGraph(frame); err != nil {
		p.end()
		return nil, err
	}
	return p, nil
}

// environment returns the variables that a worker needs. The environment may hold secrets, which a
// worker must not see. Go runs on one processor in the worker: otherwise its runtime stays active
// while ONNX Runtime computes, which costs 5 to 10 percent.
func environment() []string {
	list := []string{"GOMAXPROCS=1"}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "HOME", "TMPDIR", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			list = append(list, name+"="+value)
		}
	}
	return list
}

// watch kills the process if it does not answer within the timeout.
func (p *process) watch(timeout time.Duration) *time.Timer {
	return time.AfterFunc(timeout, func() {
		p.late.Store(true)
		_ = p.command.Process.Kill() // fails only if the process is already gone
	})
}

// death returns why reading or writing failed. It waits for the process.
func (p *process) death(err error) error {
	_ = p.command.Process.Kill() // as above; after a broken message the process still runs
	waited := p.command.Wait()
	if p.late.Load() {
		return &deathError{errLate}
	}
	if said := p.complaints.text(); said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	if waited != nil {
		return &deathError{fmt.Errorf("ended (%w): %w", waited, err)}
	}
	return &deathError{fmt.Errorf("ended: %w", err)}
}

// end ends the process and waits for it.
func (p *process) end() {
	_ = p.in.Close()             // this ends the process; if not, Kill does
	_ = p.command.Process.Kill() // as above
	_ = p.command.Wait()         // as above; death may have waited
}

// calls is work for a process: n calls, with requests encoded and answers decoded in order. Up to
// two calls are in flight: the next one is encoded while one is computed. Answers are valid during
// decode.
type calls struct {
	n      int
	encode func(call int, frame []byte) ([]byte, error)
	decode func(call int, answer []oip.Tensor) error
}

// run makes the calls from next on. It returns the index of the first call without an answer. After
// an error other than *deathError, the process is ready for further calls.
func (p *process) run(ctx context.Context, c calls, next int) (int, error) {
	var stop error
	timer := p.watch(p.timeout)
	defer timer.Stop()
	for written := next; ; next++ {
		for stop == nil && written < c.n && written < next+2 {
			if stop = ctx.Err(); stop != nil {
				break
			}
			p.request, stop = c.encode(written, wire.Begin(p.request))
			if stop == nil {
				p.request, stop = wire.End(p.request)
			}
			if stop != nil {
				break
			}
			if _, err := p.in.Write(p.request); err != nil {
				return next, p.death(err)
			}
			written++
		}
		if next == written {
			return next, stop
		}
		frame, err := wire.ReadFrame(p.out, p.answer, p.bytesMax+wire.FrameRest)
		if err != nil {
			return next, p.death(err)
		}
		timer.Reset(p.timeout)
		p.answer = frame
		if stop != nil {
			continue // its caller has given up
		}
		answer, err := wire.ParseAnswer(frame)
		if err == nil {
			err = c.decode(next, answer)
		}
		stop = err
	}
}

// slot holds one process, and restarts it when it died.
type slot struct {
	launch   func() (*process, error)
	patience time.Duration   // how long a call waits for a process
	closed   <-chan struct{} // closed when no more processes may start
	process  *process
	wait     time.Duration // delay before the next start
	notYet   time.Time     // earliest time of the next start
}

// work makes calls. If the process dies during a call, work repeats the call once in another
// process. This is safe because a model keeps no state.
func (s *slot) work(ctx context.Context, c calls) error {
	repeated := -1
	for next := 0; next < c.n; {
		if err := s.revive(ctx); err != nil {
			return err
		}
		answered, err := s.process.run(ctx, c, next)
		if answered > next {
			s.wait = 0
		}
		next = answered
		var death *deathError
		if !errors.As(err, &death) {
			if err != nil {
				return err
			}
			continue
		}
		s.process = nil
		s.postpone()
		if repeated == next || errors.Is(err, errLate) {
			return err
		}
		repeated = next
	}
	return nil
}

// revive starts a process if the slot has no process. It retries for a while, because a failed
// start (no memory, a file being replaced) is not the fault of a call.
func (s *slot) revive(ctx context.Context) error {
	until := time.Now().Add(s.patience)
	for {
		err := s.ready(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, errClosed) || time.Now().After(until) {
			return err
		}
	}
}

var errClosed = errors.New("the model is closed")

// ready starts a process if the slot has no process. After deaths it waits for the delay in wait
// first.
func (s *slot) ready(ctx context.Context) error {
	if s.process != nil {
		return nil
	}
	if pause := time.Until(s.notYet); pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closed:
		}
	}
	select {
	case <-s.closed:
		return errClosed
	default:
	}
	p, err := s.launch()
	if err != nil {
		s.postpone()
		return err
	}
	s.process = p
	return nil
}

func (s *slot) postpone() {
	s.notYet = time.Now().Add(s.wait)
	s.wait = min(max(2*s.wait, restartFirst), restartMax)
}

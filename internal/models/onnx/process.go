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

	"github.com/afterbay/afterbay/internal/models/onnx/internal/wire"
)

const (
	restartFirst  = 100 * time.Millisecond
	restartMax    = 10 * time.Second
	complaintsMax = 4 << 10
	graphBytesMax = 16 << 20
)

// deathError says that the process that was asked is gone, or of no use; a new
// one may answer.
type deathError struct{ err error }

func (e *deathError) Error() string { return "the process of ONNX Runtime " + e.err.Error() }
func (e *deathError) Unwrap() error { return e.err }

var errLate = errors.New("gave no answer in time and was ended")

// process is a running worker. One goroutine uses it.
type process struct {
	graph      wire.Graph
	command    *exec.Cmd
	in         io.WriteCloser
	out        io.Reader
	complaints *tail
	timeout    time.Duration
	late       atomic.Bool // it was ended for its silence
	bytesMax   int64       // of an answer
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

// start starts a worker and waits until it has described its model. It is
// killed when ctx ends.
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

// environment is what a worker needs of the environment, which may hold secrets
// that are none of its business. With one processor of Go nothing of its runtime
// stays awake while ONNX Runtime computes, which else costs 5 to 10 percent.
func environment() []string {
	list := []string{"GOMAXPROCS=1"}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "HOME", "TMPDIR", "LANG"} {
		if value, ok := os.LookupEnv(name); ok {
			list = append(list, name+"="+value)
		}
	}
	return list
}

// watch ends the process after a time without an answer.
func (p *process) watch(timeout time.Duration) *time.Timer {
	return time.AfterFunc(timeout, func() {
		p.late.Store(true)
		_ = p.command.Process.Kill() // a process that is gone needs no end
	})
}

// death says why reading or writing came to an end. It waits for the process.
func (p *process) death(err error) error {
	_ = p.command.Process.Kill() // as above; after a broken message it is still there
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
	_ = p.in.Close()             // the process ends with it; if not, it is killed
	_ = p.command.Process.Kill() // as above
	_ = p.command.Wait()         // as above; death may have waited
}

// calls is work for a process: n calls whose requests are encoded and whose
// answers are decoded in order. Up to two are under way: a call is encoded while
// the one before is computed. Answers are valid during decode.
type calls struct {
	n      int
	encode func(call int, frame []byte) ([]byte, error)
	decode func(call int, answer []wire.Tensor) error
}

// run makes the calls from next on, and returns the first that has no answer
// yet. An error that is no *deathError leaves the process ready for others.
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
			continue // nobody waits for it
		}
		answer, err := wire.ParseAnswer(frame)
		if err == nil {
			err = c.decode(next, answer)
		}
		stop = err
	}
}

// slot is room for one process, which it starts again when it died.
type slot struct {
	launch   func() (*process, error)
	patience time.Duration   // for how long a call waits for one
	closed   <-chan struct{} // no process is started any more
	process  *process
	wait     time.Duration // before the next start
	notYet   time.Time     // before which none is started
}

// work makes calls. A call that a process died in is made once more, by another
// one: a model keeps nothing, so that a repeated call is no other call.
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

// revive starts a process if there is none, and again where that fails: that none
// can be started for a while (no memory, a file being replaced) is no call's fault.
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

// ready starts a process if there is none, not sooner after deaths than wait
// says.
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

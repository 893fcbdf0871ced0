package scenario

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/stream"
)

// engine is a log that tools can ask.
type engine = stream.Engine

// errKilled is what a killed process gets from its log.
var errKilled = errors.New("the process was killed")

// mortal is a log as a process sees it that can be killed: from then on nothing
// of the process reaches the log, as after kill -9. What it handed over before
// may or may not be committed.
type mortal struct {
	engine

	mu      sync.Mutex // guards what follows
	dead    bool
	members []*mortalMember
	pending []*stream.Pending // in the order they were handed over
	changed sync.Cond         // on mu: a member was polled or closed, or the process was killed
}

func newMortal(e engine) *mortal {
	m := &mortal{engine: e}
	m.changed.L = &m.mu
	return m
}

// kill ends the process. It returns when at most one commit is undecided, the
// newest: then a copy of an engine's files is one that a killed process could
// have left, since the engine writes one frame at a time.
func (m *mortal) kill() (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return false
	}
	m.dead = true
	m.changed.Broadcast()
	for _, s := range m.members {
		s.Wake()
	}
	for _, p := range m.pending[:max(0, len(m.pending)-1)] {
		<-p.Done()
	}
	return true
}

func (m *mortal) alive() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return errKilled
	}
	return nil
}

// Append implements stream.Log.
func (m *mortal) Append(ctx context.Context, records ...stream.Record) error {
	if err := m.alive(); err != nil {
		return err
	}
	return m.engine.Append(ctx, records...)
}

// Join implements stream.Log.
func (m *mortal) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	if err := m.alive(); err != nil {
		return nil, err
	}
	s, err := m.engine.Join(ctx, group, topics...)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	one := &mortalMember{Member: s, process: m}
	m.members = append(m.members, one)
	return one, nil
}

// turn waits until each member's loop has made a whole turn, has ended or was killed.
// A loop that is between two polls at the call makes two.
func (m *mortal) turn() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.members {
		for range 2 {
			s.Wake()
			for polls := s.polls; s.polls == polls && !s.closed && !m.dead; {
				m.changed.Wait()
			}
		}
	}
}

type mortalMember struct {
	stream.Member
	process *mortal

	polls  int // begun; guarded by process.mu, as is what follows
	closed bool
}

// note counts a poll, or notes that there will be no other.
func (s *mortalMember) note(polls int, closed bool) {
	s.process.mu.Lock()
	defer s.process.mu.Unlock()
	s.polls, s.closed = s.polls+polls, closed
	s.process.changed.Broadcast()
}

// Close implements stream.Member.
func (s *mortalMember) Close() error {
	s.note(0, true)
	return s.Member.Close()
}

// Poll implements stream.Member.
func (s *mortalMember) Poll(ctx context.Context, limit int) (stream.Batch, error) {
	if err := s.process.alive(); err != nil {
		return stream.Batch{}, err
	}
	s.note(1, false)
	batch, err := s.Member.Poll(ctx, limit)
	return batch, errors.Join(err, s.process.alive())
}

// Commit implements stream.Member.
func (s *mortalMember) Commit(step stream.Transaction) *stream.Pending {
	m := s.process
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		p := stream.NewPending()
		p.Decide(errKilled)
		return p
	}
	p := s.Member.Commit(step)
	m.pending = slices.DeleteFunc(m.pending, func(p *stream.Pending) bool {
		select {
		case <-p.Done():
			return true
		default:
			return false
		}
	})
	m.pending = append(m.pending, p)
	return p
}

// process is one life of a process that runs the pipelines.
type process struct {
	log     *mortal
	runners []*running.Runner
	ctx     context.Context // done when a pipeline ended
	stop    context.CancelFunc
	group   *errgroup.Group
}

// start starts the pipelines and their sinks.
func start(ctx context.Context, log *mortal, runners []*running.Runner) *process {
	ctx, stop := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	p := &process{log: log, runners: runners, ctx: ctx, stop: stop, group: group}
	for _, r := range runners {
		group.Go(func() error { return r.Run(ctx, log) })
		group.Go(func() error { return r.Deliver(ctx, log) })
	}
	return p
}

// settle waits until everything that was appended is processed, and what that became is
// delivered. It returns errKilled where the process was killed meanwhile, and then it has ended.
func (p *process) settle() error { return p.wait((*running.Runner).Finish) }

// read is settle, but of pipelines that read in the order of several partitions it waits only
// until they have copied the events.
func (p *process) read() error { return p.wait((*running.Runner).WaitRead) }

func (p *process) wait(until func(*running.Runner, context.Context, stream.Log) error) error {
	for _, r := range p.runners {
		if err := until(r, p.ctx, p.log); err != nil {
			return errors.Join(p.end(), err)
		}
	}
	for _, r := range p.runners {
		if err := r.WaitDelivered(p.ctx, p.log); err != nil {
			return errors.Join(p.end(), err)
		}
	}
	if p.log.alive() != nil {
		return p.end()
	}
	return nil
}

// end stops the pipelines, which commit what they began, and waits for them. It
// returns errKilled where the process was killed.
func (p *process) end() error {
	p.stop()
	err := p.group.Wait()
	for _, r := range p.runners {
		r.Close()
	}
	if err != nil && !errors.Is(err, errKilled) {
		return err
	}
	return p.log.alive()
}

// copyFolder copies the files of a folder and of those in it.
func copyFolder(to, from string) error {
	return filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // removed since it was listed
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		}
		return copyFile(filepath.Join(to, name), path)
	})
}

func copyFile(to, from string) (err error) {
	in, err := os.Open(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}

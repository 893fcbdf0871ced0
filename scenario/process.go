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

// engine is a log that also answers the queries of tools.
type engine = stream.Engine

// errKilled is the error that the log returns to a killed process.
var errKilled = errors.New("the process was killed")

// mortal is the log of a process that can be killed. After a kill, no call of the process reaches
// the log, as after kill -9. Transactions that the process submitted before may or may not be
// committed.
type mortal struct {
	engine

	mu      sync.Mutex // guards the fields below
	dead    bool
	members []*mortalMember
	pending []*stream.Pending // in the order of submission
	changed sync.Cond         // uses mu: a member was polled or closed, or the process was killed
}

func newMortal(e engine) *mortal {
	m := &mortal{engine: e}
	m.changed.L = &m.mu
	return m
}

// kill kills the process. It returns when at most one commit, the newest, is undecided. A copy of
// the engine's files is then a state that a killed process can leave, because the engine writes one
// frame at a time. first is false if the process was killed before.
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

// turn blocks until the loop of each member has run a whole iteration, has ended, or was killed. A
// loop that is between two polls at the time of the call runs two.
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

	polls  int // started polls; process.mu guards the fields below
	closed bool
}

// note counts polls, and records whether the member is closed.
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

// process is one lifetime of a process that runs the pipelines.
type process struct {
	log     *mortal
	runners []*running.Runner
	ctx     context.Context // done when a pipeline has ended
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

// settle blocks until all appended records are processed and the results are delivered. It returns
// errKilled if the process was killed meanwhile; the process has then ended.
func (p *process) settle() error { return p.wait((*running.Runner).Finish) }

// read is settle, except that it waits less for pipelines that read several partitions in time
// order: only until they have copied the events.
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

// end stops the pipelines, which commit the work that they began, and waits for them. It returns
// errKilled if the process was killed.
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

// copyFolder copies a folder with all its files and subfolders.
func copyFolder(to, from string) error {
	return filepath.WalkDir(from, func(path string, entry os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // removed after it was listed
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

package streamtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/afterbay/afterbay/internal/log/optional"
	"github.com/afterbay/afterbay/stream"
)

// Fault is one kind of failure that a Faulty log injects.
type Fault int

// The faults. Each occurs in real systems. None may change the results that a correct pipeline
// commits.
const (
	CommitLost   Fault = iota // a commit fails and wrote nothing
	CommitHidden              // a commit reports failure although it succeeded
	Takeover                  // the member stalls until another member has taken its partitions
	Rebalance                 // another member joins and later leaves
	Delay                     // a commit happens late, or its outcome is reported late
	ShortPoll                 // a poll returns fewer records than it could
	faults
)

var faultNames = [faults]string{"commit lost", "commit hidden", "takeover", "rebalance", "delay", "short poll"}

// String returns the fault's name.
func (f Fault) String() string { return faultNames[f] }

// Counts says how often each fault was injected.
type Counts map[Fault]int

// Add adds the counts of more to c.
func (c Counts) Add(more Counts) {
	for f, n := range more {
		c[f] += n
	}
}

// Missing returns the faults that never happened. A test that requires every fault fails if the
// result is not empty.
func (c Counts) Missing() []Fault {
	var missing []Fault
	for f := range faults {
		if c[f] == 0 {
			missing = append(missing, f)
		}
	}
	return missing
}

// String returns the counts of all faults, as "commit lost 3, ...".
func (c Counts) String() string {
	parts := make([]string, faults)
	for f := range faults {
		parts[f] = fmt.Sprint(f, " ", c[f])
	}
	return strings.Join(parts, ", ")
}

// FaultyOptions configures a Faulty log. The zero value injects every fault.
type FaultyOptions struct {
	Seed uint64 // the same seed injects the same faults
	// Percent is the chance of each fault in a call where it is possible. Faults that are not in
	// the map never happen. Nil means DefaultPercent.
	Percent map[Fault]int
	// MaxDelay is the longest Delay; 0 means 20 ms.
	MaxDelay time.Duration
	// Stall is the longest wait of a Takeover; 0 means 30 s. It must be longer than the log's
	// rebalance timeout.
	Stall time.Duration
}

// DefaultPercent returns the chances that a zero FaultyOptions uses.
func DefaultPercent() map[Fault]int {
	return map[Fault]int{CommitLost: 8, CommitHidden: 8, Takeover: 2, Rebalance: 5, Delay: 30, ShortPoll: 30}
}

// Faulty is a stream.Log with members that sometimes fail, as networks, brokers and stalled
// processes cause it. Other calls go to the wrapped log unchanged.
type Faulty struct {
	stream.Log
	options FaultyOptions

	mu      sync.Mutex // guards the fields below
	counts  Counts
	members uint64
}

// NewFaulty returns log with injected faults. Close of the result also closes log.
func NewFaulty(log stream.Log, o FaultyOptions) *Faulty {
	if o.Percent == nil {
		o.Percent = DefaultPercent()
	}
	if o.MaxDelay == 0 {
		o.MaxDelay = 20 * time.Millisecond
	}
	if o.Stall == 0 {
		o.Stall = 30 * time.Second
	}
	return &Faulty{Log: log, options: o, counts: Counts{}}
}

// Counts returns how often each fault was injected so far.
func (f *Faulty) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.counts)
}

func (f *Faulty) count(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[fault]++
}

// Join implements stream.Log.
func (f *Faulty) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	member, err := f.Log.Join(ctx, group, topics...)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members++
	s := &faultyMember{
		inner: member,
		turn:  make(chan struct{}, 1),
		log:   f,
		join:  func(ctx context.Context) (stream.Member, error) { return f.Log.Join(ctx, group, topics...) },
		rng:   rand.New(rand.NewPCG(f.options.Seed, f.members)),
		owned: map[stream.Partition]bool{}, handed: true,
	}
	if _, ok := member.(stream.EarlyReader); ok {
		return &earlyMember{s}, nil
	}
	return s, nil
}

// earlyMember is a faultyMember that can read early.
type earlyMember struct{ *faultyMember }

// ReadEarly implements stream.EarlyReader.
func (s *earlyMember) ReadEarly(on bool) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.inner.(stream.EarlyReader).ReadEarly(on)
}

// faultyMember belongs to one goroutine, like every member. A second goroutine, the decider, passes
// a delayed commit to the wrapped member between polls. They take turns with a channel, not a
// mutex: in a testing/synctest bubble time does not advance while a goroutine waits for a mutex.
type faultyMember struct {
	inner stream.Member
	turn  chan struct{} // holds a token while inner is in use
	log   *Faulty
	join  func(context.Context) (stream.Member, error)
	rng   *rand.Rand

	owned       map[stream.Partition]bool
	revoked     bool            // the last batch revoked partitions
	guest       stream.Member   // the other member of a Rebalance
	visit       int             // polls until the guest leaves
	outstanding *stream.Pending // nil before the first commit
	dead        atomic.Bool     // a commit failed
	deciders    sync.WaitGroup

	handed bool            // inner has the newest commit; guarded by turn, as the fields below
	early  []stream.Record // outputs delivered for the next transaction, not yet passed on
}

func (s *faultyMember) chance(f Fault) bool { return s.rng.IntN(100) < s.log.options.Percent[f] }

// Poll implements stream.Member.
func (s *faultyMember) Poll(ctx context.Context, limit int) (stream.Batch, error) {
	if s.dead.Load() {
		return stream.Batch{}, fmt.Errorf("poll after a failed commit: %w", stream.ErrFenced)
	}
	if s.chance(Takeover) {
		s.takeover()
	}
	if s.guest == nil && s.chance(Rebalance) {
		s.invite(ctx)
	}
	if s.chance(ShortPoll) && limit > 1 {
		s.log.count(ShortPoll)
		limit = 1 + s.rng.IntN(limit-1)
	}
	if s.revoked && s.committing() {
		// Revoked partitions still belong to the member until the commit is decided.
		select {
		case <-s.outstanding.Done():
		case <-ctx.Done():
			return stream.Batch{}, ctx.Err()
		}
	}
	batch, err := s.pollInTurn(ctx, limit)
	s.revoked = len(batch.Revoked) > 0
	for _, p := range batch.Revoked {
		delete(s.owned, p)
	}
	for _, a := range batch.Assigned {
		s.owned[a.Partition] = true
	}
	return batch, err
}

// pollInTurn polls in short turns if a delayed commit or a guest exists. A delayed commit needs the
// member. The guest might own every partition that Poll waits for.
func (s *faultyMember) pollInTurn(ctx context.Context, limit int) (stream.Batch, error) {
	for {
		s.entertain(ctx)
		short, cancel := ctx, func() {}
		if s.guest != nil || s.committing() {
			short, cancel = context.WithTimeout(ctx, time.Millisecond)
		}
		s.turn <- struct{}{}
		batch, err := s.inner.Poll(short, limit)
		<-s.turn
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return batch, err
		}
	}
}

func (s *faultyMember) committing() bool { return s.outstanding != nil && !isDone(s.outstanding) }

func (s *faultyMember) invite(ctx context.Context) {
	guest, err := s.join(ctx)
	if err != nil {
		return // the member's own Poll returns the error
	}
	s.log.count(Rebalance)
	s.guest, s.visit = guest, 2+s.rng.IntN(10)
}

// entertain polls for the guest, or closes it after its last visit.
func (s *faultyMember) entertain(ctx context.Context) {
	if s.guest == nil {
		return
	}
	s.guest.Wake()
	_, err := s.guest.Poll(ctx, 1)
	if s.visit--; s.visit == 0 || err != nil {
		_ = s.guest.Close()
		s.guest = nil
	}
}

// takeover stalls until a new member owns a partition of this member, which is then fenced. If
// other members have enough partitions to give, the new member may get none from this one.
func (s *faultyMember) takeover() {
	if len(s.owned) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.log.options.Stall)
	defer cancel()
	thief, err := s.join(ctx)
	if err != nil {
		return
	}
	defer thief.Close()
	for {
		batch, err := thief.Poll(ctx, 1)
		if err != nil {
			return
		}
		if slices.ContainsFunc(batch.Assigned, func(a stream.Assigned) bool { return s.owned[a.Partition] }) {
			s.log.count(Takeover)
			return
		}
	}
}

// Commit implements stream.Member. It panics if another commit is outstanding.
func (s *faultyMember) Commit(step stream.Transaction) *stream.Pending {
	if s.committing() {
		panic("streamtest: Commit while another commit is outstanding")
	}
	pending := stream.NewPending()
	if s.dead.Load() {
		pending.Decide(fmt.Errorf("commit after a failed commit: %w", stream.ErrFenced))
		return pending
	}
	s.outstanding, s.handed = pending, false
	if s.chance(Takeover) {
		s.takeover()
	}
	lost, hidden := s.chance(CommitLost), s.chance(CommitHidden)
	if !s.chance(Delay) {
		s.decide(pending, s.start(step, lost), hidden, 0)
		return pending
	}
	s.log.count(Delay)
	delay := 1 + time.Duration(s.rng.Int64N(int64(s.log.options.MaxDelay)))
	if s.rng.IntN(2) == 0 { // commit now, report the outcome later
		s.decide(pending, s.start(step, lost), hidden, delay)
	} else { // commit later
		s.deciders.Go(func() {
			<-time.After(delay)
			s.decide(pending, s.start(step, lost), hidden, 0)
		})
	}
	return pending
}

// start starts the commit of the wrapped member. It returns nil if the commit is lost.
func (s *faultyMember) start(step stream.Transaction, lost bool) *stream.Pending {
	if lost {
		return nil
	}
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	defer s.deliver()
	s.handed = true
	return s.inner.Commit(step)
}

// decide decides pending with the outcome of inner, at once or after delay.
func (s *faultyMember) decide(pending, inner *stream.Pending, hidden bool, delay time.Duration) {
	decide := func() {
		err := s.outcome(inner, hidden)
		if delay > 0 {
			<-time.After(delay)
		}
		s.dead.Store(err != nil)
		pending.Decide(err)
		s.inner.Wake()
	}
	if delay == 0 && (inner == nil || isDone(inner)) {
		decide()
	} else {
		s.deciders.Go(decide)
	}
}

// outcome waits for inner. inner is nil for a lost commit.
func (s *faultyMember) outcome(inner *stream.Pending, hidden bool) error {
	if inner == nil {
		s.log.count(CommitLost)
		return fmt.Errorf("injected, commit lost: %w", stream.ErrFenced)
	}
	err := inner.Wait(context.Background())
	if err == nil && hidden {
		s.log.count(CommitHidden)
		err = fmt.Errorf("injected, commit hidden: %w", stream.ErrFenced)
	}
	return err
}

func isDone(p *stream.Pending) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// Deliver implements stream.Deliverer if the wrapped member does.
func (s *faultyMember) Deliver(outputs []stream.Record) {
	if s.dead.Load() {
		return
	}
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.early = outputs; s.handed {
		s.deliver()
	}
}

// deliver passes on the outputs delivered for the next transaction, once inner has the commit
// before it. The caller must hold the turn.
func (s *faultyMember) deliver() {
	if d, ok := s.inner.(stream.Deliverer); ok && len(s.early) > 0 {
		d.Deliver(s.early)
	}
	s.early = nil
}

// Pace implements stream.Pacer.
func (s *faultyMember) Pace() stream.Pace { return optional.Pace(s.inner) }

// Pause implements stream.Member.
func (s *faultyMember) Pause(partitions ...stream.Partition) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.inner.Pause(partitions...)
}

// Resume implements stream.Member.
func (s *faultyMember) Resume(partitions ...stream.Partition) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.inner.Resume(partitions...)
}

// Wake implements stream.Member.
func (s *faultyMember) Wake() { s.inner.Wake() }

// Close implements stream.Member. It waits for delayed commits.
func (s *faultyMember) Close() error {
	s.deciders.Wait()
	if s.guest != nil {
		_ = s.guest.Close()
		s.guest = nil
	}
	return s.inner.Close()
}

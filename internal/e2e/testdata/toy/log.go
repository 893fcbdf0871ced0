package toy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// Memory is a kind of logs that are forgotten when they are closed: `engine: toy:tests`.
var Memory = stream.Kind{
	Name:    "toy",
	Help:    "a log in the memory of the process",
	URLs:    []string{"toy:NAME"},
	Example: "{url: toy:tests, patience: 10s}",
	New:     func() stream.Config { return &memory{} },
}

// memory is what a pipeline file says of a log.
type memory struct {
	URL      string        `field:"url" required:"true" help:"a name, for messages" example:"toy:tests"`
	Patience time.Duration `field:"patience" default:"5m" min:"10ms" max:"1h" help:"a member that does not poll for so long, while others wait for its partitions, is fenced" example:"10s"`
}

// Check implements stream.Config.
func (m *memory) Check() []error {
	if strings.TrimPrefix(m.URL, "toy:") == "" {
		return []error{&stream.Mistake{Field: "url", Err: errors.New("the log has no name"), Hint: "write toy:NAME"}}
	}
	return nil
}

// Open implements stream.Config. Each log is a new one.
func (m *memory) Open(context.Context, stream.Process) (stream.Engine, error) {
	return &log{
		patience: m.Patience, topics: map[string]*topic{}, groups: map[string]*group{}, producers: map[string]int64{}, changed: make(chan struct{}),
	}, nil
}

// Describe implements stream.Config.
func (m *memory) Describe() string { return m.URL }

// What a log takes.
const (
	recordMax     = 1<<20 + 64<<10 // key, value and headers of a record
	partitionsMax = 1 << 16        // of all topics
	producersMax  = 1000           // that AppendOnce remembers
)

// log is a log of records in memory. One mutex guards all of it, groups and members too:
// each call is one moment. What waits for a change takes the channel under the mutex, and
// looks again when it is closed.
type log struct {
	patience time.Duration

	mu        sync.Mutex
	topics    map[string]*topic
	groups    map[string]*group
	producers map[string]int64 // the number of the newest record of each
	recent    []string         // producers, the newest last
	changed   chan struct{}    // closed by the next change
	closed    bool
}

type topic struct {
	stream.Topic
	partitions []partition
	gone       bool // it was deleted; its offsets go on if it is created again
}

// partition is the records from base on. Those before it were deleted.
type partition struct {
	base    stream.Offset
	records []stream.Record
}

func (p *partition) end() stream.Offset { return p.base + stream.Offset(len(p.records)) }

// from returns the records from an offset on.
func (p *partition) from(o stream.Offset) []stream.Record {
	return p.records[min(int(max(o, p.base)-p.base), len(p.records)):]
}

// change tells all that wait to look again.
func (l *log) change() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// topic returns a topic that exists.
func (l *log) topic(name string) (*topic, error) {
	switch t := l.topics[name]; {
	case l.closed:
		return nil, stream.ErrClosed
	case t == nil || t.gone:
		return nil, fmt.Errorf("topic %q: %w", name, stream.ErrUnknownTopic)
	default:
		return t, nil
	}
}

// partition returns a partition that exists.
func (l *log) partition(p stream.Partition) (*partition, error) {
	t, err := l.topic(p.Topic)
	if err != nil {
		return nil, err
	}
	if p.Index < 0 || p.Index >= t.Partitions {
		return nil, fmt.Errorf("%v: %w", p, stream.ErrUnknownTopic)
	}
	return &t.partitions[p.Index], nil
}

// CreateTopic implements stream.Log.
func (l *log) CreateTopic(_ context.Context, t stream.Topic) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return stream.ErrClosed
	}
	if err := stream.CheckTopic(t); err != nil {
		return err
	}
	old, all := l.topics[t.Name], int(t.Partitions)
	if old == nil {
		old = &topic{gone: true}
	}
	for name, other := range l.topics {
		if name != t.Name {
			all += len(other.partitions)
		}
	}
	switch {
	case !old.gone && old.Partitions != t.Partitions, len(old.partitions) > int(t.Partitions):
		return fmt.Errorf("topic %q has %d partitions, not %d", t.Name, len(old.partitions), t.Partitions)
	case !old.gone:
		if old.Key == "" {
			old.Key = t.Key
		}
		return nil
	case all > partitionsMax:
		return fmt.Errorf("%w: there would be %d", stream.ErrTooManyPartitions, all)
	}
	old.Topic, old.gone = t, false
	old.partitions = append(old.partitions, make([]partition, int(t.Partitions)-len(old.partitions))...)
	l.topics[t.Name] = old
	return nil
}

// DeleteTopic implements stream.Log.
func (l *log) DeleteTopic(_ context.Context, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, err := l.topic(name)
	if err != nil {
		return err
	}
	for reader, g := range l.groups {
		if len(g.members) > 0 && slices.Contains(g.topics, name) {
			return fmt.Errorf("topic %q: %w: group %q reads it", name, stream.ErrTopicInUse, reader)
		}
	}
	t.gone = true
	never := true
	for i := range t.partitions {
		p := &t.partitions[i]
		p.base, p.records = p.end(), nil
		never = never && p.base == 0
	}
	if never {
		delete(l.topics, name)
	}
	l.change()
	return nil
}

// Topics implements stream.Log.
func (l *log) Topics(context.Context) (list []stream.Topic, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, stream.ErrClosed
	}
	for _, name := range slices.Sorted(maps.Keys(l.topics)) {
		if t := l.topics[name]; !t.gone {
			list = append(list, t.Topic)
		}
	}
	return list, nil
}

// Append implements stream.Log.
func (l *log) Append(_ context.Context, records ...stream.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.append(records)
}

// AppendOnce implements stream.Log.
func (l *log) AppendOnce(_ context.Context, producer string, first int64, records ...stream.Record) (repeated int, err error) {
	if first < 1 {
		return 0, fmt.Errorf("producer %q: number %d: numbers start at 1", producer, first)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	newest := l.producers[producer]
	repeated = int(min(max(newest-first+1, 0), int64(len(records))))
	if err := l.append(records[repeated:]); err != nil {
		return 0, err
	}
	for i := range records[:repeated] {
		records[i].Offset = -1
	}
	l.producers[producer] = max(newest, first+int64(len(records))-1)
	l.recent = append(slices.DeleteFunc(l.recent, func(name string) bool { return name == producer }), producer)
	if len(l.recent) > producersMax {
		delete(l.producers, l.recent[0])
		l.recent = l.recent[1:]
	}
	return repeated, nil
}

// append writes all of the records, or none.
func (l *log) append(records []stream.Record) error {
	if l.closed {
		return stream.ErrClosed
	}
	if err := l.takes(records); err != nil {
		return err
	}
	l.write(records)
	return nil
}

// takes returns why records cannot be written.
func (l *log) takes(records []stream.Record) error {
	for _, r := range records {
		p := r.Partition
		if p.Index == stream.ByKey {
			p.Index = 0
		}
		if _, err := l.partition(p); err != nil {
			return err
		}
		n := len(r.Key) + len(r.Value)
		for _, h := range r.Headers {
			n += len(h.Key) + len(h.Value)
		}
		if n > recordMax {
			return fmt.Errorf("a record of %d bytes: %w", n, stream.ErrTooLarge)
		}
	}
	return nil
}

// write writes copies of records that takes let pass, and sets their places and times.
func (l *log) write(records []stream.Record) {
	now := time.Now()
	for i := range records {
		r := &records[i]
		t := l.topics[r.Partition.Topic]
		if r.Partition.Index == stream.ByKey {
			r.Partition.Index = stream.PlaceRecord(r, t.Partitions)
		}
		if r.Time.IsZero() {
			r.Time = now
		}
		r.Time = r.Time.UTC().Truncate(time.Microsecond)
		p := &t.partitions[r.Partition.Index]
		r.Offset = p.end()
		kept := *r
		kept.Key, kept.Value, kept.Headers = bytes.Clone(r.Key), bytes.Clone(r.Value), slices.Clone(r.Headers)
		for h := range kept.Headers {
			kept.Headers[h].Value = bytes.Clone(kept.Headers[h].Value)
		}
		p.records = append(p.records, kept)
	}
	l.change()
}

// Tail implements stream.Log.
func (l *log) Tail(ctx context.Context, p stream.Partition, from stream.Offset) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		for next := from; ctx.Err() == nil; {
			records, changed, err := l.after(p, next)
			if err != nil {
				yield(stream.Record{}, err)
				return
			}
			for _, r := range records {
				if ctx.Err() != nil {
					break
				}
				if !yield(r, nil) {
					return
				}
				next = r.Offset + 1
			}
			if len(records) == 0 {
				select {
				case <-changed:
				case <-ctx.Done():
				}
			}
		}
		yield(stream.Record{}, ctx.Err())
	}
}

// after returns the records from an offset on, and what the next change closes.
func (l *log) after(p stream.Partition, from stream.Offset) ([]stream.Record, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, err := l.partition(p)
	if err != nil {
		return nil, nil, err
	}
	if from < all.base {
		return nil, nil, stream.ErrTrimmed
	}
	return all.from(from), l.changed, nil
}

// Offsets implements stream.Inspector.
func (l *log) Offsets(_ context.Context, p stream.Partition) (first, next stream.Offset, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, err := l.partition(p)
	if err != nil {
		return 0, 0, err
	}
	return all.base, all.end(), nil
}

// Peek implements stream.Inspector.
func (l *log) Peek(_ context.Context, p stream.Partition, from stream.Offset) (r stream.Record, found bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, err := l.partition(p)
	if err != nil {
		return r, false, err
	}
	if rest := all.from(from); len(rest) > 0 {
		return rest[0], true, nil
	}
	return r, false, nil
}

// Committed implements stream.Inspector.
func (l *log) Committed(_ context.Context, group string, p stream.Partition) (stream.Offset, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.partition(p); err != nil {
		return 0, err
	}
	return l.group(group).share(p).committed, nil
}

// State implements stream.Inspector.
func (l *log) State(_ context.Context, group string, p stream.Partition) (stream.View, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.partition(p); err != nil {
		return nil, err
	}
	return &view{l, l.group(group).share(p), nil}, nil
}

// Groups implements stream.Inspector.
func (l *log) Groups(context.Context) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, stream.ErrClosed
	}
	names := slices.Sorted(maps.Keys(l.groups))
	return slices.DeleteFunc(names, func(name string) bool { return !l.groups[name].committed }), nil
}

// Close implements stream.Log.
func (l *log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.groups {
		for len(g.members) > 0 {
			g.members[0].end(stream.ErrClosed)
		}
	}
	l.closed = true
	l.change()
	return nil
}

// group is a consumer group. Its partitions move from member to member like this:
//
//  1. Someone joins or leaves, and each partition gets a member that is to have it.
//  2. The owner's Poll tells it that the partition is revoked. It may commit still.
//  3. The owner's next Poll gives the partition up. An owner that polls too late is fenced.
//  4. The next Poll of the other assigns it, from the committed offset on.
type group struct {
	log       *log
	shares    map[stream.Partition]*share // all that there ever were
	topics    []string                    // of the members
	members   []*member                   // the first to join first
	committed bool                        // at any time
}

// share is a partition of a group, with what the group committed of it.
type share struct {
	partition stream.Partition
	committed stream.Offset
	state     map[string][]byte

	owner   *member       // nil is none
	wanted  *member       // that is to own it
	since   time.Time     // when wanted began to wait
	next    stream.Offset // that the owner reads
	revoked bool          // the owner was told
	paused  bool
}

func (l *log) group(name string) *group {
	g := l.groups[name]
	if g == nil {
		g = &group{log: l, shares: map[stream.Partition]*share{}}
		l.groups[name] = g
	}
	return g
}

func (g *group) share(p stream.Partition) *share {
	s := g.shares[p]
	if s == nil {
		s = &share{partition: p, state: map[string][]byte{}}
		g.shares[p] = s
	}
	return s
}

// Join implements stream.Log.
func (l *log) Join(_ context.Context, name string, topics ...string) (stream.Member, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, topic := range topics {
		if _, err := l.topic(topic); err != nil {
			return nil, err
		}
	}
	g := l.group(name)
	topics = slices.Compact(slices.Sorted(slices.Values(topics)))
	switch {
	case l.closed:
		return nil, stream.ErrClosed
	case len(g.members) > 0 && !slices.Equal(g.topics, topics):
		return nil, fmt.Errorf("group %q reads %q, not %q", name, g.topics, topics)
	}
	g.topics = topics
	m := &member{group: g, wake: make(chan struct{}, 1), polled: time.Now()}
	g.members = append(g.members, m)
	g.assign()
	return m, nil
}

// each returns the shares of the topics that the members read, in order.
func (g *group) each() (list []*share) {
	for _, name := range g.topics {
		for i := range g.log.topics[name].Partitions {
			list = append(list, g.share(stream.Partition{Topic: name, Index: i}))
		}
	}
	return list
}

// assign says which member is to own which share.
func (g *group) assign() {
	if len(g.members) == 0 {
		return
	}
	for i, s := range g.each() {
		s.wanted, s.since = g.members[i%len(g.members)], time.Now()
	}
	g.log.change()
}

// member is a stream.Member.
type member struct {
	group  *group
	wake   chan struct{} // holds a token if Poll is to return
	polled time.Time     // when Poll looked
	turn   int           // of the share that Poll begins with
	err    error         // why it ended
}

// end ends a member: what it owned is free at once.
func (m *member) end(err error) {
	if m.err != nil {
		return
	}
	m.err = err
	for _, s := range m.group.shares {
		if s.owner == m {
			s.owner, s.revoked = nil, false
		}
		if s.wanted == m {
			s.wanted = nil
		}
	}
	m.group.members = slices.DeleteFunc(m.group.members, func(o *member) bool { return o == m })
	m.group.assign()
	m.group.log.change()
}

// Poll implements stream.Member.
func (m *member) Poll(ctx context.Context, limit int) (stream.Batch, error) {
	woken := false
	select {
	case <-m.wake:
		woken = true
	default:
	}
	for {
		batch, changed, late, err := m.look(limit)
		if err != nil || woken || len(batch.Revoked)+len(batch.Assigned)+len(batch.Records) > 0 {
			return batch, err
		}
		timer := time.NewTimer(late)
		select {
		case <-m.wake:
			woken = true
		case <-ctx.Done():
			err = ctx.Err()
		case <-changed:
		case <-timer.C:
		}
		if timer.Stop(); err != nil {
			return batch, err
		}
	}
}

// look returns what there is, what the next change closes, and when to look for members
// that poll too late.
func (m *member) look(limit int) (batch stream.Batch, changed <-chan struct{}, late time.Duration, err error) {
	l := m.group.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.err != nil {
		return batch, nil, 0, m.err
	}
	m.polled = time.Now()
	shares := m.group.each()
	late = l.patience
	for _, s := range shares {
		if s.wanted == m && s.owner != nil && s.owner != m {
			begun := s.since
			if s.owner.polled.After(begun) {
				begun = s.owner.polled
			}
			if left := l.patience - time.Since(begun); left > 0 {
				late = min(late, left)
			} else {
				s.owner.end(stream.ErrFenced)
			}
		}
	}
	for _, s := range shares {
		m.settle(s, &batch)
	}
	m.turn++
	for i := range shares {
		s := shares[(m.turn+i)%len(shares)]
		if s.owner != m || s.paused || s.revoked {
			continue
		}
		records := l.topics[s.partition.Topic].partitions[s.partition.Index].from(s.next)
		records = records[:min(len(records), limit-len(batch.Records))]
		batch.Records = append(batch.Records, records...)
		s.next += stream.Offset(len(records))
	}
	return batch, l.changed, late, nil
}

// settle moves a share a step on.
func (m *member) settle(s *share, batch *stream.Batch) {
	l := m.group.log
	if s.owner == m && s.revoked {
		s.owner, s.revoked = nil, false
		l.change()
	}
	switch {
	case s.owner == m && s.wanted != m:
		s.revoked = true
		batch.Revoked = append(batch.Revoked, s.partition)
	case s.owner == nil && s.wanted == m:
		base := l.topics[s.partition.Topic].partitions[s.partition.Index].base
		s.owner, s.paused, s.next = m, false, max(s.committed, base)
		batch.Assigned = append(batch.Assigned, stream.Assigned{Partition: s.partition, Next: s.next, State: &view{l, s, m}})
	}
}

// Pause implements stream.Member.
func (m *member) Pause(partitions ...stream.Partition) { m.pause(partitions, true) }

// Resume implements stream.Member.
func (m *member) Resume(partitions ...stream.Partition) { m.pause(partitions, false) }

func (m *member) pause(partitions []stream.Partition, paused bool) {
	m.group.log.mu.Lock()
	defer m.group.log.mu.Unlock()
	for _, p := range partitions {
		if s := m.group.shares[p]; s != nil && s.owner == m {
			s.paused = paused
		}
	}
}

// Commit implements stream.Member. It decides at once.
func (m *member) Commit(step stream.Transaction) *stream.Pending {
	m.group.log.mu.Lock()
	defer m.group.log.mu.Unlock()
	pending := stream.NewPending()
	pending.Decide(m.commit(step))
	m.Wake()
	return pending
}

// commit makes all of a step visible, or none. A member whose commit failed is dead.
func (m *member) commit(step stream.Transaction) error {
	if m.err != nil {
		return m.err
	}
	for p := range step.Offsets {
		if s := m.group.shares[p]; s == nil || s.owner != m {
			m.end(stream.ErrFenced)
			return fmt.Errorf("%v: %w", p, stream.ErrFenced)
		}
	}
	if err := m.group.log.takes(step.Outputs); err != nil {
		m.end(stream.ErrFenced)
		return err
	}
	m.group.log.write(slices.Clone(step.Outputs))
	for _, c := range step.Changes {
		state := m.group.shares[c.Partition].state
		if c.Value == nil {
			delete(state, string(c.Key))
		} else {
			state[string(c.Key)] = bytes.Clone(c.Value)
		}
	}
	for p, next := range step.Offsets {
		m.group.shares[p].committed = next
	}
	m.group.committed = true
	return nil
}

// Wake implements stream.Member.
func (m *member) Wake() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Close implements stream.Member.
func (m *member) Close() error {
	m.group.log.mu.Lock()
	defer m.group.log.mu.Unlock()
	m.end(stream.ErrClosed)
	return nil
}

// view reads the state of a share: for its owner, or for an Inspector.
type view struct {
	log    *log
	share  *share
	reader *member // nil is an Inspector
}

func (v *view) check() error {
	switch {
	case v.log.closed:
		return stream.ErrClosed
	case v.reader != nil && v.share.owner != v.reader:
		return stream.ErrFenced
	}
	return nil
}

// Get implements stream.View.
func (v *view) Get(key []byte) ([]byte, error) {
	v.log.mu.Lock()
	defer v.log.mu.Unlock()
	return bytes.Clone(v.share.state[string(key)]), v.check()
}

// Scan implements stream.View. What it yields is as of one moment.
func (v *view) Scan(prefix []byte) iter.Seq2[stream.Entry, error] {
	return func(yield func(stream.Entry, error) bool) {
		v.log.mu.Lock()
		state, err := maps.Clone(v.share.state), v.check()
		v.log.mu.Unlock()
		if err != nil {
			yield(stream.Entry{}, err)
			return
		}
		for _, key := range slices.Sorted(maps.Keys(state)) {
			if strings.HasPrefix(key, string(prefix)) && !yield(stream.Entry{Key: []byte(key), Value: bytes.Clone(state[key])}, nil) {
				return
			}
		}
	}
}

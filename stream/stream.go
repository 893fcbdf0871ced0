// Package stream holds the words the whole engine speaks: records in
// partitions, and the step that moves partitions forward. It imports only the
// standard library; every engine (internal/log/memory, internal/log/embedded, internal/log/kafka)
// implements Log and Member, and stream/streamtest checks that each keeps every
// promise made in the comments here.
package stream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Partition names one ordered sequence of records.
type Partition struct {
	Topic string
	Index int32 // from 0; ByKey asks the log to choose
}

// ByKey as a partition's index asks the log to place the record by its key:
// murmur2 over the topic's partitions, as Kafka's default partitioner does. A
// record without a key is placed by its value.
const ByKey int32 = -1

// String returns the partition as topic/index.
func (p Partition) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Index) }

// Offset is a position in a partition. The first record ever has offset 0. On
// Kafka some offsets are of no record but of the marker of a transaction:
// readers take the next offset from the record before it, never by counting.
type Offset int64

// Record is one event at rest. Key, Value and Headers must not be modified
// once the record was handed to another package.
type Record struct {
	Partition Partition
	Offset    Offset
	// Time is the event time of an output, and the time of the append of a
	// record that came in; an append sets it where it is zero. It is kept to
	// the microsecond.
	Time    time.Time
	Key     []byte // nil where there is none
	Value   []byte
	Headers []Header
}

// Header carries what is about a record rather than in it.
type Header struct {
	Key   string
	Value []byte
}

// Change is one write to the state kept beside a partition. A nil Value
// deletes the key; an empty one is a value.
type Change struct {
	Partition  Partition
	Key, Value []byte
}

// Transaction is all that one turn of the loop changes. A Log commits it whole or not
// at all: readers never see outputs without the offsets that produced them, nor
// state without both.
type Transaction struct {
	Outputs []Record             // the log assigns their offsets, in this order within a partition
	Changes []Change             // applied in order; each Partition must be in Offsets
	Offsets map[Partition]Offset // next offset to read of every partition touched, even where it did not move
}

// Batch is what one Poll brings. Assignment changes are data here, in order
// with the records, never callbacks.
type Batch struct {
	// Revoked partitions remain the member's until its next Poll: commit
	// what touches them before that, and drop their state after.
	Revoked  []Partition
	Assigned []Assigned
	Records  []Record // in offset order within a partition, none left out but by retention
}

// Assigned is a partition that became the member's, with its state caught up
// to Next: the changes of every step committed before, and of none after.
type Assigned struct {
	Partition Partition
	Next      Offset
	State     View
}

// View reads the committed state beside a partition. The writes of a step stay
// with the task until its commit succeeded. A view is valid while the partition
// is assigned, and may be used by one goroutine at a time.
type View interface {
	// Get returns the value of key, or nil where there is none. The slice is
	// the caller's.
	Get(key []byte) ([]byte, error)

	// Scan yields the entries whose key starts with prefix, in key order, as
	// of one moment between commits. An error ends it. The slices are the
	// caller's.
	Scan(prefix []byte) iter.Seq2[Entry, error]
}

// Entry is one key of a state and its value.
type Entry struct{ Key, Value []byte }

// Topic describes a topic.
type Topic struct {
	Name       string
	Partitions int32  // at least 1
	Key        string // the field of a JSON value that ingest takes a record's key from; may be empty
}

var (
	// ErrFenced says that the partitions belong to another member, or that
	// the member is dead after a failed commit. It is expected during
	// rebalances and restarts: close the member and join again.
	ErrFenced = errors.New("member fenced")

	// ErrUnknownTopic says that a topic or partition does not exist.
	ErrUnknownTopic = errors.New("unknown topic or partition")

	// ErrTrimmed says that retention has removed the offset asked for.
	ErrTrimmed = errors.New("offset is no longer retained")

	// ErrTooLarge says that a record or step is over the log's limit. Nothing
	// was written.
	ErrTooLarge = errors.New("too large for the log")

	// ErrClosed says that the log or member was closed.
	ErrClosed = errors.New("closed")
)

// Log is a durable, partitioned log with consumer groups. It is safe for
// concurrent use.
type Log interface {
	// CreateTopic makes a topic. One that exists is left as it is, and is an
	// error only where the number of partitions differs; a Key is set where
	// it was empty. CheckTopic says which topics can be made; beyond the log's
	// bound it returns ErrTooManyPartitions.
	CreateTopic(ctx context.Context, topic Topic) error

	// DeleteTopic deletes a topic and its records. It returns ErrUnknownTopic if
	// it does not exist, and ErrTopicInUse while a group that reads it has members;
	// then nothing changes. Readers of the topic get ErrUnknownTopic. What groups
	// committed, and their state, stays. A topic that is created again under the
	// name begins behind the last offset, so that no record has the place of
	// another; it has at least as many partitions as before if the topic ever had
	// a record.
	DeleteTopic(ctx context.Context, name string) error

	// Topics lists the topics by name.
	Topics(ctx context.Context) ([]Topic, error)

	// Append writes records outside any step: the way in for events. It
	// returns when they are durable, all or none, with Partition, Offset and
	// Time set in the slice given. The bytes of the records may be reused
	// after it returned. On Kafka an append that ends in an error may have
	// been written in part; AppendOnce is whole on every engine.
	Append(ctx context.Context, records ...Record) error

	// AppendOnce is Append for a producer that numbers its records:
	// records[i] has number first+i, and those that the log holds already,
	// numbered up to the producer's highest, are left out. It returns how many
	// were; a record left out has Offset -1. Numbers start at 1. The log
	// remembers a bounded number of producers, the most recent ones.
	AppendOnce(ctx context.Context, producer string, first int64, records ...Record) (repeated int, err error)

	// Join makes the caller a member of group, which shares the partitions of
	// topics evenly among its members. All members name the same topics. A
	// member that does not Poll for the log's rebalance timeout while others
	// wait for its partitions is fenced. The group and the partition name the
	// state beside it.
	Join(ctx context.Context, group string, topics ...string) (Member, error)

	// Tail yields the committed records of p from offset on, in order, then
	// waits for more until ctx is done, whose error it yields last. It needs
	// no group: sinks, gateways and replays use it. From below the first
	// retained offset it yields ErrTrimmed.
	Tail(ctx context.Context, p Partition, from Offset) iter.Seq2[Record, error]

	// Close ends the members and releases the log. Appends and commits that
	// were not acknowledged may or may not have happened.
	Close() error
}

// KeyTailer is a Log that reads past records by their keys.
type KeyTailer interface {
	// TailKeys is Tail, but of a record whose key is not one to keep it yields only
	// partition, offset and key, with a Time that is zero: that costs less than the
	// whole record. Keep is called once for each record, in their order, perhaps
	// some records before they are yielded.
	TailKeys(ctx context.Context, p Partition, from Offset, keep func(key []byte) bool) iter.Seq2[Record, error]
}

// Inspector is what tools may ask of a log without joining a group.
type Inspector interface {
	// Offsets returns the first retained offset of p and the one after its
	// last record.
	Offsets(ctx context.Context, p Partition) (first, next Offset, err error)

	// Peek returns the first committed record of p from offset on, or from the
	// first retained one where that is later, and whether there is one: what an
	// Append or a Commit wrote that ended before is found. It does not wait for one
	// to come. There may be none although the next offset to be written is higher:
	// a log may give offsets to what is no record.
	Peek(ctx context.Context, p Partition, from Offset) (r Record, found bool, err error)

	// Committed returns the next offset that group reads of p; 0 before its
	// first commit.
	Committed(ctx context.Context, group string, p Partition) (Offset, error)

	// State reads the committed state of group beside p.
	State(ctx context.Context, group string, p Partition) (View, error)

	// Groups lists the groups that ever committed, by name.
	Groups(ctx context.Context) ([]string, error)
}

// Member is one member of a group. One goroutine owns it; only Wake may be
// called from elsewhere.
type Member interface {
	// Poll returns the next records of the owned partitions that are not
	// paused, at most limit, and takes turns among partitions. It blocks until
	// there is something to return or ctx is done, which does not harm the
	// member. It returns early, perhaps with an empty batch, on Wake and when
	// an outstanding commit is decided. A record is returned once, whether or
	// not it was committed. The slice of records is the caller's until the next
	// Poll; their bytes stay valid.
	Poll(ctx context.Context, limit int) (Batch, error)

	// Pause stops Poll from returning records of these partitions until
	// Resume. Both ignore partitions that are not owned; a new assignment is
	// not paused.
	Pause(partitions ...Partition)
	Resume(partitions ...Partition)

	// Commit makes step durable, all or nothing, in order; at most one may be
	// outstanding, so the next step is computed meanwhile. The log may read
	// the step until it is decided; nobody may modify it. After any error the
	// outcome is unknown and the member is dead: only a new member, which
	// starts from what was really committed, can tell.
	Commit(step Transaction) *Pending

	// Wake makes a Poll under way, or else the next one, return early.
	Wake()

	// Close leaves the group. It does not commit.
	Close() error
}

// EarlyReader is a Member that can read records before they are durable, so
// that one sync makes them and the step that comes of them durable.
type EarlyReader interface {
	Member

	// ReadEarly says whether Poll may return records of an Append that has not
	// returned; at first it may not. They have the offsets that they keep. A
	// step of them becomes durable with them or after them, never before, and
	// until then nobody sees either: not Tail, no Inspector, no member that
	// did not ask for it, and neither Append nor Commit is decided. A crash or
	// a failed write loses both. The records were then computed although they
	// never came to be, and others may come at their offsets: so only who
	// changes nothing outside the log while computing may ask for it.
	ReadEarly(on bool)
}

// Deliverer is a Member of a log that may be set to write outputs apart from
// their step: at once, so that they do not wait for its commit and some may come
// again after a crash, or after it, so that some may be missing.
type Deliverer interface {
	Member

	// Deliver takes the outputs that the next Commit's step has so far, those of
	// the calls before first, to be written as the log is set. The step's others
	// are committed with it. It returns before any is written, and errors are
	// Commit's. The bytes must not be modified until the step is committed.
	Deliver(outputs []Record)
}

// Seeker is a Member that can leave records out.
type Seeker interface {
	Member

	// Seek has Poll go on with a later offset of a partition of the member, which is not
	// behind the end. What is committed stays. It ignores a partition that is not owned,
	// and an offset that Poll is past.
	Seek(p Partition, next Offset)
}

// Pacer is a Member that says what steps suit its log.
type Pacer interface {
	Member
	Pace() Pace
}

// Pace is when a step is committed, where nobody asked for anything else.
type Pace struct {
	Interval    time.Duration // shortest time between two commits
	Events      int           // most of a step
	Bytes       int           // of outputs and changes: a step that has more is committed
	RecordBytes int           // most that key, value and headers of a record take together
}

// Pending is a commit whose outcome is known later.
type Pending struct {
	done chan struct{}
	err  error
	at   time.Time
}

// NewPending returns a Pending that its maker decides once.
func NewPending() *Pending { return &Pending{done: make(chan struct{})} }

// Decide sets the outcome. Only the engine that made p calls it, once.
func (p *Pending) Decide(err error) {
	p.err, p.at = err, time.Now()
	close(p.done)
}

// Done is closed when the outcome is known.
func (p *Pending) Done() <-chan struct{} { return p.done }

// At returns when the outcome became known. It may be called after Done.
func (p *Pending) At() time.Time { return p.at }

// Wait returns the outcome. Where ctx ends first it returns ctx's error, and
// the commit goes on.
func (p *Pending) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	default:
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

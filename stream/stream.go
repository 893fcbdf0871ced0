// Package stream defines the contract of a log: records in partitions, and transactions that move
// partitions forward. It imports only the standard library.
//
// Every log (internal/log/memory, internal/log/embedded, internal/log/kafka) implements Log and
// Member. Package stream/streamtest checks that a log keeps every promise in the comments here.
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

// ByKey as a partition's index asks the log to choose the partition from the record's key: murmur2
// over the topic's partitions, as Kafka's default partitioner does. For a record without a key the
// log hashes the value.
const ByKey int32 = -1

// String returns the partition as topic/index.
func (p Partition) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Index) }

// Offset is a position in a partition. The first record ever has offset 0. On Kafka some offsets
// belong to transaction markers, not to records. So readers must take the next offset from the
// previous record and must not count.
type Offset int64

// Record is one stored event. Key, Value and Headers must not be modified after the record was
// passed to another package.
type Record struct {
	Partition Partition
	Offset    Offset
	// Time is the event time of an output, or the append time of an input record. An append sets it
	// if it is zero. It is stored in microseconds.
	Time    time.Time
	Key     []byte // nil if the record has no key
	Value   []byte
	Headers []Header
}

// Header carries metadata of a record.
type Header struct {
	Key   string
	Value []byte
}

// Change is one write to the state of a partition. A nil Value deletes the key; an empty Value is a
// value.
type Change struct {
	Partition  Partition
	Key, Value []byte
}

// Transaction holds all changes of one iteration of the task loop. A Log commits all of it or
// nothing. Readers never see outputs without the offsets that produced them, nor state without
// both.
type Transaction struct {
	Outputs []Record             // the log assigns offsets in this order within a partition
	Changes []Change             // applied in order; each Partition must be in Offsets
	Offsets map[Partition]Offset // next offset to read for every partition in the transaction, even if it did not move
}

// Batch is the result of one Poll. It carries assignment changes as data, in order with the
// records; there are no callbacks.
type Batch struct {
	// Revoked partitions still belong to the member until its next Poll. Commit pending work for
	// them before that Poll, and drop their state afterwards.
	Revoked  []Partition
	Assigned []Assigned
	Records  []Record // in offset order within a partition, without gaps except those from retention
}

// Assigned is a partition that the member now owns. Its state is exactly as of Next: it holds the
// changes of every earlier transaction and of no later one.
type Assigned struct {
	Partition Partition
	Next      Offset
	State     View
}

// View reads the committed state of a partition. It does not show the writes of a transaction that
// is not committed yet; the task keeps those. A view is valid while the partition is assigned. Only
// one goroutine at a time may use it.
type View interface {
	// Get returns the value of key, or nil if the key is absent. The caller owns the slice.
	Get(key []byte) ([]byte, error)

	// Scan yields the entries with keys that start with prefix, in key order. All entries are from
	// one point in time between commits. An error ends the iteration. The caller owns the slices.
	Scan(prefix []byte) iter.Seq2[Entry, error]
}

// Entry is one key of a state and its value.
type Entry struct{ Key, Value []byte }

// Topic describes a topic.
type Topic struct {
	Name       string
	Partitions int32  // at least 1
	Key        string // field of a JSON value that ingest uses as the record's key; may be empty
}

var (
	// ErrFenced means that another member owns the partitions, or that the member is unusable after
	// a failed commit. It is expected during rebalances and restarts. Close the member and join
	// again.
	ErrFenced = errors.New("member fenced")

	// ErrUnknownTopic means that a topic or partition does not exist.
	ErrUnknownTopic = errors.New("unknown topic or partition")

	// ErrTrimmed means that retention has removed the requested offset.
	ErrTrimmed = errors.New("offset is no longer retained")

	// ErrTooLarge means that a record or transaction exceeds the log's limit. The log wrote
	// nothing.
	ErrTooLarge = errors.New("too large for the log")

	// ErrClosed means that the log or member was closed.
	ErrClosed = errors.New("closed")
)

// Log is a durable, partitioned log with consumer groups. It is safe for concurrent use.
type Log interface {
	// CreateTopic creates a topic. If the topic exists with the same number of partitions, it stays
	// as it is, except that an empty Key is set. Another number of partitions is an error.
	// CheckTopic says which topics are valid. Beyond the log's limit CreateTopic returns
	// ErrTooManyPartitions.
	CreateTopic(ctx context.Context, topic Topic) error

	// DeleteTopic deletes a topic and its records. It returns ErrUnknownTopic if the topic does not
	// exist. It returns ErrTopicInUse and changes nothing while a group that reads the topic has
	// members. Readers of the deleted topic get ErrUnknownTopic. Committed offsets and state of
	// groups stay.
	//
	// If a topic is created again under the name, it begins after the last offset, so that no two
	// records have the same position. It then has at least as many partitions as before if it ever
	// held a record.
	DeleteTopic(ctx context.Context, name string) error

	// Topics lists the topics by name.
	Topics(ctx context.Context) ([]Topic, error)

	// Append writes records outside any transaction. This is how events enter the log. It returns
	// when all records are durable, or with an error and none written. It sets Partition, Offset
	// and Time in the given slice. The caller may reuse the bytes of the records after Append
	// returned. On Kafka a failed Append may have written some records; AppendOnce is atomic on
	// every log.
	Append(ctx context.Context, records ...Record) error

	// AppendOnce is Append for a producer that numbers its records: records[i] has number first+i,
	// and numbers start at 1. The log skips records with numbers up to the producer's highest
	// number in the log. A skipped record gets Offset -1. AppendOnce returns how many it skipped.
	// The log remembers a limited number of producers, the most recent ones.
	AppendOnce(ctx context.Context, producer string, first int64, records ...Record) (repeated int, err error)

	// Join adds the caller to group as a member. The group distributes the partitions of topics
	// evenly over its members. All members must name the same topics. If others wait for its
	// partitions and a member does not call Poll within the log's rebalance timeout, the log fences
	// it. Group and partition together identify a state.
	Join(ctx context.Context, group string, topics ...string) (Member, error)

	// Tail yields the committed records of p from offset on, in order. It then waits for more until
	// ctx is done, and yields the error of ctx last. It needs no group: sinks, gateways and replays
	// use it. If offset is below the first retained one, Tail yields ErrTrimmed.
	Tail(ctx context.Context, p Partition, from Offset) iter.Seq2[Record, error]

	// Close ends the members and releases the log. Appends and commits that were not acknowledged
	// may or may not have been written.
	Close() error
}

// KeyTailer is a Log that can filter past records by key.
type KeyTailer interface {
	// TailKeys is Tail with a filter on keys. If keep returns false for a key, TailKeys yields only
	// partition, offset and key of the record, and a zero Time. This costs less than the whole
	// record. It calls keep once per record, in order. The call may be some records ahead of the
	// yielded one.
	TailKeys(ctx context.Context, p Partition, from Offset, keep func(key []byte) bool) iter.Seq2[Record, error]
}

// Inspector lets tools read a log without joining a group.
type Inspector interface {
	// Offsets returns the first retained offset of p and the offset after its last record.
	Offsets(ctx context.Context, p Partition) (first, next Offset, err error)

	// Peek returns the first committed record of p from offset on, and whether there is one. If
	// from is below the first retained offset, Peek begins at that offset. It sees all records of
	// an Append or Commit that ended before the call. It does not wait for new records. There may
	// be no record although the next offset to be written is higher, since a log may use offsets
	// for other data.
	Peek(ctx context.Context, p Partition, from Offset) (r Record, found bool, err error)

	// Committed returns the next offset of p that group reads, or 0 before the group's first
	// commit.
	Committed(ctx context.Context, group string, p Partition) (Offset, error)

	// State returns a view of the committed state of group for p.
	State(ctx context.Context, group string, p Partition) (View, error)

	// Groups lists the groups that have ever committed, by name.
	Groups(ctx context.Context) ([]string, error)
}

// Member is one member of a group. One goroutine owns it; other goroutines may only call Wake.
type Member interface {
	// Poll returns at most limit next records of the owned partitions that are not paused, and
	// takes turns among partitions. It blocks until it has something to return or ctx is done. The
	// member stays usable after ctx is done. Poll returns early, perhaps with an empty batch, on
	// Wake and when an outstanding commit is decided. It returns each record once, whether or not
	// it was committed. The slice of records is valid until the next Poll; their bytes stay valid.
	Poll(ctx context.Context, limit int) (Batch, error)

	// Pause stops Poll from returning records of these partitions until Resume. Pause and Resume
	// ignore partitions that the member does not own. A newly assigned partition is not paused.
	Pause(partitions ...Partition)
	Resume(partitions ...Partition)

	// Commit makes a transaction durable, all or nothing, in order. At most one commit may be
	// outstanding, so the caller can compute the next transaction meanwhile. The log may read the
	// transaction until the commit is decided; the caller must not modify it. After any error the
	// outcome is unknown and the member is unusable. A new member starts from the state that was
	// committed.
	Commit(step Transaction) *Pending

	// Wake makes a running Poll return early. If no Poll runs, the next one returns early.
	Wake()

	// Close leaves the group. It does not commit.
	Close() error
}

// EarlyReader is a Member that can read records before they are durable. One sync can then make
// both the records and the transaction computed from them durable.
type EarlyReader interface {
	Member

	// ReadEarly sets whether Poll may return records of an Append that has not returned. The
	// default is false. These records already have their final offsets. A transaction computed from
	// them becomes durable with them or after them, never before. Until then no reader sees either:
	// not Tail, not an Inspector, and no member that did not call ReadEarly(true). Neither Append
	// nor Commit is decided before that.
	//
	// A crash or a failed write loses both. The caller then computed records that were never
	// written, and other records may get their offsets. So use ReadEarly only if the computation
	// changes nothing outside the log.
	ReadEarly(on bool)
}

// Deliverer is a Member of a log that can write outputs outside their transaction. With AtLeastOnce
// they are written at once, do not wait for the commit, and may repeat after a crash. With
// AtMostOnce they are written after the commit, and some may be missing after a crash.
type Deliverer interface {
	Member

	// Deliver passes outputs of the next Commit's transaction to the log, after those of earlier
	// calls. The log writes them according to its Delivery setting. Commit writes the remaining
	// outputs of the transaction. Deliver returns before any output is written; Commit reports
	// errors. The bytes must not be modified until the transaction is committed.
	Deliver(outputs []Record)
}

// Seeker is a Member that can skip records.
type Seeker interface {
	Member

	// Seek makes Poll continue at a later offset of an owned partition. The offset must not be
	// after the end. Committed offsets do not change. Seek ignores a partition that the member does
	// not own, and an offset that Poll has already passed.
	Seek(p Partition, next Offset)
}

// Pacer is a Member that says which transaction sizes suit its log.
type Pacer interface {
	Member
	Pace() Pace
}

// Pace gives the default limits of a transaction. The task commits when it reaches one.
type Pace struct {
	Interval    time.Duration // shortest time between two commits
	Events      int           // most events in a transaction
	Bytes       int           // outputs and changes together; a transaction with more is committed
	RecordBytes int           // limit for key, value and headers of one record together
}

// Pending is a commit in progress.
type Pending struct {
	done chan struct{}
	err  error
	at   time.Time
}

// NewPending returns a Pending. Its creator must call Decide once.
func NewPending() *Pending { return &Pending{done: make(chan struct{})} }

// Decide sets the outcome. Only the log that created p calls it, once.
func (p *Pending) Decide(err error) {
	p.err, p.at = err, time.Now()
	close(p.done)
}

// Done returns a channel that is closed when the outcome is known.
func (p *Pending) Done() <-chan struct{} { return p.done }

// At returns the time at which the outcome became known. Call it only after Done is closed.
func (p *Pending) At() time.Time { return p.at }

// Wait blocks until the outcome is known and returns it. If ctx ends first, Wait returns the error
// of ctx and the commit continues.
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

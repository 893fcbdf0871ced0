package sink

import (
	"context"

	"github.com/afterbay/afterbay/stream"
)

// Writer hands records to a service many at once: to a database, or to a store of
// files.
type Writer interface {
	// Claim makes the caller the owner of a partition, whose next record is at next. If
	// the service knows owners, it also ends the writes of an earlier owner. It is called again after a Write that failed.
	// Several goroutines call it at once, for different partitions.
	Claim(ctx context.Context, p stream.Partition, next stream.Offset) (Claim, error)
}

// Claim is a partition that a Writer took over.
type Claim interface {
	// Write hands records on, in the order of their offsets and each after those of
	// the Write before, and returns when all of them are durable but those that the
	// service will never take. Records below committed do not come again, whatever
	// happens. After an error all of them come again, to another claim: their result is
	// unknown. One that wraps stream.ErrFenced says that another one owns
	// the partition. A *Later says when to try again. The end of ctx, which has a
	// deadline, ends the call. The records must not be changed or kept. No two
	// goroutines use a claim at the same time.
	Write(ctx context.Context, committed stream.Offset, records []stream.Record) (Outcome, error)
}

// Outcome is the result of a Write, for its records.
type Outcome struct {
	Refused []Refusal // in the order of the records: each becomes a dead letter
	Older   int       // records that changed nothing, as the service holds something newer of their key
	Foreign int       // of the refused ones, those whose key the service holds from a source that they cannot be compared with

	// Stopped says that the records behind the last refused one were left alone:
	// they come again once its dead letter is committed. A Writer that keeps a
	// position of its own, which would pass what it refused, stops there: else a
	// crash would forget the dead letter.
	Stopped bool
}

// Refusal says that the service will not take a record, whenever it is asked.
type Refusal struct {
	Index int // of the records
	Err   error
}

// Service is what takes the records of a sink: exactly one of them.
type Service struct {
	Each  Sink    // one at a time, those of different keys beside each other
	Many  Writer  // many at once, those of different partitions beside each other
	Whole Archive // as objects, which are read from the log when they are made
}

// Kinds returns how many of them are set.
func (s Service) Kinds() (n int) {
	for _, set := range []bool{s.Each != nil, s.Many != nil, s.Whole != nil} {
		if set {
			n++
		}
	}
	return n
}

// Check asks the service what it is not that the sink needs, if what takes the records is
// a Checked.
func (s Service) Check(ctx context.Context) []error {
	for _, one := range []any{s.Each, s.Many, s.Whole} {
		if checked, ok := one.(Checked); ok {
			return checked.Check(ctx)
		}
	}
	return nil
}

// Close ends the connections of what takes the records, where it has any.
func (s Service) Close() {
	for _, one := range []any{s.Each, s.Many, s.Whole} {
		if closer, ok := one.(interface{ Close() }); ok {
			closer.Close()
		}
	}
}

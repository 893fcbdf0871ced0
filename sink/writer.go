package sink

import (
	"context"

	"github.com/afterbay/afterbay/stream"
)

// Writer passes records to a service in batches, for example to a database or a file store.
type Writer interface {
	// Claim makes the caller the owner of a partition, with the next record at next. If the service
	// tracks owners, Claim also fences the writes of an earlier owner. The engine calls Claim again
	// after a failed Write. Several goroutines call it at the same time, for different partitions.
	Claim(ctx context.Context, p stream.Partition, next stream.Offset) (Claim, error)
}

// Claim is the ownership of a partition by a Writer.
type Claim interface {
	// Write passes records to the service, in the order of their offsets and after those of the
	// previous Write. It returns when all records are durable, except those that the service will
	// never accept. Records below committed are never delivered again.
	//
	// After an error all records are delivered again, to another claim, because their result is
	// unknown. An error that wraps stream.ErrFenced means that another process owns the partition.
	// A *Later error says when to try again. ctx has a deadline; the call ends when ctx ends. Write
	// must not change or retain the records. The engine never calls one claim from two goroutines
	// at the same time.
	Write(ctx context.Context, committed stream.Offset, records []stream.Record) (Outcome, error)
}

// Outcome is the result of a Write.
type Outcome struct {
	Refused []Refusal // in the order of the records; each becomes a dead letter
	Older   int       // records that changed nothing, because the service holds a newer one for their key
	Foreign int       // refused records because the service holds a row of another source for their key: the versions cannot be compared

	// Stopped means that Write did not process the records after the last refused one. They are
	// delivered again once its dead letter is committed. A Writer that stores its own position must
	// stop there: otherwise its position would pass the refused record, and a crash would lose the
	// dead letter.
	Stopped bool
}

// Refusal names a record that the service will never accept.
type Refusal struct {
	Index int // index in the records of the Write
	Err   error
}

// Service is the destination of the records of a sink. Exactly one field is set.
type Service struct {
	Each  Sink    // one record at a time; records of different keys concurrently
	Many  Writer  // many records at once; different partitions concurrently
	Whole Archive // as objects; the records are read from the log when an object is made
}

// Kinds returns how many fields are set.
func (s Service) Kinds() (n int) {
	for _, set := range []bool{s.Each != nil, s.Many != nil, s.Whole != nil} {
		if set {
			n++
		}
	}
	return n
}

// Check asks the service and returns an error for each thing that the sink lacks there. It returns
// nil if the destination does not implement Checked.
func (s Service) Check(ctx context.Context) []error {
	for _, one := range []any{s.Each, s.Many, s.Whole} {
		if checked, ok := one.(Checked); ok {
			return checked.Check(ctx)
		}
	}
	return nil
}

// Close closes the connections of the destination, if it has any.
func (s Service) Close() {
	for _, one := range []any{s.Each, s.Many, s.Whole} {
		if closer, ok := one.(interface{ Close() }); ok {
			closer.Close()
		}
	}
}

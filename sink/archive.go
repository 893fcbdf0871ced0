package sink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// Archive stores ranges of the records of a partition, each as one object.
type Archive interface {
	// Form returns the format of new objects. before is the format of the partition's newest
	// object, nil if it has none. The engine stores the format with the decision to make an object.
	// So a repeat of that object uses the same format, even if the options have changed.
	Form(before []byte) []byte

	// Keep makes an object from the records of o. It returns when the object is durable, with the
	// number of records that it holds. Making the same object again changes nothing; making a
	// different one in its place is an error. A partial object is never visible.
	//
	// The records come in the order of their offsets. An error from the iterator ends the call.
	// Keep passes a record that it cannot store to refuse; an error of refuse also ends the call. A
	// *Split error means that the object must end earlier. Any other error is about the
	// destination, and the engine makes the object again.
	//
	// Several goroutines call Keep at the same time for different partitions. Calls for one
	// partition follow one another. The exception is a process that has lost the partition and
	// still runs a call. Keep must not retain the records.
	Keep(ctx context.Context, o Object, records iter.Seq2[stream.Record, error], refuse Refuse) (kept int, err error)
}

// Object is a range of the records of a partition.
type Object struct {
	Group     string // consumer group that reads the partition
	Partition stream.Partition
	From, To  stream.Offset // To is the offset after the last record
	Form      []byte        // result of Archive.Form
}

// String returns the partition and the offset range.
func (o Object) String() string { return fmt.Sprintf("%v@%d-%d", o.Partition, o.From, o.To) }

// Refuse turns a record into a dead letter with the given reason.
type Refuse func(r *stream.Record, reason error) error

// Split is an error: a range cannot be one object. The engine decides again, and ends the object
// before the record at At.
type Split struct{ At stream.Offset }

// Error says where the object must end.
func (s *Split) Error() string { return fmt.Sprintf("the object has to end before offset %d", s.At) }

// Bounds says when an object is complete. The bound that is reached first applies.
//
// The engine commits where an object ends before it makes the object. So a repeat after a crash
// makes the same object, whichever bound ended it.
type Bounds struct {
	Rows  int           // records, 1 to 10,000,000; 0 is 100,000
	Bytes int           // of keys, values and headers, up to 1 GiB; 0 is 128 MiB
	Wait  time.Duration // since the process that owns the partition received the first record, 1 s to 24 h; 0 is 5 m
}

const (
	objectRowsMax  = 10_000_000
	objectBytesMax = 1 << 30
	objectWaitMax  = 24 * time.Hour
)

// Validate returns all errors in the bounds, joined.
func (b Bounds) Validate() error {
	var errs []error
	if b.Rows < 0 || b.Rows > objectRowsMax {
		errs = append(errs, fmt.Errorf("rows is %d: use 1 to %d", b.Rows, objectRowsMax))
	}
	if b.Bytes < 0 || b.Bytes > objectBytesMax {
		errs = append(errs, fmt.Errorf("bytes is %d: use 1 to %d", b.Bytes, objectBytesMax))
	}
	if b.Wait != 0 && (b.Wait < time.Second || b.Wait > objectWaitMax) {
		errs = append(errs, fmt.Errorf("wait is %v: use 1s to %v", b.Wait, objectWaitMax))
	}
	return errors.Join(errs...)
}

// WithDefaults returns the bounds with each 0 replaced by its default.
func (b Bounds) WithDefaults() Bounds {
	return Bounds{cmp.Or(b.Rows, 100_000), cmp.Or(b.Bytes, 128<<20), cmp.Or(b.Wait, 5*time.Minute)}
}

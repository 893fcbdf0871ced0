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

// Archive keeps ranges of the records of a partition, each as a whole.
type Archive interface {
	// Form returns how the objects are made that are decided from here on: before is
	// that of the newest one of the partition, nil where there is none. It is stored
	// with the decision to make one, which is made so whatever the options are by
	// then.
	Form(before []byte) []byte

	// Keep makes an object of its records, and returns when it is durable and how
	// many it holds. The same object again changes nothing, and another one in its
	// place is an error. No partial object is visible. The records come in the order of
	// their offsets, and an error of theirs ends the call. A record that cannot be
	// kept is handed to refuse, whose error ends the call too. A *Split says that
	// the object has to end earlier; any other error is about the place, and the
	// object is made again. Several goroutines call it at once, for one object and
	// for all of a partition one after the other, unless another process does so
	// which has the partition no more. The records must not be kept.
	Keep(ctx context.Context, o Object, records iter.Seq2[stream.Record, error], refuse Refuse) (kept int, err error)
}

// Object is a range of the records of a partition.
type Object struct {
	Group     string // that reads the partition
	Partition stream.Partition
	From, To  stream.Offset // To is the offset behind the last record
	Form      []byte        // as Archive.Form returned it
}

// String says which records an object has.
func (o Object) String() string { return fmt.Sprintf("%v@%d-%d", o.Partition, o.From, o.To) }

// Refuse makes a record a dead letter, for a reason.
type Refuse func(r *stream.Record, reason error) error

// Split says that a range cannot be one object: it is decided again, to end before
// the record at At.
type Split struct{ At stream.Offset }

// Error says where the object has to end.
func (s *Split) Error() string { return fmt.Sprintf("the object has to end before offset %d", s.At) }

// Bounds say when an object is complete. The first that is reached counts.
//
// Where an object ends is committed before it is made: by number or size of its
// records, by the time that it waits, or by anything else, a repeat after a crash
// makes the same one.
type Bounds struct {
	Rows  int           // records, 1 to 10,000,000; 0 is 100,000
	Bytes int           // of keys, values and headers, up to 1 GiB; 0 is 128 MiB
	Wait  time.Duration // since its first record came to the process that has the partition, 1 s to 24 h; 0 is 5 m
}

const (
	objectRowsMax  = 10_000_000
	objectBytesMax = 1 << 30
	objectWaitMax  = 24 * time.Hour
)

// Validate returns all that is wrong with the bounds, and why.
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

// WithDefaults returns the bounds with defaults for those that are 0.
func (b Bounds) WithDefaults() Bounds {
	return Bounds{cmp.Or(b.Rows, 100_000), cmp.Or(b.Bytes, 128<<20), cmp.Or(b.Wait, 5*time.Minute)}
}

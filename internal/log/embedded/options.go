package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/afterbay/afterbay/internal/sys/vfs"
)

// Options configures a Log. The zero value of every field is a good default.
type Options struct {
	// SegmentBytes is the size of a new log file; 0 is 64 MiB. Existing files keep their size.
	SegmentBytes int64
	// GroupInterval is the minimum time between the starts of two syncs while few requests wait, so
	// that requests share a sync. It is also the maximum time that a frame waits for transactions
	// of members that read early. 0 is 2 ms.
	GroupInterval time.Duration
	// GroupEvents or GroupBytes of waiting requests start a sync before GroupInterval. A frame
	// takes no more bytes than GroupBytes, unless one append or transaction is larger. 0 is 2,048
	// and 1 MiB.
	GroupEvents int
	GroupBytes  int
	// QueueBytes is the most that may wait while a frame is written. An append beyond it blocks
	// until there is room. 0 is 64 MiB.
	QueueBytes int
	// RingBytes of the newest records stay in memory for readers that are caught up; 0 is 16 MiB.
	RingBytes int64
	// CheckpointInterval and CheckpointBytes say when the next checkpoint begins: after this time,
	// or this much log, since the last one began. A checkpoint is spread over half as much. So
	// recovery redoes at most one and a half times as much. 0 is 5 s and 128 MiB.
	CheckpointInterval time.Duration
	CheckpointBytes    int64

	// RetainBytes and RetainAge remove the oldest log files, whole, if the log is larger or a file
	// has been full for longer. 0 keeps all files. A file stays while recovery, a live member or
	// tail, or the committed offset of a group needs it.
	RetainBytes int64
	RetainAge   time.Duration
	// ReleaseUnread lets retention remove records that a group without a live member has not read.
	// The group's next member starts after the gap.
	ReleaseUnread bool

	// MaxRecordBytes limits key, value and headers of a record; 0 is 1 MiB + 64 KiB. MaxFrameBytes
	// limits an encoded append or transaction; 0 is the smaller of 16 MiB and SegmentBytes.
	MaxRecordBytes int
	MaxFrameBytes  int

	// MaxProducers is the number of producers that AppendOnce remembers, the most recent ones; 0 is
	// 65,536.
	MaxProducers int
	// MaxPartitions limits the partitions of all topics together, including those of deleted topics
	// that had records; 0 is 65,536. Each takes 250 bytes of memory.
	MaxPartitions int
	// RebalanceTimeout is how long a member that does not call Poll, for example because it
	// computes, may keep a partition that another member waits for; 0 is 5 min.
	RebalanceTimeout time.Duration

	// StateMemoryBytes limits the state in memory; 0 is 1 GiB. Commits block at 125% of the limit,
	// until a checkpoint has written state to disk.
	StateMemoryBytes int64

	// ReadOnly opens an existing log for reading. Nothing in the directory changes, and calls that
	// would change it return ErrReadOnly. No other process may have the log open for writing.
	ReadOnly bool

	// Logger logs what recovery cut off and why the log stopped; nil is slog.Default().
	Logger *slog.Logger

	fs vfs.FS // nil is the operating system's; tests use it to inject crashes and errors
}

// Validate returns all errors in the options.
func (o Options) Validate() error {
	var errs []error
	least := func(name string, value, least int64, why string) {
		if value < least && value != 0 {
			errs = append(errs, fmt.Errorf("embedded: %s is %d, less than %d: %s", name, value, least, why))
		}
	}
	most := func(name string, value, most int64, why string) {
		if value > most {
			errs = append(errs, fmt.Errorf("embedded: %s is %d, more than %d: %s", name, value, most, why))
		}
	}
	least("SegmentBytes", o.SegmentBytes, 16<<10, "a segment holds many frames")
	most("SegmentBytes", o.SegmentBytes, 1<<30, "recovery reads a segment into memory")
	least("GroupInterval", int64(o.GroupInterval), 1, "time runs forward")
	most("GroupInterval", int64(o.GroupInterval), int64(time.Minute), "every append waits this long")
	least("GroupEvents", int64(o.GroupEvents), 1, "it is an amount")
	least("GroupBytes", int64(o.GroupBytes), 1, "it is an amount")
	least("RingBytes", o.RingBytes, 1, "it is an amount")
	least("CheckpointInterval", int64(o.CheckpointInterval), 1, "time runs forward")
	most("CheckpointInterval", int64(o.CheckpointInterval), int64(time.Hour), "a crash repeats this much work")
	least("CheckpointBytes", o.CheckpointBytes, 1, "it is an amount")
	most("CheckpointBytes", o.CheckpointBytes, 1<<40, "a crash repeats this much work")
	least("RetainAge", int64(o.RetainAge), 1, "0 keeps all")
	least("MaxRecordBytes", int64(o.MaxRecordBytes), 1, "it is an amount")
	least("MaxFrameBytes", int64(o.MaxFrameBytes), 1<<10, "a frame holds a record at least")
	least("MaxPartitions", int64(o.MaxPartitions), 1, "it is an amount")
	least("MaxProducers", int64(o.MaxProducers), 1, "it is an amount")
	least("RebalanceTimeout", int64(o.RebalanceTimeout), 1, "time runs forward")
	least("StateMemoryBytes", o.StateMemoryBytes, 64<<10, "the changes of a step must fit")
	d := o.withDefaults()
	most("MaxFrameBytes", int64(d.MaxFrameBytes), d.SegmentBytes, "a frame lies in one segment")
	most("MaxRecordBytes", int64(o.MaxRecordBytes), int64(d.MaxFrameBytes), "a record lies in one frame")
	most("GroupBytes", int64(o.GroupBytes), int64(d.MaxFrameBytes), "a group is one frame")
	least("QueueBytes", int64(o.QueueBytes), int64(d.MaxFrameBytes), "the largest append waits in it")
	least("RetainBytes", o.RetainBytes, d.SegmentBytes, "whole files are deleted, and the file in use stays")
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	orElse(&o.SegmentBytes, 64<<20)
	orElse(&o.GroupInterval, 2*time.Millisecond)
	orElse(&o.RingBytes, 16<<20)
	orElse(&o.CheckpointInterval, 5*time.Second)
	orElse(&o.CheckpointBytes, 128<<20)
	orElse(&o.MaxRecordBytes, 1<<20+64<<10)
	orElse(&o.MaxFrameBytes, int(min(16<<20, o.SegmentBytes)))
	orElse(&o.GroupEvents, 2048)
	orElse(&o.GroupBytes, min(1<<20, o.MaxFrameBytes))
	orElse(&o.QueueBytes, max(64<<20, o.MaxFrameBytes))
	orElse(&o.MaxProducers, 1<<16)
	orElse(&o.MaxPartitions, 1<<16)
	orElse(&o.StateMemoryBytes, 1<<30)
	orElse(&o.RebalanceTimeout, 5*time.Minute)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.fs == nil {
		o.fs = vfs.OS()
	}
	return o
}

func orElse[T int | int64 | time.Duration](value *T, def T) {
	if *value == 0 {
		*value = def
	}
}

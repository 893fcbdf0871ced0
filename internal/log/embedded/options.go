package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/afterbay/afterbay/internal/sys/vfs"
)

// Options of a Log. The zero value of every field is a good default.
type Options struct {
	// SegmentBytes is the size of a new file of the log; 0 is 64 MiB. Existing
	// files keep theirs.
	SegmentBytes int64
	// GroupInterval is the least time between the beginnings of two syncs
	// while little is waiting, so that writers share them, and the most that a
	// frame waits for steps of the members that read early; 0 is 2 ms.
	GroupInterval time.Duration
	// GroupEvents and GroupBytes waiting begin a sync before that; a frame
	// takes no more bytes, unless one append or step is larger; 0 is 2,048
	// and 1 MiB.
	GroupEvents int
	GroupBytes  int
	// QueueBytes may wait while the one frame in flight is written; an append
	// beyond waits for room first; 0 is 64 MiB.
	QueueBytes int
	// RingBytes of the newest records stay in memory, where readers that are
	// caught up find their records; 0 is 16 MiB.
	RingBytes int64
	// CheckpointInterval or CheckpointBytes of log after a checkpoint began, the
	// next one begins, and is spread over half as much: a crash redoes one and a
	// half times as much at most; 0 is 5 s and 128 MiB.
	CheckpointInterval time.Duration
	CheckpointBytes    int64

	// RetainBytes and RetainAge let go of the oldest files of the log, whole,
	// when the log is larger or a file has been full for longer; 0 keeps all.
	// A file stays while recovery, a live member or tail, or a group's
	// committed offset needs it.
	RetainBytes int64
	RetainAge   time.Duration
	// ReleaseUnread lets retention take what a group without a live member
	// has not read. Its next member starts after the gap.
	ReleaseUnread bool

	// MaxRecordBytes bounds key, value and headers of a record; 0 is 1 MiB
	// and 64 KiB. MaxFrameBytes bounds an append or a step, encoded; 0 is
	// 16 MiB or SegmentBytes, if that is less.
	MaxRecordBytes int
	MaxFrameBytes  int

	// MaxProducers is how many producers AppendOnce remembers, the most
	// recent ones; 0 is 65,536.
	MaxProducers int
	// MaxPartitions bounds the partitions of all topics together, those of deleted
	// topics that had records included; 0 is 65,536. Each takes 250 bytes of memory.
	MaxPartitions int
	// RebalanceTimeout is how long a member that does not Poll may keep a
	// partition that another waits for, as it computes; 0 is 5 min.
	RebalanceTimeout time.Duration

	// StateMemoryBytes bounds the state kept in memory; 0 is 1 GiB. Where a
	// quarter more is needed, as it waits for a checkpoint, commits wait too.
	StateMemoryBytes int64

	// ReadOnly opens a log that is there for reading: nothing in the directory is
	// changed, and whatever would change it is refused with ErrReadOnly. No other
	// process may have the log open for writing.
	ReadOnly bool

	// Logger hears what recovery cut and why the log stopped; nil is
	// slog.Default().
	Logger *slog.Logger

	fs vfs.FS // nil is the operating system's; tests crash and break it
}

// Validate returns all that is wrong with the options.
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
	most("GroupInterval", int64(o.GroupInterval), int64(time.Minute), "every append waits as long")
	least("GroupEvents", int64(o.GroupEvents), 1, "it is an amount")
	least("GroupBytes", int64(o.GroupBytes), 1, "it is an amount")
	least("RingBytes", o.RingBytes, 1, "it is an amount")
	least("CheckpointInterval", int64(o.CheckpointInterval), 1, "time runs forward")
	most("CheckpointInterval", int64(o.CheckpointInterval), int64(time.Hour), "a crash redoes as much")
	least("CheckpointBytes", o.CheckpointBytes, 1, "it is an amount")
	most("CheckpointBytes", o.CheckpointBytes, 1<<40, "a crash redoes as much")
	least("RetainAge", int64(o.RetainAge), 1, "0 keeps all")
	least("MaxRecordBytes", int64(o.MaxRecordBytes), 1, "it is an amount")
	least("MaxFrameBytes", int64(o.MaxFrameBytes), 1<<10, "a frame holds a record at least")
	least("MaxPartitions", int64(o.MaxPartitions), 1, "it is an amount")
	least("MaxProducers", int64(o.MaxProducers), 1, "it is an amount")
	least("RebalanceTimeout", int64(o.RebalanceTimeout), 1, "time runs forward")
	least("StateMemoryBytes", o.StateMemoryBytes, 64<<10, "what a step changes must fit")
	d := o.withDefaults()
	most("MaxFrameBytes", int64(d.MaxFrameBytes), d.SegmentBytes, "a frame lies in one segment")
	most("MaxRecordBytes", int64(o.MaxRecordBytes), int64(d.MaxFrameBytes), "a record lies in one frame")
	most("GroupBytes", int64(o.GroupBytes), int64(d.MaxFrameBytes), "a group is one frame")
	least("QueueBytes", int64(o.QueueBytes), int64(d.MaxFrameBytes), "the largest append waits in it")
	least("RetainBytes", o.RetainBytes, d.SegmentBytes, "files go whole, and the one being written stays")
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

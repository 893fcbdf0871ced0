package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options of a Log. The zero value of every field is a good default.
type Options struct {
	// SegmentBytes is the size of a new file of the log; 0 is 64 MiB. Existing
	// files keep theirs.
	SegmentBytes int64
	// GroupInterval is the least time between the beginnings of two syncs
	// while little is waiting, so that writers share them; 0 is 2 ms.
	GroupInterval time.Duration
	// RingBytes of the newest frames stay in memory, where readers that are
	// caught up find their records; 0 is 64 MiB.
	RingBytes int64
	// CheckpointInterval and CheckpointBytes of log are how much is redone
	// after a crash; 0 is 5 s and 64 MiB.
	CheckpointInterval time.Duration
	CheckpointBytes    int64

	// RetainBytes and RetainAge let go of the oldest files of the log, whole,
	// when the log is larger or a file has been full for longer; 0 keeps all.
	// A file stays while recovery, a live session or tail, or a group's
	// committed offset needs it.
	RetainBytes int64
	RetainAge   time.Duration
	// ReleaseUnread lets retention take what a group without a live session
	// has not read. Its next session starts after the gap.
	ReleaseUnread bool

	// MaxRecordBytes bounds key, value and headers of a record; 0 is 1 MiB
	// and 64 KiB. MaxFrameBytes bounds an append or a step, encoded; 0 is
	// 16 MiB or SegmentBytes, if that is less.
	MaxRecordBytes int
	MaxFrameBytes  int

	// MaxProducers is how many producers AppendOnce remembers, the most
	// recent ones; 0 is 65,536.
	MaxProducers int
	// RebalanceTimeout is how long a member that does not Poll may keep a
	// partition that another waits for; 0 is 10 s.
	RebalanceTimeout time.Duration

	// StateMemoryBytes bounds the state kept in memory; 0 is 1 GiB.
	StateMemoryBytes int64

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
	least("SegmentBytes", o.SegmentBytes, 16<<10, "a segment holds many frames")
	least("GroupInterval", int64(o.GroupInterval), 1, "time runs forward")
	least("RingBytes", o.RingBytes, 1, "it is an amount")
	least("CheckpointInterval", int64(o.CheckpointInterval), 1, "time runs forward")
	least("CheckpointBytes", o.CheckpointBytes, 1, "it is an amount")
	least("RetainBytes", o.RetainBytes, 1, "0 keeps all")
	least("RetainAge", int64(o.RetainAge), 1, "0 keeps all")
	least("MaxRecordBytes", int64(o.MaxRecordBytes), 1, "it is an amount")
	least("MaxFrameBytes", int64(o.MaxFrameBytes), 1<<10, "a frame holds a record at least")
	least("MaxProducers", int64(o.MaxProducers), 1, "it is an amount")
	least("RebalanceTimeout", int64(o.RebalanceTimeout), 1, "time runs forward")
	least("StateMemoryBytes", o.StateMemoryBytes, 1, "it is an amount")
	if d := o.withDefaults(); int64(d.MaxFrameBytes) > d.SegmentBytes {
		errs = append(errs, fmt.Errorf("embedded: MaxFrameBytes %d is over SegmentBytes %d: a frame lies in one segment", d.MaxFrameBytes, d.SegmentBytes))
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	orElse(&o.SegmentBytes, 64<<20)
	orElse(&o.GroupInterval, 2*time.Millisecond)
	orElse(&o.RingBytes, 64<<20)
	orElse(&o.CheckpointInterval, 5*time.Second)
	orElse(&o.CheckpointBytes, 64<<20)
	orElse(&o.MaxRecordBytes, 1<<20+64<<10)
	orElse(&o.MaxFrameBytes, int(min(16<<20, o.SegmentBytes)))
	orElse(&o.MaxProducers, 1<<16)
	orElse(&o.RebalanceTimeout, 10*time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.fs == nil {
		o.fs = vfs.Default
	}
	return o
}

func orElse[T int | int64 | time.Duration](value *T, def T) {
	if *value == 0 {
		*value = def
	}
}

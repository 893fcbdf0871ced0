package embedded

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// conforming returns options as the suite wants them.
func conforming(fs vfs.FS) Options {
	o := small(fs)
	o.SegmentBytes, o.MaxFrameBytes, o.RingBytes = 1<<20, 0, 64<<10
	o.RebalanceTimeout, o.CheckpointInterval = 3*time.Second, 5*time.Millisecond // seconds, as machines have other things to do
	return o
}

func openAt(t *testing.T, dir string, o Options) stream.Log {
	t.Helper()
	l, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestConformance(t *testing.T) {
	streamtest.Run(t, func(t *testing.T) stream.Log { return openAt(t, "data", conforming(vfs.NewMemory())) })
}

func TestConformanceDurable(t *testing.T) {
	dir := t.TempDir()
	streamtest.RunDurable(t, func(t *testing.T) stream.Log { return openAt(t, dir, conforming(nil)) })
}

func TestSimulation(t *testing.T) {
	r, seeds := newRand(t), 20
	if testing.Short() {
		seeds = 5 // the race detector takes ten times as long
	}
	for range seeds {
		seed := r.Uint64()
		synctest.Test(t, func(t *testing.T) {
			streamtest.Simulate(t, func(t *testing.T) stream.Log {
				o := conforming(vfs.NewMemory())
				o.SegmentBytes, o.RingBytes, o.RebalanceTimeout = 64<<10, 4<<10, 75*time.Millisecond
				return openAt(t, "data", o)
			}, streamtest.Options{Seed: seed, Timeout: time.Hour})
		})
	}
}

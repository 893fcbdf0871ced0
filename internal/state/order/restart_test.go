package order_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/stream"
)

var heldBytes = flag.Int64("held.bytes", 16<<20, "bytes of events that wait for their turn at the restart of TestRestartReadsWhatMemoryHolds")

// TestRestartReadsWhatMemoryHolds has events wait for a source that says nothing, on the
// embedded engine, with and without a bound of what is held in memory. With it a restart reads
// at most twice the bound, and a poll. It logs how long the restart takes, until the first event is released.
func TestRestartReadsWhatMemoryHolds(t *testing.T) {
	const size = 1000
	events := *heldBytes / size
	for _, bound := range []int64{*heldBytes / 16, 0} {
		dir := filepath.Join(t.TempDir(), "data")
		log := openEmbedded(t, dir)
		p := stream.Partition{Topic: meets}
		for _, topic := range []string{meets, results} {
			if err := log.CreateTopic(t.Context(), stream.Topic{Name: topic, Partitions: 1}); err != nil {
				t.Fatal(err)
			}
		}
		value, random := make([]byte, size), rand.NewChaCha8([32]byte{1})
		_, _ = random.Read(value)
		for at := int64(0); at < events; at += 1000 {
			var records []stream.Record
			for i := at; i < min(events, at+1000); i++ {
				c := order.Copy{Placed: order.Placed{Key: order.Key{Time: i, Offset: i}}}
				records = append(records, stream.Record{Partition: p, Value: value, Headers: []stream.Header{{Key: header.Order, Value: c.Append(nil)}}})
			}
			if err := log.Append(t.Context(), records...); err != nil {
				t.Fatal(err)
			}
		}
		mark := func(m order.Mark) stream.Record { return order.Marks{m}.Record(p, time.UnixMicro(1)) }
		if err := log.Append(t.Context(), mark(order.Mark{Key: order.Key{Time: events, Offset: events}, Silent: order.NoMark.Silent})); err != nil {
			t.Fatal(err)
		}
		var held order.Held
		begun := time.Now()
		n := readAll(t, log, bound, &held, int(events)+1)
		reading, memory := time.Since(begun), heap()
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		begun = time.Now()
		log = openEmbedded(t, dir)
		opened := time.Since(begun)
		if err := log.Append(t.Context(), mark(order.Mark{Key: order.Key{Time: 0, Source: 1}, Silent: order.NoMark.Silent})); err != nil {
			t.Fatal(err)
		}
		again := readAll(t, log, bound, &held, 0)
		t.Logf("%d events of %d bytes are held, at most %d MiB in memory: %d MiB in state, heap %d MiB; read in %v; a restart reads %d records and takes %v, of which %v to open the log",
			events, size, bound>>20, held.State>>20, memory>>20, reading.Round(time.Millisecond), again, time.Since(begun).Round(time.Millisecond), opened.Round(time.Millisecond))
		if most := int((2*bound+1<<20)/size) + 1024; n < int(events) || bound > 0 && again > most || bound == 0 && again < int(events) {
			t.Errorf("%d records were read, and %d again, of %d with a bound of %d bytes", n, again, events, bound)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func openEmbedded(t *testing.T, dir string) *embedded.Log {
	t.Helper()
	log, err := embedded.Open(dir, embedded.Options{StateMemoryBytes: max(16<<20, *heldBytes/16)})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// heap returns the bytes of the heap that are in use.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// embeddedCounting is counting for the embedded engine.
type embeddedCounting struct {
	*embedded.Log
	records *int
}

func (c *embeddedCounting) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	m, err := c.Log.Join(ctx, group, topics...)
	if err != nil {
		return nil, err
	}
	return &countingMember{m.(stream.Seeker), c.records}, nil
}

// readAll has a member read so many records, or until the first event is released. It returns how many
// it read.
func readAll(t *testing.T, log *embedded.Log, bound int64, held *order.Held, records int) (n int) {
	t.Helper()
	m, err := order.NewLog(&embeddedCounting{log, &n}, meets, order.Options{Bytes: bound, Tell: func(h order.Held) {
		if h.Memory > 0 {
			*held = h
		}
	}}, 0, 1).Join(t.Context(), group, meets)
	if err != nil {
		t.Fatal(err)
	}
	for released := false; n < records || records == 0 && !released; {
		soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		batch, err := m.Poll(soon, 1024)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		for i := range batch.Records {
			released = released || !header.MovesTime(&batch.Records[i])
		}
		if len(batch.Records) > 0 {
			commit(t, m, batch.Records)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

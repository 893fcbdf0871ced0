package table

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/task/clock"
	"github.com/afterbay/afterbay/stream"
)

// shortened is a log of which retention took the first records.
type shortened struct {
	*memory.Log
	first stream.Offset
}

func (s *shortened) Offsets(ctx context.Context, p stream.Partition) (first, next stream.Offset, err error) {
	first, next, err = s.Log.Offsets(ctx, p)
	return max(first, s.first), next, err
}

func (s *shortened) Tail(ctx context.Context, p stream.Partition, from stream.Offset) iter.Seq2[stream.Record, error] {
	if from < s.first {
		return func(yield func(stream.Record, error) bool) { yield(stream.Record{}, stream.ErrTrimmed) }
	}
	return s.Log.Tail(ctx, p, from)
}

// bench is a log with a table, and a member that reads it beside in/0.
type bench struct {
	*shortened
	t      testing.TB
	logged bytes.Buffer
	member stream.Member
	reader *Reader
	state  *State
}

var specs = []Spec{{Topic: "users"}, {Topic: "users", Own: true}}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{shortened: &shortened{Log: memory.New(memory.Options{})}, t: t}
	for _, topic := range []stream.Topic{{Name: "in", Partitions: 2}, {Name: "users", Partitions: 1}} {
		b.must(b.CreateTopic(t.Context(), topic))
	}
	b.join()
	t.Cleanup(func() { b.must(b.Close()) })
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// join begins again from what is committed.
func (b *bench) join() {
	b.t.Helper()
	if b.member != nil {
		b.must(b.member.Close())
	}
	var err error
	b.member, err = b.Join(b.t.Context(), "g", "in")
	b.must(err)
	batch, err := b.member.Poll(b.t.Context(), 1)
	b.must(err)
	b.reader, err = NewReader(b.shortened, "in", "posts", specs, slog.New(slog.NewTextHandler(&b.logged, nil)), clock.System, nil)
	b.must(err)
	for _, a := range batch.Assigned {
		s, err := b.reader.Assign(a)
		b.must(err)
		if a.Partition.Index == 0 {
			b.state = s
		}
	}
}

func (b *bench) append(rows ...string) {
	b.t.Helper()
	for _, row := range rows {
		key, value, _ := strings.Cut(row, "=")
		b.must(b.Append(b.t.Context(), stream.Record{Partition: stream.Partition{Topic: "users"}, Key: []byte(key), Value: []byte(value)}))
	}
}

func (b *bench) bring() error {
	return b.reader.Bring(b.t.Context(), func(stream.Partition, int) error { return nil })
}

// commit makes a step of what was brought.
func (b *bench) commit() *stream.Pending {
	step := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{b.state.id: 0}}
	b.state.Changes(func(key, data []byte) {
		step.Changes = append(step.Changes, stream.Change{Partition: b.state.id, Key: key, Value: bytes.Clone(data)})
	})
	return b.member.Commit(step)
}

func (b *bench) rows(table int, keys ...string) (rows []string) {
	b.t.Helper()
	for _, key := range keys {
		row, failure, fatal := b.state.Row(table, []byte(key), 0, 0)
		b.must(fatal)
		switch {
		case failure != nil:
			rows = append(rows, "elsewhere")
		case row == nil:
			rows = append(rows, "none")
		default:
			rows = append(rows, string(row))
		}
	}
	return rows
}

func (b *bench) want(rows []string, want ...string) {
	b.t.Helper()
	if !slices.Equal(rows, want) {
		b.t.Errorf("rows %q, want %q", rows, want)
	}
}

// here and there are keys that belong to the partition 0 and 1 of in.
func here(n int) (here, there string) {
	for i := n * 100; here == "" || there == ""; i++ {
		if key := fmt.Sprint("k", i); stream.Place([]byte(key), 2) == 0 {
			here = key
		} else {
			there = key
		}
	}
	return here, there
}

// A client that gives an event up writes a record without a value under the event's key.
func TestCancelOfAClientDeletesNoRow(t *testing.T) {
	b := newBench(t)
	k, _ := here(1)
	b.append(k + "=1")
	b.must(b.bring())
	b.state.take(place{}, &stream.Record{Key: []byte(k), Offset: 1, Headers: []stream.Header{{Key: header.Cancel, Value: []byte("t/c/e")}}})
	b.want(b.rows(0, k), "1")
}

func TestRowsAreSeenBeforeWhileAndAfterTheyAreCommitted(t *testing.T) {
	b := newBench(t)
	k, other := here(1)
	k2, _ := here(2)
	b.append(k+"=1", other+"=1", k2+"=1")
	b.want(b.rows(0, k), "none")
	b.must(b.bring())
	b.want(b.rows(0, k, other, k2), "1", "1", "1")
	b.want(b.rows(1, k, other, k2), "1", "elsewhere", "1")
	first := b.commit()
	b.append(k+"=2", k2+"=")
	b.must(b.bring())
	b.want(b.rows(0, k, other, k2), "2", "1", "none")
	b.must(first.Wait(t.Context()))
	b.want(b.rows(0, k, other, k2), "2", "1", "none")
	b.join() // the second was not committed
	b.want(b.rows(0, k, other, k2), "1", "1", "1")
	b.must(b.bring())
	b.want(b.rows(1, k, k2), "2", "none")
	b.must(b.commit().Wait(t.Context()))
	b.want(b.rows(1, k, k2), "2", "none")
	b.join()
	b.want(b.rows(0, k, other, k2), "2", "1", "none")
}

func TestRowsOutliveTheRecordsTheyCameFrom(t *testing.T) {
	b := newBench(t)
	k, other := here(1)
	b.append(k+"=1", other+"=1")
	b.must(b.bring())
	b.must(b.commit().Wait(t.Context()))
	b.append(k+"=2", other+"=2", k+"=3")
	b.first = 4
	b.join()
	b.must(b.bring())
	b.want(b.rows(0, k, other), "3", "1")
	if !strings.Contains(b.logged.String(), "rows of a table were deleted before the pipeline read them") {
		t.Errorf("logged: %s", b.logged.String())
	}
}

func TestTableThatLostRecordsIsRefused(t *testing.T) {
	b := newBench(t)
	b.append("a=1", "b=1")
	b.must(b.bring())
	b.must(b.commit().Wait(t.Context()))
	b.join()
	b.state.next[place{0, 0}] = 7 // as if it had had more
	if err := b.bring(); err == nil || !strings.Contains(err.Error(), "it ends at 2, but beside in/0 it was read to 7") {
		t.Error(err)
	}
}

func TestPartitionsAtDifferentPlacesReadEachRowOnce(t *testing.T) {
	b := newBench(t)
	b.append("a=1", "b=1")
	b.must(b.bring())
	b.must(b.commit().Wait(t.Context())) // of in/0 only
	b.append("c=1")
	b.join()
	took := map[int32]int{}
	err := b.reader.Bring(t.Context(), func(p stream.Partition, bytes int) error {
		took[p.Index]++
		if bytes < 2 {
			t.Errorf("a row takes %d bytes", bytes)
		}
		return nil
	})
	b.must(err)
	own := 0
	for _, key := range []string{"a", "b", "c"} {
		if stream.Place([]byte(key), 2) == 1 {
			own++
		}
	}
	ownHere := 0
	if stream.Place([]byte("c"), 2) == 0 {
		ownHere = 1
	}
	if took[0] != 1+ownHere || took[1] != 3+own {
		t.Errorf("took %v, want %d and %d", took, 1+ownHere, 3+own)
	}
}

func TestReaderWithoutTablesDoesNothing(t *testing.T) {
	r, err := NewReader(nil, "in", "posts", nil, nil, nil, nil)
	if r != nil || err != nil {
		t.Fatal(r, err)
	}
	s, err := r.Assign(stream.Assigned{})
	if s != nil || err != nil || r.Bring(t.Context(), nil) != nil {
		t.Error(s, err)
	}
	s.Changes(nil)
	r.Revoke(stream.Partition{})
}

func TestTopicThatIsNotThereIsAnError(t *testing.T) {
	b := newBench(t)
	b.reader.specs = []Spec{{Topic: "nowhere"}}
	if err := b.bring(); err == nil || !strings.Contains(err.Error(), `"nowhere"`) {
		t.Error(err)
	}
}

func BenchmarkRow(b *testing.B) {
	const rows = 10_000
	c := newBench(b)
	var keys [][]byte
	var records []stream.Record
	for i := range rows {
		keys = append(keys, fmt.Appendf(nil, "user-%d", i))
		records = append(records, stream.Record{Partition: stream.Partition{Topic: "users"}, Key: keys[i], Value: []byte(`{"trusted":true,"level":3,"country":"DE"}`)})
	}
	c.must(c.Append(b.Context(), records...))
	c.must(c.bring())
	c.must(c.commit().Wait(b.Context()))
	c.commit()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if row, failure, fatal := c.state.Row(0, keys[i*7919%rows], 0, 0); row == nil || failure != nil || fatal != nil {
			b.Fatal(row, failure, fatal)
		}
	}
}

// TestTableThatGetsMorePartitionsIsReadWhole finds the rows of a partition that was added
// while the table is read.
func TestTableThatGetsMorePartitionsIsReadWhole(t *testing.T) {
	b := newBench(t)
	b.append("ann=1")
	b.must(b.bring())
	b.must(b.DeleteTopic(t.Context(), "users"))
	b.must(b.CreateTopic(t.Context(), stream.Topic{Name: "users", Partitions: 2}))
	b.must(b.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: "users", Index: 1}, Key: []byte("bob"), Value: []byte("2")}))
	b.reader.looked = time.Now().Add(-lookEvery)
	b.must(b.bring())
	if got := b.rows(0, "ann", "bob"); !slices.Equal(got, []string{"1", "2"}) {
		t.Error(got)
	}
}

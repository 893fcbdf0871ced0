package inspect_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/stream"
)

// newest reads the newest records of the partitions of topic in, which have so many.
func newest(t *testing.T, n inspect.Newest, sizes ...int) string {
	t.Helper()
	log := memory.New(memory.Options{})
	defer log.Close()
	if err := log.CreateTopic(t.Context(), stream.Topic{Name: "in", Partitions: int32(len(sizes))}); err != nil {
		t.Fatal(err)
	}
	for p, size := range sizes {
		for range size {
			if err := log.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: "in", Index: int32(p)}, Key: []byte("k"), Value: make([]byte, 9)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	d := inspect.NewLocal(log, nil, nil, nil)
	topic, err := inspect.Find(t.Context(), d, "in")
	if err != nil {
		t.Fatal(err)
	}
	return read(t, n.Of(t.Context(), d, topic))
}

// read returns the offsets of records by partition.
func read(t *testing.T, records iter.Seq2[stream.Record, error]) string {
	t.Helper()
	var text strings.Builder
	last := int32(-1)
	for r, err := range records {
		if err != nil {
			t.Fatal(err)
		}
		if r.Partition.Index != last {
			fmt.Fprintf(&text, " %d:", r.Partition.Index)
		}
		last = r.Partition.Index
		fmt.Fprintf(&text, "%d", r.Offset)
	}
	return strings.TrimSpace(text.String())
}

func TestNewestRecordsAreSharedByPartitions(t *testing.T) {
	for _, c := range []struct {
		n     inspect.Newest
		sizes []int
		want  string
	}{
		{inspect.Newest{Records: 100, Bytes: 1000}, []int{2, 0, 3}, "0:01 2:012"},
		{inspect.Newest{Records: 6, Bytes: 1000}, []int{9, 1, 8}, "1:0 2:67 0:678"},
		{inspect.Newest{Records: 6, Bytes: 1000}, []int{3, 3, 3}, "0:12 1:12 2:12"},
		{inspect.Newest{Records: 100, Bytes: 40}, []int{9, 9}, "0:01 1:01"},
		{inspect.Newest{Records: 100, Bytes: 1}, []int{9}, "0:0"},
		{inspect.Newest{Records: 100, Bytes: 1000}, []int{0}, ""},
	} {
		c.n.Within = time.Minute
		if got := newest(t, c.n, c.sizes...); got != c.want {
			t.Errorf("%+v of %v: %q, want %q", c.n, c.sizes, got, c.want)
		}
	}
}

// slow is a log whose records after the first ones do not come.
type slow struct {
	inspect.Directory
	come int
}

func (s *slow) Records(ctx context.Context, _ inspect.Query) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		for i := range s.come {
			if !yield(stream.Record{Offset: stream.Offset(i)}, nil) {
				return
			}
		}
		<-ctx.Done()
		yield(stream.Record{}, ctx.Err())
	}
}

func TestRecordsThatDoNotComeEndTheSample(t *testing.T) {
	topic := inspect.Topic{Name: "in", Partitions: []inspect.Partition{{Next: 5}}}
	n := inspect.Newest{Records: 10, Bytes: 100, Within: 20 * time.Millisecond}
	if got := read(t, n.Of(t.Context(), &slow{come: 2}, topic)); got != "0:01" {
		t.Errorf("of 2 that come: %s", got)
	}
	for _, err := range n.Of(t.Context(), &slow{}, topic) {
		if err == nil || !strings.Contains(err.Error(), "no record came within 20ms") {
			t.Errorf("of none: %v", err)
		}
	}
}

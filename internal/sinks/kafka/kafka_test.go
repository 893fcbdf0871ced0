package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/memory"
	kafkasink "github.com/afterbay/afterbay/internal/sinks/kafka"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// cluster is a log in memory that numbers records as internal/log/kafka does, and fails as
// a test says.
type cluster struct {
	*memory.Log
	highest map[string]int64
	opened  int
	fails   error
}

func (c *cluster) AppendNumbered(ctx context.Context, producer string, numbers []int64, records ...stream.Record) (repeated int, err error) {
	for repeated < len(numbers) && numbers[repeated] <= c.highest[producer] {
		repeated++
	}
	if err := c.Append(ctx, records[repeated:]...); err != nil {
		return 0, err
	}
	c.highest[producer] = max(c.highest[producer], numbers[len(numbers)-1])
	return repeated, nil
}

func (c *cluster) Append(ctx context.Context, records ...stream.Record) error {
	if c.fails != nil {
		return c.fails
	}
	return c.Log.Append(ctx, records...)
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{Log: memory.New(memory.Options{MaxRecordBytes: 200}), highest: map[string]int64{}}
	t.Cleanup(func() { _ = c.Log.Close() })
	if err := c.CreateTopic(t.Context(), stream.Topic{Name: "copy", Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	return c
}

func newWriter(t *testing.T, c *cluster, topic string, once bool) *kafkasink.Writer {
	t.Helper()
	w, err := kafkasink.New(kafkasink.Options{
		Topic: topic, Group: "fraud.copy", ExactlyOnce: once,
		Open: func(context.Context) (kafkasink.Log, error) {
			if c.opened++; c.opened == 1 {
				return nil, errors.New("away")
			}
			return c, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

var source = stream.Partition{Topic: "decisions", Index: 7}

func claim(t *testing.T, w *kafkasink.Writer) sink.Claim {
	t.Helper()
	if _, err := w.Claim(t.Context(), source, 0); err == nil || err.Error() != "away" {
		t.Errorf("a cluster that is away: %v", err)
	}
	got, err := w.Claim(t.Context(), source, 0)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// kept returns what the topic holds, in the order of partitions and offsets.
func (c *cluster) kept(t *testing.T) (list []stream.Record) {
	t.Helper()
	for i := range int32(3) {
		p := stream.Partition{Topic: "copy", Index: i}
		_, next, err := c.Offsets(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if next == 0 {
			continue
		}
		for r, err := range c.Tail(t.Context(), p, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if list = append(list, r); r.Offset+1 == next {
				break
			}
		}
	}
	return list
}

func TestRecordsKeepKeyValueTimeHeadersAndID(t *testing.T) {
	c := newCluster(t)
	w := newWriter(t, c, "copy", false)
	records := []stream.Record{
		{Partition: source, Offset: 4, Time: time.UnixMicro(1_000_001), Key: []byte("ann"), Value: []byte("1"), Headers: []stream.Header{
			{Key: header.ID, Value: []byte("e1")}, {Key: header.Position, Value: []byte("in/0@1")}, {Key: "traceparent", Value: []byte("00")}}},
		{Partition: source, Offset: 6, Time: time.UnixMicro(2_000_000), Key: []byte("ann"), Value: []byte("2")},
		{Partition: source, Offset: 7, Time: time.UnixMicro(3_000_000), Value: []byte("3"), Headers: []stream.Header{{Key: header.ID, Value: []byte("e3")}}},
	}
	want := slices.Clone(records)
	if outcome, err := claim(t, w).Write(t.Context(), 0, records); err != nil || outcome.Refused != nil {
		t.Fatal(outcome, err)
	}
	if diff := cmp.Diff(want, records); diff != "" {
		t.Errorf("the records were changed:\n%s", diff)
	}
	got := c.kept(t)
	slices.SortFunc(got, func(a, b stream.Record) int { return bytes.Compare(a.Value, b.Value) })
	want[1].Headers = []stream.Header{{Key: header.ID, Value: []byte("decisions/7@6")}}
	for i := range got {
		key := cmp.Diff(stream.PlaceRecord(&got[i], 3), got[i].Partition.Index)
		if got[i].Partition, got[i].Offset = source, want[i].Offset; key != "" {
			t.Errorf("partition of record %d: %s", i, key)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestRecordsThatAreTooLargeAreRefusedAlone(t *testing.T) {
	for _, once := range []bool{false, true} {
		c := newCluster(t)
		var records []stream.Record
		for i := range 10 {
			size := 1
			if i%4 == 1 {
				size = 300
			}
			records = append(records, stream.Record{Partition: source, Offset: stream.Offset(2 * i), Time: time.UnixMilli(1), Value: bytes.Repeat([]byte{'0' + byte(i)}, size)})
		}
		to := claim(t, newWriter(t, c, "copy", once))
		var refused []stream.Offset
		for rest := records; len(rest) > 0; {
			outcome, err := to.Write(t.Context(), 0, rest)
			if err != nil || outcome.Stopped != (once && len(outcome.Refused) > 0) {
				t.Fatal(outcome, err)
			}
			next := len(rest)
			for _, r := range outcome.Refused {
				if refused = append(refused, rest[r.Index].Offset); !errors.Is(r.Err, stream.ErrTooLarge) {
					t.Error(r.Err)
				}
				if once {
					next = r.Index + 1
				}
			}
			rest = rest[next:]
		}
		if !slices.Equal(refused, []stream.Offset{2, 10, 18}) {
			t.Errorf("exactly once %v: refused %v", once, refused)
		}
		if n := len(c.kept(t)); n != 7 {
			t.Errorf("%d records", n)
		}
	}
}

// TestRefusedRecordIsRefusedAgainAfterACrash writes what a process wrote again, that
// died before the dead letter was committed.
func TestRefusedRecordIsRefusedAgainAfterACrash(t *testing.T) {
	c := newCluster(t)
	var records []stream.Record
	for i := range 10 {
		size := 1
		if i == 4 {
			size = 300
		}
		records = append(records, stream.Record{Partition: source, Offset: stream.Offset(i), Time: time.UnixMilli(1), Value: bytes.Repeat([]byte{'0' + byte(i)}, size)})
	}
	for range 2 {
		outcome, err := claim(t, newWriter(t, c, "copy", true)).Write(t.Context(), 0, records)
		if err != nil || len(outcome.Refused) != 1 || outcome.Refused[0].Index != 4 {
			t.Errorf("%+v, %v", outcome, err)
		}
		c.opened = 0
	}
	if n := len(c.kept(t)); n != 4 {
		t.Errorf("%d records, those before it are 4", n)
	}
}

func TestRepeatsAreLeftOutWithExactlyOnce(t *testing.T) {
	for _, once := range []bool{false, true} {
		c := newCluster(t)
		to := claim(t, newWriter(t, c, "copy", once))
		var records []stream.Record
		for i := range 10 {
			records = append(records, stream.Record{Partition: source, Offset: stream.Offset(3 * i), Time: time.UnixMilli(1), Value: fmt.Append(nil, i)})
		}
		for _, part := range [][]stream.Record{records[:6], records[2:8], records} {
			if _, err := to.Write(t.Context(), 0, part); err != nil {
				t.Fatal(err)
			}
		}
		if n, want := len(c.kept(t)), map[bool]int{true: 10, false: 22}[once]; n != want {
			t.Errorf("exactly once %v: %d records, want %d", once, n, want)
		}
	}
}

func TestFaultsOfTheClusterAreNotTheRecords(t *testing.T) {
	c := newCluster(t)
	to := claim(t, newWriter(t, c, "copy", false))
	c.fails = errors.New("no leader")
	if outcome, err := to.Write(t.Context(), 0, []stream.Record{{Partition: source, Value: []byte("1")}}); err == nil || len(outcome.Refused) > 0 {
		t.Error(outcome, err)
	}
	c.opened = 1
	w := newWriter(t, c, "pond", false)
	if _, err := w.Claim(t.Context(), source, 0); !errors.Is(err, stream.ErrUnknownTopic) || !strings.Contains(err.Error(), `"pond"`) {
		t.Error(err)
	}
	if errs := w.Check(t.Context()); len(errs) != 1 {
		t.Error(errs)
	}
	if _, err := kafkasink.New(kafkasink.Options{Topic: "copy"}); err == nil {
		t.Error("options without a cluster")
	}
}

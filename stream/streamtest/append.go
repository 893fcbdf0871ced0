package streamtest

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/afterbay/afterbay/stream"
)

var topicCases = []testCase{
	{"CreateTopicLeavesOneThatExists", createTopicAgain},
	{"TopicsAreSorted", topicsAreSorted},
	{"UnknownTopic", unknownTopic},
}

func createTopicAgain(h *harness) {
	in := stream.Topic{Name: "in", Partitions: 3}
	keyed := stream.Topic{Name: "in", Partitions: 3, Key: "user"}
	wantTopics := func(want ...stream.Topic) {
		h.Helper()
		if got, err := h.Topics(h.ctx); err != nil || !slices.Equal(got, want) {
			h.Fatalf("topics %v, %v; want %v", got, err, want)
		}
	}
	wantTopics()
	h.ok(h.CreateTopic(h.ctx, in))
	p := stream.Partition{Topic: "in", Index: 2}
	h.append(p, "kept")
	h.ok(h.CreateTopic(h.ctx, in))
	wantTopics(in)
	h.wantRecords(p, "kept")
	if err := h.CreateTopic(h.ctx, stream.Topic{Name: "in", Partitions: 4, Key: "no"}); err == nil {
		h.Fatal("another number of partitions was accepted")
	}
	wantTopics(in)
	h.ok(h.CreateTopic(h.ctx, keyed)) // the key was empty
	wantTopics(keyed)
	h.ok(h.CreateTopic(h.ctx, stream.Topic{Name: "in", Partitions: 3, Key: "other"}))
	h.ok(h.CreateTopic(h.ctx, in))
	wantTopics(keyed)
	if err := h.CreateTopic(h.ctx, stream.Topic{Name: "none"}); err == nil {
		h.Fatal("a topic without partitions was accepted")
	}
	wantTopics(keyed)
}

func topicsAreSorted(h *harness) {
	for _, name := range []string{"b", "c", "a", "b-2"} {
		h.topic(name, 1)
	}
	topics, err := h.Topics(h.ctx)
	h.ok(err)
	var names []string
	for _, t := range topics {
		names = append(names, t.Name)
	}
	if want := []string{"a", "b", "b-2", "c"}; !slices.Equal(names, want) {
		h.Fatalf("topics %v, want %v", names, want)
	}
}

func unknownTopic(h *harness) {
	in, out := h.inOut()
	for _, p := range []stream.Partition{{Topic: "none"}, {Topic: "none", Index: stream.ByKey}, {Topic: "in", Index: 1}, {Topic: "in", Index: -2}} {
		h.wantError("append", h.Append(h.ctx, record(in, "good"), record(p, "bad")), stream.ErrUnknownTopic)
		_, err := h.AppendOnce(h.ctx, "producer", 1, record(in, "good"), record(p, "bad"))
		h.wantError("append once", err, stream.ErrUnknownTopic)
		m := h.join("g", "in")
		m.own(1)
		m.refused(step(in, 1, []stream.Record{record(out, "good"), record(p, "bad")}, "a=1"), stream.ErrUnknownTopic)
		h.ok(m.Close())
		if p.Index == stream.ByKey {
			continue
		}
		tailed := false
		for _, err := range h.Tail(h.ctx, p, 0) {
			tailed = true
			h.wantError("tail", err, stream.ErrUnknownTopic)
		}
		if !tailed {
			h.Fatal("tail yielded no error")
		}
		_, _, err = h.inspect.Offsets(h.ctx, p)
		h.wantError("offsets", err, stream.ErrUnknownTopic)
		_, _, err = h.inspect.Peek(h.ctx, p, 0)
		h.wantError("peek", err, stream.ErrUnknownTopic)
		_, err = h.inspect.Committed(h.ctx, "g", p)
		h.wantError("committed", err, stream.ErrUnknownTopic)
		_, err = h.inspect.State(h.ctx, "g", p)
		h.wantError("state", err, stream.ErrUnknownTopic)
	}
	_, err := h.Join(h.ctx, "g", "in", "none")
	h.wantError("join", err, stream.ErrUnknownTopic)
	h.wantRecords(in) // nothing was written
	h.wantRecords(out)
	h.wantState("g", in, "")
	h.wantCommitted("g", in, 0)
}

var appendCases = []testCase{
	{"RecordsHaveOffsetsFrom0InOrder", offsetsFromZero},
	{"AppendSetsPartitionOffsetAndTime", appendSetsFields},
	{"BytesMayBeReusedAfterAppend", bytesMayBeReused},
	{"RecordsSurviveWhole", recordsSurviveWhole},
	{"ByKeyPlacesAsKafka", byKeyPlacesAsKafka},
	{"RecordWithoutKeyIsPlacedByItsValue", placedByValue},
	{"TooLargeRecordWritesNothing", tooLarge},
	{"ConcurrentAppendsAreWholeAndInOrder", concurrentAppends},
	{"AppendOnceLeavesOutRepeatedRecords", appendOnceRepeated},
	{"AppendOnceAcceptsGaps", appendOnceGaps},
	{"AppendOnceKeepsProducersApart", appendOnceProducers},
	{"AppendOnceCountsOnlyWhatWasWritten", appendOnceRefused},
}

func offsetsFromZero(h *harness) {
	ps := h.topic("in", 2)
	h.append(ps[0], "a", "b")
	h.append(ps[1], "x")
	rs := append(records(ps[0], "c"), append(records(ps[1], "y"), records(ps[0], "d")...)...)
	h.ok(h.Append(h.ctx, rs...))
	for i, want := range []stream.Offset{2, 1, 3} {
		if rs[i].Offset != want {
			h.Fatalf("record %d got offset %d, want %d", i, rs[i].Offset, want)
		}
	}
	h.wantRecords(ps[0], "a", "b", "c", "d")
	h.wantRecords(ps[1], "x", "y")
	h.ok(h.Append(h.ctx))
	h.wantRecords(ps[0], "a", "b", "c", "d")
}

func appendSetsFields(h *harness) {
	ps := h.topic("in", 5)
	event := time.Date(2001, 2, 3, 4, 5, 6, 123456789, time.FixedZone("", 3600))
	rs := []stream.Record{
		{Partition: stream.Partition{Topic: "in", Index: stream.ByKey}, Key: []byte("foobar"), Offset: 77},
		{Partition: ps[(stream.Place([]byte("foobar"), 5)+1)%5], Offset: 77, Time: event},
	}
	before := time.Now()
	h.ok(h.Append(h.ctx, rs...))
	after := time.Now()
	if want := ps[stream.Place([]byte("foobar"), 5)]; rs[0].Partition != want {
		h.Fatalf("placed in %v, want %v", rs[0].Partition, want)
	}
	if at := rs[0].Time; at.Before(before.Truncate(time.Millisecond)) || at.After(after) {
		h.Fatalf("appended at %v, between %v and %v", at, before, after)
	}
	if want := event.Truncate(time.Microsecond); !rs[1].Time.Equal(want) {
		h.Fatalf("time %v, want %v", rs[1].Time, want)
	}
	for i, r := range rs {
		if got := h.tail(r.Partition, 0, 1)[0]; r.Offset != 0 || !got.Time.Equal(r.Time) {
			h.Fatalf("record %d has offset %d and time %v, and is read with %v", i, r.Offset, r.Time, got.Time)
		}
	}
}

func bytesMayBeReused(h *harness) {
	in, out := h.inOut()
	key, value, header := []byte("key"), []byte("value"), []byte("header")
	headers := []stream.Header{{Key: "name", Value: header}}
	reuse := func() {
		for _, b := range [][]byte{key, value, header} {
			copy(b, "xxxxxxxx")
		}
		headers[0].Key = "x"
	}
	check := func(p stream.Partition) {
		h.Helper()
		r := h.tail(p, 0, 1)[0]
		if got := fmt.Sprintf("%s %s %v", r.Key, r.Value, r.Headers); got != fmt.Sprint("key value ", []stream.Header{{Key: "name", Value: []byte("header")}}) {
			h.Fatalf("%v holds %s", p, got)
		}
	}
	h.ok(h.Append(h.ctx, stream.Record{Partition: in, Key: key, Value: value, Headers: headers}))
	reuse()
	check(in)

	m := h.join("g", "in")
	m.own(1)
	copy(key, "key")
	copy(value, "value")
	copy(header, "header")
	headers[0].Key = "name"
	m.commit(stream.Transaction{
		Outputs: []stream.Record{{Partition: out, Key: key, Value: value, Headers: headers}},
		Changes: []stream.Change{{Partition: in, Key: key, Value: value}},
		Offsets: map[stream.Partition]stream.Offset{in: 1},
	})
	reuse() // the commit is decided
	check(out)
	h.wantState("g", in, "key=value")
}

func recordsSurviveWhole(h *harness) {
	in, out := h.inOut()
	binary := make([]byte, 256)
	for i := range binary {
		binary[i] = byte(i)
	}
	want := []stream.Record{
		{Key: nil, Value: []byte("no key")},
		{Key: []byte{}, Value: []byte("empty key")},
		{Key: []byte("empty value"), Value: []byte{}},
		{Key: binary, Value: bytes.Repeat(binary, 300), Headers: []stream.Header{{Key: "a", Value: binary}, {Key: "a", Value: []byte("again")}, {}}},
		{Value: []byte("old"), Time: time.UnixMicro(-1)},
		{Value: []byte("epoch"), Time: time.UnixMicro(0)},
		{Value: []byte("far"), Time: time.Date(2262, 1, 1, 0, 0, 0, 999_999_000, time.UTC)},
		{},
	}
	check := func(p stream.Partition, got []stream.Record) {
		h.Helper()
		for i, w := range want {
			g := got[i]
			sameHeaders := slices.EqualFunc(g.Headers, w.Headers, func(a, b stream.Header) bool {
				return a.Key == b.Key && bytes.Equal(a.Value, b.Value)
			})
			if g.Partition != p || !bytes.Equal(g.Key, w.Key) || (g.Key == nil) != (w.Key == nil) || !bytes.Equal(g.Value, w.Value) || !sameHeaders {
				h.Errorf("record %d of %v is %+v, want %+v", i, p, g, w)
			}
			if !w.Time.IsZero() && !g.Time.Equal(w.Time) {
				h.Errorf("record %d of %v has time %v, want %v", i, p, g.Time, w.Time)
			}
		}
	}
	at := func(p stream.Partition) []stream.Record {
		rs := slices.Clone(want)
		for i := range rs {
			rs[i].Partition = p
		}
		return rs
	}
	h.ok(h.Append(h.ctx, at(in)...))
	m := h.join("g", "in")
	m.receive(len(want))
	m.commit(step(in, 1, at(out)))
	check(in, m.records)
	check(in, h.tail(in, 0, len(want)))
	check(out, h.tail(out, 0, len(want)))
}

// The hashes are those of Apache Kafka's own test of its partitioner
// (org.apache.kafka.common.utils.UtilsTest).
func byKeyPlacesAsKafka(h *harness) {
	const n = 7
	ins, outs := h.topic("in", n), h.topic("out", n)
	m := h.join("g", "in")
	m.own(n)
	for key, hash := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		place := hash & 0x7fffffff % n
		in := stream.Record{Partition: stream.Partition{Topic: "in", Index: stream.ByKey}, Key: []byte(key), Value: []byte("v")}
		out := in
		out.Partition.Topic = "out"
		places := []stream.Partition{ins[place], outs[place]}
		ends := map[stream.Partition]stream.Offset{}
		for _, p := range places {
			_, next, err := h.inspect.Offsets(h.ctx, p)
			h.ok(err)
			ends[p] = next
		}
		h.ok(h.Append(h.ctx, in))
		m.commit(stream.Transaction{Outputs: []stream.Record{out}, Offsets: map[stream.Partition]stream.Offset{ins[0]: 0}})
		for _, p := range places {
			got := h.tail(p, ends[p], 1)[0]
			if string(got.Key) != key {
				h.Fatalf("%v holds %q, want %q", p, got.Key, key)
			}
			if _, next, err := h.inspect.Offsets(h.ctx, p); err != nil || next != got.Offset+1 {
				h.Fatalf("%v ends at %d after key %q at %d, %v", p, next, key, got.Offset, err)
			}
		}
	}
}

func placedByValue(h *harness) {
	ps := h.topic("in", 7)
	byKey := stream.Partition{Topic: "in", Index: stream.ByKey}
	rs := []stream.Record{
		{Partition: byKey, Value: []byte("21")},
		{Partition: byKey, Key: []byte{}, Value: []byte("21")},
	}
	h.ok(h.Append(h.ctx, rs...))
	for i, want := range []stream.Partition{ps[stream.Place([]byte("21"), 7)], ps[stream.Place(nil, 7)]} {
		if rs[i].Partition != want {
			h.Fatalf("record %d is in %v, want %v", i, rs[i].Partition, want)
		}
	}
}

func tooLarge(h *harness) {
	in, out := h.inOut()
	huge := make([]byte, 128<<20) // more than any log takes
	bad := func(p stream.Partition) []stream.Record {
		return []stream.Record{record(p, "good"), {Partition: p, Value: huge}}
	}
	h.wantError("append", h.Append(h.ctx, bad(in)...), stream.ErrTooLarge)
	_, err := h.AppendOnce(h.ctx, "producer", 1, bad(in)...)
	h.wantError("append once", err, stream.ErrTooLarge)
	m := h.join("g", "in")
	m.own(1)
	m.refused(step(in, 1, bad(out), "a=1"), stream.ErrTooLarge)
	h.wantRecords(in)
	h.wantRecords(out)
	h.wantState("g", in, "")
	h.wantCommitted("g", in, 0)
	h.append(in, "next")
	h.wantRecords(in, "next")
}

func concurrentAppends(h *harness) {
	const appenders, appends = 8, 40
	ps := h.topic("in", 2)
	var wait sync.WaitGroup
	for a := range appenders {
		wait.Go(func() {
			for i := range appends {
				rs := append(records(ps[0], fmt.Sprint(a, ".", i, ".0"), fmt.Sprint(a, ".", i, ".1")), records(ps[1], fmt.Sprint(a, ".", i))...)
				if err := h.Append(h.ctx, rs...); err != nil || rs[1].Offset != rs[0].Offset+1 {
					h.Errorf("append at %d and %d, %v", rs[0].Offset, rs[1].Offset, err)
					return
				}
			}
		})
	}
	wait.Wait()
	next := make([]int, appenders)
	pairs := h.tail(ps[0], 0, 2*appenders*appends)
	for i := 0; i < len(pairs); i += 2 {
		var a, n int
		if _, err := fmt.Sscanf(string(pairs[i].Value), "%d.%d.0", &a, &n); err != nil || n != next[a] {
			h.Fatalf("offset %d holds %s, want number %d of it", i, pairs[i].Value, next[a])
		}
		if want := fmt.Sprint(a, ".", n, ".1"); string(pairs[i+1].Value) != want {
			h.Fatalf("%s follows %s, want %s", pairs[i+1].Value, pairs[i].Value, want)
		}
		next[a]++
	}
	h.tail(ps[1], 0, appenders*appends)
}

// once appends values with numbers from first on, and expects that the log skips repeated of them.
func (h *harness) once(producer string, p stream.Partition, repeated int, first int64, values ...string) {
	h.Helper()
	rs := records(p, values...)
	_, end, err := h.inspect.Offsets(h.ctx, p)
	h.ok(err)
	got, err := h.AppendOnce(h.ctx, h.prefix+producer, first, rs...)
	if err != nil || got != repeated {
		h.Fatalf("%d records from %d: %d repeated, %v; want %d", len(rs), first, got, err, repeated)
	}
	for i := range rs {
		if i < repeated && rs[i].Offset != -1 {
			h.Fatalf("number %d is repeated and got offset %d, want -1", first+int64(i), rs[i].Offset)
		}
		if i < repeated {
			continue
		}
		if !h.follows(rs[i].Offset, end) {
			h.Fatalf("number %d got offset %d, want %d", first+int64(i), rs[i].Offset, end)
		}
		end = rs[i].Offset + 1
	}
}

func appendOnceRepeated(h *harness) {
	in, _ := h.inOut()
	h.once("a", in, 0, 1, "1", "2", "3")
	h.once("a", in, 3, 1, "1", "2", "3")
	h.once("a", in, 1, 2, "2")
	h.once("a", in, 2, 2, "2", "3", "4", "5") // some are repeated
	h.once("a", in, 0, 6, "6")
	h.once("a", in, 0, 7)
	h.once("a", in, 0, 7, "7")
	h.wantRecords(in, "1", "2", "3", "4", "5", "6", "7")
	if _, err := h.AppendOnce(h.ctx, "a", 0, record(in, "0")); err == nil {
		h.Fatal("number 0 was accepted")
	}
}

func appendOnceGaps(h *harness) {
	in, _ := h.inOut()
	h.once("a", in, 0, 10, "10")
	h.once("a", in, 0, 20, "20", "21")
	h.once("a", in, 1, 15, "15") // below the highest number
	h.once("a", in, 2, 20, "20", "21", "22")
	h.wantRecords(in, "10", "20", "21", "22")
}

func appendOnceProducers(h *harness) {
	in, _ := h.inOut()
	h.once("a", in, 0, 1, "a1", "a2")
	h.once("b", in, 0, 1, "b1")
	h.append(in, "none")
	h.once("a", in, 2, 1, "a1", "a2", "a3")
	h.once("b", in, 1, 1, "b1", "b2")
	h.wantRecords(in, "a1", "a2", "b1", "none", "a3", "b2")
}

func appendOnceRefused(h *harness) {
	in, _ := h.inOut()
	_, err := h.AppendOnce(h.ctx, "a", 1, record(in, "1"), record(stream.Partition{Topic: "none"}, "2"))
	h.wantError("append once", err, stream.ErrUnknownTopic)
	h.once("a", in, 0, 1, "1", "2")
	h.wantRecords(in, "1", "2")
}

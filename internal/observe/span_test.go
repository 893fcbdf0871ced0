package observe_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/stream"
)

const sampledParent, otherParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"

func TestContextIsThatOfTheW3C(t *testing.T) {
	for text, sampled := range map[string]bool{sampledParent: true, otherParent: false} {
		if c, ok := observe.ParseContext([]byte(text)); !ok || c.Sampled != sampled || c.String() != text {
			t.Errorf("%s: %v, %v", text, c, ok)
		}
	}
	for _, text := range []string{
		"", "00", sampledParent[:54], sampledParent + "-more", "ff" + sampledParent[2:],
		"00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
		"00-zaf7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	} {
		if c, ok := observe.ParseContext([]byte(text)); ok {
			t.Errorf("%q is taken for %v", text, c)
		}
	}
	if _, ok := observe.ParseContext([]byte("cc" + sampledParent[2:] + "-what-the-future-brings")); !ok {
		t.Error("a later version is refused")
	}
}

// through takes events of one chunk through a member and returns their spans.
func through(t *testing.T, tracer *observe.Tracer, events ...stream.Record) (spans []observe.Span) {
	t.Helper()
	m := observe.NewMetrics(1)
	tracer.Add = func(more []observe.Span) { spans = append(spans, more...) }
	m.SetTracer(tracer)
	start := time.Unix(1000, 0)
	var way observe.Way
	way.Chunk(m.Member(0), observe.Timing{Begun: start, Feature: ms, Model: 5 * ms, Emit: 2 * ms, Made: start.Add(8 * ms)}, len(events))
	for i := range events {
		events[i].Partition, events[i].Time = stream.Partition{Topic: "payments"}, start.Add(-3*ms)
		way.Event(m.Member(0), &events[i], observe.Turn{})
	}
	way.Commit(m.Member(0), start.Add(12*ms))
	return spans
}

func TestEventThatComesWithATraceHasSpansInItByHop(t *testing.T) {
	events := []stream.Record{
		{Offset: 16, Headers: []stream.Header{{Key: header.TraceParent, Value: []byte(otherParent)}}},
		{Offset: 17, Headers: []stream.Header{{Key: header.TraceParent, Value: []byte(sampledParent)}, {Key: header.Correlation, Value: []byte("c1")}}},
		{Offset: 18},
	}
	spans := through(t, &observe.Tracer{Pipeline: "fraud"}, events...)
	var got []string
	start := time.Unix(1000, 0)
	for _, s := range spans[1:] {
		got = append(got, fmt.Sprint(s.Name, " ", s.Start.Sub(start), " to ", s.End.Sub(start)))
	}
	want := []string{
		"fraud -3ms to 12ms", "queue -3ms to 0s", "feature 0s to 1ms", "model 1ms to 6ms", "emit 6ms to 8ms", "commit 8ms to 12ms",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	parent, _ := observe.ParseContext([]byte(sampledParent))
	root, batch := spans[1], spans[0]
	if root.Trace != parent.Trace || root.Parent != parent.Span || root.Span == parent.Span || !root.Consumer {
		t.Errorf("the event's span is %+v", root)
	}
	seen := map[[8]byte]bool{}
	for _, s := range spans {
		if seen[s.Span] {
			t.Errorf("two spans have the id %x", s.Span)
		}
		seen[s.Span] = true
	}
	for _, s := range spans[2:] {
		if s.Parent != root.Span || s.Trace != root.Trace {
			t.Errorf("%s is below %x", s.Name, s.Parent)
		}
	}
	if len(batch.Links) != 1 || batch.Links[0] != root.Context || batch.Trace == root.Trace || batch.Name != "fraud batch" || batch.End.Sub(batch.Start) != 8*ms {
		t.Errorf("the batch is %+v", batch)
	}

	// What is emitted belongs below the event's span.
	headers := observe.AppendContext(nil, "fraud", &events[1])
	if len(headers) != 2 || string(headers[0].Value) != root.Context.String() || string(headers[1].Value) != "c1" {
		t.Errorf("headers of outputs: %q", headers)
	}
	of := stream.Record{Headers: []stream.Header{{Key: header.ClientEvent, Value: []byte("acme/c42/01J")}, {Key: header.Causal, Value: []byte("01H")}}}
	if headers := observe.AppendContext(nil, "fraud", &of); len(headers) != 1 || headers[0].Key != header.ClientEvent || string(headers[0].Value) != "acme/c42/01J" {
		t.Errorf("headers of what a client's event becomes: %q", headers)
	}
	if headers := observe.AppendContext(nil, "fraud", &events[2]); headers != nil {
		t.Errorf("headers of what came without: %q", headers)
	}
}

func TestShareOfTheEventsIsTracedWhateverTheBatches(t *testing.T) {
	of := func(share float64, together int) map[[16]byte]bool {
		traces := map[[16]byte]bool{}
		for n := 0; n < 10_000; n += together {
			events := make([]stream.Record, together)
			for i := range events {
				events[i].Offset = stream.Offset(n + i)
			}
			for _, s := range through(t, &observe.Tracer{Pipeline: "fraud", Share: share}, events...) {
				if s.Consumer {
					traces[s.Trace] = true
				}
			}
		}
		return traces
	}
	alone, together := of(observe.DefaultShare, 1), of(observe.DefaultShare, 1000)
	if diff := cmp.Diff(alone, together); diff != "" || len(alone) < 900 || len(alone) > 1100 {
		t.Errorf("%d and %d traces of 10,000 events", len(alone), len(together))
	}
	if none, all := len(of(0, 100)), len(of(1, 100)); none != 0 || all != 10_000 {
		t.Errorf("%d traces of none, %d of all", none, all)
	}
}

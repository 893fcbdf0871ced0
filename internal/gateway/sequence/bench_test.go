package sequence_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/gateway/sequence"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/stream"
)

// BenchmarkSequence takes events of clients, at once, through the embedded engine
// and a pipeline that answers each: from the append until all results are there.
func BenchmarkSequence(b *testing.B) {
	for _, clients := range []int{1, 1000} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) { benchmark(b, clients) })
	}
}

func benchmark(b *testing.B, clients int) {
	log, err := embedded.Open(b.TempDir(), embedded.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	ctx, stop := context.WithCancel(context.Background())
	ok := func(err error) {
		if err != nil {
			b.Error(err)
		}
	}
	for _, topic := range []string{"events", "decisions"} {
		ok(log.CreateTopic(ctx, stream.Topic{Name: topic, Partitions: 1}))
	}
	s, err := sequence.New(log, sequence.Options{Name: name, Partitions: 1, Input: "events", Sources: []sequence.Source{{Topic: "decisions"}}})
	ok(err)
	ok(s.MakeTopics(ctx))
	ended := make(chan error, 2)
	go func() { ended <- s.Run(ctx) }()
	go func() { ended <- answer(ctx, log) }()
	for n := 0; b.Loop(); n++ {
		var list []stream.Record
		for i := range clients {
			e := wire.Event{Tenant: "acme", Client: fmt.Sprint("c", i), ID: fmt.Sprint("e", n), Sequence: int64(n + 1), Payload: []byte(`{"text":"what a client says"}`)}
			list = append(list, wire.Submit(sequence.Inbox(name), &e))
		}
		ok(log.Append(ctx, list...))
		for r, err := range log.Tail(ctx, stream.Partition{Topic: sequence.Results(name)}, stream.Offset(n*clients)) {
			if ok(err); r.Offset == stream.Offset((n+1)*clients-1) {
				break
			}
		}
	}
	b.ReportMetric(float64(clients*b.N)/b.Elapsed().Seconds(), "events/s")
	stop()
	ok(<-ended)
	ok(<-ended)
}

// answer is a pipeline that answers each event with what it says.
func answer(ctx context.Context, log stream.Log) error {
	member, err := log.Join(ctx, "pipeline", "events")
	if err != nil {
		return err
	}
	defer func() { _ = member.Close() }()
	for {
		batch, err := member.Poll(ctx, 4096)
		if err != nil {
			return nil // ctx is done
		}
		step := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{}}
		for _, r := range batch.Records {
			step.Outputs = append(step.Outputs, stream.Record{
				Partition: stream.Partition{Topic: "decisions"}, Time: r.Time, Value: r.Value,
				Headers: []stream.Header{{Key: header.ClientEvent, Value: []byte(header.Get(&r, header.ClientEvent))}},
			})
			step.Offsets[r.Partition] = r.Offset + 1
		}
		if len(step.Offsets) > 0 {
			if err := member.Commit(step).Wait(ctx); err != nil {
				return nil // ctx is done
			}
		}
	}
}

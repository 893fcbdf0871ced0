package sinks_test

import (
	"context"
	"fmt"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// printer is a sink that ends the delivery with its third record.
type printer struct{ stop func() }

func (p *printer) Deliver(_ context.Context, id string, r *stream.Record) error {
	fmt.Println(id, string(r.Value))
	if r.Offset == 2 {
		p.stop()
	}
	return nil
}

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	log := memory.New(memory.Options{})
	defer log.Close()
	if err := log.CreateTopic(ctx, stream.Topic{Name: "freezes", Partitions: 1}); err != nil {
		panic(err)
	}
	for i, id := range []string{"freeze:t1", "freeze:t2", "freeze:t3"} {
		if err := log.Append(ctx, stream.Record{
			Partition: stream.Partition{Topic: "freezes"}, Key: []byte("ann"), Value: fmt.Appendf(nil, `{"tx":"t%d"}`, i+1),
			Headers: []stream.Header{{Key: header.ID, Value: []byte(id)}},
		}); err != nil {
			panic(err)
		}
	}
	var metrics sinks.Metrics
	d, err := sinks.New(log, sink.Service{Each: &printer{stop}}, sinks.Options{Group: "fraud.freezes", Topic: "freezes"}, &metrics)
	if err != nil {
		panic(err)
	}
	fmt.Println(d.Run(ctx), metrics.Delivered.Load())
	// Output:
	// freeze:t1 {"tx":"t1"}
	// freeze:t2 {"tx":"t2"}
	// freeze:t3 {"tx":"t3"}
	// <nil> 3
}

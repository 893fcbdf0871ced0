package hub_test

import (
	"context"
	"fmt"

	"github.com/afterbay/afterbay/internal/gateway/hub"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
)

func ExampleHub() {
	ctx, cancel := context.WithCancel(context.Background())
	log := memory.New(memory.Options{})
	must(log.CreateTopic(ctx, stream.Topic{Name: "results", Partitions: 4}))
	at := stream.Partition{Topic: "results", Index: stream.ByKey}
	must(log.Append(ctx, stream.Record{Partition: at, Key: []byte("ada"), Value: []byte("first")}))

	h, err := hub.New(ctx, log, "results", hub.Options{})
	must(err)
	ended := make(chan error)
	go func() { ended <- h.Run(ctx) }()

	wake := make(chan struct{}, 1)
	ada, err := h.Subscribe(ctx, []byte("ada"), hub.Earliest, func() { wake <- struct{}{} })
	must(err)
	must(log.Append(ctx, stream.Record{Partition: at, Key: []byte("ada"), Value: []byte("second")}))
	for received := 0; received < 2; {
		records, err := ada.Read(ctx)
		must(err)
		for _, r := range records {
			fmt.Println(r.Offset, string(r.Value))
		}
		if received += len(records); len(records) == 0 {
			<-wake
		}
	}
	ada.Close()
	cancel()
	must(<-ended)
	// Output:
	// 0 first
	// 1 second
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

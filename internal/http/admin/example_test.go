package admin_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/stream"
)

func Example() {
	log := memory.New(memory.Options{})
	defer log.Close()
	server, err := admin.Listen(log, admin.Options{Address: "127.0.0.1:0"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- server.Run(ctx) }()

	client := &admin.Client{URL: "http://" + server.Address()}
	fmt.Println(client.CreateTopic(ctx, stream.Topic{Name: "clicks", Partitions: 1, Key: "user"}))
	lines := "{\"user\":\"ann\"}\n{\"user\":\"bob\"}\n"
	published, err := ingest.Publish(ctx, client, strings.NewReader(lines), ingest.Options{Topic: "clicks"})
	fmt.Println(published.Appended, err)
	for r := range client.Records(ctx, inspect.Query{Topic: "clicks"}) {
		fmt.Printf("%d %s %s\n", r.Offset, r.Key, r.Value)
	}
	stop()
	fmt.Println(<-done)
	// Output:
	// <nil>
	// 2 <nil>
	// 0 ann {"user":"ann"}
	// 1 bob {"user":"bob"}
	// <nil>
}

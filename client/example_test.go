package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/afterbay/afterbay/client"
	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
)

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	log := memory.New(memory.Options{})
	for _, name := range []string{"inbox", "results"} {
		_ = log.CreateTopic(ctx, stream.Topic{Name: name, Partitions: 1})
	}
	g, err := gateway.New(ctx, log, tokens{}, gateway.Options{CursorKey: []byte("at least thirty-two secret bytes")})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- g.Run(ctx) }()
	server := httptest.NewServer(g.Handler())

	c, err := client.Dial(ctx, server.URL, client.Options{Token: tokenOf("ada")})
	if err != nil {
		fmt.Println(err)
		return
	}
	// It is in the log when Send returns.
	err = c.Send(ctx, &client.Event{EventID: "e1", Payload: []byte(`{"text":"hello"}`)})
	fmt.Println("sent", err)

	// Elsewhere a sequencer writes what came of it.
	result := wire.Result{Tenant: "acme", Client: "ada", Seq: 1, Event: "e1", Status: wire.StatusOK, Payload: []byte(`{"score":0.9}`)}
	_ = log.Append(ctx, wire.ResultRecord("results", &result))

	r, err := c.Next(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s of %s: %s\n", r.Status, r.EventID, r.Payload)
	c.Close()
	server.Close()
	cancel()
	fmt.Println(<-ended)
	// Output:
	// sent <nil>
	// ok of e1: {"score":0.9}
	// <nil>
}

// A client comes again by itself until an error is final.
func ExampleDial() {
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer refuses.Close()
	_, err := client.Dial(context.Background(), refuses.URL, client.Options{Token: func(context.Context) (string, error) { return "old", nil }})
	var status *client.StatusError
	var ended *client.CloseError
	switch {
	case errors.As(err, &status) && status.Status == http.StatusUnauthorized:
		fmt.Println("get another token")
	case errors.As(err, &ended):
		fmt.Println("the gateway ended the client:", ended.Reason)
	case errors.Is(err, client.ErrClosed):
		fmt.Println("this program closed the client")
	}
	// Output: get another token
}

package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
)

// everybody is who they say.
type everybody struct{}

func (everybody) Verify(_ context.Context, token string) (gateway.Identity, error) {
	return gateway.Identity{Tenant: "acme", Client: token}, nil
}

func ExampleGateway() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	log := memory.New(memory.Options{})
	for _, name := range []string{"inbox", "results"} {
		_ = log.CreateTopic(ctx, stream.Topic{Name: name, Partitions: 4})
	}
	g, err := gateway.New(ctx, log, everybody{}, gateway.Options{CursorKey: []byte("at least thirty-two secret bytes")})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- g.Run(ctx) }()
	server := httptest.NewServer(g.Handler())

	// Elsewhere a sequencer writes what came of an event.
	result := wire.Result{Tenant: "acme", Client: "ada", Seq: 1, Event: "e1", Status: wire.StatusOK, Payload: []byte(`{"score":0.9}`), Time: time.Unix(0, 0)}
	_ = log.Append(ctx, wire.ResultRecord("results", &result))

	request, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/v1/results?from=earliest&wait=20s", nil)
	request.Header.Set("Authorization", "Bearer ada")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		fmt.Println(err)
		return
	}
	var line struct {
		EventID string
		Payload any
	}
	_ = json.NewDecoder(response.Body).Decode(&line)
	_ = response.Body.Close()
	fmt.Println(line.EventID, line.Payload)
	server.Close()
	cancel()
	fmt.Println(<-ended)
	// Output:
	// e1 map[score:0.9]
	// <nil>
}

package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/auth"
	"github.com/afterbay/afterbay/internal/gateway/limit"
	"github.com/afterbay/afterbay/internal/gateway/sequence"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
)

func TestTenantsThatAreShownAreBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	var clients []gateway.Client
	for i := range 3 * tenantsShown {
		name := fmt.Sprintf("t%03d", i)
		for range 2 {
			clients = append(clients, gateway.Client{Tenant: name, Client: "c", Pending: i, Oldest: now.Add(-time.Duration(i) * time.Second), Behind: int64(i)})
		}
	}
	clients = append(clients, gateway.Client{}) // has not said who it is
	tenants := tenantsOf(clients, now)
	if len(tenants) != tenantsShown+1 {
		t.Fatalf("%d tenants are shown", len(tenants))
	}
	first, rest := tenants[0], tenants[tenantsShown]
	if first.name != "t149" || first.connections != 2 || first.pending != 298 || first.pendingMax != 149 || first.age != 149*time.Second || first.behind != 149 {
		t.Errorf("first: %+v", first)
	}
	pending := 0
	for i := range 2 * tenantsShown {
		pending += 2 * i
	}
	if rest.name != tenantsOther || rest.connections != 4*tenantsShown+1 || rest.pending != pending || rest.age != 99*time.Second {
		t.Errorf("rest: %+v, want %d pending", rest, pending)
	}
}

type anyone struct{}

func (anyone) Verify(_ context.Context, token string) (gateway.Identity, error) {
	tenant, client, ok := strings.Cut(token, ".")
	if !ok {
		return gateway.Identity{}, errors.New("no such token")
	}
	return gateway.Identity{Tenant: tenant, Client: client}, nil
}

func TestFiguresOfAGateway(t *testing.T) {
	log := memory.New(memory.Options{})
	defer func() { _ = log.Close() }()
	for _, topic := range []string{"inbox", "results"} {
		if err := log.CreateTopic(t.Context(), stream.Topic{Name: topic, Partitions: 1}); err != nil {
			t.Fatal(err)
		}
	}
	g, err := gateway.New(t.Context(), log, anyone{}, gateway.Options{CursorKey: make([]byte, 32), DrainWindow: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- g.Run(ctx) }()
	server := httptest.NewServer(g.Handler())
	defer server.Close()
	ask := func(method, path, token, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		return response
	}
	ask(http.MethodGet, "/v1/results", "acme.ada", "") // stays open
	ask(http.MethodPost, "/v1/events", "acme.ada", `{"type":"event","eventId":"e","payload":1}`+"\n"+`{}`)
	ask(http.MethodGet, "/v1/results", "nobody", "")

	registry := prometheus.NewRegistry()
	registry.MustRegister(collector(func() *Snapshot { return &Snapshot{gateway: shown(g, nil)} }))
	open := gather(t, registry)
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	drained := gather(t, registry)
	for name, want := range map[string]float64{
		"afterbay_gateway_connections": 1, "afterbay_gateway_connections_opened_total": 1, "afterbay_gateway_events_accepted_total": 1, "afterbay_gateway_errors_total": 1,
		"afterbay_gateway_requests_forbidden_total": 1, "afterbay_gateway_hub_subscribers": 1, "afterbay_gateway_tenant_connections acme": 1,
		"afterbay_gateway_tenant_events_in_flight acme": 0, "afterbay_gateway_connections_closed_total 4501": 0, "afterbay_gateway_append_seconds": 1,
	} {
		if got, ok := open[name]; !ok || got != want {
			t.Errorf("%s is %v, %v; want %v", name, got, ok, want)
		}
	}
	if drained["afterbay_gateway_connections_closed_total 4501"] != 1 || drained["afterbay_gateway_connections"] != 0 {
		t.Errorf("after the drain: %v", drained)
	}
}

// shown is a gateway of a process.
func shown(g *gateway.Gateway, tokens func() auth.Stats) *Gateway {
	if tokens == nil {
		tokens = func() auth.Stats { return auth.Stats{} }
	}
	return &Gateway{Name: "g", Server: g, Sequence: &sequence.Metrics{}, Addresses: func() limit.Stats { return limit.Stats{} }, Tokens: tokens}
}

// gather returns figures by name and value of their only label; of a histogram the
// count.
func gather(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			switch family.GetType() {
			case dto.MetricType_COUNTER:
				values[name] = m.GetCounter().GetValue()
			case dto.MetricType_GAUGE:
				values[name] = m.GetGauge().GetValue()
			default:
				values[name] = float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return values
}

func TestFiguresOfTokens(t *testing.T) {
	keys, err := auth.New(auth.Keys{Keys: []auth.Key{{ID: "k1", Secret: strings.Repeat("s", 32), Audience: "chat"}}}, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := keys.Issue("k1", auth.Identity{Tenant: "acme", Client: "ada"}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{text, text + "A", "hello", ""} {
		_, _ = keys.Verify(t.Context(), token)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector(func() *Snapshot { return &Snapshot{gateway: shown(nil, keys.Stats)} }))
	values := gather(t, registry)
	for name, want := range map[string]float64{
		"afterbay_gateway_tokens_accepted_total": 1, "afterbay_gateway_tokens_refused_total bad signature": 1,
		"afterbay_gateway_tokens_refused_total malformed": 2, "afterbay_gateway_tokens_refused_total expired": 0, "afterbay_gateway_jwks_read_failures_total": 0,
	} {
		if got, ok := values[name]; !ok || got != want {
			t.Errorf("%s is %v, %v; want %v", name, got, ok, want)
		}
	}
}

package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/auth"
	"github.com/afterbay/afterbay/internal/gateway/limit"
	"github.com/afterbay/afterbay/internal/gateway/sequence"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/http/server"
)

// Gateway is the gateway of the process, as the server shows it.
type Gateway struct {
	Name      string
	Topics    []string         // topics that its file names
	Server    *gateway.Gateway // nil if it ended before it served clients
	Sequence  *sequence.Metrics
	Addresses func() limit.Stats
	Tokens    func() auth.Stats
	HTTP      *server.Server // the server that clients connect to; nil if unknown
	Ended     func() error   // why it ended while the process continues, nil while it runs; a nil Ended means never
}

func (g *Gateway) ended() error {
	if g.Ended == nil {
		return nil
	}
	return g.Ended()
}

// Clients lists the connections of a gateway.
type Clients struct {
	Gateway string   `json:"gateway"`
	Clients []Talker `json:"clients"` // by tenant and client, oldest first
}

// Talker is an open connection of a client.
type Talker struct {
	Tenant  string    `json:"tenant"` // "" until the connection is authenticated; the same for Client
	Client  string    `json:"client"`
	Kind    string    `json:"kind"` // websocket, sse or poll
	Opened  time.Time `json:"opened"`
	Pending int       `json:"pending"`         // events without a result so far
	Oldest  time.Time `json:"oldest,omitzero"` // arrival of the oldest of these
	Unacked int       `json:"unacked"`         // results sent since the client's last acknowledgement
	Behind  int64     `json:"behind"`          // records of its results partition, of any client, that it has not yet passed
}

// clients replies with the connections of the gateway.
func (s *Server) clients(w http.ResponseWriter, _ *http.Request) {
	g := s.options.Gateway
	if g == nil {
		problem(w, http.StatusNotFound, "ask a process of afterbay gateway, or of afterbay run --gateway", "this process has no gateway")
		return
	}
	reply := Clients{Gateway: g.Name, Clients: []Talker{}}
	if g.Server != nil {
		for _, c := range g.Server.Clients() {
			reply.Clients = append(reply.Clients, Talker(c))
		}
	}
	ingest.WriteJSON(w, http.StatusOK, reply)
}

// Clients returns the connections of the process's gateway.
func (c *Client) Clients(ctx context.Context) (clients Clients, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/clients", nil, &clients)
	return clients, err
}

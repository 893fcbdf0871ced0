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

// Gateway is that of the process, as far as a server shows it.
type Gateway struct {
	Name      string
	Topics    []string         // that its file names
	Server    *gateway.Gateway // nil if it ended before it served clients
	Sequence  *sequence.Metrics
	Addresses func() limit.Stats
	Tokens    func() auth.Stats
	HTTP      *server.Server // that clients connect to; nil is not known
	Ended     func() error   // why it ended while the process goes on, nil while it runs; a nil Ended is never
}

func (g *Gateway) ended() error {
	if g.Ended == nil {
		return nil
	}
	return g.Ended()
}

// Clients is who is connected to a gateway.
type Clients struct {
	Gateway string   `json:"gateway"`
	Clients []Talker `json:"clients"` // by tenant and client, the oldest first
}

// Talker is an open connection of a client.
type Talker struct {
	Tenant  string    `json:"tenant"` // "" until it has said who it is, as Client
	Client  string    `json:"client"`
	Kind    string    `json:"kind"` // websocket, sse or poll
	Opened  time.Time `json:"opened"`
	Pending int       `json:"pending"`         // events that wait for their result
	Oldest  time.Time `json:"oldest,omitzero"` // since when the first of these does
	Unacked int       `json:"unacked"`         // results that were sent to it since it last acknowledged some
	Behind  int64     `json:"behind"`          // records of its partition of results, of any client, that are not yet passed for it
}

// clients answers with the connections of the gateway.
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

// Clients returns who is connected to the gateway of the process.
func (c *Client) Clients(ctx context.Context) (clients Clients, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/clients", nil, &clients)
	return clients, err
}

package access

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/internal/observe/metric"
)

// Tokens provides the tokens of a file, which is read again when it changes.
type Tokens interface {
	Get() *Set   // the newest set that could be read
	Stale() bool // whether the file changed and could not be read
}

var tokensTable = metric.NewTable("token_file_", nil,
	metric.Flag("last_reload_successful", "1 if the newest token file was read, else 0: the previous tokens then stay valid, even if the newest file does not have them.", func(t Tokens) bool { return !t.Stale() }),
)

// TokensMetrics describes the metrics of token files.
func TokensMetrics() []metric.Info { return tokensTable.Infos() }

// NewTokensCollector returns a collector that shows whether a changed token file could be read.
func NewTokensCollector(tokens Tokens) prometheus.Collector {
	return metric.NewCollector(func(out chan<- prometheus.Metric) { tokensTable.Show(out, tokens) }, tokensTable)
}

// Gate authenticates the callers of a server.
type Gate struct {
	Owner    string // token of the command line; "" if none
	Token    string // token with the role admin; "" if none
	Tokens   Tokens // tokens of a token file; nil if none
	Insecure bool   // without tokens, accept requests for any host name

	origin http.CrossOriginProtection
}

// open reports whether requests need no token.
func (g *Gate) open() bool { return g.Token == "" && g.Tokens == nil }

// Caller returns the sender of a request. If the Gate has no tokens, every sender is an
// administrator, unless a web page may have sent the request. A page may be able to reach the
// loopback address through a host name of its own, or with a form.
func (g *Gate) Caller(r *http.Request) (*Caller, *server.Refusal) {
	given := BearerToken(r)
	switch {
	case given != "" && g.Owner != "" && Equal(given, g.Owner):
		return &Caller{Name: "command line", owner: true}, nil
	case given != "" && g.Token != "" && Equal(given, g.Token):
		return &Caller{Name: "--token", roles: Roles{Admin: true}}, nil
	case !g.open():
		if g.Tokens != nil && given != "" {
			if c := g.Tokens.Get().find(given); c != nil {
				return c, nil
			}
		}
		return nil, &server.Refusal{Status: http.StatusUnauthorized, Code: "unauthorized", Message: "the token is missing or wrong", Hint: "send Authorization: Bearer with the token of the process (--token), or one of its token file"}
	case !g.Insecure && !Loopback(HostOf(r)):
		return nil, &server.Refusal{Status: http.StatusForbidden, Code: "forbidden", Message: "requests for host " + quote(r.Host) + " are not taken", Hint: "use 127.0.0.1 or localhost, or give the process a token"}
	case g.origin.Check(r) != nil:
		return nil, &server.Refusal{Status: http.StatusForbidden, Code: "forbidden", Message: "requests of other web pages are not taken", Hint: "give the process a token and send it"}
	}
	return &Caller{roles: Roles{Admin: true}}, nil
}

type callerKey struct{}

// From returns the caller of the request that ctx belongs to. Without a Gate in front of the
// handler, the caller is an administrator: the program that mounts the handler decides.
func From(ctx context.Context) *Caller {
	if c, ok := ctx.Value(callerKey{}).(*Caller); ok {
		return c
	}
	return &Caller{roles: Roles{Admin: true}}
}

// lacks returns the refusal of a caller without a role.
func (c *Caller) lacks(role Role, of string) *server.Refusal {
	what := "the role " + string(role)
	if of != "" {
		what += " for " + quote(of)
	}
	hint := "add it to the roles of that token in the token file, or use another token"
	if role == Owner {
		hint = "run the command on the machine of that process, with its --data"
	}
	return &server.Refusal{Status: http.StatusForbidden, Code: "forbidden", Message: "token " + quote(c.Name) + " does not have " + what, Hint: hint}
}

// Check returns a refusal if the caller of a request lacks a role. It is for handlers without the
// topic or model in their path.
func Check(ctx context.Context, role Role, of string) *server.Refusal {
	if c := From(ctx); !c.May(role, of) {
		return c.lacks(role, of)
	}
	return nil
}

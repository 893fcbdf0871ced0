package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/auth"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/process"
)

type tokenCommand struct {
	Issue   tokenIssueCommand   `cmd:"" help:"Print a token for a client of the gateway."`
	Inspect tokenInspectCommand `cmd:"" help:"Show the claims of a token. With keys, also check its signature, and show the error and the next step."`
}

type tokenIssueCommand struct {
	Keys     string        `required:"" help:"File of keys of the gateway." placeholder:"FILE"`
	Key      string        `required:"" help:"Id of the key that signs; the key must have a secret." placeholder:"ID"`
	Client   string        `required:"" help:"Name of the client." placeholder:"NAME"`
	Tenant   string        `help:"Tenant of the client. Not needed if the key belongs to one tenant." placeholder:"NAME"`
	Duration time.Duration `help:"Lifetime of the token." default:"15m"`
	Scope    string        `help:"Scopes for other readers of the token, separated by spaces. The gateway ignores them: every client has the same rights." placeholder:"WORDS"`
}

// Run prints a token.
func (c *tokenIssueCommand) Run(a *app) error {
	keys, err := process.OpenKeys(c.Keys)
	if err != nil {
		return err
	}
	text, err := keys.Issue(c.Key, auth.Identity{Tenant: c.Tenant, Client: c.Client, Scope: c.Scope}, c.Duration)
	if err == nil {
		_, err = verify(a.ctx, keys, text)
	}
	if err != nil {
		return usage("%w", err)
	}
	_, err = fmt.Fprintln(a.stdout, text)
	return err
}

// verify returns the identity that a gateway would give to a token's client. In addition to the
// checks of the keys, it requires names that can be parts of keys and headers in the log.
func verify(ctx context.Context, keys *auth.Keyring, text string) (auth.Identity, error) {
	who, err := keys.Verify(ctx, text)
	if err == nil {
		err = cmp.Or(wire.CheckID("the tenant", who.Tenant), wire.CheckID("the client", who.Client))
	}
	return who, err
}

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
	Inspect tokenInspectCommand `cmd:"" help:"Show what a token says and, with keys, whether its signature holds, what is wrong and what to do next."`
}

type tokenIssueCommand struct {
	Keys     string        `required:"" help:"File of keys, as the gateway has it." placeholder:"FILE"`
	Key      string        `required:"" help:"Id of the key that signs: one with a secret." placeholder:"ID"`
	Client   string        `required:"" help:"Who the client is." placeholder:"NAME"`
	Tenant   string        `help:"Whose client it is. Not needed where the key is of one tenant." placeholder:"NAME"`
	Duration time.Duration `help:"How long the token lasts." default:"15m"`
	Scope    string        `help:"Words with spaces between them, for other readers of the token: a gateway allows every client the same." placeholder:"WORDS"`
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

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/auth"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/internal/sys/clean"
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

type tokenInspectCommand struct {
	Token string `arg:"" help:"The token; - reads it from standard input, so that it is in no list of processes."`
	Keys  string `help:"File of keys to check it with, as the gateway has it." placeholder:"FILE"`
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

// verify returns who a gateway would take a token's client for. Beyond what the keys
// say it asks for names that can be parts of keys and headers in the log.
func verify(ctx context.Context, keys *auth.Keyring, text string) (auth.Identity, error) {
	who, err := keys.Verify(ctx, text)
	if err == nil {
		err = cmp.Or(wire.CheckID("the tenant", who.Tenant), wire.CheckID("the client", who.Client))
	}
	return who, err
}

// Run shows a token, and fails where the token would be refused.
func (c *tokenInspectCommand) Run(a *app) error {
	text := c.Token
	if text == "-" {
		all, err := io.ReadAll(io.LimitReader(a.input("the token", "it as the argument"), 2*auth.BytesMax))
		if err != nil {
			return fmt.Errorf("read the token: %w", err)
		}
		text = strings.TrimSpace(string(all))
	}
	contents, err := auth.Inspect(text)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	show := func(name string, value any) {
		fmt.Fprintf(table, "%s\t%s\n", clean.Text(name), clean.Text(claim(name, value, time.Now())))
	}
	show("form", contents.Form)
	if contents.Form == "JWT" {
		show("alg", contents.Algorithm)
	}
	if contents.Form != "legacy" {
		show("key", contents.Key)
	}
	for _, name := range slices.Sorted(maps.Keys(contents.Claims)) {
		show(name, contents.Claims[name])
	}
	refusal := c.check(a, table, text)
	return errors.Join(table.Flush(), refusal)
}

// check says whether a gateway would take the token.
func (c *tokenInspectCommand) check(a *app, w io.Writer, text string) error {
	if c.Keys == "" {
		fmt.Fprintf(w, "signature\tnot checked: name the file of keys by --keys\n")
		return nil
	}
	keys, err := process.OpenKeys(c.Keys)
	if err != nil {
		return err
	}
	who, err := verify(a.ctx, keys, text)
	var refusal *auth.Error
	switch {
	case err == nil:
		fmt.Fprintf(w, "signature\tholds, by key %s\naccepted\tas client %q of tenant %q\n", who.Key, who.Client, who.Tenant)
	case who.Key != "":
		fmt.Fprintf(w, "signature\tholds, by key %s\naccepted\tno: its names\n", who.Key)
	case errors.As(err, &refusal) && refusal.Signed:
		fmt.Fprintf(w, "signature\tholds, by key %s\naccepted\tno: %s\n", refusal.Key, refusal.Reason)
	default:
		fmt.Fprintf(w, "signature\tdoes not hold, or could not be checked\naccepted\tno\n")
	}
	return err
}

// claim writes a value, and times as people read them.
func claim(name string, value any, now time.Time) string {
	switch value := value.(type) {
	case string:
		return value
	case float64:
		if !slices.Contains([]string{"iat", "exp", "nbf"}, name) || value < 0 || value > 1e11 {
			break
		}
		at := time.Unix(int64(value), 0).UTC()
		when := at.Sub(now).Round(time.Second)
		if when < 0 {
			return fmt.Sprintf("%s, %v ago", at.Format(time.RFC3339), -when)
		}
		return fmt.Sprintf("%s, in %v", at.Format(time.RFC3339), when)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

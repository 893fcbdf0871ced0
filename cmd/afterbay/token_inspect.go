package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/auth"
	"github.com/afterbay/afterbay/internal/process"
)

type tokenInspectCommand struct {
	Token string `arg:"" help:"The token; - reads it from standard input, so that no process list shows it."`
	Keys  string `help:"File of keys of the gateway, to check the token with." placeholder:"FILE"`
}

// Run shows a token, and fails if a gateway would refuse it.
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
	contents.Write(table, time.Now())
	refusal := c.check(a, table, text)
	return errors.Join(table.Flush(), refusal)
}

// check prints whether a gateway would accept the token.
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

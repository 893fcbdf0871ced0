package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/process"
)

type clientsCommand struct {
	Data  string `help:"Data directory of afterbay run --gateway, or of afterbay gateway." default:"data" placeholder:"DIR"`
	URL   string `help:"Ask the process at this address, http://host:port, instead." name:"url"`
	Token string `help:"Token for --url." env:"AFTERBAY_TOKEN"`
	JSON  bool   `name:"json" help:"Print one object of JSON: gateway, and clients, a list of tenant, client, kind, opened, pending, oldest, unacked, behind."`
}

// Run prints the clients that are connected to a gateway.
func (c *clientsCommand) Run(a *app) error {
	client, err := c.reach(a)
	if err != nil {
		return err
	}
	clients, err := client.Clients(a.ctx)
	var known *admin.StatusError
	switch {
	case err != nil && c.URL != "" && !(errors.As(err, &known) && known.Problem.Hint != ""):
		return fmt.Errorf("%w: use the address in the process's line `listening on`, not the address for clients", err)
	case err != nil:
		return err
	}
	if c.JSON {
		return json.NewEncoder(a.stdout).Encode(clients)
	}
	return printClients(a.stdout, &clients, time.Now())
}

// reach connects to the process of the gateway. On a shared log that process stores its address in
// a folder of its own.
func (c *clientsCommand) reach(a *app) (*admin.Client, error) {
	if c.URL != "" {
		return &admin.Client{URL: c.URL, Token: c.Token}, nil
	}
	client, err := process.Reach(a.ctx, c.Data)
	for _, kind := range fileKinds().Logs {
		if errors.Is(err, fs.ErrNotExist) {
			client, err = process.Reach(a.ctx, filepath.Join(c.Data, kind.Name))
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("no gateway runs in %s: start it, name its data directory with --data, or its address with --url http://host:port", c.Data)
	case err != nil:
		return nil, fmt.Errorf("no gateway answers for %s: %w: start it again, or name its address with --url http://host:port", c.Data, err)
	}
	return client, nil
}

func printClients(out io.Writer, clients *admin.Clients, now time.Time) error {
	fmt.Fprintf(out, "gateway %s: %d clients\n", clients.Gateway, len(clients.Clients))
	if len(clients.Clients) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.TabIndent)
	fmt.Fprintf(table, "\nTENANT\tCLIENT\tBY\tFOR\tPENDING\tSINCE\tUNACKED\tBEHIND\n")
	for _, client := range clients.Clients {
		since := "-"
		if client.Pending > 0 {
			since = now.Sub(client.Oldest).Round(time.Millisecond).String()
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%v\t%d\t%s\t%d\t%d\n", cmp.Or(client.Tenant, "-"), cmp.Or(client.Client, "-"), client.Kind, now.Sub(client.Opened).Round(time.Second), client.Pending, since, client.Unacked, client.Behind)
	}
	return table.Flush()
}

package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/http/serving"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/model"
)

type serveCommand struct {
	Models []string `name:"model" required:"" help:"A model and its name for requests: NAME=FILE, or NAME@VERSION=FILE. May be repeated; requests without a version get the last model of a name." placeholder:"NAME=FILE"`
	Listen string   `help:"Address of the server; port 0 takes a free port." default:"127.0.0.1:8080" placeholder:"HOST:PORT"`
	accessFlags
	Streams int `help:"Maximum of concurrent streams, and of other concurrent requests; further ones get a response to retry later." default:"256"`
	requestFlags
	Spill string `help:"Folder for responses that clients have not read yet; the default is the system's temporary folder." placeholder:"DIR"`
}

// Run serves the models until the first signal.
func (c *serveCommand) Run(a *app) error {
	a.service.Store(true)
	var models []serving.Named
	for _, text := range c.Models {
		m, err := a.namedModel(text)
		if err != nil {
			return err
		}
		models = append(models, m)
	}
	tokens, err := c.tokens(a)
	if err != nil {
		return err
	}
	options := serving.ServerOptions{
		Options: serving.Options{SpillDir: c.Spill, Version: version()}, StreamsMax: c.Streams, RequestsMax: c.Streams, Connections: c.Connections, Memory: c.memory(),
		Address: c.Listen, Token: c.Token, Tokens: tokens, Insecure: c.Insecure, CertFile: c.Cert, KeyFile: c.Key, Logger: a.log,
	}
	if err := options.Validate(); err != nil {
		return failure.As(failure.OfUsage, err)
	}
	server, err := serving.Listen(models, options)
	if err != nil {
		return err
	}
	for _, m := range models {
		fmt.Fprintf(a.stdout, "model %s: %s\n", m.Name, m.Model.Info().Kind)
	}
	fmt.Fprintf(a.stdout, "listening on %s: POST /v1/models/{name}:predict-stream, /v2/models/{name}/infer, gRPC, GET /openapi.json\n", server.URL())
	a.orderly.Store(true)
	return server.Run(a.ctx)
}

// namedModel loads the model that a flag names.
func (a *app) namedModel(text string) (serving.Named, error) {
	name, path, ok := strings.Cut(text, "=")
	if !ok || name == "" || path == "" {
		return serving.Named{}, failure.As(failure.OfUsage, fmt.Errorf("--model %q: use NAME=FILE, such as fraud=fraud.json", text))
	}
	m, manifest, _, err := a.registry().Load(a.ctx, path)
	if err != nil {
		return serving.Named{}, err
	}
	name, version, _ := strings.Cut(name, "@")
	named := serving.Named{Name: name, Version: version, Model: m}
	if manifest != nil {
		named.Version = cmp.Or(version, strconv.Itoa(manifest.Version))
		named.Scores = process.ScoreNames(m.Info(), manifest.Outputs, func(o model.Output) string { return o.Name })
	}
	return named, nil
}

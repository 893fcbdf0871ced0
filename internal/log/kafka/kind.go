package kafka

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"

	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/stream"
)

// Kind is the log on a Kafka cluster.
var Kind = stream.Kind{
	Name:    "kafka",
	Help:    "topics of a cluster of Kafka",
	URLs:    []string{"kafka://HOST:PORT", "kafka+tls://HOST:PORT"},
	Example: "kafka://broker-1:9092,broker-2:9092",
	New:     func() stream.Config { return &Config{} },
}

// Config is a Kafka cluster, as `engine` in a file describes it.
type Config struct{ Settings }

// FieldTable implements spec.Tabled.
func (c *Config) FieldTable() spec.Table {
	return spec.TableBy(spec.Into(func(c *Config) *Settings { return &c.Settings }, spec.MappingOf(settingsFields)))
}

// Shared implements stream.Shared.
func (c *Config) Shared() {}

// Parse implements stream.Parser.
func (c *Config) Parse(url string) []error {
	settings, found := ParseSettings(url)
	c.Settings = settings
	return mistakes(found)
}

// Check implements stream.Config.
func (c *Config) Check() []error { return mistakes(c.Settings.Check()) }

// Describe implements stream.Config.
func (c *Config) Describe() string { return c.URL }

// Open implements stream.Config.
func (c *Config) Open(ctx context.Context, p stream.Process) (stream.Engine, error) {
	o, err := c.options(p)
	if err != nil {
		return nil, err
	}
	o.Dir, o.Stay, o.Standbys, o.State.MemoryBytes, o.Deliveries = p.Dir, p.Dir != "" && !p.Leave, p.Standbys, p.StateBytes, p.Deliveries
	if err := o.Validate(); err != nil {
		return nil, &stream.Mistake{Err: err}
	}
	log, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return log, nil
}

// Examine checks whether the brokers can run the plan, see the function Examine.
func (c *Config) Examine(ctx context.Context, p stream.Process, plan Plan) ([]Finding, error) {
	o, err := c.options(p)
	if err != nil {
		return nil, err
	}
	return Examine(ctx, o, plan)
}

// options returns the options for connections to the brokers.
func (c *Config) options(p stream.Process) (Options, error) {
	env := Environment{Get: p.Environment, Last: p.Typed}
	if env.Get == nil {
		env.Get = os.Getenv
	}
	o, found := c.Options(env)
	if len(found) > 0 {
		return o, errors.Join(mistakes(found)...)
	}
	o.Logger = cmp.Or(p.Logger, slog.Default())
	if o.SASL.Mechanism == "PLAIN" && o.TLS == nil {
		o.Logger.Warn("the password goes to the brokers in plain text: use kafka+tls:// or scram-sha-512")
	}
	if strings.HasPrefix(c.TokenURL, "http://") {
		o.Logger.Warn("the password goes to " + c.TokenURL + " in plain text: use https://")
	}
	return o, nil
}

// mistakes converts problems in settings to mistakes of a log.
func mistakes(found spec.Problems) (list []error) {
	for _, f := range found {
		list = append(list, &stream.Mistake{Field: f.Path, Hint: f.Hint, Err: errors.New(f.Message)})
	}
	return list
}

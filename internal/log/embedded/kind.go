package embedded

import (
	"context"
	"errors"
	"fmt"

	"github.com/afterbay/afterbay/stream"
)

// Kind is the log in a data directory.
var Kind = stream.Kind{
	Name:    "embedded",
	Help:    "the log of the data directory, which one process opens at a time",
	URLs:    []string{"embedded"},
	Example: "embedded",
	New:     func() stream.Config { return &Config{URL: "embedded"} },
}

// Config is the configuration of a log in a data directory. It has no settings: the process names
// the directory.
type Config struct {
	URL string `field:"url" required:"true" help:"embedded" example:"embedded"`
}

// Check implements stream.Config.
func (c *Config) Check() []error {
	if c.URL == "embedded" {
		return nil
	}
	return []error{&stream.Mistake{Field: "url", Err: fmt.Errorf("%q is not an engine", c.URL), Hint: "write embedded, which has no settings: a command names the data directory with --data, a Go program in Open"}}
}

// Open implements stream.Config.
func (c *Config) Open(_ context.Context, p stream.Process) (stream.Engine, error) {
	if p.Dir == "" {
		return nil, errors.New("embedded: Dir is empty: name a data directory")
	}
	log, err := Open(p.Dir, Options{StateMemoryBytes: p.StateBytes, RetainBytes: p.RetainBytes, ReadOnly: p.ReadOnly, Logger: p.Logger})
	if err != nil {
		return nil, err
	}
	return log, nil
}

// Describe implements stream.Config.
func (c *Config) Describe() string { return "data directory" }

package memory

import (
	"context"
	"fmt"

	"github.com/afterbay/afterbay/stream"
)

// Kind is a log that loses its data when it is closed. It is for tests and for Go programs. No
// pipeline file can name it, since no other process could read it.
var Kind = stream.Kind{
	Name:    "memory",
	Help:    "a log that is forgotten when its process ends",
	URLs:    []string{"memory:"},
	Example: "'memory:'",
	New:     func() stream.Config { return &Config{URL: "memory:"} },
}

// Config is the configuration of a log in memory. It has no settings.
type Config struct {
	URL string `field:"url" required:"true" help:"memory:" example:"'memory:'"`
}

// Check implements stream.Config.
func (c *Config) Check() []error {
	if c.URL == "memory:" {
		return nil
	}
	return []error{&stream.Mistake{Field: "url", Err: fmt.Errorf("%q is not an engine", c.URL), Hint: "write memory:, which has no settings"}}
}

// Open implements stream.Config. Each call returns a new log.
func (c *Config) Open(context.Context, stream.Process) (stream.Engine, error) {
	return New(Options{}), nil
}

// Describe implements stream.Config.
func (c *Config) Describe() string { return "memory of the process" }

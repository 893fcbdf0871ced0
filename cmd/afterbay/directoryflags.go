package main

import (
	"errors"
	"strings"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/process"
)

// open returns the engine's log, which the pipelines may name, or the data directory. For a
// directory it opens the log itself or, if another process holds the log, connects to that process.
// If create is set, a missing directory is created. The returned function closes the log.
func (f *directoryFlags) open(a *app, create bool, pipelines ...process.Pipeline) (inspect.Directory, func() error, error) {
	if f.URL != "" {
		if !strings.HasPrefix(f.URL, "http://") && !strings.HasPrefix(f.URL, "https://") {
			return nil, nil, usage("--url %s: use http://host:port", f.URL)
		}
		return &admin.Client{URL: f.URL, Token: f.Token}, func() error { return nil }, nil
	}
	engine, err := f.resolve(pipelines)
	if err != nil {
		return nil, nil, err
	}
	f.engine = engine
	return engine.Attach(a.ctx, a.log, f.Data, create)
}

// process connects to the process that the flags name. If none runs, it returns the error unknown.
func (f *directoryFlags) process(a *app, unknown error) (*admin.Client, error) {
	directory, closeDirectory, err := f.open(a, false)
	if err != nil {
		return nil, err
	}
	if client, ok := directory.(*admin.Client); ok {
		return client, nil // a client holds no resources, so it needs no close
	}
	return nil, errors.Join(unknown, closeDirectory())
}

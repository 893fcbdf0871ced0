package main

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// printing returns a kind of sink that prints records.
func printing(out io.Writer) sink.Kind {
	p := &printer{out: out}
	return sink.Kind{
		Name: "print", Help: "the program prints a line for each record", Example: "{before: 'decision '}",
		New: func() sink.Config { return &prints{printer: p} },
	}
}

// prints is the configuration of one sink in a pipeline file.
type prints struct {
	Before  string `field:"before" absent:"nothing" example:"'decision '" help:"what each line begins with"`
	printer *printer
}

// Check implements sink.Config.
func (p *prints) Check(sink.Topic) []error { return nil }

// Describe implements sink.Config.
func (p *prints) Describe() string { return "standard output" }

// Open implements sink.Config.
func (p *prints) Open(context.Context, sink.Topic) (sink.Service, error) {
	return sink.Service{Each: &lines{printer: p.printer, before: p.Before}}, nil
}

// printer prints one line after the other, for all sinks.
type printer struct {
	mu  sync.Mutex
	out io.Writer
}

// lines is one sink.
type lines struct {
	*printer
	before string
}

// Deliver implements sink.Writer.
func (l *lines) Deliver(_ context.Context, _ string, r *stream.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := fmt.Fprintf(l.out, "%s%s\n", l.before, r.Value)
	return err
}

// Close implements sink.Writer.
func (l *lines) Close() {}

// Package toy brings kinds of its own to Afterbay: what they do fits a page.
package toy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// Lines is a kind of sinks: a file that gets a line of JSON for each record.
var Lines = sink.Kind{
	Name:    "lines",
	Help:    "a file that gets a line of JSON for each record",
	Example: "{path: /tmp/decisions.ndjson}",
	New:     func() sink.Config { return &lines{} },
}

// lines is what a pipeline file says of one sink. Its fields are those of the mapping.
type lines struct {
	Path   string `field:"path" path:"true" required:"true" example:"decisions.ndjson" help:"the file, which is made if it is not there"`
	Sync   bool   `field:"sync" default:"true" example:"false" help:"whether a line is on the disk before the next one"`
	Bytes  int    `field:"bytes" unit:"bytes" min:"1KiB" max:"1MiB" default:"64KiB" example:"4KiB" help:"a longer record is a dead letter"`
	Header string `field:"header" choice:"none|columns" default:"none" example:"columns" help:"what the first line is"`
}

// Check finds what is wrong before anything runs.
func (l *lines) Check(t sink.Topic) []error {
	if filepath.Ext(l.Path) == ".csv" {
		return []error{&sink.Mistake{Field: "path", Err: errors.New("the lines are no CSV"), Hint: "name a file that ends in .ndjson"}}
	}
	if l.Header == "columns" && t.Columns == nil {
		return []error{&sink.Mistake{Field: "header", Err: fmt.Errorf("no emit step writes %s, so its columns are not known", t.Name)}}
	}
	return nil
}

// Open opens the file.
func (l *lines) Open(_ context.Context, t sink.Topic) (sink.Service, error) {
	f, err := os.OpenFile(l.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return sink.Service{}, err
	}
	about, err := f.Stat()
	if err == nil && about.Size() == 0 && l.Header == "columns" {
		err = json.NewEncoder(f).Encode(t.Columns)
	}
	if err != nil {
		return sink.Service{}, errors.Join(err, f.Close())
	}
	return sink.Service{Each: &file{File: f, config: l}}, nil
}

// Describe says where records go.
func (l *lines) Describe() string { return "lines of " + l.Path }

// file appends records.
type file struct {
	*os.File
	config *lines
	mu     sync.Mutex // one line after the other
}

// Deliver appends a record. It returns when the line is on the disk.
func (f *file) Deliver(_ context.Context, id string, r *stream.Record) error {
	if len(r.Value) > f.config.Bytes {
		return &sink.Refused{Err: fmt.Errorf("%d bytes are more than %d", len(r.Value), f.config.Bytes)}
	}
	line, err := json.Marshal(map[string]any{"id": id, "key": string(r.Key), "value": json.RawMessage(r.Value)})
	if err != nil {
		return &sink.Refused{Err: err}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.Write(append(line, '\n')); err != nil || !f.config.Sync {
		return err
	}
	return f.Sync()
}

// Close closes the file.
func (f *file) Close() { _ = f.File.Close() }

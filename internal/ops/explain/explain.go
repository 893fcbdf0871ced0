// Package explain reports where one output came from: its event, the events before that event, the
// pipeline and models that computed it, and how long that took. It also replays the event with the
// same code that serves it, which yields the row of names and values that the output was computed
// from.
package explain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// ErrNotFound means that no record has the id or the position.
var ErrNotFound = errors.New("not found")

// ErrOtherPipeline means that the pipeline to replay is not among the given ones.
var ErrOtherPipeline = errors.New("the files do not have the pipeline")

// Limits of a Report.
const (
	upstreamMax = 100   // records upstream of one
	becameMax   = 1_000 // records made from one
)

// Options configure Explain.
type Options struct {
	Directory inspect.Directory

	// Pipelines are candidates for the replay: the one that made the output is replayed. Without
	// pipelines the report has no row.
	Pipelines []lang.Pipeline

	// Timing returns the timing of an event in a pipeline. nil means that no timings are known.
	Timing func(ctx context.Context, pipeline string, p stream.Partition, offset stream.Offset) (inspect.Timing, bool, error)

	// Progress is called every few thousand records with the current task, the number of records
	// read and the total. nil is not called.
	Progress func(what string, records, of int64)

	// ModelKinds are the kinds of models that manifests can name.
	ModelKinds []model.Kind

	// Announce is called before a program of a model is run, with a description of it. nil is not
	// called.
	Announce func(text string)
}

// Report is everything known about one output or one event.
type Report struct {
	Asked    string    `json:"asked"`            // the id or position that was asked for
	Searched int64     `json:"searched"`         // number of records read to find it
	Also     []string  `json:"also,omitempty"`   // positions of other records with the id
	Output   *Record   `json:"output,omitempty"` // nil if the report is about an event
	Event    *Record   `json:"event"`
	Upstream []*Record `json:"upstream,omitempty"` // records that led to the event, nearest first
	Became   []*Record `json:"became,omitempty"`   // records made from the event, if the report is about an event
	More     int       `json:"more,omitempty"`     // number of further records made from it
	Replays  []*Replay `json:"replays,omitempty"`
}

// Kinds of records.
const (
	KindOutput       = "output"
	KindDead         = "dead letter"
	KindLate         = "late event"
	KindCopy         = "copy"         // in the repartition topic of a pipeline's inputs
	KindAnnouncement = "announcement" // in the same topic: the progress of the inputs
	KindEvent        = "event"        // appended by a client
)

// Record is a record of the log with the contents of its headers.
type Record struct {
	Position string          `json:"position"`          // topic/partition@offset
	Missing  string          `json:"missing,omitempty"` // why only the position is known
	Kind     string          `json:"kind,omitempty"`
	ID       string          `json:"id,omitempty"`
	Time     time.Time       `json:"time,omitzero"`
	Key      json.RawMessage `json:"key,omitempty"` // a string, or {"base64":...} if it is not UTF-8
	Value    json.RawMessage `json:"value,omitempty"`
	Made     *Made           `json:"made,omitempty"` // nil for an event from a client

	stored stream.Record
}

// Made describes how a pipeline made a record.
type Made struct {
	From       string    `json:"from"`             // position of the event before it was repartitioned
	Number     string    `json:"number,omitempty"` // partition@number in the time order of several partitions, if the pipeline uses one
	Pipeline   string    `json:"pipeline,omitempty"`
	Digest     string    `json:"digest,omitempty"` // sha256:... of the pipeline
	Generation uint64    `json:"generation,omitempty"`
	Models     []Model   `json:"models,omitempty"`
	Attempts   int       `json:"attempts"`
	Watermark  time.Time `json:"watermark,omitzero"` // at the event's position; zero if no header has it

	Stage     string          `json:"stage,omitempty"` // of a dead letter
	Error     string          `json:"error,omitempty"`
	Row       json.RawMessage `json:"row,omitempty"` // names computed up to the failure
	Truncated string          `json:"truncated,omitempty"`

	Phases *Phases `json:"phases,omitempty"` // nil if the times were not kept
}

// Model is a model that a pipeline used.
type Model struct {
	Name   string `json:"name"`   // name@version
	Digest string `json:"digest"` // sha256:...
}

// String returns name@version and digest, in the form of the header.
func (m Model) String() string { return m.Name + " " + m.Digest }

// explanation is a Report under construction.
type explanation struct {
	Options
	topics  []inspect.Topic
	derived derived
	report  Report
}

// Explain finds a record by its id or its position (topic/partition@offset) and reports everything
// known about it. It returns ErrNotFound if there is no such record, and ErrOtherPipeline if
// pipelines are given but none of them made it. It uses memory for the state of the replayed
// pipeline and for one record at a time.
func Explain(ctx context.Context, id string, o Options) (*Report, error) {
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	e := &explanation{Options: o, report: Report{Asked: id}}
	var err error
	if e.topics, err = o.Directory.List(ctx); err != nil {
		return nil, err
	}
	if e.derived, err = readDerived(ctx, o.Directory, e.topics); err != nil {
		return nil, err
	}
	found, err := e.find(ctx, id)
	if err != nil {
		return nil, err
	}
	if found.Made != nil && found.Kind != KindCopy {
		e.report.Output = found
		if e.report.Event, err = e.eventOf(ctx, found.Made); err != nil {
			return nil, err
		}
	} else {
		e.report.Event = found
	}
	for r := e.report.Event; r.Made != nil && r.Made.From != "" && len(e.report.Upstream) < upstreamMax; {
		if r, err = e.at(ctx, r.Made.From); err != nil {
			return nil, err
		}
		e.report.Upstream = append(e.report.Upstream, r)
	}
	if e.report.Output == nil {
		if err := e.became(ctx); err != nil {
			return nil, err
		}
	}
	if err := e.phases(ctx); err != nil {
		return nil, err
	}
	return &e.report, e.replays(ctx)
}

// repartition returns the repartition topic of the pipeline that made a record. The pipeline reads
// several partitions in the order of this topic.
func (m *Made) repartition() string { return naming.Of(naming.Root(m.Pipeline), naming.Repartition) }

// eventOf returns the record that a pipeline read to make another one. If the pipeline reads
// several partitions in time order, that is the copy of the event; eventOf searches it from the
// beginning.
func (e *explanation) eventOf(ctx context.Context, made *Made) (*Record, error) {
	index, _, numbered := strings.Cut(made.Number, "@")
	partition, err := strconv.ParseInt(index, 10, 32)
	if !numbered || err != nil {
		return e.at(ctx, made.From)
	}
	topic := made.repartition()
	for r, err := range e.Directory.Records(ctx, inspect.Query{Topic: topic, Partition: int32(partition)}) {
		if err != nil {
			return nil, err
		}
		if header.Get(&r, header.Source) == made.From {
			return newRecord(&r), nil
		}
	}
	return &Record{Position: topic + "/" + made.Number, Missing: fmt.Sprintf("no longer retained: %s/%d has no copy of %s", topic, partition, made.From)}, nil
}

// at returns the record at the position that a header names.
func (e *explanation) at(ctx context.Context, position string) (*Record, error) {
	p, err := deadletter.ParsePosition(position)
	i := slices.IndexFunc(e.topics, func(t inspect.Topic) bool { return t.Name == p.Topic })
	switch {
	case err != nil || i < 0:
		return &Record{Position: position, Missing: "the log has no such topic"}, nil
	case int(p.Index) >= len(e.topics[i].Partitions):
		return &Record{Position: position, Missing: fmt.Sprintf("topic %s has only the partitions 0 to %d", p.Topic, len(e.topics[i].Partitions)-1)}, nil
	case p.Offset < e.topics[i].Partitions[p.Index].First:
		return &Record{Position: position, Missing: fmt.Sprintf("no longer retained: %v begins at offset %d", p.Partition, e.topics[i].Partitions[p.Index].First)}, nil
	}
	r, found, err := e.read(ctx, p)
	if err != nil {
		return nil, err
	}
	if !found {
		return &Record{Position: position, Missing: fmt.Sprintf("%v has no record at this offset yet; the next record gets offset %d", p.Partition, e.topics[i].Partitions[p.Index].Next)}, nil
	}
	return newRecord(&r), nil
}

// read returns the record at a position.
func (e *explanation) read(ctx context.Context, p deadletter.Position) (stream.Record, bool, error) {
	for r, err := range e.Directory.Records(ctx, inspect.Query{Topic: p.Topic, Partition: p.Index, From: int64(p.Offset), Limit: 1}) {
		return r, err == nil && r.Offset == p.Offset, err
	}
	return stream.Record{}, false, nil
}

func position(r *stream.Record) string {
	return deadletter.Position{Partition: r.Partition, Offset: r.Offset}.String()
}

// newRecord reads the headers of a record.
func newRecord(r *stream.Record) *Record {
	record := &Record{}
	// The JSON has the same names for time, key and value as Record.
	if err := json.Unmarshal(inspect.AppendRecord(nil, r), record); err != nil {
		panic("explain: a record's own JSON cannot be read: " + err.Error())
	}
	record.Position, record.Kind, record.ID, record.stored = position(r), KindEvent, header.Get(r, header.ID), *r
	source, from := header.Get(r, header.Source), header.Get(r, header.Position)
	switch {
	case header.Get(r, header.Redrive) != "": // an event that was redriven
	case header.MovesTime(r):
		record.Kind = KindAnnouncement
	case source != "":
		record.Kind, record.Made = KindCopy, newMade(r, source)
		record.Made.Pipeline = naming.Root(r.Partition.Topic)
	case from != "":
		record.Kind, record.Made = KindOutput, newMade(r, from)
		if record.Made.Stage != "" {
			record.Kind = KindDead
		} else if header.Get(r, header.Watermark) != "" {
			record.Kind = KindLate
		}
	}
	return record
}

func newMade(r *stream.Record, from string) *Made {
	m := &Made{
		From: from, Number: header.Get(r, header.Repartition), Attempts: 1, Stage: header.Get(r, header.Stage), Error: header.Get(r, header.Error),
		Truncated: header.Get(r, header.Truncated),
	}
	m.Pipeline, m.Digest, m.Generation = parsePipeline(header.Get(r, header.Pipeline))
	m.Models = parseModels(header.Get(r, header.Models))
	if n, err := strconv.Atoi(header.Get(r, header.Attempts)); err == nil {
		m.Attempts = n
	}
	if at, err := time.Parse(time.RFC3339Nano, header.Get(r, header.Watermark)); err == nil {
		m.Watermark = at.UTC()
	}
	if row := header.Get(r, header.Row); json.Valid([]byte(row)) {
		m.Row = json.RawMessage(row)
	}
	return m
}

// parsePipeline parses "name sha256:digest generation".
func parsePipeline(text string) (name, digest string, generation uint64) {
	words := strings.Fields(text)
	if len(words) != 3 {
		return text, "", 0
	}
	generation, _ = strconv.ParseUint(words[2], 10, 64) // 0 if it is missing
	return words[0], words[1], generation
}

// parseModels parses "name@version sha256:digest, ...".
func parseModels(text string) []Model {
	var list []Model
	for one := range strings.SplitSeq(text, ", ") {
		if name, digest, ok := strings.Cut(one, " "); ok {
			list = append(list, Model{name, digest})
		}
	}
	return list
}

// differences lists the differences between two records. It ignores their positions and the
// generations that made them.
func differences(a, b *stream.Record) []string {
	var list []string
	differ := func(what string, is bool) {
		if is {
			list = append(list, what)
		}
	}
	differ("value", !bytes.Equal(a.Value, b.Value))
	differ("key", !bytes.Equal(a.Key, b.Key))
	differ("time", !a.Time.Equal(b.Time))
	for _, key := range []string{header.Stage, header.Error, header.Watermark, header.Row} {
		differ(strings.TrimPrefix(key, "afterbay-"), header.Get(a, key) != header.Get(b, key))
	}
	return list
}

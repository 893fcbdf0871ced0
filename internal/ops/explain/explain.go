// Package explain says where one output came from: its event and the events
// before that, what computed it, how long that took and, by a replay with the
// very code that serves, the row of names and values it was computed from.
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

// ErrNotFound says that no record has the id, or that none is at the position.
var ErrNotFound = errors.New("not found")

// ErrOtherPipeline says that none of the pipelines given is the one to replay.
var ErrOtherPipeline = errors.New("the files lack the pipeline")

// Bounds of a Report.
const (
	upstreamMax = 100   // records that one came from
	becameMax   = 1_000 // records that came of one
)

// Options say what Explain may use.
type Options struct {
	Directory inspect.Directory

	// Pipelines are replayed where one of them made the output; without any
	// there is no row.
	Pipelines []lang.Pipeline

	// Timing returns how an event came through a pipeline; nil knows of none.
	Timing func(ctx context.Context, pipeline string, p stream.Partition, offset stream.Offset) (inspect.Timing, bool, error)

	// Progress is told what is done and how many records of how many it has
	// taken, every few thousand; nil is not told.
	Progress func(what string, records, of int64)

	// ModelKinds are the kinds of models that manifests may name.
	ModelKinds []model.Kind

	// Announce is told of each program that a model is, before it is run; nil is not.
	Announce func(text string)
}

// Report is all that is known about one output, or about one event.
type Report struct {
	Asked    string    `json:"asked"`            // the id or position
	Searched int64     `json:"searched"`         // records looked at to find it
	Also     []string  `json:"also,omitempty"`   // positions of other records with the id
	Output   *Record   `json:"output,omitempty"` // nil where an event was asked for
	Event    *Record   `json:"event"`
	Upstream []*Record `json:"upstream,omitempty"` // what the event came from, nearest first
	Became   []*Record `json:"became,omitempty"`   // what came of the event that was asked for
	More     int       `json:"more,omitempty"`     // of it beyond those
	Replays  []*Replay `json:"replays,omitempty"`
}

// The kinds of records.
const (
	KindOutput       = "output"
	KindDead         = "dead letter"
	KindLate         = "late event"
	KindCopy         = "copy"         // into the topic that a pipeline's inputs are merged to
	KindAnnouncement = "announcement" // there: how far the inputs are
	KindEvent        = "event"        // appended from outside
)

// Record is a record of the log and what its headers say.
type Record struct {
	Position string          `json:"position"`          // topic/partition@offset
	Missing  string          `json:"missing,omitempty"` // why nothing else is known
	Kind     string          `json:"kind,omitempty"`
	ID       string          `json:"id,omitempty"`
	Time     time.Time       `json:"time,omitzero"`
	Key      json.RawMessage `json:"key,omitempty"` // text, or {"base64":...} where it is not UTF-8
	Value    json.RawMessage `json:"value,omitempty"`
	Made     *Made           `json:"made,omitempty"` // nil for an event from outside

	stored stream.Record
}

// Made is how a pipeline made a record.
type Made struct {
	From       string    `json:"from"`             // position of the event, before it was copied
	Number     string    `json:"number,omitempty"` // partition@number in the order of several partitions, where the pipeline reads in one
	Pipeline   string    `json:"pipeline,omitempty"`
	Digest     string    `json:"digest,omitempty"` // sha256:... of the pipeline
	Generation uint64    `json:"generation,omitempty"`
	Models     []Model   `json:"models,omitempty"`
	Attempts   int       `json:"attempts"`
	Watermark  time.Time `json:"watermark,omitzero"` // at the event's position; zero where no header says it

	Stage     string          `json:"stage,omitempty"` // of a dead letter
	Error     string          `json:"error,omitempty"`
	Row       json.RawMessage `json:"row,omitempty"` // names computed until then
	Truncated string          `json:"truncated,omitempty"`

	Phases *Phases `json:"phases,omitempty"` // nil where the times were not kept
}

// Model is a model that a pipeline had.
type Model struct {
	Name   string `json:"name"`   // name@version
	Digest string `json:"digest"` // sha256:...
}

// String returns name@version and digest, as the header has them.
func (m Model) String() string { return m.Name + " " + m.Digest }

// explanation is a Report being made.
type explanation struct {
	Options
	topics  []inspect.Topic
	derived derived
	report  Report
}

// Explain finds a record by its id, or by its position written
// topic/partition@offset, and says all that is known about it. It is an
// ErrNotFound where there is none, and an ErrOtherPipeline where pipelines are
// given and none of them made it. Memory is that of the replayed pipeline's
// state and of one record at a time.
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

// repartition returns the topic in whose order the pipeline that made a record reads several
// partitions.
func (m *Made) repartition() string { return naming.Of(naming.Root(m.Pipeline), naming.Repartition) }

// eventOf returns the record that a pipeline read to make another one. In the order of several
// partitions that is the copy of the event, which is looked for from the beginning.
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

// at returns the record at a position that a header names.
func (e *explanation) at(ctx context.Context, position string) (*Record, error) {
	p, err := deadletter.ParsePosition(position)
	i := slices.IndexFunc(e.topics, func(t inspect.Topic) bool { return t.Name == p.Topic })
	switch {
	case err != nil || i < 0:
		return &Record{Position: position, Missing: "the log has no such topic"}, nil
	case int(p.Index) >= len(e.topics[i].Partitions):
		return &Record{Position: position, Missing: fmt.Sprintf("not there: topic %s has the partitions 0 to %d", p.Topic, len(e.topics[i].Partitions)-1)}, nil
	case p.Offset < e.topics[i].Partitions[p.Index].First:
		return &Record{Position: position, Missing: fmt.Sprintf("no longer retained: %v begins at offset %d", p.Partition, e.topics[i].Partitions[p.Index].First)}, nil
	}
	r, found, err := e.read(ctx, p)
	if err != nil {
		return nil, err
	}
	if !found {
		return &Record{Position: position, Missing: fmt.Sprintf("not there: %v has no record of this offset, the next one gets %d", p.Partition, e.topics[i].Partitions[p.Index].Next)}, nil
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
	// The line has the names of the fields time, key and value.
	if err := json.Unmarshal(inspect.AppendRecord(nil, r), record); err != nil {
		panic("explain: a record's own JSON cannot be read: " + err.Error())
	}
	record.Position, record.Kind, record.ID, record.stored = position(r), KindEvent, header.Get(r, header.ID), *r
	source, from := header.Get(r, header.Source), header.Get(r, header.Position)
	switch {
	case header.Get(r, header.Redrive) != "": // an event that was sent back
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

// parsePipeline reads "name sha256:digest generation".
func parsePipeline(text string) (name, digest string, generation uint64) {
	words := strings.Fields(text)
	if len(words) != 3 {
		return text, "", 0
	}
	generation, _ = strconv.ParseUint(words[2], 10, 64) // 0 is none
	return words[0], words[1], generation
}

// parseModels reads "name@version sha256:digest, ...".
func parseModels(text string) []Model {
	var list []Model
	for one := range strings.SplitSeq(text, ", ") {
		if name, digest, ok := strings.Cut(one, " "); ok {
			list = append(list, Model{name, digest})
		}
	}
	return list
}

// differences returns what of two records is not the same, their places and
// which generation of the pipeline made them aside.
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

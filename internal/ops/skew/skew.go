// Package skew computes a sample of keys again from a log. It compares the results with the outputs
// and the state of the live pipeline, bit by bit. There must be no difference.
//
// A difference has one of these causes: another binary or processor, damage, a table row or model
// file that was changed in place, or rows that depend on the order of arrival.
package skew

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/check/dryrun"
	"github.com/afterbay/afterbay/internal/event/hash"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/internal/sys/term"
	"github.com/afterbay/afterbay/stream"
)

// salt is the salt of the hash that selects keys.
const salt = "afterbay.skew"

// Options select the keys to compare.
type Options struct {
	dryrun.RowsOptions        // of a log
	Sample             string // share of the keys, such as 1%
}

// Result holds the counts and the differences of a comparison.
type Result struct {
	Pipeline    string           `json:"pipeline"`
	Keys        int              `json:"keys"`   // keys in the sample, including keys of stages with other key fields
	Events      int64            `json:"events"` // events of those keys
	Outputs     int64            `json:"outputs"`
	Entries     int64            `json:"entries"` // state entries
	Differences int64            `json:"differences"`
	Names       map[string]int64 `json:"names"` // number of differences by name
	First       *Difference      `json:"first,omitempty"`
	Notes       []string         `json:"notes,omitempty"` // parts that were not compared
}

// Difference is one value that differs. Differences of outputs come first, in the order of their
// events, and then those of state.
type Difference struct {
	Event      string `json:"event"` // position; for state, that of the newest event of the key
	Key        string `json:"key"`
	ID         string `json:"id,omitempty"` // id of the output; "" for state
	Step       string `json:"step"`         // the step that introduces the name
	Name       string `json:"name"`         // a feature, a field of an output, or a part of a record or of the state
	Live       string `json:"live"`
	Recomputed string `json:"recomputed"`
}

// none stands for a missing value.
const none = "nothing"

// Check compares a sample of keys.
func Check(ctx context.Context, program *dryrun.Program, o Options) (*Result, error) {
	below, ok := hash.Share(o.Sample)
	if !ok || below == 0 {
		return nil, failure.Usage("--sample %s: write a share of the keys above 0%%, such as 1%%", o.Sample)
	}
	open := o.Open
	o.FromLog, o.Committed, o.Outputs = true, true, true
	s := &check{
		ctx: ctx, below: below, result: &Result{Names: map[string]int64{}}, events: map[string]*event{}, newest: map[owner]*event{},
		settled: map[string]bool{}, leftOut: map[owner]bool{},
	}
	o.End = s.compare
	o.Open = func() (directory inspect.Directory, end func() error, err error) { // a data directory can be opened only once
		if s.live, end, err = open(); err != nil {
			return s.live, end, err
		}
		if err = s.letters(); err == nil && s.rows.Runner().Plan.Sources != nil {
			err = s.copies()
		}
		if err != nil {
			err = errors.Join(err, end())
		}
		return s.live, end, err
	}
	meter := term.NewMeter(program.Err)
	var err error
	if s.rows, err = program.NewRows(ctx, o.RowsOptions); err != nil {
		return nil, err
	}
	if len(s.rows.Missing) > 0 {
		return nil, failure.Usage("%s: model %s is missing: its outputs cannot be computed again", o.File, strings.Join(s.rows.AbsentModels(), ", "))
	}
	if s.rows.Straight() {
		return nil, failure.Usage("%s: skew can compare only one pipeline with a fixed order: in a chain, or with order: arrival, events have another order in a replay than live", o.File)
	}
	s.result.Pipeline = s.rows.Runner().Name()
	err = s.rows.Run(func(e *dryrun.Event) error {
		meter.Show("%d events, %s", s.rows.Appended, meter.Rate(s.rows.Appended))
		s.note(e)
		return nil
	})
	meter.Clear()
	return s.result, err
}

// letters finds the events with settled dead letters. A redriven event was computed when it came
// back, starting at the step that failed. A replay computes it in its original place, or twice.
func (s *check) letters() error {
	for l, err := range s.live.Letters(s.ctx, s.rows.Runner().Name(), deadletter.Filter{}, true) {
		if err != nil {
			return err
		}
		if l.Settled {
			s.settled[l.ID] = true
		}
	}
	return nil
}

// leaveOut removes the keys of events with settled dead letters. It also removes events with such a
// key in a stage.
func (s *check) leaveOut() {
	maps.DeleteFunc(s.events, func(name string, e *event) bool {
		out := slices.ContainsFunc(e.owners, func(of owner) bool { return s.leftOut[of] })
		if out && name == e.position && !e.made {
			s.result.Events--
		}
		return out
	})
	all := len(s.newest)
	maps.DeleteFunc(s.newest, func(of owner, _ *event) bool { return s.leftOut[of] })
	if s.result.Keys = len(s.newest); s.result.Keys < all {
		s.result.Notes = append(s.result.Notes, fmt.Sprintf("%s not compared: events have settled dead letters, and a redriven event is computed later than in a replay", term.Counted(all-s.result.Keys, "key")))
	}
}

// copies returns an error if the pipeline has not yet computed all of its repartitioned events,
// because a replay computes them all. Once it has, its stages have computed everything that it
// waited for. Events that the stages hold back for later are held back in the replay too.
func (s *check) copies() error {
	name, merged := s.rows.Runner().Name(), s.rows.Runner().Plan.Topic
	lags, err := s.live.Lag(s.ctx, name)
	for _, lag := range lags {
		if lag.Topic == merged && lag.Records > 0 {
			return failure.Usage("pipeline %s: %d events of %s are not computed yet: compare after it has caught up", name, lag.Records, merged)
		}
	}
	return err
}

// check is a comparison in progress.
type check struct {
	ctx    context.Context
	rows   *dryrun.Rows
	live   inspect.Directory
	below  int64 // a key is in the sample if its hash is below this
	order  int64 // number of the newest event
	result *Result
	events map[string]*event // events of the sample, by position and by id
	newest map[owner]*event

	settled map[string]bool // ids of events with a settled dead letter
	leftOut map[owner]bool  // keys of such events; they are not compared
	unlike  bool            // the replay numbers events differently
}

// owner is a key in the state of a pipeline or stage; group is its name.
type owner struct{ group, key string }

// event is an event of the sample.
type event struct {
	number   int64 // in the order of computation
	position string
	key      string
	made     bool    // made by a group or join from other events
	owners   []owner // keys of its state; set only if some events are left out
}

func (s *check) sampled(key []byte) bool { return hash.Of(key, salt) < s.below }

// note records an event if its key, or its key in a stage, is in the sample.
func (s *check) note(e *dryrun.Event) {
	if s.order++; e.Uncopied {
		return // state has only its id and its time
	}
	plans := s.rows.Runner().Keepers()
	key, id := e.Record.Key, ""
	if slot := plans[0].Key; slot.Name != "" && e.Row.Has(slot) {
		key = e.Row.AppendKey(nil, slot)
	}
	if slot := plans[0].Meta.ID; e.Row.Has(slot) {
		id = e.Row.Text(slot)
	}
	at := &event{number: s.order, position: cmp.Or(header.SourceOf(e.Record), fmt.Sprintf("%v@%d", e.Record.Partition, e.Record.Offset)), key: string(key), made: e.Made}
	for _, stage := range plans[1:] {
		if by, ok := plans[0].Schema.Lookup(stage.Answers.By); ok && e.Row.Has(by) && !e.Made {
			key := e.Row.AppendKey(nil, by)
			if s.sampled(key) {
				s.newest[owner{stage.Name, string(key)}] = at
			}
			if stage.Delay > 0 { // otherwise the stage counted the event in its place
				s.owns(at, stage.Name, key, id)
			}
		}
	}
	s.owns(at, plans[0].Name, key, id)
	if !s.sampled(key) {
		return
	}
	if id != "" {
		s.events[strings.Clone(id)] = at
	}
	if e.Made {
		return // its state refers to events of the log
	}
	s.result.Events++
	s.events[at.position], s.newest[owner{plans[0].Name, at.key}] = at, at
}

// owns records that a group keeps state of an event under a key. It does so only if some events are
// to be left out.
func (s *check) owns(e *event, group string, key []byte, id string) {
	if len(s.settled) == 0 {
		return
	}
	of := owner{group, string(key)}
	if e.owners = append(e.owners, of); s.settled[id] {
		s.leftOut[of] = true
	}
}

// of returns the event of the sample that an output was made from, or nil for other outputs.
func (s *check) of(r *stream.Record) *event {
	if id, ok := header.ParseID(header.Get(r, header.ID)); ok {
		if at := s.events[id.Event]; at != nil {
			return at
		}
	}
	return s.events[header.Get(r, header.Position)]
}

// compare compares outputs and state after the replay.
func (s *check) compare(log *memory.Log) error {
	s.leaveOut()
	s.findUnlike()
	again := inspect.NewLocal(log, nil, nil, nil)
	topics, err := s.live.List(s.ctx)
	if err != nil {
		return err
	}
	var list []found
	for _, name := range s.rows.Runner().Outputs() {
		i := slices.IndexFunc(topics, func(t inspect.Topic) bool { return t.Name == name })
		if i < 0 {
			s.result.Notes = append(s.result.Notes, fmt.Sprintf("topic %s is not in the log: the pipeline did not run there", name))
			continue
		}
		of, err := s.outputs(again, &topics[i])
		if err != nil {
			return fmt.Errorf("compare %s: %w", name, err)
		}
		list = append(list, of...)
	}
	slices.SortStableFunc(list, func(a, b found) int { return cmp.Compare(a.number, b.number) })
	of, err := s.repartitioners(again)
	if err != nil {
		return fmt.Errorf("compare the state of repartitioners: %w", err)
	}
	for _, plan := range s.rows.Runner().Keepers() {
		kept, err := s.state(again, plan)
		if err != nil {
			return fmt.Errorf("compare the state: %w", err)
		}
		of = append(of, kept...)
	}
	if moved, err := s.moved(); err != nil {
		return err
	} else if moved {
		s.result.Notes = append(s.result.Notes, "the state was not compared: the pipeline processed events meanwhile")
		s.result.Entries, of = 0, nil
	}
	if f := &s.rows.Forced; f.Events > 0 && !f.Followed {
		s.result.Notes = append(s.result.Notes, fmt.Sprintf("%d events were forced, and the replay computes them in their own turn, which may be all that differs: %s", f.Events, f.Reason))
	}
	list = append(list, of...)
	s.result.Differences = int64(len(list))
	for i := range list {
		s.result.Names[list[i].Name]++
	}
	if len(list) > 0 {
		s.result.First = &list[0].Difference
	}
	return nil
}

// moved reports whether the live pipeline has committed more events than the replay computed.
func (s *check) moved() (bool, error) {
	lags, err := s.live.Lag(s.ctx, s.result.Pipeline)
	for _, lag := range lags {
		for _, taken := range s.rows.Sources {
			if lag.Topic == taken.Topic && lag.Partition == taken.Partition && lag.Committed > taken.Next {
				return true, err
			}
		}
	}
	return false, err
}

// found is a difference with the number of its event.
type found struct {
	number int64
	Difference
}

// outputs compares the records of a topic.
func (s *check) outputs(again inspect.Directory, live *inspect.Topic) (list []found, err error) {
	computed := map[string]stream.Record{}
	err = s.each(again, live.Name, func(id string, r *stream.Record, _ *event) { computed[id] = *r })
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	err = s.each(s.live, live.Name, func(id string, r *stream.Record, of *event) {
		if seen[id] {
			return
		}
		seen[id] = true
		s.result.Outputs++
		if other, ok := computed[id]; ok {
			list = append(list, s.differences(of, id, r, &other)...)
		} else {
			list = append(list, found{of.number, Difference{of.position, of.key, id, "emit", live.Name, string(r.Value), none}})
		}
	})
	if slices.ContainsFunc(live.Partitions, func(p inspect.Partition) bool { return p.First > 0 }) {
		s.result.Notes = append(s.result.Notes, fmt.Sprintf("topic %s no longer has all records: deleted records were not compared", live.Name))
		return list, err
	}
	for _, id := range slices.Sorted(maps.Keys(computed)) {
		if r := computed[id]; !seen[id] {
			of := s.of(&r)
			list = append(list, found{of.number, Difference{of.position, of.key, id, "emit", live.Name, none, string(r.Value)}})
		}
	}
	return list, err
}

// each calls take for the outputs of a topic that were made from events of the sample.
func (s *check) each(d inspect.Directory, topic string, take func(id string, r *stream.Record, of *event)) error {
	about, err := inspect.Find(s.ctx, d, topic)
	if err != nil || len(about.Partitions) == 0 {
		return err
	}
	for r, err := range d.Records(s.ctx, inspect.Query{Topic: topic, Partition: inspect.AllPartitions}) {
		if err != nil {
			return err
		}
		by, _ := generation.Of(&r)
		if of := s.of(&r); of != nil && by == s.result.Pipeline {
			take(header.Get(&r, header.ID), &r, of)
		}
	}
	return nil
}

// differences compares a live output with the recomputed one.
func (s *check) differences(of *event, id string, live, again *stream.Record) (list []found) {
	differ := func(step, name, a, b string) {
		if a != b {
			list = append(list, found{of.number, Difference{of.position, of.key, id, step, name, cmp.Or(a, none), cmp.Or(b, none)}})
		}
	}
	if !bytes.Equal(live.Value, again.Value) {
		a, b := fields(live.Value), fields(again.Value)
		names := slices.Sorted(maps.Keys(a))
		for name := range b {
			if _, ok := a[name]; !ok {
				names = append(names, name)
			}
		}
		for _, name := range s.inOrder(names) {
			differ(s.introduces(name), s.slotOf(name), string(a[name]), string(b[name]))
		}
		if len(list) == 0 {
			differ("emit", "value", string(live.Value), string(again.Value))
		}
	}
	differ("emit", "key", string(live.Key), string(again.Key))
	differ("emit", "time", live.Time.UTC().String(), again.Time.UTC().String())
	for _, h := range []string{header.Stage, header.Error, header.Models} {
		differ("emit", strings.TrimPrefix(h, "afterbay-"), header.Get(live, h), header.Get(again, h))
	}
	return list
}

// fields returns the members of an object, or nothing for other values.
func fields(value []byte) map[string]json.RawMessage {
	members := map[string]json.RawMessage{}
	if json.Unmarshal(value, &members) != nil {
		return nil
	}
	return members
}

// inOrder sorts fields in the order of their computation.
func (s *check) inOrder(fields []string) []string {
	place := map[string]int{}
	for i, slot := range s.rows.Runner().Plan.Schema.Slots {
		place[slot.Name] = i + 1
	}
	slices.SortFunc(fields, func(a, b string) int {
		return cmp.Or(place[s.slotOf(a)]-place[s.slotOf(b)], strings.Compare(a, b))
	})
	return fields
}

// slotOf returns the name in the row that an output field stands for. Output fields have
// underscores in place of dots.
func (s *check) slotOf(field string) string {
	for _, slot := range s.rows.Runner().Plan.Schema.Slots {
		if strings.ReplaceAll(slot.Name, ".", "_") == field {
			return slot.Name
		}
	}
	return field
}

// introduces returns the step that introduces a field.
func (s *check) introduces(field string) string {
	return cmp.Or(s.rows.Stage(s.slotOf(field)), "emit")
}

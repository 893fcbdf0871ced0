// Package table stores the rows of tables in the partitions of a pipeline. A table is a topic: the
// newest record of a key is its row, and a record without a value deletes the row. With Versions an
// event gets the row that was valid at its time. A State holds the rows of one partition, ahead of
// the committed state. A Reader reads the topics into the states of a member.
//
// The order of rows and events:
//
//  1. An event sees every row that was durable when the event was polled. So if a producer appends a
//     row and then an event, the event sees that row or a newer one of its key.
//  2. A partition has one order of rows and events. A transaction commits it: its rows, the next
//     offset of each table, and the results of its events. After a crash, or in another process, the
//     partition continues from there, never with older rows.
//  3. The rows of a key have the order of the topic. The order between keys of different partitions
//     of the topic is undefined, and may differ between two partitions of the input.
//  4. A row that the pipeline itself writes (Spec.Written) takes effect at Put, in the transaction
//     that writes its record: the next event of the key sees it. The Reader skips these records.
//     Rows of other writers take effect when they are read, which may be after a row that is later
//     in the topic.
package table

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/state/packed"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// Spec is a table of a pipeline.
type Spec struct {
	Topic string

	// Own is set if the key of the lookup is the key of the input. A partition then stores only the
	// rows of keys that Kafka's default partitioner assigns to it. Otherwise it stores all rows.
	Own bool
	// Written is set if the pipeline writes the table itself.
	Written bool

	// Envelope is the format that wraps the rows. With an envelope, the key of a row is the text of
	// the record's key.
	Envelope envelope.Kind

	// Encoded says how rows are encoded; "" is JSON. Schema reads values that all have one schema,
	// with a Digest. Schemas reads keys and values that begin with the id of their schema. If
	// Encoded is set, exactly one of both is set.
	Encoded string
	Schema  Schema
	Digest  string
	Schemas Schemas

	Versions Versions
}

// writing returns the id of a mark in the state of a partition. The mark says that Put has made
// rows of all records that the pipeline wrote to the table.
func (s *Spec) writing() string { return s.Topic + "/written" }

// id identifies a table in the state. A table with other rows has another id, and is read from its
// beginning.
func (s *Spec) id() string {
	id := s.Topic + "/all"
	if s.Own {
		id = s.Topic + "/own"
	}
	if s.Envelope != envelope.None {
		id += "/" + string(s.Envelope)
	}
	if s.Encoded != "" {
		id += "/encoded" + s.Digest
	}
	if s.Versions.Kept() {
		id += versioned
	}
	return id
}

// place is a partition of a table's topic.
type place struct {
	table     int
	partition int32
}

// State holds the rows of one partition of the input. It is ahead of the committed state. The
// caller discards it after a failed commit. One goroutine uses it.
type State struct {
	specs        []Spec
	ids          []string         // ids of specs
	id           stream.Partition // partition of the input
	partitions   int32            // number of partitions of the input; known from the first Bring on
	view         stream.View
	next         map[place]stream.Offset // next offset to read
	moved        map[place]bool          // places in next that no transaction has yet
	unsaid       map[place]bool          // places in next that no note has yet
	said         int                     // number of notes
	made, flying map[string][]byte       // rows by state key; nil is deleted: made is not in a transaction yet, flying is in the newest one, which may be outstanding
	key          []byte
	pipeline     []byte       // prefix of header.Pipeline in records of the pipeline
	noting       map[int]bool // tables without the mark of writing; true if records of the pipeline are read
	times        []times      // by table
	sweepers     []sweeper    // by table
	watermark    int64        // of the newest lookup with versions
	metrics      *observe.Member
	logger       *slog.Logger
	warned       bool // a key that is not valid for a row was logged
}

// newState restores the state of a partition: how far it has read the tables.
func newState(specs []Spec, a stream.Assigned, pipeline string, logger *slog.Logger, metrics *observe.Member) (*State, error) {
	s := &State{
		watermark: never, metrics: metrics, logger: logger,
		specs: specs, id: a.Partition, view: a.State,
		next: map[place]stream.Offset{}, moved: map[place]bool{}, unsaid: map[place]bool{}, made: map[string][]byte{},
		pipeline: []byte(pipeline + " "), noting: map[int]bool{},
	}
	for i := range specs {
		s.ids = append(s.ids, specs[i].id())
		s.times = append(s.times, newTimes(specs[i].Versions))
		w, err := s.newSweeper(s.ids[i])
		if err != nil {
			return nil, fmt.Errorf("table %s beside %v: %w", specs[i].Topic, s.id, err)
		}
		s.sweepers = append(s.sweepers, w)
		if specs[i].Written {
			noted, err := s.view.Get(statekey.AppendRead(nil, specs[i].writing()))
			if err != nil {
				return nil, err
			}
			if noted == nil {
				s.noting[i] = a.Next > 0
			}
		}
		prefix := statekey.AppendRead(nil, s.ids[i])
		for entry, err := range s.view.Scan(prefix) {
			if err != nil {
				return nil, err
			}
			number := entry.Key[len(prefix):]
			if len(number) != 4 || len(entry.Value) != 8 {
				return nil, fmt.Errorf("table %s beside %v: %w", specs[i].Topic, s.id, packed.ErrDamaged)
			}
			at := place{i, int32(binary.BigEndian.Uint32(number))}
			s.next[at] = stream.Offset(binary.BigEndian.Uint64(entry.Value))
		}
	}
	return s, nil
}

// Row returns the row of a key, or nil without a row. A table with versions returns the row that
// was valid at the time of the event. An event before the history gets the row at the beginning of
// the history. The returned slice does not change. The first error makes the event a dead letter:
// the partition does not have the rows of the key, or no longer has them.
func (s *State) Row(table int, key []byte, time, watermark int64) (row []byte, failure, fatal error) {
	spec := &s.specs[table]
	if spec.Own {
		if there := stream.Place(key, s.partitions); there != s.id.Index {
			return nil, fmt.Errorf("key %.60q is in partition %d of %s, but Kafka's default partitioner, which places the rows of table %s, puts it into %d: produce with that partitioner, or set input.repartition",
				key, s.id.Index, s.id.Topic, spec.Topic, there), nil
		}
	}
	if spec.Versions.Kept() {
		s.watermark = max(s.watermark, watermark)
		row, failure, fatal = s.asOf(table, key, max(time, spec.Versions.floor(watermark)))
	} else {
		s.key = statekey.AppendRow(s.key[:0], s.ids[table], key)
		row, fatal = s.get(s.key)
	}
	if fatal == nil && failure == nil {
		failure = spec.broken(key, row)
	}
	if fatal != nil {
		fatal = fmt.Errorf("row of table %s beside %v: %w", spec.Topic, s.id, fatal)
	}
	return row, failure, fatal
}

// get returns the value of a state key.
func (s *State) get(key []byte) ([]byte, error) {
	for _, rows := range []map[string][]byte{s.made, s.flying} {
		if data, ok := rows[string(key)]; ok {
			return data, nil
		}
	}
	return s.view.Get(key)
}

// put stores data, nil to delete, and returns how many bytes that adds to a transaction.
func (s *State) put(key string, data []byte) int {
	before, ok := s.made[key]
	s.made[key] = data
	if ok {
		return len(data) - len(before)
	}
	return len(key) + len(data)
}

// take applies a record of a table, and returns about how many bytes it adds to a transaction. It
// returns 0 if the record is not a row of the partition.
func (s *State) take(at place, r *stream.Record) (bytes int, err error) {
	s.move(at, r.Offset+1)
	spec := &s.specs[at.table]
	if r = s.unwrap(at, r); r == nil {
		return 0, nil
	}
	if r.Key == nil || header.Get(r, header.Cancel) != "" || spec.Written && !s.noting[at.table] && s.wrote(r) || spec.Own && stream.Place(r.Key, s.partitions) != s.id.Index {
		return 0, nil
	}
	if spec.Versions.Kept() {
		s.sweepers[at.table].rows++
		bytes, err = s.add(at.table, r.Key, s.version(at.table, r))
		return max(bytes, 1), err
	}
	s.key = statekey.AppendRow(s.key[:0], s.ids[at.table], r.Key)
	var row []byte
	if len(r.Value) > 0 {
		row = slices.Clone(r.Value)
	}
	s.made[string(s.key)] = row
	return len(s.key) + len(row), nil
}

// move records that a partition of a table was read up to an offset.
func (s *State) move(at place, next stream.Offset) {
	s.next[at], s.moved[at] = next, true
	if !s.specs[at.table].Versions.Kept() {
		s.unsaid[at] = true
	}
}

// wrote reports whether the pipeline wrote a record.
func (s *State) wrote(r *stream.Record) bool {
	for i := range r.Headers {
		if r.Headers[i].Key == header.Pipeline {
			return bytes.HasPrefix(r.Headers[i].Value, s.pipeline)
		}
	}
	return false
}

// note stores the mark of writing for tables that lack it.
func (s *State) note() {
	for table := range s.noting {
		s.made[string(statekey.AppendRead(nil, s.specs[table].writing()))] = []byte{1}
	}
	clear(s.noting)
}

// Put stores a row that the pipeline writes. It ignores keys of other partitions.
func (s *State) Put(table int, key, row []byte) {
	if stream.Place(key, s.partitions) == s.id.Index {
		s.key = statekey.AppendRow(s.key[:0], s.ids[table], key)
		s.made[string(s.key)] = row
	}
}

// Changes calls write with the changes of the partition's state since the last call. write must
// copy values that it keeps. The caller puts them into one transaction with everything that was
// computed from them. The previous transaction must be committed. A nil State has no changes.
func (s *State) Changes(write func(key, data []byte)) {
	if s == nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(s.made)) {
		write([]byte(key), s.made[key])
	}
	s.flying, s.made = s.made, map[string][]byte{}
	var data [8]byte
	for at := range s.moved {
		key := statekey.AppendRead(nil, s.ids[at.table])
		binary.BigEndian.PutUint64(data[:], uint64(s.next[at]))
		write(binary.BigEndian.AppendUint32(key, uint32(at.partition)), data[:])
	}
	clear(s.moved)
}

// Package inspect provides the operations of tools on a log: topics, records, state, lag, dead
// letters and the async queue.
package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/stream"
)

// Directory provides the operations of tools on a data directory. Local works on the log itself.
// The client of package admin works through the process that holds the log.
type Directory interface {
	ingest.Appender

	// CreateTopic creates a topic, as stream.Log describes.
	CreateTopic(ctx context.Context, topic stream.Topic) error

	// DeleteTopic deletes a topic, as stream.Log describes. It returns ErrNamed while a pipeline,
	// table, sink or gateway of the process uses the topic.
	DeleteTopic(ctx context.Context, name string) error

	// List returns the topics, sorted by name.
	List(ctx context.Context) ([]Topic, error)

	// Records yields the records that q selects, partition by partition. If q.Follow is set, it
	// yields them in the order of arrival. It ends after an error.
	Records(ctx context.Context, q Query) iter.Seq2[stream.Record, error]

	// Entries yields the state of a pipeline in the order of partition and key: all entries, or
	// those of one user key. It ends after an error.
	Entries(ctx context.Context, pipeline string, key *string) iter.Seq2[Entry, error]

	// EntriesOf yields the entries of one kind of package statekey, in the same order.
	EntriesOf(ctx context.Context, pipeline string, kind byte) iter.Seq2[Entry, error]

	// Lag returns the lag of a pipeline, or of all pipelines for "", in each partition that it
	// reads, the largest first. For a pipeline that does not run, Lag uses its committed offsets.
	Lag(ctx context.Context, pipeline string) ([]observe.Lag, error)

	// Letters yields the dead letters of a pipeline, as deadletter.Letters does.
	Letters(ctx context.Context, pipeline string, f deadletter.Filter, all bool) iter.Seq2[deadletter.Letter, error]

	// Settle sends the events of dead letters back or drops the dead letters, as deadletter.Settle
	// does.
	Settle(ctx context.Context, job deadletter.Job) iter.Seq2[deadletter.Progress, error]

	// Resume resumes a pipeline that stopped because of its dead letters. Only the process that
	// runs the pipeline can do this.
	Resume(ctx context.Context, pipeline string) error
}

var _ Directory = (*Local)(nil)

// Topic is a topic with the extents of its partitions.
type Topic struct {
	Name       string      `json:"name"`
	Key        string      `json:"key,omitempty"`
	Partitions []Partition `json:"partitions"`
}

// Partition is the extent of a partition: its first retained offset and its next offset to be
// written.
type Partition struct {
	First stream.Offset `json:"first"`
	Next  stream.Offset `json:"next"`
}

// Query selects records of a topic.
type Query struct {
	Topic     string
	Partition int32 // AllPartitions selects all of them
	From      int64 // first offset; -n starts n records before the end
	Limit     int64 // most records; 0 is no limit
	Follow    bool  // wait for new records

	// View reads the topic as generation.ViewOf describes, from its beginning. From must be 0.
	View bool
}

// AllPartitions in a Query selects all partitions of the topic.
const AllPartitions int32 = -1

// Entry is one key of a pipeline's state.
type Entry struct {
	Partition int32  `json:"partition"`
	Kind      string `json:"kind"` // first byte of the stored key
	Key       string `json:"key"`  // the rest of it, in Go's quoted form without the quotes
	Value     []byte `json:"value"`
}

// ErrUnknownPipeline means that no pipeline of that name has state.
var ErrUnknownPipeline = errors.New("unknown pipeline")

// Find returns a topic of d. If it does not exist, the error wraps stream.ErrUnknownTopic and says
// what to do.
func Find(ctx context.Context, d Directory, name string) (Topic, error) {
	topics, err := d.List(ctx)
	if err != nil {
		return Topic{}, err
	}
	names := make([]string, len(topics))
	for i, t := range topics {
		if t.Name == name {
			return t, nil
		}
		names[i] = t.Name
	}
	return Topic{}, fmt.Errorf("topic %q: %w: %s", name, stream.ErrUnknownTopic, ingest.TopicHint(ctx, names))
}

// Stored returns the complete stored key, including the kind.
func (e Entry) Stored() ([]byte, error) {
	rest, err := strconv.Unquote(`"` + e.Key + `"`)
	return append([]byte(e.Kind), rest...), err
}

func newEntry(partition int32, e stream.Entry) Entry {
	entry := Entry{Partition: partition, Value: e.Value}
	if len(e.Key) > 0 {
		quoted := strconv.Quote(string(e.Key[1:]))
		entry.Kind, entry.Key = string(rune(e.Key[0])), quoted[1:len(quoted)-1]
	}
	return entry
}

// AppendEntry appends an entry as one line of JSON, without the newline.
func AppendEntry(dst []byte, e Entry) []byte {
	text, err := json.Marshal(e)
	if err != nil {
		panic("serve: an entry cannot be encoded: " + err.Error()) // plain data can always be encoded
	}
	return append(dst, text...)
}

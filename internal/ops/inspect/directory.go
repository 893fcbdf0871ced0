// Package inspect is what tools read of a log and do with it: topics, records, state, lag, dead letters, the async queue.
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

// Directory is what tools do with a data directory. Local does it with the log, the
// client of package admin through the process that holds it.
type Directory interface {
	ingest.Appender

	// CreateTopic makes a topic, as stream.Log says.
	CreateTopic(ctx context.Context, topic stream.Topic) error

	// DeleteTopic deletes a topic, as stream.Log says. It is refused with ErrNamed
	// while a pipeline, table, sink or gateway of the process names it.
	DeleteTopic(ctx context.Context, name string) error

	// List describes the topics by name.
	List(ctx context.Context) ([]Topic, error)

	// Records yields what q selects: partition by partition, or where it
	// follows as they come. An error ends it.
	Records(ctx context.Context, q Query) iter.Seq2[stream.Record, error]

	// Entries yields the state of a pipeline in the order of partition and
	// key: all of it, or what belongs to one user key. An error ends it.
	Entries(ctx context.Context, pipeline string, key *string) iter.Seq2[Entry, error]

	// EntriesOf yields those of a kind, of package statekey, in the same order.
	EntriesOf(ctx context.Context, pipeline string, kind byte) iter.Seq2[Entry, error]

	// Lag returns how far a pipeline, or with "" every one, is behind in each
	// partition that it reads, the worst first. One that does not run is known
	// by what it committed.
	Lag(ctx context.Context, pipeline string) ([]observe.Lag, error)

	// Letters yields the dead letters of a pipeline, as deadletter.Letters does.
	Letters(ctx context.Context, pipeline string, f deadletter.Filter, all bool) iter.Seq2[deadletter.Letter, error]

	// Settle sends the events of dead letters back, or drops them, as deadletter.Settle
	// does.
	Settle(ctx context.Context, job deadletter.Job) iter.Seq2[deadletter.Progress, error]

	// Resume lets a pipeline go on that stands still for its dead letters. Only
	// the process that runs it can.
	Resume(ctx context.Context, pipeline string) error
}

var _ Directory = (*Local)(nil)

// Topic is a topic and what its partitions hold.
type Topic struct {
	Name       string      `json:"name"`
	Key        string      `json:"key,omitempty"`
	Partitions []Partition `json:"partitions"`
}

// Partition is the first offset that a partition retains, and the next one to
// be written.
type Partition struct {
	First stream.Offset `json:"first"`
	Next  stream.Offset `json:"next"`
}

// Query selects records of a topic.
type Query struct {
	Topic     string
	Partition int32 // AllPartitions takes every one
	From      int64 // offset; below 0 so many before the end
	Limit     int64 // most records; 0 is no limit
	Follow    bool  // wait for more

	// View reads the topic as generation.ViewOf says, from its beginning; From is 0.
	View bool
}

// AllPartitions in a Query stands for every partition of the topic.
const AllPartitions int32 = -1

// Entry is one key of a pipeline's state.
type Entry struct {
	Partition int32  `json:"partition"`
	Kind      string `json:"kind"` // first byte of the stored key
	Key       string `json:"key"`  // its rest, quoted as Go does, without the quotes
	Value     []byte `json:"value"`
}

// ErrUnknownPipeline says that no pipeline of that name has state.
var ErrUnknownPipeline = errors.New("unknown pipeline")

// Find returns a topic of d. One that is not there is a stream.ErrUnknownTopic
// that says what to do.
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

// Stored returns the key as it is stored, kind and all.
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

// AppendEntry appends an entry as one line of JSON, without its end.
func AppendEntry(dst []byte, e Entry) []byte {
	text, err := json.Marshal(e)
	if err != nil {
		panic("serve: an entry cannot be encoded: " + err.Error()) // plain data always can
	}
	return append(dst, text...)
}

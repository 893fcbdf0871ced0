package stream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/afterbay/afterbay/stream"
)

func ExamplePlace() {
	fmt.Println(stream.Partition{Topic: "payments", Index: stream.Place([]byte("card 4711"), 4)})
	// Output: payments/2
}

// brokers is what a pipeline file says of a log on servers: several processes may open it,
// and its settings stand in the URL.
type brokers struct {
	URL   string `field:"url" required:"true" help:"of the servers" example:"toy://host"`
	Topic string `field:"topic" default:"all" help:"prefix of topics" example:"test"`
}

// Check implements stream.Config.
func (b *brokers) Check() []error { return nil }

// Open implements stream.Config.
func (b *brokers) Open(context.Context, stream.Process) (stream.Engine, error) {
	return nil, errors.New("not in an example")
}

// Describe implements stream.Config.
func (b *brokers) Describe() string { return b.URL }

// Shared implements stream.Shared.
func (b *brokers) Shared() {}

// Parse implements stream.Parser.
func (b *brokers) Parse(url string) []error {
	b.URL, b.Topic, _ = strings.Cut(url, "?topic=")
	return nil
}

// A kind of logs on servers.
func ExampleKind() {
	kind := stream.Kind{
		Name: "toy", Help: "a log on servers", URLs: []string{"toy://HOST"}, Example: "toy://host",
		New: func() stream.Config { return &brokers{} },
	}
	config := kind.New()
	_, shared := config.(stream.Shared)
	fmt.Println(shared, config.(stream.Parser).Parse("toy://host?topic=test"), config.Describe())
	// Output: true [] toy://host
}

// slow is a log on servers. It tells what only such logs know.
type slow struct{ stream.Engine }

// StatePartitions implements stream.Sizer.
func (slow) StatePartitions(context.Context, string, string) (int32, error) { return 4, nil }

// Restores implements stream.Restorer.
func (slow) Restores() []stream.Restoring {
	return []stream.Restoring{{Group: "payments", Left: 1000, Rest: time.Minute}}
}

// Standbys implements stream.Follower.
func (slow) Standbys() []stream.Standby { return nil }

// CreateTopic implements stream.Log.
func (slow) CreateTopic(_ context.Context, t stream.Topic) error { return stream.CheckTopic(t) }

// slowMember wants few large commits.
type slowMember struct{ stream.Member }

// Pace implements stream.Pacer.
func (slowMember) Pace() stream.Pace {
	return stream.Pace{Interval: 100 * time.Millisecond, Events: 8192, Bytes: 1 << 20, RecordBytes: 1 << 20}
}

// What a log may implement beside stream.Log.
func ExampleLog() {
	var log stream.Log = slow{}
	n, err := log.(stream.Sizer).StatePartitions(context.Background(), "payments", "events")
	fmt.Println(n, "partitions have state,", err)
	for _, r := range log.(stream.Restorer).Restores() {
		fmt.Println("ready in", r.Rest)
	}
	fmt.Println(len(log.(stream.Follower).Standbys()), "copies")
	err = log.CreateTopic(context.Background(), stream.Topic{Name: "events", Partitions: stream.PartitionsMax + 1})
	fmt.Println(errors.Is(err, stream.ErrTopicInvalid))
	var member stream.Member = slowMember{}
	fmt.Println("a commit each", member.(stream.Pacer).Pace().Interval)
	// Output:
	// 4 partitions have state, <nil>
	// ready in 1m0s
	// 0 copies
	// true
	// a commit each 100ms
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/internal/sys/procfs"
)

const (
	partitions   = 4
	servedWithin = 30 * time.Second
)

// broker is a Kafka broker on this machine.
type broker struct {
	address string
	pid     int // 0 if its CPU time is not counted
	client  *kgo.Client
	admin   *kadm.Client
}

func connect(address string, pid int) (*broker, error) {
	// Linger 0, since latency counts from when an event is due; what is due
	// together goes together.
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(50_000),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.DisableClientMetrics())
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return &broker{address: address, pid: pid, client: client, admin: kadm.NewClient(client)}, nil
}

// createTopic creates a topic and waits until the broker serves it, which is some time after the
// broker confirms it.
func (b *broker) createTopic(ctx context.Context, topic string) error {
	// Results may carry the time of their events, which is long ago: retention
	// would take them at its next look.
	made, err := b.admin.CreateTopics(ctx, partitions, 1, map[string]*string{"retention.ms": kadm.StringPtr("-1")}, topic)
	if err == nil {
		err = made.Error()
	}
	if err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	ctx, cancel := context.WithTimeout(ctx, servedWithin)
	defer cancel()
	for {
		offsets, err := b.admin.ListCommittedOffsets(ctx, topic)
		if err == nil {
			err = offsets.Error()
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for topic %s: %w", topic, err)
		case <-time.After(sampleEvery):
		}
	}
}

// deleteTopics deletes the topics with names that begin with prefix: those of a run and those that
// a system created for itself.
func (b *broker) deleteTopics(ctx context.Context, prefix string) error {
	all, err := b.admin.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	var names []string
	for name := range all {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	if _, err := b.admin.DeleteTopics(ctx, names...); err != nil {
		return fmt.Errorf("delete topics: %w", err)
	}
	return nil
}

// visible returns how far a reader of committed records could read a topic. The
// markers of transactions count.
func (b *broker) visible(ctx context.Context, topic string) (int64, error) {
	offsets, err := b.admin.ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = offsets.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("list offsets: %w", err)
	}
	var n int64
	offsets.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n, nil
}

func (b *broker) cpu() (time.Duration, error) {
	if b.pid == 0 {
		return 0, nil
	}
	return procfs.CPU(b.pid)
}

// reader reads a topic from its beginning, committed records alone.
func (b *broker) reader(topic string) (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(b.address), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.DisableClientMetrics())
}

// answers are the scores that a system wrote, compared with the reference.
type answers struct {
	want                               []float32
	seen                               []bool
	records, found, repeated, differed int
	most                               float64 // difference
}

func newAnswers(want []float32) *answers { return &answers{want: want, seen: make([]bool, len(want))} }

// differenceMax is the largest accepted difference of a score. Exponentials of several libraries
// differ in the last place, and a mean of ten scores propagates that.
const differenceMax = 1e-4

// take takes in one result and returns the number of its event.
func (a *answers) take(value []byte) (int, error) {
	var result struct {
		EventID string `json:"event_id"`
		Score   *float64
	}
	if err := json.Unmarshal(value, &result); err != nil {
		return 0, fmt.Errorf("read result %q: %w", value, err)
	}
	i, err := strconv.Atoi(strings.TrimPrefix(result.EventID, "e"))
	if err != nil || i < 0 || i >= len(a.want) || result.Score == nil {
		return 0, fmt.Errorf("result %q is of no event, or without a score", value)
	}
	a.records++
	if a.seen[i] {
		a.repeated++
	} else {
		a.seen[i] = true
		a.found++
	}
	difference := math.Abs(*result.Score - float64(a.want[i]))
	a.most = max(a.most, difference)
	if !(difference <= differenceMax) {
		a.differed++
	}
	return i, nil
}

// readAll reads all committed results of a topic that nothing writes to any more.
func (b *broker) readAll(ctx context.Context, topic string, want []float32) (*answers, error) {
	reader, err := b.reader(topic)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	a := newAnswers(want)
	for {
		wait, cancel := context.WithTimeout(ctx, quietFor)
		fetches := reader.PollFetches(wait)
		cancel()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if fetches.NumRecords() == 0 {
			return a, nil
		}
		for _, record := range fetches.Records() {
			if _, err := a.take(record.Value); err != nil {
				return nil, err
			}
		}
	}
}

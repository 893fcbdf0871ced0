package sinks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// TestDeliversFromKafkaOnceAcrossProcesses delivers a part of a topic, and the rest
// by another log, which takes over what is remembered from the changelog.
func TestDeliversFromKafkaOnceAcrossProcesses(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	b := &bench{T: t}
	p := stream.Partition{Topic: "freezes"}
	const records = 200
	repeated := uint64(0)
	for process := range 2 {
		log, err := kafka.Open(t.Context(), kafka.Options{Brokers: cluster.ListenAddrs()})
		b.ok(err)
		b.ok(log.CreateTopic(t.Context(), stream.Topic{Name: "freezes", Partitions: 1}))
		var list []stream.Record
		for i := range records {
			id := fmt.Sprint("e", process*records/2+i) // half of them are those of before
			list = append(list, stream.Record{Partition: p, Key: fmt.Appendf(nil, "k%d", i%10), Value: []byte("{}"), Headers: []stream.Header{{Key: header.ID, Value: []byte(id)}}})
		}
		b.ok(log.Append(t.Context(), list...))
		b.service.answer = func(id string, _ int) error {
			if id == "e7" {
				return &sink.Refused{Err: errors.New("seven")}
			}
			return nil
		}
		metrics, stop := b.start(log, sinks.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		_, next, err := log.Offsets(ctx, p)
		b.ok(err)
		ticker := time.NewTicker(10 * time.Millisecond)
		for committed := stream.Offset(0); committed < next; <-ticker.C {
			committed, err = log.Committed(ctx, group, p)
			b.ok(err)
		}
		ticker.Stop()
		cancel()
		stop()
		repeated += metrics.Repeated.Load()
		r, found, err := log.Peek(t.Context(), stream.Partition{Topic: sinks.DeadTopic(group)}, 0)
		if b.ok(err); !found || header.Get(&r, header.Event) != "e7" {
			t.Errorf("the dead letter is %+v", r)
		}
		b.ok(log.Close())
	}
	b.once(records * 3 / 2)
	if repeated != records/2 {
		t.Errorf("%d left out, want %d", repeated, records/2)
	}
}

// TestObjectsOfATopicOnKafkaHaveEachRecordOnce keeps a part of a topic, and the rest
// by another log, which makes the object that the first one could not. Offsets have
// gaps there, of transactions.
func TestObjectsOfATopicOnKafkaHaveEachRecordOnce(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	s := &shelf{bench: &bench{T: t}}
	p := stream.Partition{Topic: "freezes"}
	const records = 200
	for process := range 2 {
		log, err := kafka.Open(t.Context(), kafka.Options{Brokers: cluster.ListenAddrs()})
		s.ok(err)
		s.inspector = log
		s.ok(log.CreateTopic(t.Context(), stream.Topic{Name: "freezes", Partitions: 1}))
		for i := range records / 10 {
			var list []stream.Record
			for k := range 10 {
				list = append(list, stream.Record{Partition: p, Value: []byte("{}"), Headers: []stream.Header{{Key: header.ID, Value: fmt.Appendf(nil, "e%d", (process*records/10+i)*10+k)}}})
			}
			_, err := log.AppendOnce(t.Context(), "writer", int64((process*records/10+i)*10+1), list...)
			s.ok(err)
		}
		const away = 90 // the object with it cannot be made by the first process
		s.fails = func(o sink.Object, _ int) (before, after error) {
			if process == 0 && o.From <= away && away < o.To {
				return errors.New("away"), nil
			}
			return nil, nil
		}
		s.form = fmt.Sprint(process)
		metrics, stop := s.startTo(sink.Service{Whole: s}, log, sinks.Options{Objects: sink.Bounds{Rows: 30 + 20*process}, Hurry: func() bool { return true }})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		_, next, err := log.Offsets(ctx, p)
		s.ok(err)
		ticker := time.NewTicker(10 * time.Millisecond)
		for committed := stream.Offset(0); process == 0 && metrics.Failures.Load() == 0 || process == 1 && committed < next-1; <-ticker.C {
			committed, err = log.Committed(ctx, group, p)
			s.ok(err)
		}
		ticker.Stop()
		cancel()
		stop()
		s.ok(log.Close())
	}
	ids := s.ids()
	if n := len(slices.Compact(slices.Clone(ids))); n != 2*records || len(ids) != n {
		t.Errorf("%d records are kept, %d of them different: want %d", len(ids), n, 2*records)
	}
	if names := s.names(); len(names) < 6 || !slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, " 0;") && strings.HasSuffix(n, " 30") }) {
		t.Errorf("objects %q", names)
	}
}

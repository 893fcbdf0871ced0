package e2e_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// wantCreated compares what CreateTopics returns with a part of the error; "" is none.
func wantCreated(t *testing.T, log stream.Log, p lang.Pipeline, outgrown bool, want string) *pipeline.Runner {
	t.Helper()
	runner, err := builtin.New(p, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = runner.CreateTopics(t.Context(), log)
	if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || pipeline.Outgrown(err) != outgrown) {
		t.Errorf("%v, want %q, outgrown %t", err, want, outgrown)
	}
	return runner
}

// ran returns a log on which p has run for one event.
func ran(t *testing.T, p lang.Pipeline) *memory.Log {
	t.Helper()
	log := memory.New(memory.Options{})
	t.Cleanup(func() { _ = log.Close() })
	runner := wantCreated(t, log, p, false, "")
	if err := log.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: "in"}, Value: []byte(`{"k":"ann"}`), Key: []byte("ann")}); err != nil {
		t.Fatal(err)
	}
	runUntilIdle(t, runner, log)
	return log
}

// again deletes a topic and creates it with another number of partitions.
func again(t *testing.T, log stream.Log, name string, partitions int32) {
	t.Helper()
	if err := errors.Join(log.DeleteTopic(t.Context(), name), log.CreateTopic(t.Context(), stream.Topic{Name: name, Partitions: partitions})); err != nil {
		t.Fatal(err)
	}
}

func TestFewerPartitionsThanThePipelineBeganWithAreRefused(t *testing.T) {
	p := sunkPipeline()
	p.Input.Repartition = 4
	log := ran(t, p)
	p.Input.Repartition = 2
	wantCreated(t, log, p, false, `has 4 partitions: set repartition: 4, or`)
	p.Input.Repartition = 0 // its topic has 1
	wantCreated(t, log, p, false, "its topic needs 1 partitions")
}

func TestOutputsMayGetMorePartitions(t *testing.T) {
	for _, repartition := range []int32{0, 1} {
		p := sunkPipeline()
		p.Input.Repartition = repartition
		log := ran(t, p)
		again(t, log, "out", 2)
		wantCreated(t, log, p, false, "")
		if repartition > 0 { // the topic where inputs meet is none of them
			again(t, log, "copy.repartition", 2)
			wantCreated(t, log, p, false, `"copy.repartition" has 2 partitions: set repartition: 2, or`)
		}
	}
}

func TestPartitionsOfTheStateAreNotThoseOfATopicMadeInAdvance(t *testing.T) {
	log := memory.New(memory.Options{})
	defer log.Close()
	for name, partitions := range map[string]int32{"in": 6, "copy.dlq": 1} {
		if err := log.CreateTopic(t.Context(), stream.Topic{Name: name, Partitions: partitions}); err != nil {
			t.Fatal(err)
		}
	}
	p := sunkPipeline()
	p.Input.Partitions = 0
	wantCreated(t, log, p, false, "its topic needs 6 partitions")
}

// delivers runs the sink of a pipeline until it is done, and returns how many records it got.
func delivers(t *testing.T, log stream.Log, name string) (records int, err error) {
	t.Helper()
	to, done := &taker{taken: make(chan string, 10)}, make(chan error, 1)
	runner := wantCreated(t, log, sunkPipeline(lang.Sink{From: "out", Name: name, Config: to}), false, "")
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer stop()
		done <- runner.Deliver(ctx, log)
	}()
	waited := runner.WaitDelivered(ctx, log)
	time.Sleep(50 * time.Millisecond) // a sink without records begins, or says why not
	stop()
	if err = <-done; err == nil {
		err = waited
	}
	return len(to.taken), err
}

func TestSinkOfANewNameReadsATopicThatGrew(t *testing.T) {
	log := ran(t, sunkPipeline())
	wants := func(name string, want int) {
		t.Helper()
		if n, err := delivers(t, log, name); err != nil || n != want {
			t.Errorf("sink %s: %d records, want %d, error %v", name, n, want, err)
		}
	}
	wants("a", 1)
	again(t, log, "out", 2)
	for i := range int32(2) {
		if err := log.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: "out", Index: i}, Value: []byte(`{"k":"bob"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := delivers(t, log, "a"); !pipeline.Outgrown(err) {
		t.Error(err)
	}
	wants("b", 2)
	wants("b", 0) // after a restart
	again(t, log, "copy.b.dlq", 4)
	wants("b", 0)
}

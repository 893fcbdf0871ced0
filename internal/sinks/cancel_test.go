package sinks_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// TestCancelsAreNotDelivered has the cancels of a gateway's clients between the records of
// a topic, behind them, and alone in a partition. The offsets move over them.
func TestCancelsAreNotDelivered(t *testing.T) {
	for _, kind := range []string{"each", "many", "whole"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				cancel := func(partition int32) {
					b.ok(b.log.Append(t.Context(), stream.Record{
						Partition: stream.Partition{Topic: "freezes", Index: partition}, Key: []byte("k"), Time: time.Now(),
						Headers: []stream.Header{{Key: header.ID, Value: []byte("e0/cancel")}, {Key: header.Cancel, Value: []byte("e0")}},
					}))
				}
				cancel(0)
				b.write(0, "k", "e0", time.Now())
				cancel(0)
				b.write(0, "k", "e1", time.Now())
				cancel(0)
				cancel(1)
				database, shelf := &database{takes: time.Millisecond}, &shelf{bench: b}
				to := map[string]sink.Service{"each": {Each: &b.service}, "many": {Many: database}, "whole": {Whole: shelf}}[kind]
				options := sinks.Options{}
				if kind == "whole" {
					options.Objects.Wait = time.Second
				}
				metrics, stop := b.startTo(to, b.log, options)
				b.wait(time.Minute)
				cancel(0) // while nothing else is there
				b.wait(time.Minute)
				b.write(0, "k", "e2", time.Now())
				b.wait(time.Minute)
				stop()
				got := b.service.taken
				for _, ids := range database.writes {
					got = append(got, ids...)
				}
				for _, ids := range shelf.objects {
					got = append(got, ids...)
				}
				slices.Sort(got)
				if diff := cmp.Diff([]string{"e0", "e1", "e2"}, got); diff != "" {
					t.Error(diff)
				}
				if n := metrics.Delivered.Load(); n != 3 || metrics.Refused.Load() != 0 {
					t.Errorf("%d delivered, %d refused", n, metrics.Refused.Load())
				}
			})
		})
	}
}

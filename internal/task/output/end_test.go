package output_test

import (
	"testing"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/output"
	"github.com/afterbay/afterbay/stream"
)

// BenchmarkEnd is what the end of an event costs that left no record.
func BenchmarkEnd(b *testing.B) {
	client := []stream.Header{
		{Key: header.ID, Value: []byte("acme/c1/e1")}, {Key: header.ClientEvent, Value: []byte("acme/c1/e1")}, {Key: header.Correlation, Value: []byte("order 1")},
	}
	for name, headers := range map[string][]stream.Header{"of nobody": nil, "of a client": client} {
		b.Run(name, func(b *testing.B) {
			w := output.NewWriter(&output.Form{Pipeline: "support", DeadTopic: "support.dlq", Ends: output.Ends{Topic: "support.ended", Answers: []string{"out"}}})
			e := output.Event{
				Event:  operator.Event{Record: &stream.Record{Partition: stream.Partition{Topic: "in"}, Headers: headers}},
				Origin: &output.Origin{Provenance: []byte("support sha256:01 1")},
			}
			b.ReportAllocs()
			for b.Loop() {
				w.End(&e, 0, false)
				if ended := len(w.Outputs) > 0; ended != (headers != nil) {
					b.Fatalf("ended is %v", ended)
				}
				w = w.Reset()
			}
		})
	}
}

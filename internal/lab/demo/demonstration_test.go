package demo

import (
	"testing"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/sys/term"
	"github.com/afterbay/afterbay/stream"
)

func TestDemoWouldSeeARepeatedOrMissingDecision(t *testing.T) {
	log := memory.New(memory.Options{})
	defer log.Close()
	for topic, ids := range map[string][]string{"decisions": {"a", "b", "a", "c"}, "dlq": {"a", "d"}} {
		if err := log.CreateTopic(t.Context(), stream.Topic{Name: topic, Partitions: 2}); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			headers := []stream.Header{{Key: header.ID, Value: []byte(id)}, {Key: header.Stage, Value: []byte("decode")}}
			record := stream.Record{Partition: stream.Partition{Topic: topic, Index: stream.ByKey}, Key: []byte(id), Value: []byte(`{"action":"allow"}`), Headers: headers}
			if err := log.Append(t.Context(), record); err != nil {
				t.Fatal(err)
			}
		}
	}
	found, err := countOutputs(t.Context(), &inspect.Local{Log: log}, []string{"decisions", "dlq"})
	if err != nil || found.records != 6 || found.repeated != 1 || term.Counts(found.decisions) != "allow 4" || term.Counts(found.dead) != "decode 2" {
		t.Errorf("%+v, %v", found, err)
	}
}

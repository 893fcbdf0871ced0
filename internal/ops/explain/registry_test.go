package explain_test

import (
	"encoding/binary"
	"testing"

	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/ops/explain"
)

// TestReplayReadsEventsOfARegistry explains outputs of events that begin with the id of their schema.
func TestReplayReadsEventsOfARegistry(t *testing.T) {
	server := srfake.New()
	defer server.Close()
	id, _, err := server.RegisterSchema("payments-value", sr.Schema{Schema: `{"type":"object"}`, Type: sr.TypeJSON})
	if err != nil {
		t.Fatal(err)
	}
	p := everything()
	p.Input.Format.Name, p.Registry.URL = lang.FormatRegistry, server.URL()
	events := payments(300)
	for i := range events {
		events[i].Value = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(id)), events[i].Value...)
	}
	log, d := newLog(t)
	computed(t, log, []lang.Pipeline{p}, events)
	all := stored(t, d, "scores")
	if len(all) < 100 {
		t.Fatalf("%d scores", len(all))
	}
	for i := 0; i < len(all); i += 50 {
		report, err := explain.Explain(t.Context(), header.Get(&all[i], header.ID), explain.Options{Directory: d, Pipelines: []lang.Pipeline{p}})
		if err != nil {
			t.Fatal(err)
		}
		if replay := report.Replays[0]; !replay.Same || replay.Why != nil {
			t.Errorf("%s: %+v", all[i].Value, replay)
		}
	}
}

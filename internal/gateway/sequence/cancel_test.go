package sequence_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/gateway/sequence"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
)

// TestEventsThatAreGivenUpEndAtOnce cancels events in each state.
func TestEventsThatAreGivenUpEndAtOnce(t *testing.T) {
	for _, field := range []string{"", "room"} {
		synctest.Test(t, func(t *testing.T) {
			l := memory.New(memory.Options{})
			b := newBench(t, l, sequence.Limits{})
			if field != "" { // the input of the pipeline is keyed by it
				b.ok(l.CreateTopic(b.ctx(), stream.Topic{Name: "events", Partitions: 2, Key: field}))
			}
			stop := b.start(l)
			running := said("running", 0)
			running.Payload = []byte(`{"room":"lobby"}`)
			done := said("done", 0)
			b.send(running, done, said("held", 2))
			time.Sleep(time.Second)
			write := b.writes(l)
			write("decisions", "done", `1`)
			for _, id := range []string{"running", "done", "held", "unknown", "running"} {
				b.ok(l.Append(b.ctx(), wire.CancelRecord(sequence.Inbox(name), "acme", "c1", id, "")))
				time.Sleep(time.Second)
			}
			write("decisions", "running", `2`) // too late
			b.sequenced()
			stop()
			b.want("1 done ok", "2 running rejected cancelled", "3 held rejected cancelled", "4 unknown error unknown_event")
			notices := 0
			for _, list := range b.read("events") {
				event := ""
				for _, r := range list {
					if id := header.Get(&r, header.ClientEvent); id == "acme/c1/running" {
						event = string(r.Key)
					}
					if cancelled := header.Get(&r, header.Cancel); cancelled != "" {
						if notices++; cancelled != "acme/c1/running" || event == "" || string(r.Key) != event || len(r.Value) > 0 {
							t.Errorf("%q by key %q, behind an event of key %q", cancelled, r.Key, event)
						}
					}
				}
			}
			if notices != 1 {
				t.Errorf("the pipeline is told %d times", notices)
			}
			b.ok(l.Close())
		})
	}
}

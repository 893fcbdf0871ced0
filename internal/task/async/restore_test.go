package async

import (
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// queued is a state with one entry.
type queued struct{ key, data []byte }

func (q queued) Get([]byte) ([]byte, error) { return q.data, nil }

func (q queued) Scan(prefix []byte) iter.Seq2[stream.Entry, error] {
	return func(yield func(stream.Entry, error) bool) {
		if strings.HasPrefix(string(q.key), string(prefix)) {
			yield(stream.Entry{Key: q.key, Value: q.data}, nil)
		}
	}
}

// TestQueuedEventsFindTheirStepByItsLabel restores an event of the step `score tone`.
func TestQueuedEventsFindTheirStepByItsLabel(t *testing.T) {
	a := stream.Assigned{Partition: stream.Partition{Topic: "in"}, State: queued{statekey.AppendQueued(nil, 7), (&Entry{Step: "score tone"}).Append(nil)}}
	restore := func(other string, labels ...string) (*Dispatcher, *Partition, error) {
		d := NewDispatcher(Plan{
			Pipeline: "chat", Stages: make([]operator.Placed, len(labels)), Labels: labels, Schema: &value.Schema{}, Queues: true,
			Commands: &Commands{}, Tenants: &Tenants{}, Fairness: operator.Fairness{},
		}, func() {}, nil)
		t.Cleanup(d.Close)
		p, err := d.Restore(a, other)
		return d, p, err
	}
	for _, labels := range [][]string{{"score tone"}, {"let a", "score tone", "emit out"}, {"let a", "features b", "score tone"}} {
		d, p, err := restore("", labels...)
		if err != nil {
			t.Fatal(err)
		}
		if w := p.Get(7); w == nil || labels[w.Stage] != "score tone" {
			t.Errorf("%v: %+v", labels, w)
		}
		if task, err := d.load(p, p.Get(7)); err != nil || labels[task.Entry.Stage] != "score tone" {
			t.Errorf("%v: stage %+v, %v", labels, task.Entry, err)
		}
	}
	var unknown *ErrUnknownStep
	if _, _, err := restore("", "let a", "score mood"); !errors.As(err, &unknown) || !strings.Contains(err.Error(), "the event in/0@7 of pipeline \"chat\" was queued for the step `score tone`, which the pipeline does not have: run") {
		t.Error(err)
	}
	var queued *ErrQueued
	if _, _, err := restore("by another version: run that", "score tone"); !errors.As(err, &queued) || !strings.Contains(err.Error(), "were queued by another version: run that until `afterbay queue ls` shows none") {
		t.Error(err)
	}
}

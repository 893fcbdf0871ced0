package kafka

import (
	"math"
	"testing"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// A coordinator that has not read its log says for a while that a producer committed no
// number. Records that it appended are not appended again.
func TestNumberThatABrokerForgotForAMomentIsAskedForAgain(t *testing.T) {
	for _, test := range []struct {
		name    string
		another bool  // the records come to another process
		forgets int32 // so many answers say that there is none
	}{
		{"to another process", true, 2},
		{"to the same process", false, 2},
		{"to the same process, which knows it", false, math.MaxInt32},
	} {
		t.Run(test.name, func(t *testing.T) {
			cluster := fakeWith(t)
			o := conforming(cluster.ListenAddrs())
			if test.forgets < math.MaxInt32 {
				o.Timeouts.Rebalance = time.Minute
			}
			l := open(t, o)
			records := []stream.Record{{Partition: in, Value: []byte("a")}, {Partition: in, Value: []byte("b")}}
			if repeated, err := l.AppendOnce(t.Context(), "p", 1, records...); err != nil || repeated != 0 {
				t.Fatalf("%d repeated, %v", repeated, err)
			}
			if test.another {
				l = openAt(t, o).(*Log)
				t.Cleanup(func() { closeLog(t, l) })
			} else {
				l.producers.byName["p"].drop() // as after a failed append
			}
			answers := forgetOffsets(cluster, test.forgets)
			repeated, err := l.AppendOnce(t.Context(), "p", 1, records...)
			if err != nil || repeated != len(records) || answers.Load() <= min(test.forgets, 2) {
				t.Errorf("%d of %d records repeated after %d answers, %v", repeated, len(records), answers.Load(), err)
			}
			if repeated, err = l.AppendOnce(t.Context(), "p", 3, records...); err != nil || repeated != 0 {
				t.Errorf("%d of the next records repeated, %v", repeated, err)
			}
		})
	}
}

// A producer whose owner before committed nothing begins with its first number.
func TestProducerWhoseOwnerCommittedNothingBegins(t *testing.T) {
	l := open(t, conforming(fake(t)))
	for _, epoch := range []int16{0, 1} {
		p := &producer{id: producerPrefix + "q", highest: -1}
		if err := p.open(t.Context(), l); err != nil || p.highest != 0 {
			t.Fatalf("it begins behind %d, %v", p.highest, err)
		}
		if _, got, err := p.client.ProducerID(t.Context()); err != nil || got != epoch {
			t.Errorf("epoch %d, %v, want %d", got, err, epoch)
		}
		p.drop()
	}
}

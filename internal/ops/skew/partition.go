package skew

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/check/dryrun"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/state/order"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// ofPartitions returns the kinds of state that a group keeps of a partition and of no key, as far as
// the records of the log decide them. All of it is compared, whatever the sample.
func (s *check) ofPartitions(group string) []byte {
	plan := s.rows.Runner().Plan
	switch {
	case s.unlike: // a replay numbers events in another way
	case naming.IsRepartitioner(group):
		return []byte{statekey.ID, statekey.Watermark}
	case group != plan.Name: // a stage: marks decide how many turns it has had
	case plan.Sources != nil:
		return []byte{statekey.Released}
	case plan.Time.Idle == 0: // else a clock moves time on
		return []byte{statekey.ID, statekey.Watermark}
	}
	return nil
}

// findUnlike finds whether a replay numbers events in another way than the live pipeline did.
func (s *check) findUnlike() {
	if slices.ContainsFunc(s.rows.Sources, func(p dryrun.Source) bool { return p.First > 0 }) {
		s.unlike = true
		s.result.Notes = append(s.result.Notes, "ids of events and newest times of partitions were not compared: the log no longer has the first events")
	}
	s.unlike = s.unlike || len(s.settled) > 0
}

// repartitioners compares what is kept beside the sources of events that are copied.
func (s *check) repartitioners(again inspect.Directory) (list []found, err error) {
	for _, read := range s.rows.Runner().CopyReads() {
		of, err := (&states{check: s, read: read, described: map[place]bool{}}).all(again)
		if err != nil {
			return nil, err
		}
		list = append(list, of...)
	}
	return list, nil
}

// ofPartition is a difference of what is kept of a partition.
func (c *states) ofPartition(at place, d Difference) []found {
	d.Key = stream.Partition{Topic: c.read.Topic, Index: at.partition}.String()
	return []found{c.ofKey(d)}
}

// decided returns what of the value of an entry the log decides. Of statekey.Released that is how many
// events had their turn, and the place of the newest one: the rest depends on the marks that were read.
func decided(kind byte, value []byte) []byte {
	if kind != statekey.Released {
		return bytes.Clone(value)
	}
	state := memory.State{string(kind): value}
	next, err := order.Committed(state)
	newest, err1 := order.Released(state)
	if err = cmp.Or(err, err1); err != nil {
		return []byte(err.Error())
	}
	return fmt.Appendf(nil, "%d events, the newest at %v", next, newest)
}

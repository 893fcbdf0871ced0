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

// ofPartitions returns the kinds of a group's state that belong to a partition rather than a key.
// It returns only kinds that the records of the log determine. All of that state is compared,
// independent of the sample.
func (s *check) ofPartitions(group string) []byte {
	plan := s.rows.Runner().Plan
	switch {
	case s.unlike: // the replay numbers events differently
	case naming.IsRepartitioner(group):
		return []byte{statekey.ID, statekey.Watermark}
	case group != plan.Name: // a stage: watermark broadcasts determine how many turns it has had
	case plan.Sources != nil:
		return []byte{statekey.Released}
	case plan.Time.Idle == 0: // otherwise a clock advances the watermark
		return []byte{statekey.ID, statekey.Watermark}
	}
	return nil
}

// findUnlike determines whether the replay numbers events differently than the live pipeline did.
func (s *check) findUnlike() {
	if slices.ContainsFunc(s.rows.Sources, func(p dryrun.Source) bool { return p.First > 0 }) {
		s.unlike = true
		s.result.Notes = append(s.result.Notes, "ids of events and newest times of partitions were not compared: the log no longer has the first events")
	}
	s.unlike = s.unlike || len(s.settled) > 0
}

// repartitioners compares the state beside the source partitions of repartitioned events.
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

// ofPartition returns a difference in the state of a partition.
func (c *states) ofPartition(at place, d Difference) []found {
	d.Key = stream.Partition{Topic: c.read.Topic, Index: at.partition}.String()
	return []found{c.ofKey(d)}
}

// decided returns the part of an entry's value that the log determines. For statekey.Released this
// is the number of events that had their turn and the position of the newest one. The rest depends
// on which watermark broadcasts were read.
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

package skew

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/ops/report"
	"github.com/afterbay/afterbay/internal/state/statekey"
)

// place is an entry of the state: its partition and its key.
type place struct {
	partition int32
	stored    string
}

// state compares the entries of the sample.
func (s *check) state(again inspect.Directory) (list []found, err error) {
	live, err := s.entries(s.live)
	if err != nil {
		return nil, err
	}
	computed, err := s.entries(again)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(computed)
	maps.Copy(all, live)
	described := map[string]bool{}
	for _, at := range slices.SortedFunc(maps.Keys(all), func(a, b place) int {
		if a.partition != b.partition {
			return int(a.partition - b.partition)
		}
		return bytes.Compare([]byte(a.stored), []byte(b.stored))
	}) {
		s.result.Entries++
		a, inLive := live[at]
		b, inAgain := computed[at]
		if inLive == inAgain && bytes.Equal(a, b) {
			continue
		}
		key, _ := userKey([]byte(at.stored))
		if !described[string(key)] {
			described[string(key)] = true
			if features := s.features(at.partition, string(key), live, computed); len(features) > 0 {
				list = append(list, features...)
				continue
			}
		}
		d := Difference{Key: string(key), Step: "state", Name: report.Held(at.stored[0]), Live: shown(a, inLive, b), Recomputed: shown(b, inAgain, a)}
		if at.stored[0] == statekey.Row {
			d.Step, d.Name = "lookup", tableOf([]byte(at.stored))
		}
		list = append(list, s.ofKey(d))
	}
	return list, nil
}

// ofKey says which event of its key is the newest.
func (s *check) ofKey(d Difference) found {
	if newest := s.newest[d.Key]; newest != nil {
		d.Event = newest.position
	}
	return found{math.MaxInt64, d}
}

// features compares the features of a key, as of its newest event.
func (s *check) features(partition int32, key string, live, computed map[place][]byte) (list []found) {
	plan := s.rows.Runner().Plan
	a, _, err := plan.Describe(key, func(stored []byte) ([]byte, error) { return live[place{partition, string(stored)}], nil })
	b, _, err1 := plan.Describe(key, func(stored []byte) ([]byte, error) { return computed[place{partition, string(stored)}], nil })
	if err != nil || err1 != nil || len(a) != len(b) {
		return nil // the entries say it
	}
	for i := range a {
		if math.Float64bits(a[i].Value) != math.Float64bits(b[i].Value) {
			text := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
			list = append(list, s.ofKey(Difference{Key: key, Step: "features", Name: a[i].Name, Live: text(a[i].Value), Recomputed: text(b[i].Value)}))
		}
	}
	return list
}

// entries returns the entries of the sample.
func (s *check) entries(d inspect.Directory) (map[place][]byte, error) {
	list := map[place][]byte{}
	for e, err := range d.Entries(s.ctx, s.result.Pipeline, nil) {
		if err != nil {
			return nil, err
		}
		stored, err := e.Stored()
		if err != nil {
			return nil, err
		}
		if key, ok := userKey(stored); ok && s.sampled(key) {
			list[place{e.Partition, string(stored)}] = bytes.Clone(e.Value)
		}
	}
	return list, nil
}

// userKey returns what an entry is of: the key of events, or that of a row of a table. ok is
// false for other entries.
func userKey(stored []byte) (key []byte, ok bool) {
	if len(stored) == 0 {
		return nil, false
	}
	switch stored[0] {
	case statekey.Header(0)[0], statekey.Header(1)[0]:
		return stored[1:], true
	case 'E', 'L', statekey.Call:
		return statekey.CallKey(stored)
	case statekey.Row:
		table, n := binary.Uvarint(stored[1:])
		if n <= 0 || table > uint64(len(stored)-1-n) {
			return nil, false
		}
		return stored[1+n+int(table):], true
	case statekey.Group:
		_, key, _, ok = statekey.GroupOf(stored)
		return key, ok
	}
	return nil, false
}

// tableOf returns the table of an entry that is a row.
func tableOf(stored []byte) string {
	size, n := binary.Uvarint(stored[1:])
	return string(stored[1+n:][:size])
}

// shown returns a value beside another one: from a few bytes before the first that differs.
func shown(value []byte, there bool, other []byte) string {
	if !there {
		return none
	}
	at := 0
	for at < min(len(value), len(other)) && value[at] == other[at] {
		at++
	}
	from, to := max(0, at-32), min(len(value), at+32)
	return fmt.Sprintf("%d bytes, byte %d: %q", len(value), at, value[from:to])
}

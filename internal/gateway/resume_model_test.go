package gateway_test

import "fmt"

// published is a result of a client in the log; its seq is its place, from 1.
type published struct {
	event  string
	offset int64
}

// seqAt returns the seq of the first result at an offset or behind it.
func seqAt(results []published, offset int64) int {
	for i := range results {
		if results[i].offset >= offset {
			return i + 1
		}
	}
	return len(results) + 1
}

// talk is what a client heard over one connection, and what it asked for. It imports
// nothing of what it judges: places are offsets in the partition of its results.
type talk struct {
	client      string
	latest      bool  // it asked for what comes,
	earliest    bool  // or for all that is retained,
	after       int64 // or for all behind this
	otherEpoch  bool  // its place is in a log that was lost
	first       int64 // the first retained record when it connected
	least, most int   // how many results there were before and after it connected

	connected int64 // the place that the gateway says it goes on behind
	recovered bool
	heard     []heard
	open      bool // until all was quiet
}

// heard is a result, or a gap up to a place.
type heard struct {
	gap    bool
	to     int64 // of a gap
	seq    int   // of a result,
	event  string
	cursor int64 // and its place
	first  int64 // the first retained record when it came
}

// check returns how the connection was not as it is promised: each result behind the
// place that was asked for once, in order, from the log and then as they come; where
// some are not there any more, and only there, a gap; at the end nothing is missing.
func (k *talk) check(results []published) error {
	next, at, err := k.begin(results)
	if err != nil {
		return err
	}
	for i, h := range k.heard {
		switch {
		case h.gap && (h.to > h.first || h.to <= at && (i > 0 || !k.otherEpoch)):
			return fmt.Errorf("%d: a gap from %d to %d, but the log began at %d", i, at, h.to, h.first)
		case h.gap:
			next, at = seqAt(results, h.to), h.to
			continue
		case i == 0 && !k.recovered:
			return fmt.Errorf("not recovered, but there is no gap before result %d", h.seq)
		case next == 0 && (h.seq <= k.least || h.seq > k.most+1):
			return fmt.Errorf("%d: result %d, when there were %d to %d", i, h.seq, k.least, k.most)
		case next != 0 && h.seq != next:
			return fmt.Errorf("%d: result %d, want %d", i, h.seq, next)
		case h.seq > len(results) || results[h.seq-1] != published{h.event, h.cursor}:
			return fmt.Errorf("%d: result %d of %s at %d is not in the log", i, h.seq, h.event, h.cursor)
		}
		next, at = h.seq+1, h.cursor+1
	}
	switch {
	case !k.open:
	case !k.recovered && len(k.heard) == 0:
		return fmt.Errorf("not recovered, but there is no gap")
	case next == 0 && len(results) > k.most:
		return fmt.Errorf("no result of %d, after %d when it connected", len(results), k.most)
	case next != 0 && next != len(results)+1:
		return fmt.Errorf("result %d is the next one, but there are %d", next, len(results))
	}
	return nil
}

// begin returns the seq of the result that is to come first, 0 where that may be one
// of several, and the place behind which it is.
func (k *talk) begin(results []published) (next int, at int64, err error) {
	switch {
	case k.latest:
		return 0, k.connected + 1, nil
	case k.otherEpoch && k.recovered:
		return 0, 0, fmt.Errorf("recovered, from a log that was lost")
	case k.earliest || k.otherEpoch:
		if k.connected+1 != k.first {
			return 0, 0, fmt.Errorf("connected behind %d, the log began at %d", k.connected, k.first)
		}
		return seqAt(results, k.first), k.first, nil
	case k.recovered && k.connected != k.after:
		return 0, 0, fmt.Errorf("connected behind %d, want %d", k.connected, k.after)
	case !k.recovered && k.first <= k.after+1:
		return 0, 0, fmt.Errorf("not recovered behind %d, but the log began at %d", k.after, k.first)
	}
	return seqAt(results, k.after+1), k.after + 1, nil
}

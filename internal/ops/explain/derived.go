package explain

import (
	"context"

	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/state/generation"
)

// derived maps topics to outputs: each topic receives the records that a generation writes instead
// of to that output. Its records have the same ids as the live ones.
type derived map[string]string

// readDerived finds the topics of the generations in a directory.
func readDerived(ctx context.Context, d inspect.Directory, topics []inspect.Topic) (derived, error) {
	found := derived{}
	for _, t := range topics {
		if _, ok := naming.Owner(t.Name, naming.Generations); !ok {
			continue
		}
		for r, err := range d.Records(ctx, inspect.Query{Topic: t.Name, Partition: inspect.AllPartitions}) {
			if err != nil {
				return nil, err
			}
			begun, _, err := generation.Parse(&r)
			if err != nil {
				return nil, err
			}
			if begun == nil {
				continue
			}
			for _, output := range begun.Outputs {
				found[begun.TopicOf(output)] = output
			}
		}
	}
	return found, nil
}

// has reports whether a record is of a reprocessed generation rather than the live one.
func (d derived) has(r *Record) bool {
	_, ok := d[r.stored.Partition.Topic]
	return ok
}

// output returns the output that a topic stands for, or the topic itself.
func (d derived) output(topic string) string {
	if output, ok := d[topic]; ok {
		return output
	}
	return topic
}

// rank orders records with one id. Outputs come before records that only have the id of their
// event. Records of the live generation come before reprocessed ones.
func (d derived) rank(r *Record) int {
	n := 2 * rank(r)
	if d.has(r) {
		n++
	}
	return n
}

// madeBy returns the records to compare a replay with. These are the records of its pipeline's
// digest or, if there are no such records, those of the live generation.
func (d derived) madeBy(list []*Record, digest string) []*Record {
	var same, live []*Record
	for _, r := range list {
		if r.Made != nil && r.Made.Digest == digest && digest != "" {
			same = append(same, r)
		}
		if !d.has(r) {
			live = append(live, r)
		}
	}
	if same != nil {
		return same
	}
	return live
}

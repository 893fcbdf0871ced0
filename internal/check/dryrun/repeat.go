package dryrun

import (
	"context"
	"iter"
	"slices"

	"github.com/afterbay/afterbay/stream"
)

// repeatBatch is the number of records that repeat appends at once.
const repeatBatch = 500

// repeat appends records of a topic to another topic, sorted by time, because a pipeline reads all
// partitions concurrently.
func (r *dryRun) repeat(ctx context.Context, records iter.Seq2[stream.Record, error], topic string) error {
	to, err := r.input(ctx, topic)
	if err != nil {
		return err
	}
	var all []stream.Record
	for record, err := range records {
		if err != nil {
			return err
		}
		record.Partition = stream.Partition{Topic: to.Name, Index: stream.ByKey}
		all = append(all, record)
	}
	slices.SortStableFunc(all, func(a, b stream.Record) int { return a.Time.Compare(b.Time) })
	for batch := range slices.Chunk(all, repeatBatch) {
		if err := r.play(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

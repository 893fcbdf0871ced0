package inspect

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// Newest limits how much of a topic is read.
type Newest struct {
	Records int64
	Bytes   int           // total size of keys and values
	Within  time.Duration // longest time to read
}

// Sample is how much afterbay init and try read of a topic.
var Sample = Newest{Records: 10_000, Bytes: 16 << 20, Within: 30 * time.Second}

// Of yields the newest records of a topic, partition by partition. If a partition has few records,
// the others may yield more.
func (n Newest) Of(ctx context.Context, d Directory, topic Topic) iter.Seq2[stream.Record, error] {
	return func(yield func(stream.Record, error) bool) {
		limited, cancel := context.WithTimeout(ctx, n.Within)
		defer cancel()
		var order []int32
		for p := range topic.Partitions {
			order = append(order, int32(p))
		}
		size := func(p int32) int64 { return int64(topic.Partitions[p].Next - topic.Partitions[p].First) }
		slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(size(a), size(b)) })
		records, bytes, read := n.Records, n.Bytes, 0
		for i, p := range order {
			take := min(size(p), records/int64(len(order)-i))
			room := bytes / (len(order) - i)
			if take == 0 {
				continue
			}
			for r, err := range d.Records(limited, Query{Topic: topic.Name, Partition: p, From: int64(topic.Partitions[p].Next) - take, Limit: take}) {
				if limited.Err() != nil && ctx.Err() == nil {
					if read == 0 {
						yield(r, fmt.Errorf("topic %s: no record came within %v: check the brokers", topic.Name, n.Within))
					}
					return
				}
				if !yield(r, err) || err != nil {
					return
				}
				records, bytes, room, read = records-1, bytes-len(r.Key)-len(r.Value), room-len(r.Key)-len(r.Value), read+1
				if room <= 0 {
					break
				}
			}
		}
	}
}

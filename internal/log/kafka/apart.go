package kafka

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/afterbay/afterbay/stream"
)

// The committed offset of a group and the position in its changelog are written in one transaction.
// If they differ, an offset was changed or lost outside Afterbay; -1 means none.
//
// Brokers themselves lose offsets. They forget the offsets of a group that had no members for
// offsets.retention.minutes, and those of a deleted topic. A topic of the same name may hold other
// records. So Afterbay does not continue at the position unless the user says so.

// apart returns an error that says how the two differ and what to do.
func (l *Log) apart(group string, p stream.Partition, committed, position int64) error {
	changelog := changelogOf(group, p).Topic
	server := strings.Join(l.opts.Brokers, ",")
	anew := "use another pipeline name to start from the beginning"
	switch {
	case position < 0:
		return refuse(fmt.Sprintf("restore the topic; or delete the group's offsets (%s) to compute the state again from the records that the input still has, or %s", deleteOffsets(server, group, p.Topic), anew),
			"the group committed offset %d and its changelog %q is empty: it was deleted", committed, changelog)
	case committed < 0:
		return refuse(fmt.Sprintf("if the topic was not replaced, set the offset again while no process of the pipeline runs (%s; afterbay doctor prints a command for all partitions); otherwise %s", setOffsets(server, group, []string{setLine(p, position)}), anew),
			"the group has no committed offset, but its changelog %q has offset %d: brokers forget offsets when the group has no members for offsets.retention.minutes, or when the topic was deleted", changelog, position)
	}
	return refuse(fmt.Sprintf("set the offset again while no process of the pipeline runs (%s), or %s", setOffsets(server, group, []string{setLine(p, position)}), anew),
		"the group committed offset %d, but its changelog %q has offset %d: the engine writes both together, so one of them was changed from outside", committed, changelog, position)
}

// setLine returns a line of an offsets file, in the format of Kafka's own command.
func setLine(p stream.Partition, offset int64) string {
	return fmt.Sprintf("%s,%d,%d", p.Topic, p.Index, offset)
}

// setOffsets returns the command that sets the offsets of a group.
func setOffsets(server, group string, lines []string) string {
	return fmt.Sprintf("printf '%s\\n' > offsets.csv; kafka-consumer-groups.sh --bootstrap-server %s --group '%s' --reset-offsets --from-file offsets.csv --execute", strings.Join(lines, `\n`), server, group)
}

func deleteOffsets(server, group, topic string) string {
	return fmt.Sprintf("kafka-consumer-groups.sh --bootstrap-server %s --group '%s' --delete-offsets --topic %s", server, group, topic)
}

// positionOf returns the committed position in a changelog, or -1 if the changelog is empty. Each
// transaction writes the position last.
func (r *reads) positionOf(ctx context.Context, changelog stream.Partition) (int64, error) {
	copied := newReplay(func([]byte, []byte) {})
	err := r.newest(ctx, changelog, math.MaxInt64, copied.record, func() bool { return copied.position >= 0 })
	return copied.position, err
}

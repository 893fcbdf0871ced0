package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// PartitionsMax is the largest number of partitions of a topic.
const PartitionsMax = 1 << 16

const topicNameBytesMax = 249 // as in Kafka

var (
	// ErrTopicInvalid means that the name or the number of partitions of a topic is invalid.
	ErrTopicInvalid = errors.New("invalid topic")

	// ErrTopicInUse means that a topic cannot be deleted because members of a group read it.
	ErrTopicInUse = errors.New("topic is in use")

	// ErrOldFormat means that an older version wrote state that this version cannot read.
	ErrOldFormat = errors.New("an older version of afterbay wrote this state, and this version cannot read it: start with an empty data directory, or on Kafka with another pipeline name and other output topics, and process the input again")

	// ErrTooManyPartitions means that the log has reached its limit of topics or partitions.
	ErrTooManyPartitions = errors.New("too many partitions")
)

// PartitionsError means that a topic and the state of a group have different numbers of partitions.
// The number decides the partition of a key, so keys would lose their state. The group can no
// longer read the topic; other groups can.
type PartitionsError struct {
	Topic      string
	Partitions int32 // of the topic
	State      int32 // number of partitions that have state
}

// Error says how the numbers differ and how to migrate.
func (e *PartitionsError) Error() string {
	return fmt.Sprintf("topic %q has %d partitions, and the state beside it %d: keys would leave their state: use another pipeline name to start from the beginning (or sink or gateway name, if that reads it); with `repartition: N` at the input its outputs may keep N partitions", e.Topic, e.Partitions, e.State)
}

// Sizer is a Log that knows for how many partitions a group has state.
type Sizer interface {
	// StatePartitions returns the number of partitions of topic that have state of group, or 0 if
	// the group never read the topic. It returns errors.ErrUnsupported if the log cannot tell, and
	// ErrOldFormat if an older version wrote the state.
	StatePartitions(ctx context.Context, group, topic string) (int32, error)
}

// CheckTopic returns an ErrTopicInvalid if t is not a valid topic. Names follow Kafka's rule: 1 to
// 249 ASCII letters, digits, dots, underscores and hyphens, but not "." or "..". So a name is also
// a valid file name and safe to print.
func CheckTopic(t Topic) error {
	bad := strings.IndexFunc(t.Name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-'
	})
	switch {
	case t.Name == "" || len(t.Name) > topicNameBytesMax:
		return fmt.Errorf("%w: its name has %d bytes: use 1 to %d", ErrTopicInvalid, len(t.Name), topicNameBytesMax)
	case bad >= 0 || t.Name == "." || t.Name == "..":
		return fmt.Errorf("%w: name %q: use letters, digits, dots, underscores and hyphens, but not . or .. alone", ErrTopicInvalid, t.Name)
	case t.Partitions < 1 || t.Partitions > PartitionsMax:
		return fmt.Errorf("%w: %d partitions: use 1 to %d", ErrTopicInvalid, t.Partitions, PartitionsMax)
	}
	return nil
}

package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// PartitionsMax is the most partitions of a topic.
const PartitionsMax = 1 << 16

const topicNameBytesMax = 249 // as in Kafka

var (
	// ErrTopicInvalid says that a topic cannot have such a name or so many
	// partitions.
	ErrTopicInvalid = errors.New("invalid topic")

	// ErrTopicInUse says that a topic cannot be deleted: members of a group read it.
	ErrTopicInUse = errors.New("topic is in use")

	// ErrOldFormat says that an older version wrote state that this version cannot read.
	ErrOldFormat = errors.New("an older version of afterbay wrote this state, and this version cannot read it: start with an empty data directory, or on Kafka with another pipeline name and other output topics, and process the input again")

	// ErrTooManyPartitions says that a log takes no more topics and partitions.
	ErrTooManyPartitions = errors.New("too many partitions")
)

// PartitionsError says that a topic has another number of partitions than the state of
// a group beside it. The number decides the partition of a key, so keys would leave
// their state: the group cannot read the topic any more. Other groups can.
type PartitionsError struct {
	Topic      string
	Partitions int32 // of the topic
	State      int32 // partitions that have state
}

// Error says what differs and how to move.
func (e *PartitionsError) Error() string {
	return fmt.Sprintf("topic %q has %d partitions, and the state beside it %d: keys would leave their state: use another pipeline name to begin anew (or sink or gateway name, if that reads it); with `repartition: N` at the input its outputs may keep N partitions", e.Topic, e.Partitions, e.State)
}

// Sizer is a Log that knows how many partitions have the state of a group.
type Sizer interface {
	// StatePartitions returns for how many partitions of a topic the log keeps the state
	// of a group, 0 if the group never read it. The error is errors.ErrUnsupported if the
	// log cannot tell, and ErrOldFormat if an older version wrote the state.
	StatePartitions(ctx context.Context, group, topic string) (int32, error)
}

// CheckTopic returns an ErrTopicInvalid if a log cannot have t. Names follow
// Kafka's rule: 1 to 249 letters, digits, dots, underscores and hyphens of ASCII,
// but not "." or "..". So a name is also a file name, and safe to print.
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

package kafka

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/stream"
)

// olderChangelog returns the topic that held the state of a group for topic before version 0.1.0.
// Each group created one when it joined. At that time, repartition topics had another name.
func olderChangelog(group, topic string) string {
	if pipeline, ok := naming.Owner(topic, naming.Repartition); ok {
		topic = pipeline + ".merged"
	}
	return "afterbay-" + safeName(group) + "-" + topic + "-changelog"
}

// refuseOlder returns stream.ErrOldFormat if an older version stored state of a group. It searches
// the topics that the user may see, because a request for one name fails without the right to that
// topic.
func (l *Log) refuseOlder(ctx context.Context, group, topic string) error {
	name := olderChangelog(group, topic)
	infos, err := l.topics.ask(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(infos, func(t topicInfo) bool { return t.name == name }) {
		return fmt.Errorf("topic %q: %w", name, stream.ErrOldFormat)
	}
	return nil
}

// older reports state of a group that an older version stored.
func (e *examination) older(r Reading) bool {
	name := olderChangelog(r.Group, r.Topic)
	if _, ok := e.has(name); !ok {
		return false
	}
	means, change, _ := strings.Cut(stream.ErrOldFormat.Error(), ": ")
	e.find(Fault, "topic "+r.changelog(), "it is not there, and topic "+name+" is: "+means, "the pipeline does not start", change)
	return true
}

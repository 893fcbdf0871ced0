package kafka

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/stream"
)

// olderChangelog returns the topic that kept the state of a group beside a topic before
// version 0.1.0. Each group had one as soon as it joined. The topic of a repartition had
// another name.
func olderChangelog(group, topic string) string {
	if pipeline, ok := naming.Owner(topic, naming.Repartition); ok {
		topic = pipeline + ".merged"
	}
	return "afterbay-" + safeName(group) + "-" + topic + "-changelog"
}

// refuseOlder returns stream.ErrOldFormat if an older version kept the state of a group.
// It looks among the topics that the user may see: to ask for one by name is an error
// where the user has no right to it.
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

// older reports the state of a group that an older version kept.
func (e *examination) older(r Reading) bool {
	name := olderChangelog(r.Group, r.Topic)
	if _, ok := e.has(name); !ok {
		return false
	}
	means, change, _ := strings.Cut(stream.ErrOldFormat.Error(), ": ")
	e.find(Fault, "topic "+r.changelog(), "it is not there, and topic "+name+" is: "+means, "the pipeline does not start", change)
	return true
}

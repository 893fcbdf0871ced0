package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/stream"
)

// Names of Kafka's own topics, and the settings of their replication.
const (
	offsetsTopic      = "__consumer_offsets"
	transactionsTopic = "__transaction_state"

	offsetsFactor      = "offsets.topic.replication.factor"
	transactionsFactor = "transaction.state.log.replication.factor"
)

// changelogs returns the names of a plan's changelogs, including the names that older versions
// used.
func (p *Plan) changelogs() []string {
	var names []string
	for _, r := range p.Reads {
		names = append(names, r.changelog(), olderChangelog(r.Group, r.Topic))
	}
	return names
}

func (r Reading) changelog() string {
	return changelogOf(r.Group, stream.Partition{Topic: r.Topic}).Topic
}

// planOf returns the plan that follows from existing changelogs.
func planOf(topics map[string]*kmsg.MetadataResponseTopic) (p Plan) {
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		if group, topic, ok := naming.SplitChangelog(name); ok && topics[topic] != nil { // otherwise its topic is deleted or not visible
			p.Reads = append(p.Reads, Reading{group, topic})
		}
	}
	return p
}

// has returns a topic that exists and is visible.
func (e *examination) has(name string) (*kmsg.MetadataResponseTopic, bool) {
	t := e.topics[name]
	return t, t != nil && len(t.Partitions) > 0 && t.ErrorCode != kerr.TopicAuthorizationFailed.Code
}

// hidden reports whether the user may not see a topic.
func (e *examination) hidden(name string) bool {
	t := e.topics[name]
	return t != nil && t.ErrorCode == kerr.TopicAuthorizationFailed.Code
}

// examineTopics checks Kafka's own topics, the topics of the plan and their changelogs.
func (e *examination) examineTopics(ctx context.Context) bool {
	e.own(ctx, offsetsTopic, offsetsFactor, "")
	e.own(ctx, transactionsTopic, transactionsFactor, "transaction.state.log.min.isr")
	if e.plan.empty() {
		e.find(Note, "cluster", "no topic of a pipeline", "topics and rights are not examined", "name pipeline files")
		return true
	}
	for _, name := range e.plan.topics() {
		e.topic(ctx, name)
	}
	for _, r := range e.plan.Reads {
		e.changelog(ctx, r)
	}
	return true
}

// own checks one of Kafka's own topics. If the topic does not exist, it checks the settings for its
// creation: the replication factor and, if given, the minimum of in-sync replicas.
func (e *examination) own(ctx context.Context, name, replication, inSync string) {
	about := "topic " + name
	if _, ok := e.has(name); ok {
		e.replicas(ctx, name)
		return
	}
	if e.hidden(name) {
		e.find(Note, about, "this user may not see it", "its replication is not checked", e.allow("--operation Describe --operation DescribeConfigs --topic "+name))
		return
	}
	factor, err := strconv.Atoi(e.broker[replication])
	if err != nil {
		return
	}
	best := min(len(e.brokers), 3)
	change := fmt.Sprintf("%s=%d", replication, best)
	least, err := strconv.Atoi(e.broker[inSync])
	if err == nil {
		change += fmt.Sprintf(" and %s=%d", inSync, max(best-1, 1))
	}
	change = "write " + change + " into server.properties of each broker, and restart them one after the other"
	found := "it does not exist yet, and will have " + counted(factor, "replica")
	switch {
	case factor > len(e.brokers):
		e.find(Fault, about, found+", on "+counted(len(e.brokers), "broker"), "it cannot be created, so no member joins a group and no transaction begins", change)
	case least > factor:
		e.find(Fault, about, fmt.Sprintf("%s, %d of them in sync", found, least), "no transaction begins", change)
	case factor < best:
		e.find(Warning, about, found, "if the disk of one broker fails, the offsets and transactions of all pipelines are lost", change)
	default:
		e.sound(about, "it is made when it is needed, with %s", counted(factor, "replica"))
	}
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// settingsOf returns the settings of a topic, or nil if the user may not see them.
func (e *examination) settingsOf(ctx context.Context, name string) map[string]string {
	if configs, ok := e.configs[name]; ok {
		return configs
	}
	configs, err := e.log.describeConfigs(ctx, kmsg.ConfigResourceTypeTopic, name, -1)
	if err != nil {
		e.find(Note, "topic "+name, fmt.Sprintf("its settings cannot be read: %v", err), "they are not checked", e.allow("--operation DescribeConfigs --topic "+name))
	}
	e.configs[name] = configs
	return configs
}

// topic checks a topic that pipelines read or write.
func (e *examination) topic(ctx context.Context, name string) {
	about := "topic " + name
	if e.hidden(name) {
		return // rights reports this
	}
	t, ok := e.has(name)
	if !ok {
		e.missing(ctx, name, -1)
		return
	}
	e.replicas(ctx, name)
	configs := e.settingsOf(ctx, name)
	if slices.Contains(e.plan.Writes, name) {
		e.batches(name, configs)
		for _, trap := range timeTraps(configs) {
			e.find(Warning, about, trap.found, trap.means, alterTopic(e.server, name, trap.want))
		}
	}
	if slices.ContainsFunc(e.plan.Reads, func(r Reading) bool { return r.Topic == name }) && strings.Contains(configs["cleanup.policy"], "compact") {
		e.find(Warning, about, "cleanup.policy="+configs["cleanup.policy"], "compaction removes unread events of a key when newer ones arrive", alterTopic(e.server, name, "cleanup.policy=delete"))
	}
	e.sound(about, "it has %s", counted(len(t.Partitions), "partition"))
}

// batches checks that the largest batch fits the topic's limit.
func (e *examination) batches(name string, configs map[string]string) {
	most, err := strconv.ParseInt(configs["max.message.bytes"], 10, 64)
	if err == nil && most < e.batchBytes() {
		e.find(Fault, "topic "+name, fmt.Sprintf("max.message.bytes=%d", most), "a pipeline may write larger batches: the brokers then refuse the step at each attempt", alterTopic(e.server, name, fmt.Sprintf("max.message.bytes=%d", e.batchBytes())))
	}
}

// missing checks whether a topic could be created, without creating it.
func (e *examination) missing(ctx context.Context, name string, partitions int32) {
	about := "topic " + name
	req := kmsg.NewPtrCreateTopicsRequest()
	req.ValidateOnly = true
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, -1
	if e.log.opts.Replication > 0 {
		t.ReplicationFactor = int16(e.log.opts.Replication)
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, e.log.client)
	if err == nil && len(resp.Topics) == 1 {
		if err = kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil && resp.Topics[0].ErrorMessage != nil {
			err = fmt.Errorf("%w: %s", err, *resp.Topics[0].ErrorMessage)
		}
	}
	switch {
	case err == nil:
		e.sound(about, "it does not exist; a pipeline creates it when it starts")
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		e.find(Fault, about, "it does not exist, and this user may not create it", "the pipeline does not start", e.allow("--operation Create --topic "+name)+", or make it: kafka-topics.sh --bootstrap-server "+e.server+" --create --topic "+name)
	default:
		e.find(Fault, about, fmt.Sprintf("it does not exist, and cannot be created: %v", err), "the pipeline does not start", "make it: kafka-topics.sh --bootstrap-server "+e.server+" --create --topic "+name)
	}
}

// replicas checks how many brokers have a copy of a topic.
func (e *examination) replicas(ctx context.Context, name string) {
	about := "topic " + name
	t := e.topics[name]
	factor, inSync, dead := len(t.Partitions[0].Replicas), len(t.Partitions[0].ISR), 0
	for _, p := range t.Partitions {
		factor, inSync = min(factor, len(p.Replicas)), min(inSync, len(p.ISR))
		if p.Leader < 0 {
			dead++
		}
	}
	configs := e.settingsOf(ctx, name)
	if configs["unclean.leader.election.enable"] == "true" && e.broker["unclean.leader.election.enable"] != "true" && factor > 1 {
		e.find(Warning, about, "unclean.leader.election.enable=true", uncleanMeans, alterTopic(e.server, name, "unclean.leader.election.enable=false"))
	}
	least, err := strconv.Atoi(configs["min.insync.replicas"])
	if err != nil {
		least = 1
	}
	found := fmt.Sprintf("%s, min.insync.replicas=%d", counted(factor, "replica"), least)
	reassign := "kafka-reassign-partitions.sh --bootstrap-server " + e.server + " --execute --reassignment-json-file FILE, with more replicas of each partition"
	change := alterTopic(e.server, name, fmt.Sprintf("min.insync.replicas=%d", max(factor-1, 1)))
	switch {
	case dead > 0:
		e.find(Fault, about, fmt.Sprintf("%s without a leader", counted(dead, "partition")), "clients cannot read or write them", "start the brokers that have them")
	case least > factor:
		e.find(Fault, about, found, "nothing can be written to it", change)
	case inSync < least:
		e.find(Fault, about, fmt.Sprintf("%s, %d of them in sync", found, inSync), "nothing can be written to some of its partitions", "start the brokers that have its other replicas")
	case factor == 1 && len(e.brokers) == 1:
		e.find(Note, about, found, "there is one broker: if its disk fails, all records are lost, and while it is down, pipelines stop", "")
	case factor == 1:
		e.find(Warning, about, found, "if the disk of its broker fails, the topic is lost, and while that broker is down, pipelines stop", reassign)
	case least == factor:
		e.find(Warning, about, found, "while one of its brokers is down, clients cannot write to it", change)
	case least == 1 && factor > 2:
		e.find(Warning, about, found, "acknowledged records may be on only one disk", change)
	case inSync < factor:
		e.find(Warning, about, fmt.Sprintf("%s, %d of them in sync", found, inSync), "a broker is down or behind", "start it, or wait until it has caught up")
	default:
		e.sound(about, "%s", found)
	}
}

// changelog checks the changelog of a group and a topic.
func (e *examination) changelog(ctx context.Context, r Reading) {
	name := r.changelog()
	about := "topic " + name
	if e.hidden(name) {
		return // rights reports this
	}
	source, known := e.has(r.Topic)
	t, ok := e.has(name)
	if !ok && e.older(r) {
		return
	}
	if !ok {
		partitions := int32(-1)
		if known {
			partitions = int32(len(source.Partitions))
		}
		e.missing(ctx, name, partitions)
		return
	}
	if n := len(t.Partitions); known && n != len(source.Partitions) {
		e.find(Fault, about, fmt.Sprintf("it has %s, and topic %s has %d", counted(n, "partition"), r.Topic, len(source.Partitions)), "keys would move away from their state, so the pipeline does not start", "use another pipeline name to start from the beginning, and `repartition: N` at its input for a number that is the pipeline's own")
	} else {
		e.sound(about, "it has %s, as topic %s", counted(n, "partition"), r.Topic)
	}
	e.replicas(ctx, name)
	configs := e.settingsOf(ctx, name)
	if configs == nil {
		return
	}
	e.batches(name, configs)
	if v := configs["cleanup.policy"]; v != "compact" {
		e.find(Fault, about, "cleanup.policy="+v, "state that was not changed for the retention time is deleted", alterTopic(e.server, name, "cleanup.policy=compact"))
	} else {
		e.sound(about, "cleanup.policy=compact")
	}
	least := 2 * milliseconds(e.log.opts.State.RebuildAfter)
	if v, err := strconv.ParseInt(configs["delete.retention.ms"], 10, 64); err == nil && v < least {
		e.find(Fault, about, fmt.Sprintf("delete.retention.ms=%d", v), fmt.Sprintf("a process that was down for less than %v reuses its local state, but compaction may have removed deletions meanwhile: deleted keys would come back", e.log.opts.State.RebuildAfter), alterTopic(e.server, name, fmt.Sprintf("delete.retention.ms=%d", least)))
	} else if err == nil {
		e.sound(about, "delete.retention.ms=%d", v)
	}
}

// Package naming builds the names of the engine's topics and groups, and reports which names are
// reserved for them.
//
// A topic of the engine is named <owner>.<purpose>. The owner is a pipeline, a gateway or one of
// their consumer groups. A group has the name of its pipeline or gateway, or a name that begins
// with it and a dot. Names of pipelines and gateways have no dot, so no two owners share a name.
//
//	fraud.dlq                  dead letters of pipeline fraud
//	fraud.cards.dlq            dead letters of its sink cards
//	fraud.g2.decisions         outputs of its generation 2 for topic decisions
//	fraud.by-merchant          asks of pipeline fraud for features by merchant, and their stage
//	fraud.changelog.payments   state of its group for topic payments, on Kafka
package naming

import (
	"slices"
	"strconv"
	"strings"
)

// The purposes of the engine's topics.
const (
	DeadLetters = "dlq"         // of a group: events that failed
	Redrive     = "redrive"     // of a sink's group: dead letters that are sent back to it
	Repartition = "repartition" // of a pipeline: its inputs, partitioned by its key
	Ended       = "ended"       // of a pipeline: ends of clients' events without a reply
	Generations = "generations" // of a pipeline: its history
	Order       = "order"       // of a pipeline: notes about the order of its events
	Marks       = "marks"       // of a pipeline: its watermarks, for pipelines that copy its outputs
	Inbox       = "inbox"       // of a gateway: events of clients
	Results     = "results"     // of a gateway: results for clients
	changelog   = "changelog"   // of a group and a topic: state on Kafka
)

// The purposes of groups without a topic of the same name.
const (
	Sequence = "sequence" // of a gateway: reads its inbox
	Outcomes = "outcomes" // of a gateway: reads the outputs of the pipeline
)

// common lists purposes of pipeline topics, now or in a later version, that are common words. Only
// a pipeline's own topics with these names are reserved.
var common = []string{Order, "labels", "models", "profile", "rollout", "rows", "shadow", "skew"}

// by is the prefix of the purpose of a topic and group for a field other than the key.
const by = "by-"

// Of returns the name of the owner's topic or group for a purpose.
func Of(owner, purpose string) string { return owner + "." + purpose }

// Owner returns the owner of a name that Of returned for the purpose. ok is false for a changelog
// or the group of a repartitioner, even if it ends like such a name: its topic may end so.
func Owner(name, purpose string) (owner string, ok bool) {
	owner, ok = strings.CutSuffix(name, "."+purpose)
	if !ok || owner == "" || IsRepartitioner(name) {
		return owner, false
	}
	if _, _, state := SplitChangelog(name); state {
		return owner, false
	}
	return owner, purpose == DeadLetters || purpose == Redrive || !strings.Contains(owner, ".")
}

// By returns the name of the stage of a pipeline for a field other than its key. It is the name of
// a topic, and of the group that reads it.
func By(pipeline, field string) string { return Of(pipeline, by+field) }

// IsBy reports whether By can return the name of a topic or group.
func IsBy(name string) bool {
	parts := strings.Split(name, ".")
	return len(parts) == 2 && parts[0] != "" && len(parts[1]) > len(by) && strings.HasPrefix(parts[1], by)
}

// Root returns the pipeline or gateway that owns a group or topic of the engine.
func Root(name string) string {
	root, _, _ := strings.Cut(name, ".")
	return root
}

// Changelog returns the topic that stores the state of a group for a topic.
func Changelog(group, topic string) string { return group + "." + changelog + "." + topic }

// SplitChangelog returns the group and topic of a name that Changelog returned. The group of a
// repartitioner ends with the topic, and the topic may contain the word changelog itself.
func SplitChangelog(name string) (group, topic string, ok bool) {
	const mark = "." + changelog + "."
	if parts := strings.SplitN(name, ".", 3); len(parts) == 3 && parts[1] == Repartition {
		if both := parts[2]; len(both) > len(mark) {
			topic = both[(len(both)+len(mark))/2:]
			if both == topic+mark+topic {
				return strings.TrimSuffix(name, mark+topic), topic, true
			}
		}
	}
	return strings.Cut(name, mark)
}

// Generation returns the group of a generation of a pipeline.
func Generation(pipeline string, n uint64) string {
	return pipeline + ".g" + strconv.FormatUint(n, 10)
}

// Derived returns the topic that a generation writes instead of one of its
// pipeline's outputs.
func Derived(pipeline string, n uint64, output string) string {
	return Generation(pipeline, n) + "." + output
}

// Repartitioner returns the group that reads a topic for the repartition topic of
// a pipeline.
func Repartitioner(pipeline, topic string) string { return Of(pipeline, Repartition) + "." + topic }

// IsRepartitioner reports whether Repartitioner can return the name of a group.
func IsRepartitioner(group string) bool {
	parts := strings.SplitN(group, ".", 3)
	return len(parts) == 3 && parts[1] == Repartition
}

// Topic reports whether the name of a topic is one that the engine makes.
func Topic(name string) bool {
	parts := strings.Split(name, ".")
	if len(parts) < 2 || parts[0] == "" {
		return false
	}
	switch last := parts[len(parts)-1]; {
	case last == DeadLetters, last == Redrive:
		return true
	case len(parts) == 2:
		return IsBy(name) || slices.Contains([]string{Repartition, Ended, Generations, Marks, Inbox, Results}, last)
	}
	return isGeneration(parts[1]) || slices.Contains(parts[1:len(parts)-1], changelog)
}

// Reserved reports whether a pipeline file of the owner may not name a topic as an output. This
// holds for names that the engine makes, or will make for the owner in a later version. It also
// holds if Derived would return a name that the engine uses otherwise.
func Reserved(owner, topic string) bool {
	of, purpose, _ := strings.Cut(topic, ".")
	switch {
	case Topic(topic), of == changelog, topic == DeadLetters, topic == Redrive:
		return true
	}
	return of == owner && (slices.Contains(common, purpose) || strings.HasPrefix(purpose, by))
}

// Instead returns an alternative name for a topic with a reserved name.
func Instead(topic string) string {
	if !strings.Contains(topic, ".") {
		return topic + "-events"
	}
	return strings.ReplaceAll(topic, ".", "-")
}

// ReservedPipeline reports whether a pipeline of that name is not allowed, because Derived could
// return the changelog of another topic.
func ReservedPipeline(name string) bool { return name == changelog }

// ReservedSink reports whether a sink of that name is not allowed. It would have the group of
// another part of the engine, or topics of another group.
func ReservedSink(name string) bool {
	parts := strings.Split(name, ".")
	return isGeneration(parts[0]) || parts[0] == Repartition || slices.Contains(parts, changelog) ||
		slices.Contains([]string{DeadLetters, Redrive, Sequence, Outcomes}, parts[len(parts)-1])
}

// isGeneration reports whether a part of a name is g and a number.
func isGeneration(part string) bool {
	digits, ok := strings.CutPrefix(part, "g")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// Valid reports whether a name is valid for a pipeline, a function or a gateway.
func Valid(name string) bool {
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-') {
			return false
		}
	}
	return name != "" && len(name) <= 100
}

// ValidTopic reports whether a name is valid for a topic or a sink.
func ValidTopic(name string) bool {
	return Valid(strings.ReplaceAll(name, ".", "")) && name != "." && name != ".."
}

// Identifier reports whether a name has only letters, digits and '_', and does not begin with a
// digit.
func Identifier(name string) bool {
	for i, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || i > 0 && r >= '0' && r <= '9') {
			return false
		}
	}
	return name != ""
}

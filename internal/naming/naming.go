// Package naming builds the names of the engine's topics and groups, and reports
// which names are reserved for them.
//
// A topic of the engine is named <owner>.<purpose>. The owner is a pipeline, a
// gateway or one of their consumer groups. The name of a group is that of its
// pipeline or gateway, or begins with it and a dot. Names of pipelines and gateways
// have no dot, so no two owners share a name.
//
//	fraud.dlq                  dead letters of pipeline fraud
//	fraud.cards.dlq            dead letters of its sink cards
//	fraud.g2.decisions         what its generation 2 derives for topic decisions
//	fraud.by-merchant          asks of pipeline fraud for features by merchant, and their stage
//	fraud.changelog.payments   state of its group beside topic payments, on Kafka
package naming

import (
	"slices"
	"strconv"
	"strings"
)

// The purposes of the engine's topics.
const (
	DeadLetters = "dlq"         // of a group: events that failed
	Redrive     = "redrive"     // of a sink's group: dead letters that go back to it
	Repartition = "repartition" // of a pipeline: its inputs by the key that it reads them by
	Ended       = "ended"       // of a pipeline: ends of clients' events without a reply
	Generations = "generations" // of a pipeline: its history
	Order       = "order"       // of a pipeline: notes about the order of its events
	Marks       = "marks"       // of a pipeline: its watermarks, for pipelines that copy its outputs
	Inbox       = "inbox"       // of a gateway: events of clients
	Results     = "results"     // of a gateway: results for clients
	changelog   = "changelog"   // of a group and a topic: state on Kafka
)

// The purposes of groups that have a word of their own.
const (
	Sequence = "sequence" // of a gateway: reads its inbox
	Outcomes = "outcomes" // of a gateway: reads what the pipeline writes
)

// common are purposes that topics of pipelines have, or get in a later version, and that are
// common words: only a pipeline's own topics of that name are reserved.
var common = []string{Order, "labels", "models", "profile", "rollout", "rows", "shadow", "skew"}

// by begins the purpose of a topic and group of a pipeline by another field than its key.
const by = "by-"

// Of returns the name of the owner's topic or group for a purpose.
func Of(owner, purpose string) string { return owner + "." + purpose }

// Owner returns the owner of a name that Of returned for the purpose. A changelog, or the
// group of a repartitioner, may end like such a name: the topic it reads does.
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

// By returns the topic, and the group that reads it, of the stage of a pipeline for a field
// other than its key.
func By(pipeline, field string) string { return Of(pipeline, by+field) }

// IsBy reports whether a topic or group is one of By.
func IsBy(name string) bool {
	parts := strings.Split(name, ".")
	return len(parts) == 2 && parts[0] != "" && len(parts[1]) > len(by) && strings.HasPrefix(parts[1], by)
}

// Root returns the pipeline or gateway that a group or a topic of the engine is of.
func Root(name string) string {
	root, _, _ := strings.Cut(name, ".")
	return root
}

// Changelog returns the topic that keeps the state of a group beside a topic.
func Changelog(group, topic string) string { return group + "." + changelog + "." + topic }

// SplitChangelog returns the group and topic of a name that Changelog returned. The
// group of a repartitioner ends with the topic, which may hold the word itself.
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

// IsRepartitioner reports whether a group is one of Repartitioner.
func IsRepartitioner(group string) bool {
	parts := strings.SplitN(group, ".", 3)
	return len(parts) == 3 && parts[1] == Repartition
}

// Topic reports whether a topic is one that the engine makes, by its name.
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

// Reserved reports whether a topic has a name that the engine makes, or will make for
// the owner in a later version, or a name for which Derived would return one that the
// engine makes otherwise. Pipelines write no such topic by a name in their file.
func Reserved(owner, topic string) bool {
	of, purpose, _ := strings.Cut(topic, ".")
	switch {
	case Topic(topic), of == changelog, topic == DeadLetters, topic == Redrive:
		return true
	}
	return of == owner && (slices.Contains(common, purpose) || strings.HasPrefix(purpose, by))
}

// Instead returns a name that a topic may have whose own is reserved.
func Instead(topic string) string {
	if !strings.Contains(topic, ".") {
		return topic + "-events"
	}
	return strings.ReplaceAll(topic, ".", "-")
}

// ReservedPipeline reports whether Derived would return the changelog of another topic
// for a topic of a pipeline of that name.
func ReservedPipeline(name string) bool { return name == changelog }

// ReservedSink reports whether a sink of that name would have the group of another
// part of the engine, or topics of another group.
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

// Valid reports whether a pipeline, a function or a gateway may have a name.
func Valid(name string) bool {
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-') {
			return false
		}
	}
	return name != "" && len(name) <= 100
}

// ValidTopic reports whether a topic or a sink may have a name.
func ValidTopic(name string) bool {
	return Valid(strings.ReplaceAll(name, ".", "")) && name != "." && name != ".."
}

// Identifier reports whether a name has letters, digits and '_' alone, and no digit first.
func Identifier(name string) bool {
	for i, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || i > 0 && r >= '0' && r <= '9') {
			return false
		}
	}
	return name != ""
}

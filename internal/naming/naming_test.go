package naming_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/naming"
)

func TestNamesBeginWithTheirOwner(t *testing.T) {
	for want, got := range map[string]string{
		"fraud.dlq":                      naming.Of("fraud", naming.DeadLetters),
		"fraud.cards.dlq":                naming.Of("fraud.cards", naming.DeadLetters),
		"fraud.cards.redrive":            naming.Of("fraud.cards", naming.Redrive),
		"fraud.repartition":              naming.Of("fraud", naming.Repartition),
		"fraud.repartition.payments":     naming.Repartitioner("fraud", "payments"),
		"fraud.g2":                       naming.Generation("fraud", 2),
		"fraud.g2.decisions":             naming.Derived("fraud", 2, "decisions"),
		"fraud.changelog.payments":       naming.Changelog("fraud", "payments"),
		"fraud.cards.changelog.payments": naming.Changelog("fraud.cards", "payments"),
		"chat.sequence.dlq":              naming.Of(naming.Of("chat", naming.Sequence), naming.DeadLetters),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if root := naming.Root(got); root != "fraud" && root != "chat" {
			t.Errorf("%q is of %q", got, root)
		}
	}
}

func TestNamesAreTakenApart(t *testing.T) {
	for name, want := range map[string]string{"fraud.dlq": "fraud", "fraud.cards.dlq": "fraud.cards", "dlq": "", ".dlq": "", "fraud.dlq.x": ""} {
		if owner, ok := naming.Owner(name, naming.DeadLetters); ok != (want != "") || ok && owner != want {
			t.Errorf("%q: owner %q, %v", name, owner, ok)
		}
	}
	if group, topic, ok := naming.SplitChangelog("fraud.cards.changelog.a.changelog.b"); !ok || group != "fraud.cards" || topic != "a.changelog.b" {
		t.Errorf("got group %q of topic %q, %v", group, topic, ok)
	}
	if !naming.IsRepartitioner("fraud.repartition.a.b") || naming.IsRepartitioner("fraud.repartition") || naming.IsRepartitioner("fraud.cards.x") {
		t.Error("repartitioners are not told from other groups")
	}
}

// No pipeline, group and topic have the changelog of others. A name with a hyphen
// between its parts would not show where one ends.
func TestChangelogsOfTwoGroupsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, group := range []string{"a", "a-b", "a.b", "a.b.c", "a_b"} {
		for _, topic := range []string{"a", "b", "b-c", "b.c", "c", "b.c.d", "b_c"} {
			name := naming.Changelog(group, topic)
			if seen[name] {
				t.Errorf("%q is the changelog of two", name)
			}
			seen[name] = true
		}
	}
}

// census are the names of all that some pipelines and gateways have, and what has them.
type census struct {
	*testing.T
	topics, groups map[string]string
}

func (c census) add(seen map[string]string, name, what string) {
	if before, ok := seen[name]; ok && before != what {
		c.Errorf("%q is the name of two: %s, and %s", name, before, what)
	}
	seen[name] = what
}

// topic adds a topic, which is of its purpose alone.
func (c census) topic(purpose, name, owner string) {
	c.add(c.topics, name, purpose+" "+owner)
	for _, p := range []string{naming.DeadLetters, naming.Redrive, naming.Repartition, naming.Ended, naming.Generations, naming.Inbox, naming.Results} {
		if got, ok := naming.Owner(name, p); ok != (p == purpose) || ok && got != owner {
			c.Errorf("%s of %s is %q: as %s it is of %q, %v", purpose, owner, name, p, got, ok)
		}
	}
}

// group adds a group and the state that it has beside what it reads.
func (c census) group(what, name string, read ...string) {
	c.add(c.groups, name, what)
	for _, from := range read {
		changelog := naming.Changelog(name, from)
		c.topic("state", changelog, name+" beside "+from)
		if g, topic, ok := naming.SplitChangelog(changelog); !ok || g != name || topic != from {
			c.Errorf("%q of group %q beside %q is of %q beside %q, %v", changelog, name, from, g, topic, ok)
		}
	}
	if _, ok := naming.Owner(name, naming.DeadLetters); ok != strings.HasPrefix(what, "letters ") {
		c.Errorf("%s %q: settles dead letters: %v", what, name, ok)
	}
}

// pipeline adds a pipeline that may read inputs, write outputs, and has sinks.
func (c census) pipeline(p string, inputs, outputs, sinks []string) {
	letters := naming.Of(p, naming.DeadLetters)
	c.topic(naming.DeadLetters, letters, p)
	for _, purpose := range []string{naming.Repartition, naming.Ended, naming.Generations} {
		c.topic(purpose, naming.Of(p, purpose), p)
	}
	for _, field := range []string{"dlq", "g2"} {
		c.topic("asks by "+field, naming.By(p, field), p)
		c.group("stage of "+p+" by "+field, naming.By(p, field), naming.By(p, field))
	}
	c.topic(naming.DeadLetters, naming.Derived(p, 2, letters), naming.Generation(p, 2)+"."+p)
	c.topic("derived", naming.Derived(p, 2, naming.Of(p, naming.Ended)), p)
	for _, output := range outputs {
		if !naming.Reserved(p, output) {
			c.topic("output", output, "")
			c.topic("derived", naming.Derived(p, 2, output), p+" for "+output)
		}
	}
	c.group("letters of "+p, letters, letters)
	for _, group := range []string{p, naming.Generation(p, 2)} {
		c.group("events of "+group, group, append(inputs, naming.Of(p, naming.Repartition))...)
	}
	for _, input := range inputs {
		c.group("repartitioner of "+p+" for "+input, naming.Repartitioner(p, input), input)
	}
	for _, sink := range sinks {
		if naming.ReservedSink(sink) {
			continue
		}
		of := naming.Of(p, sink)
		letters, redrive := naming.Of(of, naming.DeadLetters), naming.Of(of, naming.Redrive)
		c.topic(naming.DeadLetters, letters, of)
		c.topic(naming.Redrive, redrive, of)
		c.group("sink "+of, of, sinks...)
		c.group("redrive of "+of, redrive, redrive)
		c.group("letters of "+of, letters, letters)
	}
}

// TestNoTwoThingsShareAName takes names from words that are parts of the engine's.
func TestNoTwoThingsShareAName(t *testing.T) {
	parts := []string{"a", "g2", "dlq", "redrive", "repartition", "ended", "generations", "inbox", "results", "changelog", "sequence", "outcomes"}
	var short, long, inputs []string // of at most two parts, and of three
	for _, a := range parts {
		short = append(short, a)
		for _, b := range parts {
			short = append(short, a+"."+b)
			for _, c := range parts {
				long = append(long, a+"."+b+"."+c)
			}
		}
	}
	for _, name := range slices.Concat(short, long) {
		if _, _, ok := naming.SplitChangelog(name); !ok {
			inputs = append(inputs, name)
		}
	}
	c := census{t, map[string]string{}, map[string]string{}}
	for _, name := range parts {
		if !naming.ReservedPipeline(name) {
			c.pipeline(name, inputs, slices.Concat(short, long), short)
		}
		sequence, outcomes := naming.Of(name, naming.Sequence), naming.Of(name, naming.Outcomes) // of a gateway
		inbox, letters := naming.Of(name, naming.Inbox), naming.Of(sequence, naming.DeadLetters)
		c.topic(naming.Inbox, inbox, name)
		c.topic(naming.Results, naming.Of(name, naming.Results), name)
		c.topic(naming.DeadLetters, letters, sequence)
		c.group("sequence of "+name, sequence, inbox)
		c.group("outcomes of "+name, outcomes, short...)
		c.group("letters of "+sequence, letters, letters)
	}
	for name, what := range c.topics {
		if naming.Topic(name) == strings.HasPrefix(what, "output ") {
			t.Errorf("%q, %s: made by the engine: %v", name, what, naming.Topic(name))
		}
	}
}

func TestReservedNames(t *testing.T) {
	for name, want := range map[string][2]bool{ // made by the engine, reserved
		"fraud.dlq": {true, true}, "a.b.dlq": {true, true}, "fraud.cards.redrive": {true, true}, "x.repartition": {true, true},
		"x.ended": {true, true}, "x.generations": {true, true}, "x.inbox": {true, true}, "x.results": {true, true},
		"x.g2.y": {true, true}, "x.changelog.y": {true, true}, "x.y.changelog.z.w": {true, true},
		"x.order": {false, true}, "x.profile": {false, true}, "x.by-merchant": {true, true}, "other.by-merchant": {true, true}, "x.by-": {false, true}, "by-merchant": {}, "x.y.by-merchant": {}, "x.models": {false, true},
		"other.order": {}, "users.profile": {}, "x.order.created": {}, "dlq": {false, true}, "redrive": {false, true}, "changelog": {false, true}, "changelog.x": {false, true}, "results": {}, "ended": {}, ".dlq": {}, "dlq.x": {}, "x.dlqs": {}, "a.b.order": {}, "a.b.ended": {}, "x.g2": {}, "x.y.g2.z": {}, "x.gold.y": {}, "x.changelog": {}, "x.decisions": {}, "x.late": {}, "": {},
	} {
		if got := [2]bool{naming.Topic(name), naming.Reserved("x", name)}; got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]bool{
		"cards": false, "decisions.eu": false, "dlq": true, "fraud.dlq": true, "x.redrive": true, "sequence": true, "outcomes": true,
		"g2": true, "g2.x": true, "x.g2": false, "repartition": true, "repartition.x": true, "x.repartition": false, "x.changelog.y": true, "from-x": false,
	} {
		if got := naming.ReservedSink(name); got != want {
			t.Errorf("sink %q: got %v, want %v", name, got, want)
		}
	}
}

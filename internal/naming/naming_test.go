package naming_test

import (
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

func TestReservedNames(t *testing.T) {
	for name, want := range map[string][2]bool{ // made by the engine, reserved
		"fraud.dlq": {true, true}, "a.b.dlq": {true, true}, "fraud.cards.redrive": {true, true}, "x.repartition": {true, true},
		"x.ended": {true, true}, "x.generations": {true, true}, "x.inbox": {true, true}, "x.results": {true, true},
		"x.g2.y": {true, true}, "x.changelog.y": {true, true}, "x.y.changelog.z.w": {true, true},
		"x.order": {false, true}, "x.profile": {false, true}, "x.by-merchant": {false, true}, "x.models": {false, true},
		"other.order": {}, "users.profile": {}, "x.order.created": {}, "dlq": {}, ".dlq": {}, "dlq.x": {}, "x.dlqs": {}, "a.b.order": {}, "a.b.ended": {}, "x.g2": {}, "x.y.g2.z": {}, "x.gold.y": {}, "x.changelog": {}, "x.decisions": {}, "x.late": {}, "": {},
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

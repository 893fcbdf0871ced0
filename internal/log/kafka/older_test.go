package kafka

import (
	"errors"
	"testing"

	"github.com/afterbay/afterbay/stream"
)

// State that a version before 0.1.0 wrote is found by the name that its changelog had.
func TestStateOfOlderVersionsIsRefused(t *testing.T) {
	o := conforming(fake(t))
	l := openAt(t, o).(*Log)
	defer closeLog(t, l)
	for _, name := range []string{"in", "afterbay-g-in-changelog", "afterbay-fraud.cards-decisions-changelog", "afterbay-a_5fb-a_b.merged-changelog", "afterbay-new-in-changelog", "afterbay-fraud-changelog"} {
		if err := l.CreateTopic(t.Context(), stream.Topic{Name: name, Partitions: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.ensureTopic(t.Context(), "new.changelog.in", 1); err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		group, topic string
		old          bool
	}{
		{"g", "in", true}, {"fraud.cards", "decisions", true}, {"a_b", "a_b.repartition", true},
		{"new", "in", false}, {"h", "in", false}, {"g", "other", false}, {"fraud", "fraud.repartition", false},
	} {
		if _, err := l.StatePartitions(t.Context(), of.group, of.topic); errors.Is(err, stream.ErrOldFormat) != of.old || !of.old && err != nil {
			t.Errorf("group %q beside %q: %v", of.group, of.topic, err)
		}
	}
	wantFinding(t, examine(t, o, examined), Fault, "topic g.changelog.in", "afterbay-g-in-changelog", "an older version of afterbay wrote this state")
}

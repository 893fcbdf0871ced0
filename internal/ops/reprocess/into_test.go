package reprocess_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/ops/reprocess"
	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/stream"
)

// TestWhatIsDerivedGoesToOtherTopics derives into one topic for all outputs, and into
// one for some; each event is there once, also of those that came since.
func TestWhatIsDerivedGoesToOtherTopics(t *testing.T) {
	onEngines(t, intoTopics)
}

func intoTopics(t *testing.T, log generation.Log) {
	old := newRunner(t, payments(20))
	stop := start(t, log, old)
	defer stop()
	mustAppend(t, log, events(0, 500))
	idle(t, log, old)
	before := outputs(t, log, "out")
	all := reprocess.Job{Into: []string{"history"}}
	last := do(t, log, newRunner(t, payments(40)), all)
	want := map[string]string{"out": "history", "shops": "history"}
	if d := cmp.Diff(want, last.Into); d != "" || !slices.Equal(last.Topics, []string{"history", "payments.g2.payments.dlq"}) {
		t.Errorf("it says %+v: %s", last, d)
	}
	if d := cmp.Diff(before, outputs(t, log, "out")); d != "" {
		t.Errorf("the live topic changed: %s", d)
	}
	some := reprocess.Job{Into: []string{"shops=review"}}
	if last = do(t, log, newRunner(t, payments(40)), some); last.Generation != 3 || last.Resumed {
		t.Errorf("another topic is another generation, it says %+v", last)
	}
	mustAppend(t, log, events(500, 100))
	idle(t, log, old)
	for _, job := range []reprocess.Job{all, some} {
		if last = do(t, log, newRunner(t, payments(40)), job); !last.Resumed || last.Events != 600 {
			t.Errorf("the same job again says %+v", last)
		}
	}
	made := fresh(t, payments(40), events(0, 600))
	for topic, want := range map[string][]output{
		"history": sorted(made["out"], made["shops"]), "payments.g2.payments.dlq": sorted(made["payments.dlq"]),
		"payments.g3.out": sorted(made["out"]), "review": sorted(made["shops"]), "payments.g3.payments.dlq": sorted(made["payments.dlq"]),
	} {
		if d := cmp.Diff(want, sorted(outputs(t, log, topic))); d != "" {
			t.Errorf("%s: %s", topic, d)
		}
	}
	topics, err := log.Topics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range topics {
		if slices.Contains([]string{"payments.g2.out", "payments.g2.shops", "payments.g3.shops"}, topic.Name) {
			t.Errorf("topic %s was made for nothing", topic.Name)
		}
	}
	if view, err := generation.ViewOf(t.Context(), log, "out"); err != nil || view != (generation.View{}) {
		t.Errorf("the view moved to %+v: %v", view, err)
	}
}

// TestUnchangedPipelineIsDerivedIntoATopic does so, which makes nothing else of it.
func TestUnchangedPipelineIsDerivedIntoATopic(t *testing.T) {
	onEngines(t, func(t *testing.T, log generation.Log) {
		r := newRunner(t, payments(20))
		stop := start(t, log, r)
		mustAppend(t, log, events(0, 200))
		idle(t, log, r)
		stop()
		do(t, log, newRunner(t, payments(20)), reprocess.Job{Into: []string{"out=again"}})
		if d := cmp.Diff(sorted(outputs(t, log, "out")), sorted(outputs(t, log, "again"))); d != "" {
			t.Error(d)
		}
	})
}

func TestTopicsThatCannotBeDerivedIntoAreRefused(t *testing.T) {
	log := memory.New(memory.Options{})
	withSinks := payments(40)
	service := &rows{taken: map[string][]string{}}
	for _, name := range []string{"rows", "both", "out"} {
		withSinks.Sinks = append(withSinks.Sinks, lang.Sink{From: "out", Name: name, Config: service})
	}
	r := newRunner(t, payments(20))
	stop := start(t, log, r)
	mustAppend(t, log, events(0, 50))
	idle(t, log, r)
	stop()
	for name, partitions := range map[string]int32{"both": 3, "narrow": 2} {
		if err := log.CreateTopic(t.Context(), stream.Topic{Name: name, Partitions: partitions}); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(want string, job reprocess.Job) {
		t.Helper()
		for _, err := range reprocess.Run(t.Context(), log, newRunner(t, withSinks), job) {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("into %s: %v, want %q", job.Into, err, want)
			}
		}
	}
	for into, want := range map[string]string{
		"in": "itself reads or writes", "out=in": "itself reads or writes", "shops": "itself reads or writes", "out=shops": "itself reads or writes", "topic:out": "itself reads or writes",
		"other.g7.out": "are reserved", "other.generations": "are reserved", "other.dlq": "are reserved", "payments.order": "are reserved",
		"both": "write sink:both or topic:both", "sink:none": "no such sink", "table:rows": "use NAME, sink:NAME", "in=history": "does not write \"in\"", "out=": "not a topic name", "a/b": "not a topic name",
		"narrow": "it has 2 partitions", "out=history,out=other": "goes to \"history\" already", "rows,history": "name only one sink", "history,out=other": "goes to \"history\" already",
	} {
		refused(want, reprocess.Job{Into: strings.Split(into, ",")})
	}
	refused("into and switch", reprocess.Job{Into: []string{"history"}, Switch: true})
	refused("follow cannot be used with a sink", reprocess.Job{Into: []string{"rows"}, Follow: true})
	if h, err := generation.Read(t.Context(), log, "payments"); err != nil || len(h.Begun) != 0 {
		t.Fatalf("what was refused began %+v: %v", h.Begun, err)
	}
	for _, into := range []string{"sink:both", "out", "topic:both"} { // out is no topic to write to, so it is the sink
		last := do(t, log, newRunner(t, withSinks), reprocess.Job{Into: []string{into}})
		if want := strings.TrimPrefix(into, "sink:"); last.Sink != want && last.Into["out"] != strings.TrimPrefix(into, "topic:") {
			t.Errorf("into %s: it says %+v", into, last)
		}
	}
	if got := slices.Sorted(maps.Keys(service.taken)); len(got) != len(outputs(t, log, "out")) {
		t.Errorf("%d outputs of %d in the sinks", len(got), len(outputs(t, log, "out")))
	}
	for _, err := range reprocess.Run(t.Context(), log, newRunner(t, payments(60)), reprocess.Job{Into: []string{"out=both"}}) {
		if err == nil || !strings.Contains(err.Error(), "was written into it") {
			t.Errorf("into a topic of another generation: %v", err)
		}
	}
}

package admin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/observe"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// outgrown is a log whose topics have more partitions than the state beside them.
type outgrown struct{ stream.Log }

// StatePartitions implements stream.Sizer.
func (outgrown) StatePartitions(context.Context, string, string) (int32, error) { return 1, nil }

// end ends a pipeline alone.
func (l *lagging) end(runner *running.Runner) {
	l.Helper()
	if err := runner.Run(l.Context(), outgrown{l.Log}); !errors.As(err, new(*stream.PartitionsError)) || runner.Ended() == nil {
		l.Fatal(err)
	}
}

func TestPipelineThatEndedTurnsNoSourceAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := watchingBacklog(t, lang.Lag{}, lang.Backlog{Max: 100, High: 75, Low: 25})
		l.watch()
		l.wantPost(90, 200, "")
		l.wantPost(20, 429, "1")
		l.end(l.options.Runners[0])
		l.wantPost(20, 200, "")
		l.pass(5 * time.Second)
		l.wantPost(100, 200, "")
		if text := l.logged.String(); !strings.Contains(text, "records are taken again") {
			t.Error(text)
		}
	})
}

// TestBacklogCountsNoPipelineThatEnded has a pipeline behind the bounded one.
func TestBacklogCountsNoPipelineThatEnded(t *testing.T) {
	l := watchingBacklog(t, lang.Lag{}, lang.Backlog{Max: 100})
	next, err := builtin.New(lang.Pipeline{
		Name: "next", Input: lang.Input{Topic: "out", Partitions: 2, Key: "k", Fields: []lang.Field{{Name: "k", Type: "string"}}},
		Steps: []lang.Step{&steps.Emit{Topic: "end", Names: []string{"k"}}},
	}, running.Options{})
	if err != nil {
		t.Fatal(err)
	}
	runners := []*running.Runner{l.options.Runners[0], next}
	b := newBacklogs(runners, l.options.Logger)
	waiting := func(want int) {
		t.Helper()
		b.measured(time.Now(), []observe.Lag{{Group: "copy", Topic: "in", Records: 3}, {Group: "next", Topic: "out", Records: 200}})
		if got := b.waiting(b.list[0]); got != want {
			t.Errorf("%d records wait, want %d", got, want)
		}
	}
	waiting(203)
	l.end(next)
	waiting(3)
	if why := standing(runners); why != "" {
		t.Errorf("not ready while a pipeline runs: %s", why)
	}
	l.end(runners[0])
	if why := standing(runners); !strings.Contains(why, "no pipeline is left running") {
		t.Error(why)
	}
}

// TestLagOfAPipelineThatEndedLeavesTheProcessReady has two pipelines of which one ends.
func TestLagOfAPipelineThatEndedLeavesTheProcessReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := watching(t, lang.Lag{Critical: time.Second})
		l.watch()
		l.write(1)
		l.pass(10 * time.Second)
		if l.lag.late() == "" {
			t.Fatal("a pipeline that runs is not late")
		}
		l.end(l.options.Runners[0])
		if why := l.lag.late(); why != "" {
			t.Error(why)
		}
	})
}

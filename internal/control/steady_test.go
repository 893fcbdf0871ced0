package control_test

import (
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/control"
)

func TestBreakerIsSteadyUntilAFaultAndAfterTheNextAnswer(t *testing.T) {
	b, err := control.NewBreaker(control.BreakerOptions{Failures: 2})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	call := func(outcome control.Outcome) {
		t.Helper()
		c, wait := b.Begin(now)
		if wait > 0 {
			t.Fatalf("refused for %v", wait)
		}
		b.Observe(now, c, outcome)
	}
	for i, step := range []struct {
		outcome control.Outcome
		steady  bool
	}{{control.Answered, true}, {control.Faulted, false}, {control.Answered, true}, {control.Faulted, false}, {control.Faulted, false}} {
		if call(step.outcome); b.Steady() != step.steady {
			t.Errorf("after call %d it is steady: %v", i, !step.steady)
		}
	}
	if now = now.Add(time.Hour); b.Steady() {
		t.Error("it is steady before the probe")
	}
	if call(control.Answered); !b.Steady() {
		t.Error("it is not steady after the probe")
	}
}

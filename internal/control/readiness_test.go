package control_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/control"
)

// TestCallersShareAQuestionThatBeginsAfterTheirFailure has 50 callers ask at once, and
// one ask later of a time before the answer.
func TestCallersShareAQuestionThatBeginsAfterTheirFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endpoint, err := control.NewEndpoint(control.EndpointOptions{})
		if err != nil {
			t.Fatal(err)
		}
		asked, under, answer := 0, 0, error(nil)
		ask := func(context.Context) error {
			asked++
			if under++; under > 1 {
				t.Error("two questions at a time")
			}
			time.Sleep(100 * time.Millisecond) // of the bubble
			under--
			return answer
		}
		r := endpoint.Readiness
		old := time.Now()
		time.Sleep(time.Millisecond)
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				if !r.Since(t.Context(), old, ask) {
					t.Error("not ready")
				}
			})
		}
		group.Wait()
		if asked != 1 {
			t.Errorf("%d questions for failures before the first", asked)
		}
		failed := time.Now()
		time.Sleep(time.Millisecond)
		answer = errors.New("no")
		if r.Since(t.Context(), failed, ask) || asked != 2 {
			t.Errorf("ready by an answer from before the failure; %d questions", asked)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		failed, answer = time.Now(), nil
		time.Sleep(time.Millisecond)
		group.Go(func() { r.Since(t.Context(), failed, ask) })
		synctest.Wait()
		if r.Since(ctx, failed, ask) {
			t.Error("ready, though its time was over before an answer")
		}
		group.Wait()
		if got := r.Stats(); got != (control.ReadinessStats{Asked: 3, Not: 1}) {
			t.Errorf("%+v", got)
		}
	})
}

// TestCallerThatEndsAnswersForNoOther has a caller end while it asks. The next caller
// has an older failure, and asks again. No answer within the time of the caller is counted.
func TestCallerThatEndsAnswersForNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		endpoint, err := control.NewEndpoint(control.EndpointOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r, failed := endpoint.Readiness, time.Now()
		time.Sleep(time.Millisecond)
		hangs := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		answers := func(context.Context) error { return nil }
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			if r.Since(ctx, failed, hangs) {
				t.Error("ready, though the caller ended")
			}
		})
		synctest.Wait()
		group.Go(func() {
			if !r.Since(t.Context(), failed, answers) {
				t.Error("the end of another caller says that the endpoint is not ready")
			}
		})
		synctest.Wait()
		cancel()
		group.Wait()
		failed = time.Now()
		time.Sleep(time.Millisecond)
		late, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		if r.Since(late, failed, hangs) || !r.Since(t.Context(), failed, answers) {
			t.Error("the time of one caller is that of another")
		}
		if got := r.Stats(); got != (control.ReadinessStats{Asked: 4, Not: 1}) {
			t.Errorf("%+v", got)
		}
	})
}

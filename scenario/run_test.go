package scenario

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/stream"
)

// TestAppendWaitsForAKilledProcessWhoseMembersComeToAKill has a member of a process
// that another member killed come to a stage while the process is waited for.
func TestAppendWaitsForAKilledProcessWhoseMembersComeToAKill(t *testing.T) {
	log := &mortal{dead: true}
	ended := errors.New("it ended")
	r := &run{kills: []string{"sync"}, copied: ended, waiting: make([]stream.Record, 1)}
	ctx, stop := context.WithCancel(t.Context())
	r.process = &process{log: log, stop: stop, group: &errgroup.Group{}}
	r.process.group.Go(func() error {
		<-ctx.Done()
		r.fault(log, "sync")
		return nil
	})
	done := make(chan error, 1)
	go func() { done <- r.append(ctx) }()
	select {
	case err := <-done:
		if !errors.Is(err, ended) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("they wait for each other")
	}
}

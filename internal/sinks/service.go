package sinks

import (
	"errors"
	"sync"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/sink"
)

const (
	probeAfter = time.Second // probes a service that is down once a second
	laterMax   = time.Minute

	rejoinAfter = 500 * time.Millisecond
)

// backoff computes the delay before a record is retried.
var backoff control.Backoff

// service tracks the health of a service. It is safe for concurrent use.
type service struct {
	breaker *control.Breaker

	mu    sync.Mutex
	rests time.Time // the service asked for no calls until then
}

func newService() (*service, error) {
	breaker, err := control.NewBreaker(control.BreakerOptions{Probe: probeAfter})
	return &service{breaker: breaker}, err
}

// begin asks for permission to make a call. It is granted if wait is 0.
func (s *service) begin(now time.Time) (call control.BreakerCall, wait time.Duration) {
	s.mu.Lock()
	wait = s.rests.Sub(now)
	s.mu.Unlock()
	if wait > 0 {
		return call, wait
	}
	return s.breaker.Begin(now)
}

// tell records the result of a call. It logs when the service goes down or recovers.
func (s *service) tell(o Options, now time.Time, call control.BreakerCall, outcome control.Outcome, err error) {
	switch before, after := s.ended(now, call, outcome, err); {
	case !before && after:
		o.Logger.Warn("the service of a sink does not take records: they wait", "sink", o.Group, "reason", err)
	case before && !after:
		o.Logger.Info("the service of a sink works again", "sink", o.Group)
	}
}

// ended records the result of a call. It reports whether the service was considered down before the
// call ended, and after.
func (s *service) ended(now time.Time, call control.BreakerCall, outcome control.Outcome, err error) (before, after bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.down()
	s.breaker.Observe(now, call, outcome)
	var later *sink.Later
	if outcome == control.Faulted && errors.As(err, &later) {
		if until := now.Add(min(later.After, laterMax)); until.After(s.rests) {
			s.rests = until
		}
	}
	return before, s.down()
}

// down reports whether the service failed so often that it is only probed.
func (s *service) down() bool { return s.breaker.Stats().State != control.Closed }

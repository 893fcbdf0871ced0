package lang

import (
	"cmp"
	"context"
	"math"
	"strconv"
	"time"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/state/journal"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/model"
)

// Default timeouts of calls.
const (
	defaultTimeout = 3 * time.Second
	ImpliedTimeout = time.Hour // for local models that set no timeout
)

var openWays = map[string]operator.Open{"": operator.OpenPause, "pause": operator.OpenPause, "queue": operator.OpenQueue, "fallback": operator.OpenFallback}

// KeepAnswers adds a model's journal settings to the journal of the pipeline and to calling. If j
// does not say what identifies an answer, by does.
func (r *Resources) KeepAnswers(path string, j *Journal, by operator.Journal, calling *operator.Calling) {
	if j == nil || j.Off {
		return
	}
	spec := journal.Spec{Retention: j.Retention, BytesMax: int64(j.Max)}
	if err := spec.Validate(); err != nil {
		r.Fail(path, "%v", err)
	}
	if r.Journal != nil {
		spec = spec.Widest(*r.Journal)
	}
	r.Journal = &spec
	if !(j.Price >= 0) || math.IsInf(j.Price, 0) {
		r.Fail(path+".price", "%v is not a price: use 0 or more", j.Price)
	}
	by, ok := map[string]operator.Journal{"": by, "request": operator.JournalByRequest, "event": operator.JournalByEvent}[j.By]
	if !ok {
		r.Fail(path+".by", "unknown word %q: use request or event", j.By)
	}
	calling.Journal, calling.Price = by, j.Price
}

// CallModel returns how to call a model, or nil if the model is called inline. If s sets no
// timeout, timeout applies.
func (r *Resources) CallModel(path string, s *Calling, of string, timeout time.Duration) *operator.Calling {
	if s == nil {
		return nil
	}
	url, service := r.service(of)
	call := *s
	call.Timeout = cmp.Or(call.Timeout, timeout)
	return r.Call(path, &call, url, service)
}

// TimeoutOf returns the timeout of a call if the pipeline sets none; 0 means the default. A model
// that computes on this machine gets ImpliedTimeout: there is no server that may be down, and its
// processes are watched.
func TimeoutOf(info model.Info) time.Duration {
	if info.Timeout == 0 && !info.Remote {
		return ImpliedTimeout
	}
	return info.Timeout
}

// Timeout returns the timeout of a call, or 0 if the file sets none.
func (r *Resources) Timeout(s *Calling) time.Duration {
	if s.Budget {
		return r.Budget.Phases[observe.Model]
	}
	return s.Timeout
}

// Share checks that the budget has a share for calls, if the file says that calls keep to it.
func (r *Resources) Share(path string, s *Calling) {
	if s == nil || !s.Budget {
		return
	}
	path += ".call.timeout"
	switch share := r.Timeout(s); {
	case s.Timeout != 0:
		r.Fail(path, "the timeout is %v, and a share of the budget is set too", s.Timeout)
		r.Hint("set Timeout or Budget")
	case r.Pipeline.Budget.P99 == 0:
		r.Fail(path, "calls take a share of the budget, but the pipeline has no budget")
		r.Hint("write `budget: {p99: ...}` in the pipeline, or a duration here")
	case share < time.Millisecond && r.Budget.P99 > 0:
		r.Fail(path, "calls have %v of the budget, which is below 1ms", share)
		r.Hint("raise `model` or `p99` of the budget, or write a duration here")
	}
}

// Call returns how to call the service at a URL.
func (r *Resources) Call(path string, s *Calling, url, service string) *operator.Calling {
	if s.Timeout < 0 || s.Expire < 0 {
		r.Fail(path, "timeout or expire is negative: use 0 or more")
	}
	open, ok := openWays[s.Breaker.Open]
	if !ok {
		r.Fail(path+".breaker.open", "unknown word %q: use pause, queue or fallback", s.Breaker.Open)
	}
	calling := &operator.Calling{Timeout: cmp.Or(r.Timeout(s), defaultTimeout), Expire: s.Expire, Open: open}
	var err error
	if calling.Backoff, err = (control.Backoff{Base: s.Backoff.Base, Max: s.Backoff.Max, Attempts: s.Attempts}).Resolved(); err != nil {
		r.Fail(path+".backoff", "%v", err)
	}
	calling.Endpoint, err = r.Endpoints.Of(url, service, control.EndpointOptions{
		Breaker:     control.BreakerOptions{Failures: s.Breaker.Failures, Rate: s.Breaker.Rate, Probe: s.Breaker.Probe},
		Concurrency: control.ConcurrencyOptions{Max: s.Concurrency, Start: s.Start, Target: calling.Timeout / 2},
	})
	if err != nil {
		r.Fail(path, "%v", err)
	}
	return calling
}

// service returns the URL of a model's server and the identity of the model on that server. For a
// model that runs in this process, it returns values that only this pipeline uses.
func (r *Resources) service(name string) (url, service string) {
	for _, m := range r.Pipeline.Models {
		if m.Name == name && m.URL != "" {
			return m.URL, "@" + strconv.Itoa(m.Version)
		}
		if m.Name == name && m.Manifest != nil {
			if server, ok := m.Manifest.Config.(model.Server); ok {
				return server.Service(m.Manifest)
			}
		}
	}
	return "pipeline:" + r.Pipeline.Name, name
}

// ReadyOf returns the readiness check of a model, or nil if the model has none.
func ReadyOf(m model.Model) func(context.Context) error {
	if r := calling.ReadierOf(m); r != nil {
		return r.Ready
	}
	return nil
}

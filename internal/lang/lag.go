package lang

import (
	"time"

	"github.com/afterbay/afterbay/internal/spec"
)

// Lag says how far the pipeline may fall behind: how long ago the oldest event
// that it has not committed may have come in.
type Lag struct {
	Warn     time.Duration // beyond it a metric turns 1 and a line is logged; 0 is never
	Critical time.Duration // beyond it the process is also not ready; 0 is never
}

var lagFields = []spec.Field[Lag]{
	{Name: "warn", Affects: spec.Nothing, Form: spec.Into(func(l *Lag) *time.Duration { return &l.Warn }, spec.Span(time.Second, 30*spec.Day)), Example: "10s"},
	{Name: "critical", Affects: spec.Nothing, Form: spec.Into(func(l *Lag) *time.Duration { return &l.Critical }, spec.Span(time.Second, 30*spec.Day)), Example: "60s"},
}

// Check reports what is wrong with the bounds.
func (l Lag) Check(f *Findings) {
	for _, at := range []struct {
		path string
		time.Duration
	}{{"lag.warn", l.Warn}, {"lag.critical", l.Critical}} {
		if at.Duration != 0 && (at.Duration < time.Second || at.Duration > 30*24*time.Hour) {
			f.Fail(at.path, "%v is out of range: use 1s to 720h", at.Duration)
		}
	}
	if l.Critical != 0 && l.Critical < l.Warn {
		f.Fail("lag.critical", "%v is below warn, %v", l.Critical, l.Warn)
		f.Hint("a pipeline is late before it is too late: make warn the shorter one")
	}
}

package lang

import (
	"time"

	"github.com/afterbay/afterbay/internal/spec"
)

// Lag limits how far the pipeline may fall behind: the age of the oldest event that it has not
// committed.
type Lag struct {
	Warn     time.Duration // beyond this lag a metric becomes 1 and a line is logged; 0 is never
	Critical time.Duration // beyond this lag the process is also not ready; 0 is never
}

var lagFields = []spec.Field[Lag]{
	{Name: "warn", Affects: spec.Nothing, Form: spec.Into(func(l *Lag) *time.Duration { return &l.Warn }, spec.Span(time.Second, 30*spec.Day)), Example: "10s"},
	{Name: "critical", Affects: spec.Nothing, Form: spec.Into(func(l *Lag) *time.Duration { return &l.Critical }, spec.Span(time.Second, 30*spec.Day)), Example: "60s"},
}

// LagBound is one bound with its name in the file.
type LagBound struct {
	Word  string
	Limit time.Duration // 0 means no bound
}

// Bounds returns all bounds, the shorter first.
func (l Lag) Bounds() []LagBound { return []LagBound{{"warn", l.Warn}, {"critical", l.Critical}} }

// Check reports invalid bounds as findings.
func (l Lag) Check(f *Findings) {
	for _, b := range l.Bounds() {
		if b.Limit != 0 && (b.Limit < time.Second || b.Limit > 30*24*time.Hour) {
			f.Fail("lag."+b.Word, "%v is out of range: use 1s to 720h", b.Limit)
		}
	}
	if l.Critical != 0 && l.Critical < l.Warn {
		f.Fail("lag.critical", "%v is below warn, %v", l.Critical, l.Warn)
		f.Hint("a pipeline is late before it is too late: make warn the shorter one")
	}
}

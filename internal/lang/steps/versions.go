package steps

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/task/table"
)

// asOfEvent reports whether the lookup finds the row that was valid at the time of the event.
func (l *Lookup) asOfEvent() bool { return l.Versions.AsOf == "event" }

// ofVersions reports fields that need as_of: event, in a lookup without it.
func (l *Lookup) ofVersions(s *lang.Scope, path, hint string) {
	for _, word := range []struct {
		name  string
		given bool
	}{{"as_of", l.asOfEvent()}, {"time", l.Versions.Time != lang.RowTime{}}, {"history", l.Versions.History != 0}, {"wait", l.Versions.Wait != 0}} {
		if word.given {
			s.Fail(path+"."+word.name, "it applies to a table with as_of: event")
			s.Hint(hint)
		}
	}
}

// bindVersions decides which versions of its rows a table keeps.
func (l *Lookup) bindVersions(s *lang.Scope, path string, spec *table.Spec) {
	if !l.asOfEvent() {
		l.ofVersions(s, path, "add as_of: event, or remove it")
		return
	}
	if spec.Written {
		s.Fail(path+".as_of", "the pipeline writes %q itself: an event finds the row of the one before it", l.Table)
		s.Hint("remove as_of, or have another pipeline write the table")
		return
	}
	lateness := time.Duration(0)
	for _, in := range s.Pipeline.EachInput() {
		lateness = max(lateness, in.Time.Lateness)
	}
	spec.Versions = table.Versions{History: cmp.Or(l.Versions.History, max(lang.DefaultHistory, lateness)), Wait: l.Versions.Wait}
	if spec.Versions.History < lateness {
		s.Fail(path+".history", "%v is less than the lateness of the input, %v: an event that is in time would find the row of another time", l.Versions.History, lateness)
		s.Hint("give as much history as lateness, or more")
	}
	if p99 := s.Pipeline.Budget.P99; p99 > 0 && l.Versions.Wait >= p99 {
		s.Warnings = append(s.Warnings, fmt.Sprintf("%s.wait: each event waits for rows for %v, and budget.p99 is %v: no event can keep the budget", path, l.Versions.Wait, p99))
	}
	l.bindRowTime(s, path+".time", &spec.Versions)
	if slices.ContainsFunc(s.Tables, func(o table.Spec) bool {
		return o.Topic == spec.Topic && o.Own == spec.Own && o.Versions.Kept() && o.Versions != spec.Versions
	}) {
		s.Fail(path+".as_of", "a lookup above finds rows of %q as of the event with another time, history or wait: the rows are kept once", l.Table)
		s.Hint("give both lookups the same")
	}
}

// bindRowTime decides how to read the time of a row.
func (l *Lookup) bindRowTime(s *lang.Scope, path string, into *table.Versions) {
	t := &l.Versions.Time
	if *t == (lang.RowTime{}) {
		return
	}
	unit, known := lang.TimeUnits[t.Unit]
	into.Field, into.Kind, into.Unit, into.Layout = t.Field, value.Int, unit, t.Format
	switch {
	case t.Field == "":
		s.Fail(path+".field", "missing: name the field with the start of the row's validity")
	case t.Format != "" && t.Unit != "":
		s.Fail(path+".format", "remove unit or format: only one is allowed")
	case t.Format != "":
		into.Kind = value.String
		if err := operator.CheckLayout(t.Format); err != nil {
			s.Fail(path+".format", "%v", err)
		}
	case t.Unit == "rfc3339":
		into.Kind = value.Time
	case !known:
		s.Fail(path+".unit", "missing: use s, ms, us or ns for a number, rfc3339 for a time, or format for a text")
	}
}

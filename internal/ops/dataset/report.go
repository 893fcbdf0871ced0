package dataset

import (
	"fmt"
	"strings"

	"github.com/afterbay/afterbay/internal/sys/term"
)

// report prints the counts of rows and labels to standard error.
func (w *writer) report() {
	m := w.manifest
	say := func(format string, args ...any) { fmt.Fprintf(w.out, format+"\n", args...) }
	say("wrote %d rows of %d columns to %s in %v", m.Rows.Count, len(w.columns), w.Out, w.meter.Elapsed())
	say("sha256 %s, in %s too", m.File.SHA256, manifestOf(w.Out))
	w.profiler.report(say, w.manifest.Profile)
	say("no rows: %d dropped, dead letters: %s", m.Events.Dropped, term.Counts(m.Events.DeadLetters))
	if n := m.Events.Collected; n > 0 {
		say("collected by a group or join, which makes the rows: %d", n)
	}
	switch f := m.Events.Forced; {
	case f == nil:
	case f.Followed:
		say("forced by the live pipeline, and computed at the same place: %s", term.Counted(int(f.Events), "event"))
	default:
		say("warning: the live pipeline forced %s. Their rows, and those of later events of their keys, may differ from the live ones: %s", term.Counted(int(f.Events), "event"), f.Reason)
	}
	if n := m.Events.Outside; n > 0 {
		say("outside of --since and --until: %d", n)
	}
	if l := m.Labels; l != nil {
		say("labels: %d rows labelled, %d without, %d left out since they are younger than the horizon as of %s (%s)", l.Labelled, l.Unlabelled, l.Young, timeText(l.AsOf), l.AsOfFrom)
		say("labels of no row: %d of %d, unreadable: %d", l.Unused, l.Records, l.Unreadable)
		if l.First != "" {
			say("warning: the first label that cannot be read is %s", l.First)
		}
		switch {
		case l.Ahead > 0 && w.labels.known:
			say("labels known after --as-of, which are not used: %d", l.Ahead)
		case l.Ahead > 0:
			say("warning: %d labels are of the future: the first is %s", l.Ahead, l.FirstAhead)
		}
		if read := l.Records - l.Unreadable - l.Ahead; read > 0 && l.Labelled+l.Retracted == 0 && l.Unlabelled > 0 {
			say("warning: no row has a label, of %d: check --on, --label-time and --horizon", read)
		}
	}
	if k := m.Kept; k != (Kept{}) {
		say("left out: %d negatives, %d by --keep", k.Negatives, k.Expression)
	}
	if len(w.approximate) > 0 {
		say("  %-13s %s events: their windows hold more than max, so they are read in panes of a sixtieth", "approximate", term.Counts(w.approximate))
	}
	for _, warning := range w.rows.Arrivals() {
		say("warning: %s", warning)
	}
	for _, odd := range w.rows.Runner().Snapshot().OddTimes {
		say("event times look wrong: %s", odd)
	}
	for _, s := range m.Sources {
		if s.First > 0 {
			say("warning: %s/%d begins at offset %d: windows do not include earlier events", s.Topic, s.Partition, s.First)
		}
	}
	if len(w.rows.Missing) > 0 {
		say("not known without model %s: %s", strings.Join(w.rows.AbsentModels(), ", "), strings.Join(w.rows.Missing, ", "))
	}
	var empty []string
	for _, c := range w.columns {
		if w.filled[c.Bit>>6]>>(c.Bit&63)&1 == 0 {
			empty = append(empty, c.Name)
		}
	}
	if len(empty) > 0 && m.Rows.Count > 0 {
		say("empty in all rows: %s", strings.Join(empty, ", "))
	}
	if w.rows.Timeless() && !w.FromLog {
		say("pipeline %s names no field of event time (input.time): its windows and gaps are those of this run, not of the events", w.rows.Runner().Name())
	}
}

// report prints what to write in the pipeline file. A nil profiler prints nothing.
func (p *profiler) report(say func(format string, args ...any), file *FileDigest) {
	if p == nil {
		return
	}
	say("profile of %s of model %s over %s: write this at the model in the pipeline file:", term.Counted(len(p.names), "feature"), p.model, term.Counted(int(p.rows), "row"))
	say("  profile: {file: %s, sha256: %s}", file.Name, file.SHA256)
	if p.failed > 0 {
		say("warning: %d rows are not in the profile, since their features cannot be computed. The first error is %v", p.failed, p.first)
	}
}

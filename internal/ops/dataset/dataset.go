// Package dataset writes training rows: the names that a pipeline computed for each event, with
// labels as they were known in time. A manifest beside the file describes the inputs of the rows.
//
// Package dryrun computes the rows in a replay. The rows are sorted by the time, partition and
// offset of their events. The same events therefore produce the same bytes, with any parallelism
// and any engine.
package dataset

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/check/dryrun"
	"github.com/afterbay/afterbay/internal/event/tabular"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/sys/term"
)

// Options select the rows to write.
type Options struct {
	dryrun.RowsOptions
	Out          string    // file of rows; the manifest is beside it
	Since, Until time.Time // only events from Since on and before Until; zero is no limit
	Labels       Labels
	Negatives    string    // share of the rows without a positive label to keep, such as 5%; "" keeps all
	Keep         string    // expression that selects the rows to keep
	Now          time.Time // labels known after this time are ignored; zero is no limit
	Profile      string    // file of the profile of the features of the model, [MODEL=]FILE; "" writes none
	Command      []string  // command-line arguments, for the manifest
	Version      string    // version of the program, for the manifest
}

// Write computes and writes the rows. It replaces the file and the manifest only if everything
// succeeded. It uses as much memory as the replay: rows and labels are sorted in temporary files.
func Write(ctx context.Context, program *dryrun.Program, o Options) (err error) {
	format, err := tabular.FormatOf(o.Out)
	if err != nil {
		return failure.Usage("--out %v", err)
	}
	if err := o.sparesInputs(); err != nil {
		return err
	}
	w := &writer{Options: o, out: program.Err, meter: term.NewMeter(program.Err), manifest: newManifest(&o, format)}
	if w.rows, err = program.NewRows(ctx, o.RowsOptions); err != nil {
		return err
	}
	if err := w.prepare(program); err != nil {
		return err
	}
	out, err := w.create()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.close()) }()
	folder, err := os.MkdirTemp("", "afterbay-dataset-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := w.compute(ctx, folder, func(sorted *sorter) error { return w.write(out.rows, format, sorted) }); err != nil {
		return err
	}
	if w.profiler != nil {
		about, err := w.profiler.write(out.profile, w.Profile, w.manifest.Rows.SHA256)
		if err != nil {
			return err
		}
		w.manifest.Profile = &about
	}
	if err := w.manifest.write(out.manifest); err != nil {
		return err
	}
	if err := out.commit(); err != nil {
		return err
	}
	w.report()
	return nil
}

// sparesInputs returns an error if the output would replace a file that the command reads.
func (o *Options) sparesInputs() error {
	inputs := o.inputs()
	for _, out := range []string{o.Out, manifestOf(o.Out)} {
		if input := sameFile(out, inputs); input != "" {
			return failure.Usage("--out %s would replace %s, which is read: name another file", o.Out, input)
		}
	}
	return nil
}

// inputs returns the files that the command reads.
func (o *Options) inputs() []string {
	inputs := []string{o.File, o.Events, o.Labels.Source}
	for _, table := range o.Tables {
		_, file, _ := strings.Cut(table, "=")
		inputs = append(inputs, file)
	}
	return inputs
}

// sameFile returns the one of paths that is the same file as out, or "".
func sameFile(out string, paths []string) string {
	old, err := os.Stat(out)
	if err != nil {
		return "" // it does not exist
	}
	for _, path := range paths {
		if other, err := os.Stat(path); err == nil && os.SameFile(old, other) {
			return path
		}
	}
	return ""
}

// writer takes rows from the replay to the file.
type writer struct {
	Options
	out      io.Writer
	meter    *term.Meter
	rows     *dryrun.Rows
	manifest *Manifest

	base     *value.Schema // schema of the pipeline
	schema   *value.Schema // base and the label
	columns  []value.Slot
	row      value.Row
	text     []byte  // encoded row
	labels   *labels // nil if Labels.Source is ""
	keep     *keep   // nil keeps all
	negative *negatives
	profiler *profiler // nil writes no profile

	texts, numbers int // slots of a row of base
	filled         []uint64
	approximate    map[string]int
}

// prepare compiles the columns and the conditions on rows.
func (w *writer) prepare(program *dryrun.Program) (err error) {
	w.base = w.rows.Runner().Plan.Schema
	w.columns = slices.Clone(w.rows.Columns)
	w.schema = &value.Schema{}
	for _, slot := range w.base.Slots {
		if _, err := w.schema.Add(slot.Name, slot.Type); err != nil {
			return err
		}
		if slot.Type.Kind.Text() {
			w.texts++
		} else {
			w.numbers++
		}
	}
	if w.labels, err = newLabels(program, &w.Options, w.schema); err != nil {
		return err
	}
	if w.labels != nil {
		w.manifest.Labels = &LabelCounts{}
		w.labels.counts = w.manifest.Labels
		if slices.ContainsFunc(w.columns, func(c value.Slot) bool { return c.Name == w.labels.slot.Name }) {
			return failure.Usage("--label %s: the rows have a column of that name", w.labels.slot.Name)
		}
		w.columns = append(w.columns, w.labels.slot)
	}
	if w.negative, err = newNegatives(w.Negatives, w.labels); err != nil {
		return err
	}
	if w.keep, err = newKeep(w.Keep, w.schema); err != nil {
		return err
	}
	if w.profiler, err = newProfiler(&w.Options, w.rows.Runner().Scored, w.rows.AbsentModels()); err != nil {
		return err
	}
	w.row = w.schema.NewRows(1)[0]
	w.filled = make([]uint64, len(w.row.Present))
	w.approximate = map[string]int{}
	return nil
}

// compute runs the replay and passes the sorted rows to done.
func (w *writer) compute(ctx context.Context, folder string, done func(*sorter) error) (err error) {
	rows, sorted := &sorter{folder: folder}, &sorter{folder: folder}
	defer func() { err = errors.Join(err, rows.close(), sorted.close()) }()
	if w.labels != nil {
		w.labels.sorter.folder = folder
		defer func() { err = errors.Join(err, w.labels.sorter.close()) }()
		if err := w.labels.read(ctx); err != nil {
			return err
		}
	}
	var key, text []byte
	err = w.rows.Run(func(e *dryrun.Event) error {
		defer w.meter.Show("%d events, %s", w.rows.Appended, w.meter.Rate(w.rows.Appended))
		if !w.wanted(e) {
			return nil
		}
		text = appendRow(text[:0], e.Row)
		if key = key[:0]; w.labels != nil {
			key = w.labels.appendOn(key, e.Row)
			return rows.add(appendPlace(key, e.Time, e), text)
		}
		if err := readRow(text, &w.row, len(w.base.Slots), w.numbers, w.texts); err != nil {
			return err
		}
		return w.choose(sorted, appendPlace(key, e.Time, e), nil)
	})
	w.meter.Clear()
	if err != nil {
		return err
	}
	if w.labels != nil {
		if err := w.label(rows, sorted); err != nil {
			return err
		}
	}
	return done(sorted)
}

// wanted counts an event, and reports whether it has a row.
func (w *writer) wanted(e *dryrun.Event) bool {
	m := w.manifest
	if e.Late {
		m.Events.Late++
	}
	switch {
	case e.Failed:
		m.Events.DeadLetters[e.Stage]++
		return false
	case e.Dropped:
		m.Events.Dropped++
		return false
	case e.Collected:
		m.Events.Collected++
		return false
	case !w.Since.IsZero() && e.Time.Before(w.Since), !w.Until.IsZero() && !e.Time.Before(w.Until):
		m.Events.Outside++
		return false
	}
	for _, feature := range e.Approximate {
		w.approximate[feature]++
	}
	return true
}

// label joins the rows with their labels.
func (w *writer) label(rows, sorted *sorter) error {
	return w.labels.join(rows, func(place, text []byte, label *label) error {
		if err := readRow(text, &w.row, len(w.base.Slots), w.numbers, w.texts); err != nil {
			return err
		}
		return w.choose(sorted, place, label)
	})
}

// choose adds w.row to the sorted rows unless a condition excludes it.
func (w *writer) choose(sorted *sorter, place []byte, label *label) error {
	m := w.manifest
	if w.labels != nil {
		if timeOf(place) > w.labels.asOf-w.labels.Horizon.Microseconds() {
			m.Labels.Young++
			return nil
		}
		switch {
		case label == nil:
			m.Labels.Unlabelled++
		case label.value == nil:
			m.Labels.Unlabelled++
			m.Labels.Retracted++
		default:
			label.store(&w.row, w.labels.slot)
			m.Labels.Labelled++
		}
	}
	if w.negative != nil && !w.negative.takes(&w.row) {
		m.Kept.Negatives++
		return nil
	}
	if w.keep != nil {
		switch taken, err := w.keep.takes(&w.row); {
		case err != nil:
			return err
		case !taken:
			m.Kept.Expression++
			return nil
		}
	}
	w.text = appendRow(w.text[:0], &w.row)
	if w.profiler != nil {
		w.profiler.take(place, &w.row)
	}
	return sorted.add(place, w.text)
}

// write writes the rows in order.
func (w *writer) write(file io.Writer, format tabular.Format, sorted *sorter) error {
	m := w.manifest
	digest, err := newDigest(file, format, w.columns)
	if err != nil {
		return err
	}
	if w.profiler != nil {
		if err := w.profiler.begin(); err != nil {
			return err
		}
	}
	extra := 0
	if w.labels != nil && !w.labels.slot.Type.Kind.Text() {
		extra = 1
	}
	for e, err := range sorted.all() {
		if err == nil {
			err = readRow(e.value, &w.row, len(w.schema.Slots), w.numbers+extra, len(w.row.Str))
		}
		if err == nil {
			err = digest.Write(&w.row)
		}
		if err != nil {
			return err
		}
		for i, word := range w.row.Present {
			w.filled[i] |= word
		}
		if m.Rows.Count++; w.profiler != nil {
			w.profiler.count(&w.row)
		}
	}
	if err := digest.Close(); err != nil {
		return err
	}
	m.finish(w, digest)
	return nil
}

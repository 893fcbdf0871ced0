package dryrun

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/sys/clean"
	"github.com/afterbay/afterbay/internal/sys/term"
	"github.com/afterbay/afterbay/stream"
)

// TryOptions are the flags of afterbay try. Their help texts describe them.
type TryOptions struct {
	File   string
	Topic  string
	Limit  int64 // number of events to print; -1 is all
	Tables []string
	JSON   bool
}

// Try prints what the pipelines of a file do with events, and stores nothing. The events come from
// source or, if it is nil, from the records of a topic.
func (a *Program) Try(ctx context.Context, source *ingest.Source, records iter.Seq2[stream.Record, error], o TryOptions) error {
	p := &printer{Program: a, limit: o.Limit, json: o.JSON, out: term.NewLines(a.Out, false)}
	r, err := a.newDryRun(ctx, o.File, 1, func(*lang.Pipeline) bool { return true }, nil, p.batch)
	if err != nil {
		return err
	}
	r.tables = o.Tables
	for _, played := range r.parts {
		p.tallies = append(p.tallies, newTally(played))
	}
	err = r.run(func(ctx context.Context) error {
		if source != nil {
			return errors.Join(r.publish(ctx, source, o.Topic), r.finish(ctx))
		}
		return errors.Join(r.repeat(ctx, records, o.Topic), r.finish(ctx))
	})
	return errors.Join(err, p.out.Close(), p.summary(r))
}

// printer prints events, and a summary.
type printer struct {
	*Program
	out     *term.Lines
	json    bool
	limit   int64 // number of events to print; -1 is all
	tallies []*tally
}

// batch prints and counts the events of a batch.
func (p *printer) batch(batch []*seen) error {
	for _, s := range batch {
		if s.made {
			continue // its outputs are shown with the event that completes it
		}
		p.tallies[s.index].add(s)
		if p.limit >= 0 && s.number > p.limit {
			continue
		}
		var err error
		if p.json {
			err = p.object(s)
		} else {
			err = p.show(s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// show prints an event as text.
func (p *printer) show(s *seen) error {
	head := []string{fmt.Sprintf("event %d", s.number)}
	if len(p.tallies) > 1 {
		head = append(head, "pipeline "+s.runner.Name())
	}
	if len(s.record.Key) > 0 {
		head = append(head, "key "+clean.Text(string(s.record.Key)))
	}
	if !s.time.IsZero() {
		head = append(head, s.time.UTC().Format("2006-01-02T15:04:05.999999Z"))
	}
	head = append(head, s.at())
	if s.late {
		head = append(head, "late")
	}
	if s.dropped {
		head = append(head, "dropped")
	}
	text := strings.Join(head, "  ") + "\n"
	for _, stage := range s.shown() {
		text += wrap(stage, s.names(stage))
	}
	text += wrap("approximate", s.approximate)
	for i := range s.outputs {
		o := &s.outputs[i]
		if s.dead(o) {
			text += fmt.Sprintf("  dead letter  %s: %s\n", header.Get(o, header.Stage), clean.Text(header.Get(o, header.Error)))
		} else {
			text += fmt.Sprintf("  -> %s  %s\n", o.Partition.Topic, clean.Text(string(s.runner.Shown(o.Partition.Topic, o.Value))))
		}
	}
	return p.out.Write([]byte(text))
}

// names returns the names of a stage that have a value in the event, as name=value.
func (s *seen) names(stage string) []string {
	var list []string
	for slot := range s.slots(stage) {
		list = append(list, slot.Name+"="+short6(&s.row, slot))
	}
	return list
}

// slots yields the slots of a stage that have a value in the event.
func (s *seen) slots(stage string) func(func(value.Slot) bool) {
	return func(yield func(value.Slot) bool) {
		if s.copied {
			return
		}
		for _, slot := range s.runner.Plan.Schema.Slots {
			if s.stage(slot.Name) == stage && s.row.Has(slot) && !yield(slot) {
				return
			}
		}
	}
}

// short6 formats a value for display: numbers with six digits, and long texts truncated.
func short6(row *value.Row, slot value.Slot) string {
	if slot.Type.Kind == value.Number {
		return strconv.FormatFloat(row.Number(slot), 'g', 6, 64)
	}
	text := []rune(string(expression.AppendValue(nil, row, &slot)))
	if len(text) > 60 {
		text = append(text[:57], []rune("...")...)
	}
	return string(text)
}

// wrap writes words after a title, on lines of about a hundred characters.
func wrap(title string, words []string) string {
	var text strings.Builder
	width := 0
	for i, word := range words {
		switch {
		case i == 0:
			width, _ = fmt.Fprintf(&text, "  %-9s", title)
		case width+len(word) > 100:
			width, _ = fmt.Fprintf(&text, "\n  %-9s", "")
			width--
		}
		n, _ := text.WriteString(" " + word)
		width += n
	}
	if len(words) > 0 {
		text.WriteByte('\n')
	}
	return text.String()
}

// object prints an event as JSON.
func (p *printer) object(s *seen) error {
	type output struct {
		Topic string          `json:"topic"`
		Key   string          `json:"key,omitempty"`
		Value json.RawMessage `json:"value"`
	}
	type dead struct {
		Stage string `json:"stage"`
		Error string `json:"error"`
	}
	event := struct {
		Event       int64           `json:"event"`
		Pipeline    string          `json:"pipeline"`
		Position    string          `json:"position"`
		Key         string          `json:"key"`
		Time        string          `json:"time,omitempty"`
		Late        bool            `json:"late,omitempty"`
		Dropped     bool            `json:"dropped,omitempty"`
		Approximate []string        `json:"approximate,omitempty"` // features with windows beyond their max
		Names       json.RawMessage `json:"names"`
		Outputs     []output        `json:"outputs,omitempty"`
		Dead        []dead          `json:"dead_letters,omitempty"`
	}{
		Event: s.number, Pipeline: s.runner.Name(), Position: s.at(), Key: string(s.record.Key), Late: s.late, Dropped: s.dropped, Approximate: s.approximate,
		Names: s.object(),
	}
	if !s.time.IsZero() {
		event.Time = s.time.UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	for i := range s.outputs {
		o := &s.outputs[i]
		if s.dead(o) {
			event.Dead = append(event.Dead, dead{header.Get(o, header.Stage), header.Get(o, header.Error)})
			continue
		}
		made := output{o.Partition.Topic, string(o.Key), s.runner.Shown(o.Partition.Topic, o.Value)}
		if !json.Valid(made.Value) {
			made.Value, _ = json.Marshal(string(made.Value)) // encoding a string cannot fail
		}
		event.Outputs = append(event.Outputs, made)
	}
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(event); err != nil {
		return err
	}
	return p.out.Write(bytes.TrimSuffix(line.Bytes(), []byte("\n")))
}

// object returns the names that have a value in the event as JSON, by stage.
func (s *seen) object() []byte {
	text := []byte{'{'}
	for _, stage := range s.shown() {
		opened := false
		for slot := range s.slots(stage) {
			if !opened {
				text, opened = fmt.Appendf(text, "%q:{", stage), true
			}
			text = append(strconv.AppendQuote(text, slot.Name), ':')
			text = append(expression.AppendValue(text, &s.row, &slot), ',')
		}
		if opened {
			text[len(text)-1] = '}'
			text = append(text, ',')
		}
	}
	return append(bytes.TrimSuffix(text, []byte{','}), '}')
}

// tally counts the outcomes of a pipeline's events.
type tally struct {
	*part
	events, late, dropped int
	approximate           map[string]int            // number of events by approximate feature
	outputs               map[string]int            // number of outputs by topic
	dead                  map[string]int            // number of dead letters by stage
	examples              map[string]string         // an example of a dead letter by stage
	decisions             map[string]map[string]int // number of events by name and value
}

func newTally(p *part) *tally {
	return &tally{part: p, approximate: map[string]int{}, outputs: map[string]int{}, dead: map[string]int{}, examples: map[string]string{}, decisions: map[string]map[string]int{}}
}

const decisionsMax = 20 // different values counted for a name

func (t *tally) add(s *seen) {
	t.events++
	if s.late {
		t.late++
	}
	if s.dropped {
		t.dropped++
	}
	for _, feature := range s.approximate {
		t.approximate[feature]++
	}
	for i := range s.outputs {
		o := &s.outputs[i]
		if !s.dead(o) {
			t.outputs[o.Partition.Topic]++
			continue
		}
		stage := header.Get(o, header.Stage)
		if t.dead[stage]++; t.dead[stage] == 1 {
			t.examples[stage] = fmt.Sprintf("event %d: %s", s.number, clean.Text(header.Get(o, header.Error)))
		}
	}
	for slot := range s.slots("decide") {
		if slot.Type.Kind != value.String && slot.Type.Kind != value.Bool {
			continue
		}
		counts := t.decisions[slot.Name]
		if counts == nil {
			counts = map[string]int{}
			t.decisions[slot.Name] = counts
		}
		text := strings.Trim(short6(&s.row, slot), `"`)
		if _, known := counts[text]; !known && len(counts) >= decisionsMax {
			text = "others"
		}
		counts[text]++
	}
}

// writeApproximate writes the approximate features, each with its number of events.
func writeApproximate(out io.Writer, events map[string]int) {
	if len(events) > 0 {
		fmt.Fprintf(out, "  %-13s %s events: their windows hold more than max, so they are read in panes of a sixtieth\n", "approximate", term.Counts(events))
	}
}

// summary prints the outcomes of all events.
func (p *printer) summary(r *dryRun) error {
	var text strings.Builder
	if p.limit >= 0 && p.limit < r.appended {
		fmt.Fprintf(&text, "the first %d of %d events are shown; --limit chooses how many\n", p.limit, r.appended)
	}
	if r.appended == 0 {
		text.WriteString("there were no events: name a file that has some, NDJSON or CSV with a header\n")
	}
	for _, t := range p.tallies {
		fmt.Fprintf(&text, "pipeline %s: %d events, %d late, %d dropped\n", t.runner.Name(), t.events, t.late, t.dropped)
		outputs := t.runner.Outputs()
		for _, topic := range outputs[:len(outputs)-1] {
			fmt.Fprintf(&text, "  %-13s %d outputs\n", topic, t.outputs[topic])
		}
		for _, slot := range t.runner.Plan.Schema.Slots {
			if counts := t.decisions[slot.Name]; counts != nil {
				fmt.Fprintf(&text, "  %-13s %s\n", slot.Name, term.Counts(counts))
			}
		}
		writeApproximate(&text, t.approximate)
		fmt.Fprintf(&text, "  %-13s %s\n", "dead letters", term.Counts(t.dead))
		for _, stage := range slices.Sorted(maps.Keys(t.examples)) {
			fmt.Fprintf(&text, "    %-11s %s\n", stage, t.examples[stage])
		}
		for _, odd := range t.runner.Snapshot().OddTimes {
			fmt.Fprintf(&text, "  event times look wrong: %s\n", odd)
		}
		if t.pipeline.Input.Topic != "" && t.pipeline.Input.Time.Field == "" {
			fmt.Fprintf(&text, "  its events have no field of event time (input.time): their times follow the order of reading\n")
		}
	}
	out := p.Out
	if p.json {
		out = p.Err
	}
	_, err := fmt.Fprint(out, text.String())
	return err
}

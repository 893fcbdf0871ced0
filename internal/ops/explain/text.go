package explain

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/observe"
)

// textMax is the most characters of a key or value that the text report shows.
const textMax = 2_000

// printer writes lines with a title and a text. It keeps the first error.
type printer struct {
	out io.Writer
	err error
}

func (p *printer) line(title, format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, "%-14s %s\n", title, plain(fmt.Sprintf(format, args...)))
	}
}

// plain puts text from events on one line and removes characters that could harm a terminal.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if runes := []rune(text); len(runes) > textMax {
		return fmt.Sprintf("%s... (%d characters more, --json has them)", string(runes[:textMax]), len(runes)-textMax)
	}
	return text
}

// Write writes the report as text.
func (r *Report) Write(out io.Writer) error {
	p := &printer{out: out}
	way := append([]*Record{r.Event}, r.Upstream...)
	if r.Output != nil {
		way = append([]*Record{r.Output}, way...)
	}
	for i, record := range way {
		title := "came from"
		if i == 0 {
			title = record.Kind
		}
		p.record(title, record)
		if record.Made != nil {
			p.made(record.Made)
		}
		if i == 0 && r.Output == nil {
			p.became(r)
		}
		if i == 0 && r.Also != nil {
			p.line("also", "%s", "with this id: "+strings.Join(r.Also, ", "))
		}
	}
	for _, replay := range r.Replays {
		p.replay(replay, r.Event.Position)
	}
	return p.err
}

func (p *printer) record(title string, r *Record) {
	p.line(title, "%s", r.Position)
	if r.Missing != "" {
		p.line("", "%s", r.Missing)
		return
	}
	if r.ID != "" {
		p.line("  id", "%s", r.ID)
	}
	p.line("  time", "%s", r.Time.UTC().Format(time.RFC3339Nano))
	if r.Key != nil {
		p.line("  key", "%s", r.Key)
	}
	p.line("  value", "%s", r.Value)
}

func (p *printer) made(m *Made) {
	made := "pipeline " + m.Pipeline
	if m.Generation > 0 {
		made += fmt.Sprintf(" %s generation %d", m.Digest, m.Generation)
	}
	p.line("  made by", "%s", made)
	for _, model := range m.Models {
		p.line("  model", "%v", model)
	}
	p.line("  attempts", "%d", m.Attempts)
	if !m.Watermark.IsZero() {
		p.line("  watermark", "%s", m.Watermark.Format(time.RFC3339Nano))
	}
	if m.Stage != "" {
		p.line("  failed at", "%s", m.Stage)
		p.line("  error", "%s", m.Error)
	}
	if m.Row != nil {
		p.line("  row", "%s", m.Row)
	}
	if m.Truncated != "" {
		p.line("  left out", "%s did not fit", m.Truncated)
	}
	p.phases(m.Phases)
}

func (p *printer) phases(h *Phases) {
	if h == nil {
		p.line("  phases", "not available: a running process keeps the timings of its newest events, and saves them in its directory when it ends")
		return
	}
	p.line("  phases", "of %s computed together; feature, model and emit are for all of them", count(h.Next-h.First, "event"))
	p.phase(h, observe.Queue, h.Queue, h.Known, "until a step read it", "the time of the append is not stored")
	if h.Ordered {
		p.phase(h, observe.Order, h.Order, h.OrderKnown, "until its turn"+h.waitedFor(), "not separate: part of queue")
	}
	p.phase(h, observe.Feature, h.Feature, true, "decoding, features, expressions", "")
	p.phase(h, observe.Model, h.Model, true, "calls of models", "")
	p.phase(h, observe.Emit, h.Emit, true, "making the outputs", "")
	p.phase(h, observe.Commit, h.Commit, true, "until they were durable", "")
	p.line("    together", "%7.3f ms", milliseconds(h.Total()))
}

// phase writes the duration of one phase of an event, or why it is unknown.
func (p *printer) phase(h *Phases, of observe.Phase, took time.Duration, known bool, about, unknown string) {
	title := "    " + of.String()
	if !known {
		p.line(title, "%10s  %5s  %s", "-", "", unknown)
		return
	}
	p.line(title, "%7.3f ms  %3.0f %%  %s", milliseconds(took), 100*float64(took)/float64(max(h.Total(), 1)), about)
}

// waitedFor names the partition or stage that the event waited for.
func (h *Phases) waitedFor() string {
	if h.WaitedFor == "" {
		return ""
	}
	return ", at last for " + h.WaitedFor
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// became lists the records made from an event.
func (p *printer) became(r *Report) {
	if len(r.Became) == 0 {
		p.line("became", "no retained output: the event was filtered, is not computed yet, or no emit wrote for it")
	}
	for _, b := range r.Became {
		if b.Kind == KindCopy {
			p.line("became", "%s %s", b.Kind, b.Position)
			continue
		}
		p.line("became", "%s %s  id %s  by pipeline %s", b.Kind, b.Position, b.ID, b.Made.Pipeline)
		if b.Made.Stage != "" {
			p.line("", "%s: %s", b.Made.Stage, b.Made.Error)
		} else {
			p.line("", "%s", b.Value)
		}
	}
	if r.More > 0 {
		p.line("", "and %d more", r.More)
	}
}

func (p *printer) replay(r *Replay, event string) {
	if r.Missing != "" {
		p.line("replay", "none: %s", r.Missing)
		return
	}
	p.line("replay", "%s up to %s by pipeline %s, in %.3f s", count(r.Records, "record"), event, r.Pipeline, r.Took.Seconds())
	if r.From > 0 {
		p.line("", "from offset %d, the first retained one: the state before it is unknown", r.From)
	}
	if !r.Watermark.IsZero() {
		p.line("  watermark", "%s", r.Watermark.Format(time.RFC3339Nano))
	}
	if r.Late {
		p.line("  late", "yes")
	}
	if r.Dropped {
		p.line("  left out", "yes")
	}
	if r.Stage != "" {
		p.line("  failed at", "%s: %s", r.Stage, r.Error)
	}
	width := 0
	for _, v := range r.Row {
		width = max(width, len(v.Name))
	}
	for i, v := range r.Row {
		title := ""
		if i == 0 {
			title = "  row"
		}
		p.line(title, "%-*s  %s", width, v.Name, v.Value)
	}
	answer := "yes"
	if !r.Same {
		answer = "no"
	}
	p.line("  same", "the replay gives the same output: %s", answer)
	for _, why := range r.Why {
		p.line("", "%s", why)
	}
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/sys/clean"
	"github.com/afterbay/afterbay/internal/sys/term"
)

type dlqCommand struct {
	Ls      dlqLsCommand      `cmd:"" help:"List dead letters that are not settled, a line each."`
	Show    dlqShowCommand    `cmd:"" help:"Show one dead letter: why, where, the row so far, the event."`
	Stats   dlqStatsCommand   `cmd:"" help:"Count dead letters by stage and kind of reason."`
	Redrive dlqRedriveCommand `cmd:"" help:"Send events of dead letters back to where they failed; what was done before is not done twice."`
	Drop    dlqDropCommand    `cmd:"" help:"Settle dead letters without sending their events back. Their records stay in the topic."`
	Resume  dlqResumeCommand  `cmd:"" help:"Resume a pipeline that stopped because of dlq.stop_above."`
}

// dlqFlags select dead letters.
type dlqFlags struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	directoryFlags
	Stage     string  `help:"Take those that failed at this stage: decode, time, late, let, features, score, decide, emit ..." placeholder:"STAGE"`
	Reason    string  `help:"Take those whose reason has this in it." placeholder:"TEXT"`
	Key       string  `help:"Take those of events with this key." placeholder:"KEY"`
	ID        string  `help:"Take that of the event with this id." name:"id" placeholder:"ID"`
	Partition []int32 `help:"Take those of this partition; may come again." placeholder:"N"`
	Since     moment  `help:"Take those of events from this time on: RFC 3339, or so long before now, as in 2h." placeholder:"TIME"`
	Until     moment  `help:"Take those of events before this time." placeholder:"TIME"`
}

func (f *dlqFlags) filter() deadletter.Filter {
	return deadletter.Filter{
		Stage: f.Stage, Reason: f.Reason, Key: f.Key, ID: f.ID, Partitions: f.Partition,
		Since: f.Since.Time, Until: f.Until.Time,
	}
}

// moment is a time, or how long before now.
type moment struct{ time.Time }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *moment) UnmarshalText(text []byte) error {
	var err error
	if m.Time, err = time.Parse(time.RFC3339Nano, string(text)); err == nil {
		return nil
	}
	ago, err := time.ParseDuration(string(text))
	if err != nil || ago < 0 {
		return fmt.Errorf("%q: use a time such as 2026-01-31T12:00:00Z, or a duration such as 2h", text)
	}
	m.Time = time.Now().Add(-ago)
	return nil
}

type dlqLsCommand struct {
	dlqFlags
	All   bool `help:"List the settled ones too."`
	Limit int  `help:"List at most so many; 0 is all." default:"0"`
	JSON  bool `name:"json" help:"Print objects of JSON, a line each."`
}

// letterSummary is a dead letter in a list.
type letterSummary struct {
	Letter   string    `json:"dead_letter"` // topic/partition@offset
	ID       string    `json:"id"`
	Key      string    `json:"key"`
	Time     time.Time `json:"time"` // of the event
	Stage    string    `json:"stage"`
	Reason   string    `json:"reason"`
	Attempts int       `json:"attempts"`
	Origin   string    `json:"position"`
	Resume   string    `json:"resume,omitempty"`
	Refusal  string    `json:"refusal,omitempty"` // why it cannot be sent back
	Settled  bool      `json:"settled"`
}

func summarize(l *deadletter.Letter) letterSummary {
	return letterSummary{
		Letter: l.Place().String(), ID: l.ID, Key: string(l.Record.Key), Time: l.Record.Time.UTC(), Stage: l.Stage, Reason: l.Reason,
		Attempts: l.Attempts, Origin: l.Origin, Resume: l.Resume, Refusal: l.Refusal(), Settled: l.Settled,
	}
}

// Run lists dead letters.
func (c *dlqLsCommand) Run(a *app) (err error) {
	directory, closeDirectory, err := c.open(a, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	out := term.NewLines(a.stdout, false)
	n := 0
	for l, err := range directory.Letters(a.ctx, c.Pipeline, c.filter(), c.All) {
		if err != nil {
			return errors.Join(err, out.Close())
		}
		if err := out.Write(c.format(&l)); err != nil {
			return err
		}
		if n++; n == c.Limit {
			break
		}
	}
	if n == 0 {
		if c.All {
			fmt.Fprintf(a.stderr, "no dead letter of pipeline %s matches\n", c.Pipeline)
		} else {
			fmt.Fprintf(a.stderr, "no open dead letter of pipeline %s matches: add --all to list the settled ones too\n", c.Pipeline)
		}
	}
	return out.Close()
}

func (c *dlqLsCommand) format(l *deadletter.Letter) []byte {
	if c.JSON {
		text, err := json.Marshal(summarize(l))
		if err != nil {
			panic("dlq: a dead letter cannot be encoded: " + err.Error()) // plain data always can
		}
		return text
	}
	line := fmt.Appendf(nil, "%s  %s  %s  %s: %s", l.Place(), l.Record.Time.UTC().Format(time.RFC3339), clean.Text(l.ID), l.Stage, clean.Text(l.Reason))
	if l.Attempts > 1 {
		line = fmt.Appendf(line, "  (%d attempts)", l.Attempts)
	}
	if l.Settled {
		line = append(line, "  settled"...)
	}
	return line
}

type dlqShowCommand struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	Letter   string `arg:"" name:"id" help:"Id of the event, or topic/partition@offset of the dead letter as ls prints it."`
	directoryFlags
}

// Run shows the newest letter of an event, or the one at a position.
func (c *dlqShowCommand) Run(a *app) (err error) {
	directory, closeDirectory, err := c.open(a, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	var found *deadletter.Letter
	for l, err := range directory.Letters(a.ctx, c.Pipeline, deadletter.Filter{}, true) {
		if err != nil {
			return err
		}
		if l.Place().String() == c.Letter {
			found = &l
			break
		}
		if l.Is(c.Letter) && (found == nil || l.Attempts >= found.Attempts) {
			found = &l
		}
	}
	if found == nil {
		return fmt.Errorf("no dead letter of pipeline %q is %q: afterbay dlq ls %s lists them", c.Pipeline, c.Letter, c.Pipeline)
	}
	return printLetter(a.stdout, found)
}

func printLetter(out io.Writer, l *deadletter.Letter) error {
	goesOn, state := l.Resume, "open"
	if refusal := l.Refusal(); refusal != "" {
		goesOn = "nowhere: " + refusal
	}
	if l.Settled {
		state = "settled: sent back or dropped"
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{
		{"dead letter", l.Place().String()}, {"state", state}, {"id", l.ID}, {"key", string(l.Record.Key)},
		{"time", l.Record.Time.UTC().Format(time.RFC3339Nano)}, {"position", l.Origin}, {"watermark", header.Get(&l.Record, header.Watermark)},
		{"stage", l.Stage}, {"reason", l.Reason}, {"attempts", fmt.Sprint(l.Attempts)}, {"goes on", goesOn},
		{"pipeline", header.Get(&l.Record, header.Pipeline)}, {"models", header.Get(&l.Record, header.Models)},
		{"cut", header.Get(&l.Record, header.Truncated)}, {"row", header.Get(&l.Record, header.Row)}, {"event", string(l.Record.Value)},
	} {
		if line[1] != "" {
			fmt.Fprintf(table, "%s\t%s\n", line[0], clean.Text(line[1]))
		}
	}
	return table.Flush()
}

type dlqStatsCommand struct {
	dlqFlags
	JSON bool `name:"json" help:"Print one object of JSON: open, settled, kinds, a list of stage, reason, open, settled, first, last."`
}

// dlqStats is what dlq stats prints.
type dlqStats struct {
	Open    int                `json:"open"`
	Settled int                `json:"settled"`
	Kinds   []deadletter.Tally `json:"kinds"`
}

// Run counts dead letters.
func (c *dlqStatsCommand) Run(a *app) (err error) {
	directory, closeDirectory, err := c.open(a, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	var tallies deadletter.Tallies
	for l, err := range directory.Letters(a.ctx, c.Pipeline, c.filter(), true) {
		if err != nil {
			return err
		}
		tallies.Add(&l)
	}
	stats := dlqStats{Kinds: tallies.List()}
	for _, kind := range stats.Kinds {
		stats.Open += kind.Open
		stats.Settled += kind.Settled
	}
	if c.JSON {
		return json.NewEncoder(a.stdout).Encode(stats)
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "OPEN\tSETTLED\tSTAGE\tFIRST\tLAST\tREASON")
	for _, kind := range stats.Kinds {
		fmt.Fprintf(table, "%d\t%d\t%s\t%s\t%s\t%s\n", kind.Open, kind.Settled, kind.Stage,
			kind.First.UTC().Format(time.RFC3339), kind.Last.UTC().Format(time.RFC3339), clean.Text(kind.Reason))
	}
	fmt.Fprintf(table, "%d\t%d\tall\n", stats.Open, stats.Settled)
	return table.Flush()
}

type dlqRedriveCommand struct {
	dlqFlags
	Limit  int  `help:"Send at most so many; 0 is all." default:"0"`
	DryRun bool `name:"dry-run" help:"Say what would be sent, and send nothing."`
}

// Run sends events back.
func (c *dlqRedriveCommand) Run(a *app) error {
	return settle(a, &c.dlqFlags, c.Limit, false, c.DryRun)
}

type dlqDropCommand struct {
	dlqFlags
	Everything bool `help:"Drop every dead letter. Needed where nothing else says which."`
	Limit      int  `help:"Drop at most so many; 0 is all." default:"0"`
	DryRun     bool `name:"dry-run" help:"Say what would be dropped, and drop nothing."`
}

// Run drops dead letters.
func (c *dlqDropCommand) Run(a *app) error {
	if f := c.filter(); f.Empty() && !c.Everything {
		return usage("drop what? Say which with --stage, --reason, --key, --id, --partition, --since or --until, or --everything")
	}
	return settle(a, &c.dlqFlags, c.Limit, true, c.DryRun)
}

// settle sends events back or drops them, and reports on stderr how far it is.
func settle(a *app, f *dlqFlags, limit int, drop, dry bool) (err error) {
	if limit < 0 {
		return usage("--limit is 0 or more")
	}
	directory, closeDirectory, err := f.open(a, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	done, verb := "sent back", "send back"
	if drop {
		done, verb = "dropped", "drop"
	}
	if dry {
		return rehearseSettling(a, directory, f, limit, drop, verb)
	}
	var p deadletter.Progress
	shown := time.Now()
	for p, err = range directory.Settle(a.ctx, deadletter.Job{Pipeline: f.Pipeline, Filter: f.filter(), Drop: drop, Limit: limit}) {
		if err != nil {
			return fmt.Errorf("%w: %d were %s before, and the same command goes on with the others", err, p.Settled, done)
		}
		if !p.Done && time.Since(shown) > time.Second {
			shown = time.Now()
			fmt.Fprintf(a.stderr, "%d of %d open dead letters %s\n", p.Settled, p.Read, done)
		}
	}
	if !p.Done {
		return fmt.Errorf("the process that does it ended: %d were %s before, and the same command goes on with the others", p.Settled, done)
	}
	fmt.Fprintf(a.stdout, "%d of %d open dead letters %s\n", p.Settled, p.Read, done)
	printRefusals(a.stdout, &p)
	return nil
}

func printRefusals(out io.Writer, p *deadletter.Progress) {
	if p.Refused == 0 {
		return
	}
	fmt.Fprintf(out, "%d cannot be sent back, and stay:\n", p.Refused)
	for _, r := range p.Refusals {
		fmt.Fprintf(out, "  %s  %s: %s\n", r.DeadLetter, clean.Text(r.ID), clean.Text(r.Reason))
	}
	if n := p.Refused - len(p.Refusals); n > 0 {
		fmt.Fprintf(out, "  and %d more\n", n)
	}
}

// rehearseSettling says what settle would do.
func rehearseSettling(a *app, directory admin.Directory, f *dlqFlags, limit int, drop bool, verb string) error {
	var p deadletter.Progress
	for l, err := range directory.Letters(a.ctx, f.Pipeline, f.filter(), false) {
		if err != nil {
			return err
		}
		p.Read++
		if refusal := l.Refusal(); refusal != "" && !drop {
			if p.Refused++; len(p.Refusals) < refusalsShown {
				p.Refusals = append(p.Refusals, deadletter.Refusal{DeadLetter: l.Place().String(), ID: l.ID, Reason: refusal})
			}
			continue
		}
		if p.Settled++; p.Settled == limit {
			break
		}
	}
	fmt.Fprintf(a.stdout, "would %s %d of %d that are selected\n", verb, p.Settled, p.Read)
	printRefusals(a.stdout, &p)
	return nil
}

const refusalsShown = 20

type dlqResumeCommand struct {
	Pipeline string `arg:"" help:"Name of the pipeline."`
	directoryFlags
}

// Run lets a pipeline go on.
func (c *dlqResumeCommand) Run(a *app) (err error) {
	directory, closeDirectory, err := c.open(a, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	if err := directory.Resume(a.ctx, c.Pipeline); err != nil {
		if _, local := directory.(*admin.Local); local {
			return fmt.Errorf("%w: name the process that runs it with --url; one that is started again goes on by itself", err)
		}
		return err
	}
	fmt.Fprintf(a.stdout, "pipeline %s goes on\n", c.Pipeline)
	return nil
}

package report

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/state/deadletter"
	"github.com/afterbay/afterbay/internal/sys/clean"
)

// Filter selects dead letters.
type Filter = deadletter.Filter

// Letter is a dead letter in a list, in its JSON form.
type Letter struct {
	Letter   string    `json:"dead_letter"` // topic/partition@offset
	ID       string    `json:"id"`
	Key      string    `json:"key"`
	Time     time.Time `json:"time"` // of the event
	Stage    string    `json:"stage"`
	Reason   string    `json:"reason"`
	Attempts int       `json:"attempts"`
	Origin   string    `json:"position"`
	Resume   string    `json:"resume,omitempty"`
	Refusal  string    `json:"refusal,omitempty"` // reason why it cannot be sent back
	Settled  bool      `json:"settled"`
}

func summarize(l *deadletter.Letter) Letter {
	return Letter{
		Letter: l.Place().String(), ID: l.ID, Key: string(l.Record.Key), Time: l.Record.Time.UTC(), Stage: l.Stage, Reason: l.Reason,
		Attempts: l.Attempts, Origin: l.Origin, Resume: l.Resume, Refusal: l.Refusal(), Settled: l.Settled,
	}
}

// AppendLetter appends the line of a dead letter to dst, as text or JSON.
func AppendLetter(dst []byte, l *deadletter.Letter, asJSON bool) []byte {
	if asJSON {
		text, err := json.Marshal(summarize(l))
		if err != nil {
			panic("dlq: a dead letter cannot be encoded: " + err.Error()) // plain data can always be encoded
		}
		return append(dst, text...)
	}
	line := fmt.Appendf(dst, "%s  %s  %s  %s: %s", l.Place(), l.Record.Time.UTC().Format(time.RFC3339), clean.Text(l.ID), l.Stage, clean.Text(l.Reason))
	if l.Attempts > 1 {
		line = fmt.Appendf(line, "  (%d attempts)", l.Attempts)
	}
	if l.Settled {
		line = append(line, "  settled"...)
	}
	return line
}

// WriteLetter writes the newest dead letter of an event, or the one at a position.
func WriteLetter(ctx context.Context, out io.Writer, directory inspect.Directory, pipeline, letter string) error {
	var found *deadletter.Letter
	for l, err := range directory.Letters(ctx, pipeline, deadletter.Filter{}, true) {
		if err != nil {
			return err
		}
		if l.Place().String() == letter {
			found = &l
			break
		}
		if l.Is(letter) && (found == nil || l.Attempts >= found.Attempts) {
			found = &l
		}
	}
	if found == nil {
		return fmt.Errorf("no dead letter of pipeline %q is %q: afterbay dlq ls %s lists them", pipeline, letter, pipeline)
	}
	return printLetter(out, found)
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

// LetterStats is the output of dlq stats.
type LetterStats struct {
	Open    int                `json:"open"`
	Settled int                `json:"settled"`
	Kinds   []deadletter.Tally `json:"kinds"`
}

// CountLetters counts dead letters.
func CountLetters(ctx context.Context, directory inspect.Directory, pipeline string, filter Filter) (*LetterStats, error) {
	var tallies deadletter.Tallies
	for l, err := range directory.Letters(ctx, pipeline, filter, true) {
		if err != nil {
			return nil, err
		}
		tallies.Add(&l)
	}
	stats := &LetterStats{Kinds: tallies.List()}
	for _, kind := range stats.Kinds {
		stats.Open += kind.Open
		stats.Settled += kind.Settled
	}
	return stats, nil
}

// Write writes the counts as a table.
func (s *LetterStats) Write(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "OPEN\tSETTLED\tSTAGE\tFIRST\tLAST\tREASON")
	for _, kind := range s.Kinds {
		fmt.Fprintf(table, "%d\t%d\t%s\t%s\t%s\t%s\n", kind.Open, kind.Settled, kind.Stage,
			kind.First.UTC().Format(time.RFC3339), kind.Last.UTC().Format(time.RFC3339), clean.Text(kind.Reason))
	}
	fmt.Fprintf(table, "%d\t%d\tall\n", s.Open, s.Settled)
	return table.Flush()
}

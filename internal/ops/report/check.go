package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/stream"
)

// WriteCheck writes the findings of a check of a data directory, as text or as one JSON object.
// folder is where a cut moved the part that it removed; "" if nothing was cut.
func WriteCheck(w io.Writer, check *embedded.Report, folder string, asJSON bool) error {
	if !asJSON {
		return writeCheck(w, check, folder)
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(struct {
		*embedded.Report
		Cut string `json:"cut,omitempty"`
	}{check, folder})
}

func writeCheck(w io.Writer, check *embedded.Report, folder string) error {
	out := bufio.NewWriter(w)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SEGMENT\tFRAMES\tFIRST\tLAST\tBYTES")
	for _, s := range check.Segments {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\n", s.Path, s.Frames, s.First, s.Last, s.Bytes)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	switch cp := check.Checkpoint; {
	case !cp.Found:
		fmt.Fprintln(out, "checkpoint: none; it is built from the log")
	case !cp.Sound:
		fmt.Fprintln(out, "checkpoint: damaged")
	default:
		fmt.Fprintf(out, "checkpoint: complete up to frame %d, partial up to frame %d; %d tables, %d bytes\n", cp.Applied, max(cp.Seen, cp.Applied), cp.Tables, cp.Bytes)
	}
	fmt.Fprintf(out, "indexes: %d sound\n", check.Indexes)
	for _, note := range check.Notes {
		fmt.Fprintf(out, "note: %s\n", note)
	}
	for _, d := range check.Damage {
		writeDamage(out, d)
	}
	writeRemedies(out, check)
	if folder != "" {
		fmt.Fprintf(out, "the removed bytes are in %s/%s\n", strings.TrimSuffix(check.Dir, "/"), folder)
	}
	if check.Healthy {
		fmt.Fprintf(out, "%s is healthy\n", check.Dir)
	}
	return out.Flush()
}

func writeDamage(out io.Writer, d embedded.Damage) {
	fmt.Fprintf(out, "\nDAMAGE %s at byte %d\n  %s\n", d.Path, d.Offset, d.What)
	for _, l := range d.Affects {
		fmt.Fprintf(out, "  it held %s\n", lossText(l))
	}
}

func writeRemedies(out io.Writer, check *embedded.Report) {
	for i, r := range check.Remedies {
		flag := ""
		if i > 0 {
			flag = fmt.Sprintf(" --keep %d", r.First)
		}
		fmt.Fprintf(out, "\nREMEDY afterbay doctor %s --cut%s\n  %s\n", check.Dir, flag, RemedyText(r))
		for _, l := range r.Loses {
			fmt.Fprintf(out, "  loses %s\n", lossText(l))
		}
		for _, b := range r.Back {
			fmt.Fprintf(out, "  group %s goes back in %s/%d from offset %d to %d, and its state with it\n", b.Group, b.Topic, b.Partition, b.From, b.To)
		}
	}
	for _, why := range check.Stuck {
		fmt.Fprintf(out, "\nNO REMEDY %s\n  restore the directory from a copy\n", why)
	}
}

// RemedyText describes the effect of a remedy.
func RemedyText(r embedded.Remedy) string {
	state := "the state stays as it is"
	if r.Rebuild {
		state = "the state is rebuilt from them"
	}
	switch {
	case r.First > r.Last:
		return fmt.Sprintf("keep the state alone, as of frame %d, and cut all %d frames", r.Last, r.LostFrames)
	case r.LostFrames == 0:
		return fmt.Sprintf("keep all frames, %d to %d; %s; nothing is lost", r.First, r.Last, state)
	}
	return fmt.Sprintf("keep frames %d to %d and cut %d; %s", r.First, r.Last, r.LostFrames, state)
}

func lossText(l embedded.Loss) string {
	text := fmt.Sprintf("%s/%d from offset %d on", l.Topic, l.Partition, l.From)
	switch {
	case l.To == l.From+1:
		text = fmt.Sprintf("%s/%d offset %d", l.Topic, l.Partition, l.From)
	case l.To != embedded.Unknown:
		text = fmt.Sprintf("%s/%d offsets %d to %d", l.Topic, l.Partition, l.From, l.To-stream.Offset(1))
	}
	if len(l.Unread) > 0 {
		text += ", not all read by " + strings.Join(l.Unread, ", ")
	}
	return text
}

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/stream"
)

type doctorCommand struct {
	Paths  []string `arg:"" optional:"" name:"dir" help:"Data directory, which no process may hold; or pipeline files, to check the brokers of their engine or of --engine."`
	Engine string   `help:"Check brokers instead: how they are reached, their versions and settings, and the topics and rights of the pipelines of the files, or of those that left state there. Nothing is changed." placeholder:"URL"`
	JSON   bool     `help:"Print one object of JSON." name:"json"`
	Cut    bool     `help:"Make the directory open again by the remedy that loses least. What is cut away is kept in DIR/cut-TIME."`
	Keep   uint64   `help:"With --cut, take the remedy that keeps this frame." placeholder:"FRAME"`
	Yes    bool     `help:"With --cut, do not ask."`

	dir string
}

// errDamaged ends a command that found damage, and has said so.
var errDamaged = errors.New("the directory is damaged")

// aboutBrokers reports whether brokers are meant, no directory.
func (c *doctorCommand) aboutBrokers() bool {
	if c.Engine != "" || len(c.Paths) == 0 {
		return c.Engine != ""
	}
	about, err := os.Stat(c.Paths[0])
	return err == nil && about.Mode().IsRegular()
}

// Run examines a directory, and repairs it where it should.
func (c *doctorCommand) Run(a *app) error {
	switch {
	case !c.Cut && (c.Yes || c.Keep > 0):
		return usage("--yes and --keep belong to --cut")
	case c.Cut && c.JSON && !c.Yes:
		return usage("--json asks nothing: add --yes")
	case c.aboutBrokers() && c.Cut:
		return usage("--cut is for a data directory")
	case c.aboutBrokers():
		return c.examine(a)
	case len(c.Paths) != 1:
		return usage("name one data directory: afterbay doctor <dir>, or brokers: --engine; afterbay doctor --help says more")
	}
	c.dir = c.Paths[0]
	report, err := embedded.Check(c.dir)
	if err != nil {
		return c.explain(err)
	}
	if report.Healthy || !c.Cut {
		return c.print(a, report, "")
	}
	r, err := c.choose(report)
	if err != nil {
		if printErr := c.print(a, report, ""); !errors.Is(printErr, errDamaged) {
			return printErr
		}
		return err
	}
	if !c.Yes {
		if err := c.print(a, report, ""); !errors.Is(err, errDamaged) {
			return err
		}
		if !confirmed(a, r) {
			return failure.As(failure.OfRun, errors.New("nothing was changed: answer y, or add --yes"))
		}
	}
	folder := "cut-" + time.Now().UTC().Format("20060102T150405Z")
	if err := embedded.Cut(c.dir, r, folder); err != nil {
		return c.explain(err)
	}
	if report, err = embedded.Check(c.dir); err != nil {
		return c.explain(err)
	}
	return c.print(a, report, folder)
}

// explain gives an error of a check its exit code and what to do.
func (c *doctorCommand) explain(err error) error {
	switch {
	case errors.Is(err, embedded.ErrLocked):
		return failure.As(failure.OfLock, fmt.Errorf("%w: end that process first", err))
	case errors.Is(err, fs.ErrNotExist):
		return failure.As(failure.OfRun, fmt.Errorf("%w: name one", err))
	}
	return failure.As(failure.OfDirectory, fmt.Errorf("%w: %s", err, process.DirectoryHint(err, c.dir)))
}

// choose returns the remedy to apply.
func (c *doctorCommand) choose(report *embedded.Report) (embedded.Remedy, error) {
	for _, r := range report.Remedies {
		if c.Keep == 0 || r.First <= c.Keep && c.Keep <= r.Last {
			return r, nil
		}
	}
	if len(report.Remedies) == 0 {
		return embedded.Remedy{}, failure.As(failure.OfRun, errors.New("nothing was changed: no consistent log can be cut out of the directory; restore it from a copy"))
	}
	return embedded.Remedy{}, usage("no remedy keeps frame %d", c.Keep)
}

func confirmed(a *app, r embedded.Remedy) bool {
	fmt.Fprintf(a.stdout, "\n%s? [y/N] ", strings.ToUpper(remedyText(r)[:1])+remedyText(r)[1:])
	answer, _ := bufio.NewReader(newEndable(a.ctx, a.stdin)).ReadString('\n')
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

// print writes a report, and returns errDamaged if that is what it says. folder
// is where a cut put what it took away.
func (c *doctorCommand) print(a *app, report *embedded.Report, folder string) error {
	var err error
	if c.JSON {
		encoder := json.NewEncoder(a.stdout)
		encoder.SetEscapeHTML(false)
		err = encoder.Encode(struct {
			*embedded.Report
			Cut string `json:"cut,omitempty"`
		}{report, folder})
	} else {
		err = c.write(a.stdout, report, folder)
	}
	if err == nil && !report.Healthy {
		err = failure.As(failure.OfDirectory, errDamaged)
	}
	return err
}

func (c *doctorCommand) write(w io.Writer, report *embedded.Report, folder string) error {
	out := bufio.NewWriter(w)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SEGMENT\tFRAMES\tFIRST\tLAST\tBYTES")
	for _, s := range report.Segments {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\n", s.Path, s.Frames, s.First, s.Last, s.Bytes)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	switch cp := report.Checkpoint; {
	case !cp.Found:
		fmt.Fprintln(out, "checkpoint: none; it is made from the log")
	case !cp.Sound:
		fmt.Fprintln(out, "checkpoint: damaged")
	default:
		fmt.Fprintf(out, "checkpoint: has all up to frame %d, and parts up to frame %d; %d tables, %d bytes\n", cp.Applied, max(cp.Seen, cp.Applied), cp.Tables, cp.Bytes)
	}
	fmt.Fprintf(out, "indexes: %d sound\n", report.Indexes)
	for _, note := range report.Notes {
		fmt.Fprintf(out, "note: %s\n", note)
	}
	for _, d := range report.Damage {
		writeDamage(out, d)
	}
	c.writeRemedies(out, report)
	if folder != "" {
		fmt.Fprintf(out, "what was cut away is in %s/%s\n", strings.TrimSuffix(report.Dir, "/"), folder)
	}
	if report.Healthy {
		fmt.Fprintf(out, "%s is healthy\n", report.Dir)
	}
	return out.Flush()
}

func writeDamage(out io.Writer, d embedded.Damage) {
	fmt.Fprintf(out, "\nDAMAGE %s at byte %d\n  %s\n", d.Path, d.Offset, d.What)
	for _, l := range d.Affects {
		fmt.Fprintf(out, "  it held %s\n", lossText(l))
	}
}

func (c *doctorCommand) writeRemedies(out io.Writer, report *embedded.Report) {
	for i, r := range report.Remedies {
		flag := ""
		if i > 0 {
			flag = fmt.Sprintf(" --keep %d", r.First)
		}
		fmt.Fprintf(out, "\nREMEDY afterbay doctor %s --cut%s\n  %s\n", report.Dir, flag, remedyText(r))
		for _, l := range r.Loses {
			fmt.Fprintf(out, "  loses %s\n", lossText(l))
		}
		for _, b := range r.Back {
			fmt.Fprintf(out, "  group %s goes back in %s/%d from offset %d to %d, and its state with it\n", b.Group, b.Topic, b.Partition, b.From, b.To)
		}
	}
	for _, why := range report.Stuck {
		fmt.Fprintf(out, "\nNO REMEDY %s\n  restore the directory from a copy\n", why)
	}
}

func remedyText(r embedded.Remedy) string {
	state := "the state stays as it is"
	if r.Rebuild {
		state = "the state is made again from them"
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

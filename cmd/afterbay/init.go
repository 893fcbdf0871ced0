package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/afterbay/afterbay/internal/compile"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/ops/scaffold"
	"github.com/afterbay/afterbay/internal/process"
)

type initCommand struct {
	Sample   string `help:"File of events to learn from: NDJSON, or CSV with a header; - is standard input." required:"" placeholder:"FILE"`
	Out      string `help:"Pipeline file to write." default:"pipeline.yaml" placeholder:"FILE"`
	Key      string `help:"Field that events share state and order by, instead of the likeliest." placeholder:"FIELD"`
	Time     string `help:"Field that says when an event happened, instead of the likeliest." placeholder:"FIELD"`
	Format   string `help:"How the events are written: ndjson or csv. The default is what the file's name ends with, or ndjson." enum:"ndjson,csv," default:""`
	NoHeader bool   `help:"The CSV has no header: columns are named c1, c2 and so on, and the pipeline reads the lines as they are."`
	Force    bool   `help:"Replace the pipeline file where it is there."`
}

// Run writes a pipeline file and says what to type next.
func (c *initCommand) Run(a *app) error {
	if _, err := os.Lstat(c.Out); err == nil && !c.Force {
		return usage("%s is there already: name another file with --out, or replace it with --force", c.Out)
	}
	events, err := a.openEvents(c.Sample, c.Format)
	if err != nil {
		return err
	}
	defer events.Close()
	name := events.Name
	if c.Sample == "-" {
		name = "" // the topic's name is made from it
	}
	found, err := scaffold.Infer(events, scaffold.Options{Name: name, Format: events.Format, NoHeader: c.NoHeader, Key: c.Key, Time: c.Time})
	if errors.As(err, new(*scaffold.KeyError)) {
		return failure.As(failure.OfUsage, fmt.Errorf("%s: %w", events.Name, err))
	}
	if err != nil {
		return err
	}
	if err := c.write(found.Pipeline()); err != nil {
		return err
	}
	where := "of"
	if found.Partial {
		where = fmt.Sprintf("in the first %d lines of", found.Events+found.Malformed)
	}
	fmt.Fprintf(a.stdout, "%d events %s %s\n\n%s\n", found.Events, where, events.Name, found.Table())
	if found.Malformed > 0 {
		fmt.Fprintf(a.stdout, "%d lines are no JSON object and will be dead letters, such as %s\n", found.Malformed, found.Problem)
	}
	if unnamed := found.Unnamed(); unnamed != "" {
		fmt.Fprintf(a.stdout, "warning: %s\n", unnamed)
	}
	if odd := found.OddTime(); odd != "" {
		fmt.Fprintf(a.stdout, "warning: %s. Events happen when they are appended, as written\n", odd)
	}
	if t := found.Time; t != nil && t.Newest.After(time.Now().Add(lang.DefaultMaxAhead)) {
		fmt.Fprintf(a.stdout, "warning: %s reaches %v, which is ahead of this machine's clock: events more than max_ahead (%v) ahead will be dead letters\n", t.Field.Name, t.Newest.Format(time.RFC3339), lang.DefaultMaxAhead)
	}
	file := c.Sample
	if file == "-" {
		file = "events.ndjson"
	}
	format, key, try := "", " --key "+process.ShellWord(found.KeyPath()), ""
	switch {
	case c.NoHeader: // each line is an event as it is
		format, key, try = " --format ndjson", "", " --format ndjson"
	case events.Format == ingest.CSV:
		format = " --format csv"
	}
	fmt.Fprintf(a.stdout, `wrote %[1]s; next:
  afterbay lint %[1]s
  afterbay try %[1]s %[2]s%[8]s
  afterbay produce %[3]s %[2]s%[4]s --partitions %[5]d%[6]s
  afterbay run %[1]s --until-idle
  afterbay tail %[7]s --limit 5
`, process.ShellWord(c.Out), process.ShellWord(file), found.Topic, format, compile.DefaultPartitions, key, found.Output(), try)
	return nil
}

// write writes the file; where it appeared in between, it stays.
func (c *initCommand) write(text []byte) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if !c.Force {
		flags |= os.O_EXCL
	}
	file, err := os.OpenFile(c.Out, flags, 0o644)
	if err == nil {
		_, err = file.Write(text)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("%w: name a file that can be written with --out", err)
	}
	return nil
}

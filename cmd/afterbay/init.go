package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/ops/scaffold"
	"github.com/afterbay/afterbay/internal/process"
)

type initCommand struct {
	Sample   string `help:"Events to learn from: a file, NDJSON, or CSV with a header; - is standard input; or topic:NAME, the newest 10,000 records of a topic of the log, at most 16 MiB and for at most 30 s." required:"" placeholder:"FILE"`
	Out      string `help:"Pipeline file to write." default:"pipeline.yaml" placeholder:"FILE"`
	Key      string `help:"Field that keys the events, instead of the likeliest." placeholder:"FIELD"`
	Time     string `help:"Field with the event time, instead of the likeliest." placeholder:"FIELD"`
	Format   string `help:"How the events of a file are written: ndjson or csv. The default is what the file's name ends with, or ndjson." enum:"ndjson,csv," default:""`
	NoHeader bool   `help:"The CSV has no header: columns are named c1, c2 and so on, and the pipeline reads the lines unchanged."`
	Force    bool   `help:"Replace an existing pipeline file."`
	registryFlags
	directoryFlags
}

// sampled is the result of reading a sample, with texts for the report.
type sampled struct {
	*scaffold.Findings
	count string   // how much of the sample was read
	lines string   // the word for the sample's events
	next  []string // next commands to type, without the program name and without lint
	lint  string
}

// Run writes a pipeline file and prints the commands to type next.
func (c *initCommand) Run(a *app) error {
	if _, err := os.Lstat(c.Out); err == nil && !c.Force {
		return usage("%s exists already: name another file with --out, or replace it with --force", c.Out)
	}
	read := c.file
	topic, isTopic := strings.CutPrefix(c.Sample, topicPrefix)
	switch {
	case isTopic && (c.Format != "" || c.NoHeader):
		return usage("--format and --no-header are for files: records of a topic are JSON, or have a schema in the registry of --schema-registry")
	case !isTopic && c.SchemaRegistry != "":
		return usage("--schema-registry is for topics: name one with --sample topic:NAME")
	case isTopic:
		read = func(a *app) (*sampled, error) { return c.topic(a, topic) }
	}
	found, err := read(a)
	if errors.As(err, new(*scaffold.KeyError)) {
		return failure.As(failure.OfUsage, fmt.Errorf("%s: %w", c.Sample, err))
	}
	if err != nil {
		return err
	}
	if err := c.write(found.Pipeline()); err != nil {
		return err
	}
	found.print(a)
	fmt.Fprintf(a.stdout, "wrote %s; next:\n", process.ShellWord(c.Out))
	for _, line := range append([]string{"lint " + found.lint + process.ShellWord(c.Out)}, found.next...) {
		fmt.Fprintf(a.stdout, "  afterbay %s\n", line)
	}
	return nil
}

// print prints the findings.
func (s *sampled) print(a *app) {
	fmt.Fprintf(a.stdout, "%d events %s\n\n%s\n", s.Events, s.count, s.Table())
	if n := len(s.Schemas); n > 1 {
		fmt.Fprintf(a.stdout, "the records have %d schemas: types are those of schema id %d, the newest\n", n, s.Schemas[n-1])
	}
	if s.Malformed > 0 {
		fmt.Fprintf(a.stdout, "%d %s and will be dead letters, such as %s\n", s.Malformed, s.lines, s.Problem)
	}
	if unnamed := s.Unnamed(); unnamed != "" {
		fmt.Fprintf(a.stdout, "warning: %s\n", unnamed)
	}
	if odd := s.OddTime(); odd != "" {
		fmt.Fprintf(a.stdout, "warning: %s. The file uses the time of the append as event time\n", odd)
	}
	if t := s.Findings.Time; t != nil && t.Newest.After(time.Now().Add(lang.DefaultMaxAhead)) {
		fmt.Fprintf(a.stdout, "warning: %s reaches %v, which is ahead of this machine's clock: events more than max_ahead (%v) ahead will be dead letters\n", t.Field.Name, t.Newest.Format(time.RFC3339), lang.DefaultMaxAhead)
	}
}

// write writes the file. It does not replace a file that another program created meanwhile, unless
// --force is set.
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

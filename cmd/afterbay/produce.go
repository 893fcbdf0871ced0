package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/log/embedded"
)

type produceCommand struct {
	Topic string `arg:"" help:"Topic to append to."`
	File  string `arg:"" optional:"" help:"File to read; - is standard input." default:"-"`
	directoryFlags
	Format     string `help:"How the records are written: ndjson or csv. The default is what the file's name ends with, or ndjson. Files of gzip and zstd are decompressed." enum:"ndjson,csv," default:""`
	Key        string `help:"Field that keys the records, instead of the topic's." placeholder:"FIELD"`
	Producer   string `help:"Name under which the records are numbered, so that a rerun repeats nothing. A file's default is its digest." placeholder:"NAME"`
	Partitions int32  `help:"Make the topic with so many partitions where it is not there." placeholder:"N"`
}

// Run appends the records.
func (c *produceCommand) Run(a *app) error { return a.produce(c) }

// explainProduce adds to an error how much of the input is in the topic, and how to continue.
func explainProduce(err error, c *produceCommand, producer string, done ingest.Progress) error {
	var line *ingest.LineError
	var key *ingest.KeyError
	if errors.As(err, &key) {
		if slices.Contains(key.Fields, key.Key) {
			return usage("%w. Nothing was appended", err)
		}
		if near := key.Near(); near != "" {
			return usage("%w; did you mean --key %s? Nothing was appended", err, near)
		}
		return usage("%w: name one of its fields with --key. Nothing was appended", err)
	}
	next := "run the same command again: it leaves out what is there already"
	switch {
	case producer == "":
		next = "running it again repeats them, since the records have no numbers: see --producer"
	case errors.As(err, &line):
		next = fmt.Sprintf("correct that line and run again with --producer %s, which leaves out what is there already", producer)
	case errors.Is(err, embedded.ErrReadOnly):
		next = "make " + c.Data + " writable and " + next
	case errors.Is(err, embedded.ErrFull):
		next = "free disk space and " + next
	case done.Appended+done.Repeated == 0:
		return fmt.Errorf("%w. Nothing was appended", err)
	}
	return fmt.Errorf("%w; %d records of it are in topic %s: %s", err, done.Appended+done.Repeated, c.Topic, next)
}

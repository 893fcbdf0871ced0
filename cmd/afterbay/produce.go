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
	Format     string `help:"Format of the records: ndjson or csv. The default is the extension of the file, or ndjson. Files of gzip and zstd are decompressed." enum:"ndjson,csv," default:""`
	Key        string `help:"Field that keys the records, instead of the topic's." placeholder:"FIELD"`
	Producer   string `help:"Producer name that numbers the records, so that a rerun repeats no record. The default for a file is its digest." placeholder:"NAME"`
	Partitions int32  `help:"Create the topic with this number of partitions, if it does not exist." placeholder:"N"`
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
	next := "run the same command again: it skips records that are in the topic already"
	switch {
	case producer == "":
		next = "a rerun repeats them, because the records have no numbers: see --producer"
	case errors.As(err, &line):
		next = fmt.Sprintf("correct that line and run again with --producer %s, which skips records that are in the topic already", producer)
	case errors.Is(err, embedded.ErrReadOnly):
		next = "make " + c.Data + " writable and " + next
	case errors.Is(err, embedded.ErrFull):
		next = "free disk space and " + next
	case done.Appended+done.Repeated == 0:
		return fmt.Errorf("%w. Nothing was appended", err)
	}
	return fmt.Errorf("%w; %d records of it are in topic %s: %s", err, done.Appended+done.Repeated, c.Topic, next)
}

package main

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

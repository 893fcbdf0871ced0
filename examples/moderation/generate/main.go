// Command generate writes the posts of the moderation example as NDJSON to its
// standard output, and counts them on its standard error.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"

	"github.com/afterbay/afterbay/internal/lab/demo/moderation"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run() error {
	var o moderation.Options
	posts := flag.Int("posts", 1_000_000, "lines to write")
	flag.Uint64Var(&o.Seed, "seed", 1, "one seed always gives the same lines")
	flag.IntVar(&o.Users, "users", 100_000, "users who post")
	flag.IntVar(&o.Rate, "rate", 100, "posts per second of event time")
	flag.Parse()
	if err := o.Validate(); err != nil {
		return err
	}
	g, out := moderation.NewGenerator(o), bufio.NewWriterSize(os.Stdout, 1<<16)
	for range *posts {
		line, _ := g.Append(out.AvailableBuffer())
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	s := g.Stats()
	fmt.Fprintf(os.Stderr, "%d posts: %d with an insult, %d of floods, %d late, %d malformed\n", s.Posts, s.Insults, s.Flooding, s.Late, s.Malformed)
	return out.Flush()
}

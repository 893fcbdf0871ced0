// Command generate writes messages of customers to support as NDJSON to its standard output. It
// writes the truth about them to a file that only its user can read.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/afterbay/afterbay/internal/lab/demo/support"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run() error {
	var o support.Options
	flag.Uint64Var(&o.Seed, "seed", 1, "one seed always gives the same")
	flag.IntVar(&o.Complaints, "complaints", 50, "complaints: each a chat, a screenshot and a call")
	flag.IntVar(&o.Chats, "chats", 200, "other chats")
	flag.IntVar(&o.Faults, "faults", 2, "contacts of each kind of fault")
	flag.StringVar(&o.Objects, "objects", "", "folder for screenshots and chunks of calls, which events name by URL then; the default has them in the events")
	truth := flag.String("truth", "", "file for the truth, a line of JSON for each contact; the default writes none")
	flag.Parse()
	if err := o.Validate(); err != nil {
		return err
	}
	if o.Objects != "" {
		if err := os.MkdirAll(o.Objects, 0o755); err != nil {
			return err
		}
	}
	g, err := support.NewGenerator(o)
	if err != nil {
		return err
	}
	out, lines := bufio.NewWriterSize(os.Stdout, 1<<16), 0
	for {
		line, err := g.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		lines++
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "%d events of %d contacts\n", lines, len(g.Truth()))
	return errors.Join(out.Flush(), writeTruth(*truth, g.Truth()))
}

// writeTruth creates a file. It fails if the file exists.
func writeTruth(name string, list []support.Contact) error {
	if name == "" {
		return nil
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	to := json.NewEncoder(file)
	for i := range list {
		if err := to.Encode(&list[i]); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	return file.Close()
}

package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/afterbay/afterbay/ingest"
	"github.com/afterbay/afterbay/serve"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/embedded"
)

func (a *app) produce(c *produceCommand) (err error) {
	options := ingest.Options{
		Name: "standard input", Topic: c.Topic, Key: c.Key, Format: ingest.Format(c.Format), Producer: c.Producer,
	}
	source := a.stdin
	if c.File != "-" {
		file, err := os.Open(c.File)
		if err != nil {
			return fmt.Errorf("%w: name a file that can be read, or - for standard input", err)
		}
		defer file.Close()
		source, options.Name = file, c.File
		if options.Producer == "" {
			if options.Producer, err = producerOf(file, options); err != nil {
				return err
			}
		}
	}
	directory, closeDirectory, err := c.open(a, c.Partitions > 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeDirectory()) }()
	if c.Partitions > 0 {
		if err := directory.CreateTopic(a.ctx, stream.Topic{Name: c.Topic, Partitions: c.Partitions, Key: c.Key}); err != nil {
			return err
		}
	}
	topic, err := serve.Find(a.ctx, directory, c.Topic)
	if err != nil {
		return err
	}
	if client, ok := directory.(*serve.Client); ok {
		client.Key = c.Key
	}
	options.Key = cmp.Or(c.Key, topic.Key)
	meter := newMeter(a.stderr)
	options.Progress = func(p ingest.Progress) {
		meter.show("%d lines, %s", p.Lines, meter.rate(p.Appended+p.Repeated))
	}
	done, err := ingest.Publish(a.ctx, directory, source, options)
	meter.clear()
	if err != nil {
		return explainProduce(err, c, options.Producer, done)
	}
	fmt.Fprintf(a.stderr, "appended %d records of %d lines to %s in %s, %s\n", done.Appended, done.Lines, c.Topic, meter.elapsed(), meter.rate(done.Appended))
	if done.Repeated > 0 {
		fmt.Fprintf(a.stderr, "left out %d records that were there already; to append them again, choose a --producer\n", done.Repeated)
	}
	return nil
}

// producerOf names the producer of a file by its content. What cannot be read
// twice has none.
func producerOf(file *os.File, o ingest.Options) (string, error) {
	about, err := file.Stat()
	if err != nil {
		return "", err
	}
	if about.IsDir() {
		return "", fmt.Errorf("%s is a directory: name a file", file.Name())
	}
	if !about.Mode().IsRegular() {
		return "", nil
	}
	digest := sha256.New()
	if _, err := io.Copy(digest, file); err != nil {
		return "", err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	return ingest.FileProducer(hex.EncodeToString(digest.Sum(nil)), o.Topic, o.Format), nil
}

// explainProduce says what is in the topic after an error, and how to go on.
func explainProduce(err error, c *produceCommand, producer string, done ingest.Progress) error {
	var line *ingest.LineError
	next := "run the same command again: it leaves out what is there already"
	switch {
	case producer == "":
		next = "running it again repeats them, since the records have no numbers: see --producer"
	case errors.As(err, &line):
		next = fmt.Sprintf("correct that line and run again with --producer %s, which leaves out what is there already", producer)
	case errors.Is(err, embedded.ErrFull):
		next = "free disk space and " + next
	}
	return fmt.Errorf("%w; %d records of it are in topic %s: %s", err, done.Appended+done.Repeated, c.Topic, next)
}

// meter shows how far something came, on one line that is replaced.
type meter struct {
	out   io.Writer
	start time.Time
	shown time.Time
	drawn bool
	plain bool // out is no terminal: lines are not replaced
}

const (
	meterEvery      = 200 * time.Millisecond
	meterEveryPlain = 5 * time.Second
)

func newMeter(out io.Writer) *meter {
	file, ok := out.(*os.File)
	m := &meter{out: out, start: time.Now(), plain: !ok}
	if ok {
		about, err := file.Stat()
		m.plain = err != nil || about.Mode()&os.ModeCharDevice == 0
	}
	m.shown = m.start
	return m
}

// show prints the line, at most a few times a second.
func (m *meter) show(format string, args ...any) {
	every := meterEvery
	if m.plain {
		every = meterEveryPlain
	}
	if time.Since(m.shown) < every {
		return
	}
	m.shown, m.drawn = time.Now(), true
	if m.plain {
		fmt.Fprintf(m.out, format+"\n", args...)
	} else {
		fmt.Fprintf(m.out, "\r\x1b[K"+format, args...)
	}
}

func (m *meter) clear() {
	if m.drawn && !m.plain {
		fmt.Fprint(m.out, "\r\x1b[K")
	}
}

func (m *meter) elapsed() time.Duration { return time.Since(m.start).Round(time.Millisecond) }

func (m *meter) rate(n int64) string {
	return fmt.Sprintf("%.0f/s", float64(n)/max(time.Since(m.start).Seconds(), 1e-3))
}

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/afterbay/afterbay/internal/http/ingest"
)

// events is a source of events: its text, decompressed.
type events struct {
	io.Reader
	io.Closer
	name   string
	format ingest.Format
}

// openEvents opens a file of events, or standard input for "-". A format of ""
// is found out.
func (a *app) openEvents(path, format string) (*events, error) {
	e := &events{name: path}
	var source io.ReadCloser
	if path == "-" {
		source, e.name = io.NopCloser(a.input("events", "a file of them")), "standard input"
	} else {
		file, err := openFile(path)
		if err != nil {
			return nil, err
		}
		source = file
	}
	e.Closer = source
	var err error
	if e.Reader, e.format, err = ingest.Detect(source, e.name, ingest.Format(format)); err != nil {
		return nil, errors.Join(err, source.Close())
	}
	return e, nil
}

// openFile opens a file that can be read.
func openFile(path string) (*os.File, error) {
	file, err := os.Open(path)
	if errors.As(err, new(*fs.PathError)) {
		return nil, fmt.Errorf("%w: name a file that can be read, or - for standard input", err)
	}
	if err != nil {
		return nil, err
	}
	about, err := file.Stat()
	if err == nil && about.IsDir() {
		err = fmt.Errorf("%s is a directory: name a file", path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// input returns standard input. On a terminal it says what the command waits for.
func (a *app) input(what, instead string) io.Reader {
	if isTerminal(a.stdin) {
		fmt.Fprintf(a.stderr, "reading %s from the terminal until Ctrl-D; press Ctrl-C to end, and give %s instead\n", what, instead)
	}
	return newEndable(a.ctx, a.stdin)
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	about, err := file.Stat()
	if err != nil || about.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(about, null)
}

// producerOf names the producer of a file by its decompressed content. What
// cannot be read twice has none.
func (a *app) producerOf(path, topic string, format ingest.Format) (string, error) {
	if about, err := os.Stat(path); err != nil || !about.Mode().IsRegular() {
		return "", err
	}
	source, err := a.openEvents(path, string(format))
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	_, err = io.Copy(digest, source)
	if err = errors.Join(err, source.Close()); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return ingest.FileProducer(hex.EncodeToString(digest.Sum(nil)), topic, format), nil
}

package main

import (
	"bufio"
	"io"
)

// lines writes lines to standard output.
type lines struct {
	out  *bufio.Writer
	each bool // a line is shown when it was written, not later
}

func newLines(out io.Writer, each bool) *lines {
	return &lines{bufio.NewWriterSize(out, 64<<10), each}
}

func (l *lines) write(line []byte) error {
	if _, err := l.out.Write(line); err != nil {
		return err
	}
	if err := l.out.WriteByte('\n'); err != nil || !l.each {
		return err
	}
	return l.out.Flush()
}

func (l *lines) close() error { return l.out.Flush() }

package scoring

import (
	"compress/zlib"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	inWindowMax  = 8 << 20   // that a zstd body may ask for
	outWindow    = 256 << 10 // of zstd answers
	ratioCounted = 16 << 20  // of a body before its ratio counts
)

// bodyError is a body that cannot be decompressed.
type bodyError struct {
	code string
	err  error
}

// Error says what is wrong with the body.
func (e *bodyError) Error() string { return e.err.Error() }

// inBody decompresses a body as it comes. What it has decompressed it returns
// before it waits for more.
type inBody struct {
	raw    counted
	coding string // "" is none
	ratio  int64
	reader io.Reader
	closer func()
	size   int64
}

// counted counts what is read, and keeps an error that is not the end.
type counted struct {
	io.Reader
	size int64
	err  error
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.size += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

func newInBody(raw io.Reader, coding string, ratio int64) *inBody {
	return &inBody{raw: counted{Reader: raw}, coding: coding, ratio: ratio, closer: func() {}}
}

// open starts to decompress: at the first read, since that waits for bytes.
func (b *inBody) open() error {
	switch b.coding {
	case "":
		b.reader = &b.raw
	case "gzip":
		reader, err := gzip.NewReader(&b.raw)
		if err != nil {
			return err
		}
		b.reader = reader
	case "deflate":
		reader, err := zlib.NewReader(&b.raw)
		if err != nil {
			return err
		}
		b.reader = reader
	case "zstd":
		reader, err := zstd.NewReader(&b.raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(inWindowMax))
		if err != nil {
			return err
		}
		b.reader, b.closer = reader, reader.Close
	}
	return nil
}

// Read implements io.Reader. Errors are those of the body, or a *bodyError.
func (b *inBody) Read(p []byte) (int, error) {
	if b.reader == nil {
		if err := b.open(); err != nil {
			return 0, b.explain(err)
		}
	}
	n, err := b.reader.Read(p)
	b.size += int64(n)
	if b.coding != "" && b.size > ratioCounted && b.size > b.raw.size*b.ratio {
		return n, &bodyError{"bad_encoding", fmt.Errorf("the body decompresses to more than %d times its size", b.ratio)}
	}
	return n, b.explain(err)
}

func (b *inBody) explain(err error) error {
	switch {
	case err == nil || err == io.EOF && b.reader != nil:
		return err
	case b.raw.err != nil:
		return b.raw.err
	case err == io.EOF && b.raw.size == 0: // nothing at all, compressed
		return io.EOF
	}
	return &bodyError{"bad_encoding", fmt.Errorf("decompress the body: %w", err)}
}

func (b *inBody) close() { b.closer() }

// outBody compresses answers. What was written can be read when Flush returned.
type outBody interface {
	io.WriteCloser
	Flush() error
}

func newOutBody(w io.Writer, coding string) outBody {
	switch coding {
	case "gzip":
		if out, err := gzip.NewWriterLevel(w, gzip.BestSpeed); err == nil {
			return out
		}
	case "zstd":
		out, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(outWindow), zstd.WithLowerEncoderMem(true))
		if err == nil {
			return out
		}
	case "":
		return plainBody{w}
	}
	panic("scoring: coding " + coding + " has no writer")
}

// plainBody is no compression.
type plainBody struct{ io.Writer }

// Flush does nothing.
func (plainBody) Flush() error { return nil }

// Close does nothing.
func (plainBody) Close() error { return nil }

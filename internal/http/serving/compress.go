package serving

import (
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	outWindow = 256 << 10 // window of zstd answers
	zstdBytes = 768 << 10 // memory of a zstd writer; a gzip writer keeps nothing between writes
)

// outBody compresses answers. After Flush, the client can read everything that was written.
type outBody interface {
	io.WriteCloser
	Flush() error
}

func newOutBody(w io.Writer, coding string) outBody {
	switch coding {
	case "gzip":
		if out, err := gzip.NewWriterLevel(w, gzip.StatelessCompression); err == nil {
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

// plainBody does not compress.
type plainBody struct{ io.Writer }

// Flush does nothing.
func (plainBody) Flush() error { return nil }

// Close does nothing.
func (plainBody) Close() error { return nil }

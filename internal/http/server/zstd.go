package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

const (
	windowMax    = 8 << 20   // of zstd
	windowFirst  = 128 << 10 // that is tried first
	windowFactor = 4         // the next one is so many times as large
	zstdBytes    = 64 << 10  // that a decompressor needs beside its window
)

// zstdReader decompresses zstd as it comes. Its window is charged to the process alone:
// many writers ask for one of megabytes, however little they write.
func (b *Body) zstdReader() error {
	start := make([]byte, zstd.HeaderMaxSize)
	n, err := io.ReadAtLeast(&b.raw, start, 6)
	if n == 0 {
		return err
	}
	window := int64(windowMax)
	var header zstd.Header
	if header.Decode(start[:n]) == nil && !header.Skippable {
		window = int64(min(header.WindowSize, windowMax)) // the decoder refuses a larger one
	}
	if err := b.room.account.Reserve(b.room.ctx, window); err != nil {
		return err
	}
	reader, err := newZstd(io.MultiReader(bytes.NewReader(start[:n]), &b.raw), windowMax)
	if err != nil {
		return err
	}
	b.reader, b.closer = reader, reader.Close
	return nil
}

func newZstd(in io.Reader, window uint64) (*zstd.Decoder, error) {
	return zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
}

// buffered decompresses a body of zstd that is in memory. A frame may ask for a window
// that is a thousand times as large as its content, so buffered starts with a small
// one. If that is too small the decoder fails. Then buffered starts again with a larger
// one, up to that of the frame, and skips the bytes that it has returned.
type buffered struct {
	*Body
	in     []byte
	at     int   // of the window's descriptor in the first frame; 0 is none
	window int64 // that the decoder may use
	asked  int64 // that the first frame asks for
	given  int64 // bytes that were returned
	charge int64
	zstd   *zstd.Decoder
}

// zstdBuffered reads all of the body and returns what decompresses it.
func (b *Body) zstdBuffered() error {
	in, err := readAll(b.room, &b.raw, b.whole, -1)
	if err != nil {
		return err
	}
	if len(in) == 0 {
		return io.EOF
	}
	r := &buffered{Body: b, in: in, window: windowFirst, asked: windowFirst}
	var header zstd.Header
	if header.Decode(in) == nil && !header.Skippable {
		if r.asked = int64(header.WindowSize); r.asked > windowMax {
			return fmt.Errorf("its window is larger than %s", Size(windowMax))
		}
		if r.window = r.asked; !header.SingleSegment {
			r.at, r.window = 5, min(r.asked, windowFirst)
		}
	}
	b.reader, b.closer = r, r.close
	return r.start()
}

// start makes a decoder with the window, behind the bytes returned.
func (r *buffered) start() error {
	r.close()
	if err := r.room.Take(r.window); err != nil {
		return err
	}
	r.charge = r.window
	if r.at > 0 {
		r.in[r.at] = descriptor(min(r.window, r.asked))
	}
	var err error
	if r.zstd, err = newZstd(bytes.NewReader(r.in), uint64(max(r.window, windowFirst))); err != nil {
		return err
	}
	_, err = io.CopyN(io.Discard, r.zstd, r.given)
	return err
}

// descriptor returns the byte of a frame's header for a window of at least so many bytes.
func descriptor(window int64) byte {
	for exponent := range 32 {
		for mantissa := range 8 {
			if base := int64(1) << (10 + exponent); base+base/8*int64(mantissa) >= window {
				return byte(exponent<<3 | mantissa)
			}
		}
	}
	return 0xff
}

// Read implements io.Reader.
func (r *buffered) Read(p []byte) (int, error) {
	for {
		n, err := r.zstd.Read(p)
		r.given += int64(n)
		most := r.asked
		if errors.Is(err, zstd.ErrWindowSizeExceeded) { // of a frame behind the first
			most = windowMax
		}
		if n > 0 || err == nil || errors.Is(err, io.EOF) || r.window >= most {
			return n, err
		}
		r.window = min(r.window*windowFactor, windowMax)
		if err := r.start(); err != nil {
			return 0, err
		}
	}
}

func (r *buffered) close() {
	if r.zstd != nil {
		r.zstd.Close()
	}
	r.room.Give(r.charge)
	r.zstd, r.charge = nil, 0
}

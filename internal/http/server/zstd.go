package server

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"
)

const (
	windowMax    = 8 << 20   // of zstd
	windowFirst  = 128 << 10 // that is tried first
	windowFactor = 4         // by which the next one is larger
	windowSmall  = 512 << 10 // that any request may have
	blockBytes   = 128 << 10 // of what a frame decompresses to; a decompressor holds two beside its window
	zstdBytes    = 64 << 10  // that it needs beside them
)

// windowed decompresses a body of zstd as it comes. A frame may ask for a window that is
// a thousand times as large as what it holds, so windowed starts with a small one. Where
// that is too small the decoder fails; then windowed starts again with a larger one, up
// to that of the frame, and skips what it has returned. A stream keeps its first 1 MiB
// for that. Then it takes the window of its first frame, and forgets them.
type windowed struct {
	*Body
	in     []byte // what was read of the body, if it may be needed again
	at     int    // of the window's descriptor in the first frame; 0 is none
	window int64  // that the decoder may use
	asked  int64  // that the first frame asks for
	given  int64  // bytes that were returned
	charge int64  // for the window
	kept   int64  // charged for in
	failed error  // of charging in
	enough bool   // was kept: the window has to suit the first frame from here on
	zstd   *zstd.Decoder
}

func (b *Body) zstdReader() error {
	r := &windowed{Body: b, window: windowFirst, asked: windowFirst}
	var err error
	if b.stream {
		start := make([]byte, zstd.HeaderMaxSize, zstd.HeaderMaxSize+1)
		n := 0
		n, err = io.ReadAtLeast(&b.raw, start, 6)
		r.in = start[:n]
	} else if r.in, err = readAll(b.room, &b.raw, b.most, -1); err != nil {
		return err
	}
	if len(r.in) == 0 {
		return cmp.Or(err, io.EOF)
	}
	var header zstd.Header
	if header.Decode(r.in) == nil && !header.Skippable {
		window := header.WindowSize
		if header.SingleSegment { // it has no descriptor: its window is all of it
			window = header.FrameContentSize
		}
		if window > windowMax {
			return fmt.Errorf("its window is larger than %s", Size(windowMax))
		}
		r.asked = max(int64(window), windowFirst)
		if header.SingleSegment && r.asked > windowFirst {
			r.in = slices.Insert(r.in, 5, 0)
			r.in[4] &^= singleSegment
		}
		if r.asked > windowFirst {
			r.at = 5
		}
	}
	b.reader, b.closer = r, r.close
	return r.start()
}

var errEnough = errors.New("enough of the body is kept")

const singleSegment = 1 << 5 // of a frame's header, in its fifth byte

// again reads what was read before, and then more of the body.
type again struct {
	*windowed
	at int
}

// Read implements io.Reader.
func (a *again) Read(p []byte) (n int, err error) {
	if a.at < len(a.in) {
		n = copy(p, a.in[a.at:])
		a.at += n
		return n, nil
	}
	if a.enough = a.stream && a.window < a.asked && len(a.in) >= keptBytes; a.enough {
		return 0, errEnough
	}
	n, err = a.raw.Read(p)
	if a.forgets() {
		a.room.Give(a.kept)
		a.in, a.kept, a.at = nil, 0, 0
		return n, err
	}
	before := a.room.taken
	if a.in, a.failed = a.room.Add(a.in, p[:n]); a.failed != nil {
		return 0, a.failed
	}
	a.kept += a.room.taken - before
	a.at += n
	return n, err
}

// forgets reports whether what was read is not needed again: of a stream that is large,
// with a window that suits its first frame. Later frames may not ask for a larger one.
func (r *windowed) forgets() bool {
	return r.stream && r.window >= r.asked && (r.in == nil || len(r.in) >= keptBytes)
}

// start makes a decoder with the window, behind what was returned. The window of a
// stream is charged to the process alone if it is large: the client chose it before it
// sent much.
func (r *windowed) start() error {
	r.close()
	take := r.room.Take
	if r.stream && r.window > windowSmall {
		take = r.room.Reserve
	}
	ring := r.window + 2*blockBytes
	if err := take(ring); err != nil {
		return err
	}
	r.charge = ring
	if r.at > 0 {
		r.in[r.at] = descriptor(min(r.window, r.asked))
	}
	var err error
	r.zstd, err = zstd.NewReader(&again{windowed: r}, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(uint64(max(r.window, windowFirst))))
	if err != nil {
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
func (r *windowed) Read(p []byte) (int, error) {
	for {
		n, err := r.zstd.Read(p)
		r.given += int64(n)
		most, small := r.asked, r.given+blockBytes > r.window                                          // else it is another error
		if errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) { // of a frame behind the first
			most, small = windowMax, true
		}
		if r.enough && n == 0 {
			for r.enough = false; r.window < r.asked; r.window = min(r.window*windowFactor, windowMax) {
			}
			if err := r.start(); err != nil {
				return 0, err
			}
			continue
		}
		switch {
		case r.failed != nil:
			return n, r.failed
		case n > 0, err == nil, errors.Is(err, io.EOF), r.raw.err != nil, r.window >= most, !small, r.in == nil:
			return n, err
		}
		if r.window = min(r.window*windowFactor, windowMax); r.window > windowSmall && r.given > r.raw.size*r.ratio {
			return 0, badEncoding(fmt.Errorf("the body decompresses to more than %d times its size, and needs a window of more than %s", r.ratio, Size(windowSmall)))
		}
		if err := r.start(); err != nil {
			return 0, err
		}
	}
}

func (r *windowed) close() {
	if r.zstd != nil {
		r.zstd.Close()
	}
	r.room.Give(r.charge)
	r.zstd, r.charge = nil, 0
}

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
	windowMax    = 8 << 20   // maximum zstd window
	windowFirst  = 128 << 10 // window to try first
	windowFactor = 4         // growth of the window after a failure
	windowSmall  = 512 << 10 // window that any request may have
	blockBytes   = 128 << 10 // maximum block size; a decompressor holds two blocks in addition to its window
	zstdBytes    = 64 << 10  // other memory of a decompressor
)

// windowed decompresses a zstd body as it arrives. A frame may declare a window a thousand times as
// large as its content, so windowed starts with a small one. If that is too small, the decoder
// fails. Then windowed starts again with a larger window, up to that of the frame, and skips the
// bytes that it has already returned.
//
// For a stream it keeps the first 1 MiB of input for this. After that, it uses the window of the
// first frame, and drops the kept input.
type windowed struct {
	*Body
	in     []byte // input that may be needed again
	at     int    // index of the window descriptor in the first frame; 0 if it has none
	window int64  // window that the decoder may use
	asked  int64  // window that the first frame declares
	given  int64  // returned bytes
	charge int64  // charged for the window
	kept   int64  // charged for in
	failed error  // error of charging for in
	enough bool   // enough input was kept: from here on the window must fit the first frame
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
		if header.SingleSegment { // without a descriptor, the window is the whole frame
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

const singleSegment = 1 << 5 // flag in the fifth byte of a frame's header

// again reads the kept input first, and then more of the body.
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

// forgets reports whether the kept input is no longer needed. This is so for a large stream with a
// window that fits its first frame. Later frames must not declare a larger one.
func (r *windowed) forgets() bool {
	return r.stream && r.window >= r.asked && (r.in == nil || len(r.in) >= keptBytes)
}

// start creates a decoder with the window, and skips the bytes already returned. A large window of
// a stream is charged only to the budget of the process, because the client chose it before it sent
// much.
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

// descriptor returns the header byte for a window of at least window bytes.
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
		most, small := r.asked, r.given+blockBytes > r.window                                          // otherwise the error has another cause
		if errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) { // of a frame after the first
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

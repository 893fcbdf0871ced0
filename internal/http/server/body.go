package server

import (
	"cmp"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
)

const (
	ratioDefault = 200      // for a body that is read as a stream
	ratioFrom    = 1 << 20  // decompressed bytes before the ratio is checked
	keptBytes    = 1 << 20  // kept bytes of a zstd stream
	gzipBytes    = 48 << 10 // memory of a gzip decompressor
	firstBytes   = 4 << 10  // first size of a body's buffer
	aheadBytes   = 64 << 10 // bytes read at once while a room works
)

// The supported content codings of bodies. Deflate is the coding of RFC 9110, which is zlib.
const (
	Gzip    = "gzip"
	Deflate = "deflate"
	Zstd    = "zstd"
)

// Coding returns the content coding of a request, "" if it has none. If the coding is not among
// those accepted, the error is a *Refusal with status 415.
func Coding(r *http.Request, accepted ...string) (string, error) {
	coding := strings.ToLower(strings.TrimSpace(strings.Join(r.Header.Values("Content-Encoding"), ", ")))
	switch coding {
	case "", "identity":
		return "", nil
	case "x-gzip":
		coding = Gzip
	}
	if slices.Contains(accepted, coding) {
		return coding, nil
	}
	return "", &Refusal{
		Status: http.StatusUnsupportedMediaType, Code: "unsupported_encoding",
		Message: fmt.Sprintf("Content-Encoding %q", coding), Hint: "use " + strings.Join(accepted, ", ") + " or none",
	}
}

// Body decompresses the body of a request while it arrives. It returns decompressed bytes before it
// waits for more. The caller must close it.
type Body struct {
	room   *Room
	raw    counted
	coding string
	stream bool
	ratio  int64
	most   int64 // maximum decompressed size; 0 means no limit
	reader io.Reader
	closer func()
	size   int64
}

// counted counts the bytes that it returns, and keeps an error other than io.EOF.
//
// A read of the body may wait for the client, so the room rests meanwhile. To work again, the room
// must queue behind all waiting rooms. So counted reads ahead for a room that works, and the room
// rests only when all of that is returned.
type counted struct {
	io.Reader
	room   *Room
	buffer []byte
	charge int64  // memory of all buffers
	ahead  []byte // the part of the buffer that is not yet returned
	later  error  // error to return after ahead
	next   int    // size of the next read, if the last one was full
	size   int64
	err    error
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (n int, err error) {
	if len(c.ahead) == 0 && c.later == nil {
		into, err := c.target(p)
		if err == nil {
			n, err = c.read(into)
		}
		if len(into) == len(p) {
			return c.count(n, err)
		}
		c.ahead, c.later = into[:n], err
	}
	n = copy(p, c.ahead)
	if c.ahead = c.ahead[n:]; len(c.ahead) == 0 {
		err, c.later = c.later, nil
	}
	return c.count(n, err)
}

// target returns the buffer if the room works and p is small, otherwise p. The buffer grows with
// the body, so small bodies need no buffer.
func (c *counted) target(p []byte) ([]byte, error) {
	if !c.room.works || c.next <= len(p) {
		return p, nil
	}
	if c.next > len(c.buffer) {
		if err := c.room.Take(int64(c.next)); err != nil {
			return p, err
		}
		c.buffer = make([]byte, c.next)
		c.charge += int64(c.next)
	}
	return c.buffer, nil
}

// read reads once. The room rests meanwhile.
func (c *counted) read(into []byte) (int, error) {
	worked := c.room.Rest()
	n, err := c.Reader.Read(into)
	if worked {
		if ended := c.room.Work(); ended != nil {
			return 0, ended
		}
	}
	if n == len(into) {
		c.next = min(max(firstBytes, 4*n), aheadBytes)
	}
	return n, err
}

// count counts returned bytes. After an error it releases the buffer.
func (c *counted) count(n int, err error) (int, error) {
	c.size += int64(n)
	if err != nil {
		c.room.Give(c.charge)
		c.buffer, c.charge = nil, 0
	}
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// NewBody returns the body of a request with one of the codings, or "". Beyond 1 MiB, its
// decompressed size may be at most ratio times its size; 0 is 200.
func NewBody(r *http.Request, coding string, ratio int64) *Body {
	return RoomOf(r.Context()).newBody(r, coding, ratio)
}

func (r *Room) newBody(request *http.Request, coding string, ratio int64) *Body {
	return &Body{room: r, raw: counted{Reader: request.Body, room: r}, coding: coding, stream: true, ratio: cmp.Or(ratio, ratioDefault), closer: func() {}}
}

// open creates the decompressor. It runs at the first read, because it waits for bytes.
func (b *Body) open() error {
	switch b.coding {
	case "":
		b.reader = &b.raw
		return nil
	case Gzip, Deflate:
		if err := b.room.Take(gzipBytes); err != nil {
			return err
		}
		if b.coding == Deflate {
			reader, err := zlib.NewReader(&b.raw)
			b.reader = reader
			return err
		}
		reader, err := gzip.NewReader(&b.raw)
		b.reader = reader
		return err
	case Zstd:
		if err := b.room.Take(zstdBytes); err != nil {
			return err
		}
		return b.zstdReader()
	}
	return fmt.Errorf("the coding %q is not known", b.coding)
}

// Read implements io.Reader. The error is that of the body, or a *Refusal.
func (b *Body) Read(p []byte) (int, error) {
	if b.coding != "" && !b.room.works {
		if err := b.room.Work(); err != nil {
			return 0, err
		}
		defer b.room.Rest()
	}
	if b.reader == nil {
		if err := b.open(); err != nil {
			return 0, b.explain(err)
		}
	}
	n, err := b.reader.Read(p)
	b.size += int64(n)
	if b.coding != "" && b.size > ratioFrom && b.size > b.raw.size*b.ratio {
		return n, badEncoding(fmt.Errorf("the body decompresses to more than %d times its size", b.ratio))
	}
	if b.most > 0 && b.size > b.most {
		return n, largerThan(b.most)
	}
	return n, b.explain(err)
}

func badEncoding(err error) *Refusal {
	return &Refusal{Status: http.StatusBadRequest, Code: "bad_encoding", Message: err.Error(), Hint: "send it with another Content-Encoding, or none"}
}

func (b *Body) explain(err error) error {
	var known *Refusal
	switch {
	case err == nil || err == io.EOF && b.reader != nil:
		return err
	case errors.As(err, &known):
		return known
	case b.raw.err != nil:
		return b.raw.err
	case err == io.EOF && b.raw.size == 0: // an empty body, although a coding is given
		return io.EOF
	}
	return badEncoding(fmt.Errorf("decompress the body: %w", err))
}

// Close releases the decompressor. It does not close the body of the request.
func (b *Body) Close() error {
	b.closer()
	return nil
}

// OpenBody returns the body of a request that is not a stream, decompressed while it is read. If
// the coding is not accepted, or the body has more than most bytes, the error is a *Refusal, here
// or from Read.
func (r *Room) OpenBody(request *http.Request, most int64, accepted ...string) (*Body, error) {
	coding, err := Coding(request, accepted...)
	if err != nil {
		return nil, err
	}
	if request.ContentLength > most {
		return nil, largerThan(most)
	}
	body := r.newBody(request, coding, 0)
	body.most, body.stream = most, false
	return body, nil
}

// ReadBody reads the whole body of OpenBody. It charges the body to the account of the request
// while it arrives.
func ReadBody(r *http.Request, most int64, accepted ...string) ([]byte, error) {
	return RoomOf(r.Context()).ReadBody(r, most, accepted...)
}

// ReadBody is like the function ReadBody, but charges the body to the Room.
func (r *Room) ReadBody(request *http.Request, most int64, accepted ...string) ([]byte, error) {
	body, err := r.OpenBody(request, most, accepted...)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	declared := request.ContentLength
	if body.coding != "" {
		declared = -1
		if !r.works { // here, not in each Read
			if err := r.Work(); err != nil {
				return nil, err
			}
			defer r.Rest()
		}
	}
	return readAll(r, body, most, declared)
}

// ReadAll reads at most most bytes and charges them to the Room.
func (r *Room) ReadAll(in io.Reader, most int64) ([]byte, error) { return readAll(r, in, most, -1) }

func largerThan(most int64) *Refusal {
	return &Refusal{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Message: "the body is larger than " + Size(most), Hint: "send several requests"}
}

// readAll reads at most most bytes and charges them as they arrive. Outgrown buffers stay charged
// until it returns, because they are not yet collected. The declared length, or -1, determines the
// size of the last buffer, but at most three times the bytes that have arrived.
func readAll(of *Room, in io.Reader, most, declared int64) (_ []byte, err error) {
	var buffer []byte
	outgrown, factor := int64(0), int64(2)
	if declared >= 0 {
		most, factor = min(most, declared), 4
	}
	defer func() { of.Give(outgrown) }()
	for {
		if len(buffer) == cap(buffer) {
			room := min(max(firstBytes, factor*int64(cap(buffer))), most+1)
			if int64(len(buffer)) > most {
				return nil, largerThan(most)
			}
			if err := of.Take(room); err != nil {
				return nil, err
			}
			grown := make([]byte, len(buffer), room)
			copy(grown, buffer)
			outgrown += int64(cap(buffer))
			buffer = grown
		}
		n, err := in.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		switch {
		case int64(len(buffer)) > most:
			return nil, largerThan(most)
		case err == io.EOF:
			return buffer, nil
		case err != nil:
			return nil, err
		}
	}
}

package gateway

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// collectBytes of frames are collected at most before they are written.
const collectBytes = 16 << 10

// buffers are those of connections that write, and of frames that are encoded,
// collectBytes each.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, collectBytes); return &b }}

// closeFrame is the first byte of a close frame; length and code follow.
const closeFrame = 0x88

// transport is the connection that the library reads and writes. It has what the
// server read beyond the request, and collects frames, so that many small ones cost
// one call of the system. Each call of Write is a whole frame; those of the library
// itself, pongs and closes, keep their place among the others.
type transport struct {
	net.Conn
	early []byte // to be read first

	mu         sync.Mutex // guards what follows, and writes
	header     string     // a line for the answer to the handshake, which the library writes first; "" afterwards
	collecting bool
	frames     *[]byte   // of buffers; nil while nothing is collected: an idle connection keeps none
	until      time.Time // when what is written has to be taken
	err        error     // of the first write that failed: no other waits for a deadline again
	closed     closeCode // of the close frame that was written; 0 before
}

func (t *transport) Read(b []byte) (int, error) {
	if len(t.early) == 0 {
		return t.Conn.Read(b)
	}
	n := copy(b, t.early)
	if t.early = t.early[n:]; len(t.early) == 0 {
		t.early = nil
	}
	return n, nil
}

// SetDeadline is the library's, once it has shaken hands: it ends ours.
func (t *transport) SetDeadline(at time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = time.Time{}
	return t.Conn.SetDeadline(at)
}

// collect has frames wait for flush, or for so many bytes.
func (t *transport) collect() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.collecting = true
}

// flush writes what was collected, to a client that reads it in time.
func (t *transport) flush() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.collecting = false
	t.drain()
	return t.err
}

// Write writes a frame, or collects it.
func (t *transport) Write(frame []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(frame)
	if n >= 4 && frame[0] == closeFrame {
		t.closed = closeCode(binary.BigEndian.Uint16(frame[2:]))
	}
	if t.header != "" {
		status, rest, _ := bytes.Cut(frame, []byte("\r\n"))
		frame, t.header = slices.Concat(status, []byte("\r\n"+t.header+"\r\n"), rest), ""
	}
	if t.frames != nil && len(*t.frames)+len(frame) > collectBytes {
		t.drain()
	}
	if t.collecting && len(frame) <= collectBytes && t.err == nil {
		if t.frames == nil {
			t.frames = buffers.Get().(*[]byte)
		}
		*t.frames = append(*t.frames, frame...)
		return n, nil
	}
	t.drain() // a frame that is not collected is behind those that are
	t.write(frame)
	if t.err != nil {
		return 0, t.err
	}
	return n, nil
}

// breach returns the code by which the library ended the connection for what its
// client sent; 0 where it did not.
func (t *transport) breach() closeCode {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Contains(breaches, t.closed) {
		return t.closed
	}
	return 0
}

// drain writes what is collected. Its caller holds mu, and looks at err.
func (t *transport) drain() {
	if t.frames == nil {
		return
	}
	t.write(*t.frames)
	*t.frames = (*t.frames)[:0]
	buffers.Put(t.frames)
	t.frames = nil
}

func (t *transport) write(b []byte) {
	if now := time.Now(); t.err == nil && t.until.Sub(now) < writeTimeout-time.Second { // not each time: it costs
		t.until = now.Add(writeTimeout)
		t.err = t.Conn.SetWriteDeadline(t.until)
	}
	if t.err == nil {
		_, t.err = t.Conn.Write(b)
	}
}

// lingerMost is how long a client that was told that its connection ends may take to
// close its side.
const lingerMost = 5 * time.Second

// Close is the library's, behind a close frame. It ends our side only: to close a
// connection that has input which nobody read resets it, and the client, which may be
// sending, would lose what it did not read, the close frame perhaps. Who reads the
// connection is woken, and finishes it.
func (t *transport) Close() error {
	half, ok := t.Conn.(interface{ CloseWrite() error })
	if err := t.flush(); err != nil || !ok || half.CloseWrite() != nil {
		return t.Conn.Close()
	}
	return t.Conn.SetReadDeadline(time.Now())
}

// finish closes the connection once the client has closed it, or does not in time. What
// still comes is dropped.
func (t *transport) finish() {
	_ = t.Close()
	if t.Conn.SetReadDeadline(time.Now().Add(lingerMost)) == nil {
		_, _ = io.Copy(io.Discard, t.Conn)
	}
	_ = t.Conn.Close()
}

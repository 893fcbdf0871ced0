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

// collectBytes is the maximum number of bytes that a transport buffers before it writes them.
const collectBytes = 16 << 10

// buffers is a pool of buffers of collectBytes, for connections that write and frames that are
// encoded.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, collectBytes); return &b }}

// closeFrame is the first byte of a close frame. The length and the close code follow.
const closeFrame = 0x88

// transport is the connection that the library reads and writes. It returns the bytes that the
// server read beyond the request. It also buffers frames, so that many small frames cost one system
// call. Each call of Write is a whole frame. Pongs and closes, which the library itself writes,
// keep their place among the other frames.
type transport struct {
	net.Conn
	early []byte // returned by Read first

	mu         sync.Mutex // guards the fields below and writes
	header     string     // header line for the handshake answer, the library's first write; "" afterwards
	collecting bool
	frames     *[]byte   // from buffers; nil if nothing is buffered, so that an idle connection holds no buffer
	until      time.Time // write deadline
	err        error     // first write error; later writes fail at once, without a second timeout
	closed     closeCode // code of the close frame that was written; 0 if none was
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

// SetDeadline is called by the library after the handshake. It replaces the write deadline.
func (t *transport) SetDeadline(at time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = time.Time{}
	return t.Conn.SetDeadline(at)
}

// collect buffers frames until flush, or until collectBytes are reached.
func (t *transport) collect() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.collecting = true
}

// flush writes the buffered frames. The client must read them within writeTimeout.
func (t *transport) flush() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.collecting = false
	t.drain()
	return t.err
}

// Write writes or buffers a frame.
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
	t.drain() // an unbuffered frame must follow the buffered ones
	t.write(frame)
	if t.err != nil {
		return 0, t.err
	}
	return n, nil
}

// breach returns the code with which the library ended the connection because of the client's
// input; 0 if it did not.
func (t *transport) breach() closeCode {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Contains(breaches, t.closed) {
		return t.closed
	}
	return 0
}

// drain writes the buffered frames. The caller holds mu and checks err.
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
	if now := time.Now(); t.err == nil && t.until.Sub(now) < writeTimeout-time.Second { // setting a deadline is costly, so not on every write
		t.until = now.Add(writeTimeout)
		t.err = t.Conn.SetWriteDeadline(t.until)
	}
	if t.err == nil {
		_, t.err = t.Conn.Write(b)
	}
}

// lingerMost is how long the gateway waits for the client to close its side after a close frame.
const lingerMost = 5 * time.Second

// Close is called by the library after a close frame. It closes only the write side. Closing a
// connection with unread input would reset it. A client that is still sending could then lose
// unread data, perhaps the close frame. Close also wakes the reader, which calls finish.
func (t *transport) Close() error {
	half, ok := t.Conn.(interface{ CloseWrite() error })
	if err := t.flush(); err != nil || !ok || half.CloseWrite() != nil {
		return t.Conn.Close()
	}
	return t.Conn.SetReadDeadline(time.Now())
}

// finish waits until the client has closed its side, up to lingerMost, and closes the connection.
// It drops further input.
func (t *transport) finish() {
	_ = t.Close()
	if t.Conn.SetReadDeadline(time.Now().Add(lingerMost)) == nil {
		_, _ = io.Copy(io.Discard, t.Conn)
	}
	_ = t.Conn.Close()
}

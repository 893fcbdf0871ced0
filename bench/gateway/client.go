package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// client is a client that sends events, over one connection after another. It parses only the
// fields that it needs, so that it takes little of the processor from the server.
type client struct {
	fleet  *fleet
	tenant string
	name   string
	token  string

	seq uint64 // of the newest result; owned by the goroutine that reads

	mu     sync.Mutex
	conn   net.Conn     // nil between connections
	open   map[int]bool // events without a result, and whether they were sent
	cursor string       // where the next connection resumes
}

const (
	backoffFirst = 500 * time.Millisecond
	backoffMost  = 5 * time.Second
	writeTimeout = 10 * time.Second
)

// run connects until ctx is done.
func (c *client) run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; failures++ {
		wait, connected := c.converse(ctx)
		if connected {
			failures = 0
		}
		if wait == 0 {
			wait = rand.N(min(backoffMost, backoffFirst<<min(failures, 8)))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// converse uses one connection. It returns the delay until the next one, if the server named one,
// and whether the connection succeeded.
func (c *client) converse(ctx context.Context) (wait time.Duration, connected bool) {
	c.fleet.dialed(c)
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", c.fleet.address)
	if err != nil {
		return 0, false
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer func() { _ = conn.Close() }()
	r := bufio.NewReaderSize(conn, 1024)
	if err := upgrade(conn, r, c.token); err != nil {
		c.fleet.refused(err)
		return 0, false
	}
	if c.fleet.resumes {
		connect := &wire.Connect{}
		if c.cursor != "" {
			connect.Resume = &wire.Resume{Cursor: c.cursor}
		}
		message, err := wire.Encode(connect)
		if err != nil {
			panic(err) // it has nothing that cannot be written
		}
		if _, err := conn.Write(frame(message)); err != nil {
			return 0, false
		}
	} else {
		c.begin(conn)
	}
	wait = c.read(conn, r)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = nil
	return wait, true
}

// upgrade asks for the protocol.
func upgrade(conn net.Conn, r *bufio.Reader, token string) error {
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(conn, requestOf(token)); err != nil {
		return err
	}
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("status %s", response.Status)
	}
	return conn.SetDeadline(time.Time{})
}

func requestOf(token string) string {
	return "GET /v1/stream HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: " + wire.Protocol + "\r\nAuthorization: Bearer " + token + "\r\n\r\n"
}

// begin sends events over conn: first the unsent ones, and, for clients that resend, those without
// a result too.
func (c *client) begin(conn net.Conn) {
	c.fleet.connected()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
	for i, sent := range c.open {
		if !sent || c.fleet.again {
			c.write(i)
		}
	}
}

// submit sends an event, or keeps it until there is a connection.
func (c *client) submit(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[i] = false
	c.write(i)
}

// write sends an event if there is a connection. Its caller must hold mu.
func (c *client) write(i int) {
	if c.conn == nil {
		return
	}
	c.open[i] = true
	_ = c.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := c.conn.Write(frame(c.fleet.event(c, i))); err != nil {
		_ = c.conn.Close() // its reader notices the error
	}
}

// cut breaks the connection like a network failure.
func (c *client) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

// read reads messages until the connection ends. It returns the delay until the next connection, if
// the server named one.
func (c *client) read(conn net.Conn, r *bufio.Reader) (wait time.Duration) {
	var buffer []byte
	for {
		opcode, message, err := next(r, buffer)
		if err != nil || opcode == opClose {
			return wait
		}
		buffer = message[:0]
		switch {
		case opcode != opText:
		case bytes.HasPrefix(message, []byte(`{"type":"result"`)), bytes.HasPrefix(message, []byte(`{"type":"event"`)):
			c.result(message)
		case bytes.HasPrefix(message, []byte(`{"type":"connected"`)):
			c.mu.Lock()
			c.cursor = string(field(message, `"cursor":"`))
			c.mu.Unlock()
			c.begin(conn)
		case bytes.HasPrefix(message, []byte(`{"type":"ping"`)):
			c.pong()
		case bytes.HasPrefix(message, []byte(`{"type":"accepted"`)):
			c.fleet.accept(number(field(message, `"eventId":"`)))
		case bytes.HasPrefix(message, []byte(`{"type":"backpressure"`)):
			c.again(message)
		case bytes.HasPrefix(message, []byte(`{"type":"disconnect"`)):
			milliseconds, _ := strconv.Atoi(string(digits(message, `"retryAfterMs":`)))
			wait = max(1, time.Duration(milliseconds)*time.Millisecond)
			c.fleet.left()
		default:
			c.fleet.strange(message)
		}
	}
}

// result takes a result, or the echo of an event.
func (c *client) result(message []byte) {
	now := time.Now()
	i := number(field(message, `"eventId":"`))
	if c.fleet.resumes {
		seq, _ := strconv.ParseUint(string(digits(message, `"seq":`)), 10, 64)
		if seq <= c.seq {
			c.fleet.repeat()
			return
		}
		if seq != c.seq+1 {
			c.fleet.hole()
		}
		c.seq = seq
	}
	c.mu.Lock()
	delete(c.open, i)
	if c.fleet.resumes {
		c.cursor = string(field(message, `"cursor":"`))
	}
	c.mu.Unlock()
	c.fleet.note(i, now, string(field(message, `"status":"`)))
}

func (c *client) pong() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		_, _ = c.conn.Write(frame([]byte(`{"type":"pong"}`))) // its reader sees the end
	}
}

// again resends a rejected event when the server allows it.
func (c *client) again(message []byte) {
	i := number(field(message, `"eventId":"`))
	c.fleet.pushBack()
	if c.fleet.rude {
		return
	}
	milliseconds, _ := strconv.Atoi(string(digits(message, `"retryAfterMs":`)))
	time.AfterFunc(time.Duration(milliseconds)*time.Millisecond, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if _, open := c.open[i]; open {
			c.write(i)
		}
	})
}

// Opcodes of RFC 6455.
const (
	opText  = 1
	opClose = 8
)

// frame returns the bytes of a masked frame of text.
func frame(payload []byte) []byte {
	b := make([]byte, 0, len(payload)+8)
	b = append(b, 0x80|opText)
	if n := len(payload); n < 126 {
		b = append(b, 0x80|byte(n))
	} else {
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	}
	b = append(b, 0, 0, 0, 0) // a mask that changes nothing
	return append(b, payload...)
}

var errFrame = errors.New("a frame of more than 1 MiB, or a fragment")

// next reads a frame of a server into buffer, or a larger one.
func next(r *bufio.Reader, buffer []byte) (opcode byte, payload []byte, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:2]); err != nil {
		return 0, nil, err
	}
	opcode = head[0] & 0xf
	n := uint64(head[1])
	switch n {
	case 126:
		if _, err := io.ReadFull(r, head[:2]); err != nil {
			return 0, nil, err
		}
		n = uint64(binary.BigEndian.Uint16(head[:2]))
	case 127:
		if _, err := io.ReadFull(r, head[:8]); err != nil {
			return 0, nil, err
		}
		n = binary.BigEndian.Uint64(head[:8])
	}
	if n > 1<<20 || opcode == 0 {
		return 0, nil, errFrame
	}
	if uint64(cap(buffer)) < n {
		buffer = make([]byte, n)
	}
	payload = buffer[:n]
	_, err = io.ReadFull(r, payload)
	return opcode, payload, err
}

// field returns the text after a name, up to the next quote.
func field(message []byte, name string) []byte {
	_, rest, _ := bytes.Cut(message, []byte(name))
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	return text
}

// digits returns the digits after a name.
func digits(message []byte, name string) []byte {
	_, rest, _ := bytes.Cut(message, []byte(name))
	n := 0
	for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
		n++
	}
	return rest[:n]
}

// number returns the number of the event in its run, from its id.
func number(id []byte) int {
	n, err := strconv.Atoi(string(id[bytes.LastIndexByte(id, '.')+1:]))
	if err != nil {
		return -1
	}
	return n
}

package gateway_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// raw speaks WebSocket frame by frame, rightly or wrongly.
type raw struct {
	net.Conn
	r     *bufio.Reader
	pongs bool // it answers pings
	bytes int  // of the payloads that came
}

// Opcodes of RFC 6455.
const (
	opContinue = 0
	opText     = 1
	opBinary   = 2
	opClose    = 8
	opPing     = 9
	opPong     = 10
	fin        = 0x80
)

// dialRaw asks conn for the protocol with these more lines of header.
func dialRaw(conn net.Conn, lines ...string) (*raw, *http.Response, error) {
	return dialPath(conn, "/v1/stream", lines...)
}

func dialPath(conn net.Conn, path string, lines ...string) (*raw, *http.Response, error) {
	request := "GET " + path + " HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	for _, line := range lines {
		request += line + "\r\n"
	}
	w := &raw{Conn: conn, r: bufio.NewReader(conn)}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		return nil, nil, err
	}
	response, err := http.ReadResponse(w.r, nil)
	if err != nil {
		return nil, nil, err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return nil, response, fmt.Errorf("status %s", response.Status)
	}
	return w, response, nil
}

const offered = "Sec-WebSocket-Protocol: " + wire.Protocol

// frame returns the bytes of a masked frame; first is its first byte.
func frame(first byte, payload []byte) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	mask := [4]byte{0x37, 0xfa, 0x21, 0x3d}
	b = append(b, mask[:]...)
	for i, c := range payload {
		b = append(b, c^mask[i%4])
	}
	return b
}

func (w *raw) text(message string) error {
	_, err := w.Write(frame(fin|opText, []byte(message)))
	return err
}

// closed is a close frame.
type closed struct {
	code   int
	reason string
}

func (c *closed) Error() string { return fmt.Sprintf("closed: %d %s", c.code, c.reason) }

var errMasked = errors.New("a server's frame is masked or in parts")

// next returns the opcode and payload of the next frame; a close frame is an
// error.
func (w *raw) next() (op byte, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(w.r, head[:]); err != nil {
		return 0, nil, err
	}
	if head[0]&fin == 0 || head[1]&0x80 != 0 {
		return 0, nil, errMasked
	}
	n := uint64(head[1])
	switch n {
	case 126:
		var more [2]byte
		_, err = io.ReadFull(w.r, more[:])
		n = uint64(binary.BigEndian.Uint16(more[:]))
	case 127:
		var more [8]byte
		_, err = io.ReadFull(w.r, more[:])
		n = binary.BigEndian.Uint64(more[:])
	}
	if err != nil {
		return 0, nil, err
	}
	payload = make([]byte, n)
	if _, err := io.ReadFull(w.r, payload); err != nil {
		return 0, nil, err
	}
	w.bytes += len(payload)
	if op = head[0] & 0x0f; op == opClose {
		c := &closed{}
		if len(payload) >= 2 {
			c.code, c.reason = int(binary.BigEndian.Uint16(payload)), string(payload[2:])
		}
		return op, nil, c
	}
	return op, payload, nil
}

// receive returns the next frame of the protocol.
func (w *raw) receive() (wire.Frame, error) {
	_ = w.SetReadDeadline(time.Now().Add(2 * time.Minute))
	op, payload, err := w.next()
	for op == opPong {
		op, payload, err = w.next()
	}
	switch {
	case err != nil:
		return nil, err
	case op != opText:
		return nil, fmt.Errorf("opcode %d: %q", op, payload)
	}
	f, problem := wire.ParseServer(payload)
	if problem != nil {
		return nil, problem
	}
	if _, ping := f.(*wire.Ping); ping && w.pongs {
		return f, w.send(&wire.Pong{})
	}
	return f, nil
}

func (w *raw) send(f wire.Frame) error {
	message, err := wire.Encode(f)
	if err != nil {
		return err
	}
	return w.text(string(message))
}

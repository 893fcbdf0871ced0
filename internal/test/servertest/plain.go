package servertest

import (
	"io"
	"net"
	"testing"
)

// WithoutTLS starts a server that answers the request for TLS of a client of
// PostgreSQL with no. It returns a URL by an address that does not count as loopback,
// and the messages that clients send nevertheless.
func WithoutTLS(t testing.TB) (url string, sent <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	messages := make(chan string, 64)
	go func() { // until the listener is closed
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				request := make([]byte, 8)
				if _, err := io.ReadFull(conn, request); err != nil {
					return
				}
				if request[7] != 0x2f { // the end of SSLRequest's code; a startup message differs
					messages <- string(request)
				} else if _, err := conn.Write([]byte("N")); err == nil {
					if rest, _ := io.ReadAll(io.LimitReader(conn, 100)); len(rest) > 0 {
						messages <- string(rest)
					}
				}
			}()
		}
	}()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return "postgres://user:secret@0.0.0.0:" + port + "/x", messages
}

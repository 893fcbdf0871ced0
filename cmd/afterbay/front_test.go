package main

import (
	"net"
	"testing"
	"time"
)

// TestConnectionsThatAreNotReadHoldLittle writes to a client that reads nothing,
// until the system takes no more of it.
func TestConnectionsThatAreNotReadHoldLittle(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	conn, err := (narrow{l}).Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	taken := 0
	for err == nil {
		var n int
		_ = conn.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
		n, err = conn.Write(make([]byte, 16<<10))
		taken += n
	}
	if taken > 4*writeBufferBytes {
		t.Errorf("the system holds %d bytes for a client that reads nothing, want about %d", taken, writeBufferBytes)
	}
}

package process

import (
	"encoding/base64"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/auth"
)

// TestKeysThatCannotBeReadAreNoWrongToken reads a set of keys that is not there.
func TestKeysThatCannotBeReadAreNoWrongToken(t *testing.T) {
	keys, err := auth.New(auth.Keys{JWKS: &auth.JWKS{File: filepath.Join(t.TempDir(), "none"), Audience: "gateway"}}, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"EdDSA","kid":"a"}`)) + "." + encode([]byte(`{}`)) + "." + encode(make([]byte, 64))
	for text, unavailable := range map[string]bool{signed: true, "made.up": false, "c:00": false} {
		if _, err := (authenticator{keys}).Verify(t.Context(), text); err == nil || errors.Is(err, gateway.ErrUnavailable) != unavailable {
			t.Errorf("%s: %v", text, err)
		}
	}
}

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

package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/contract"
	"github.com/afterbay/afterbay/internal/gateway/limit"
	"github.com/afterbay/afterbay/internal/test/contracttest"
)

func TestDocumentsAreServedAndHaveEveryEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		for path, want := range map[string][]byte{"/v1/openapi.json": contract.OpenAPI(), "/v1/asyncapi.json": contract.AsyncAPI()} {
			r := w.request(http.MethodGet, path, "a/b", "") // its token is none
			got, err := io.ReadAll(r.Body)
			if w.ok(err); r.StatusCode != http.StatusOK || !bytes.Equal(got, want) {
				t.Errorf("%s: %s, %d bytes", path, r.Status, len(got))
			}
		}
		var document struct{ Paths map[string]map[string]any }
		w.ok(json.Unmarshal(contract.OpenAPI(), &document))
		for path, operations := range document.Paths {
			for method := range operations {
				r := w.request(strings.ToUpper(method), path, "a/b", "")
				if w.ok(r.Body.Close()); r.StatusCode == http.StatusNotFound || r.StatusCode == http.StatusMethodNotAllowed {
					t.Errorf("%s %s: %s", method, path, r.Status)
				}
			}
		}
		var source []byte
		for _, file := range []string{"gateway.go", "contract.go"} {
			text, err := os.ReadFile(file)
			w.ok(err)
			source = append(source, text...)
		}
		paths := map[string]bool{}
		for _, found := range regexp.MustCompile(`"(?:GET )?(/v1/[a-z.]+)"`).FindAllSubmatch(source, -1) {
			paths[string(found[1])] = true
			if document.Paths[string(found[1])] == nil {
				t.Errorf("the document lacks %s", found[1])
			}
		}
		if len(paths) != len(document.Paths) {
			t.Errorf("the handler has %v, the document %d paths", paths, len(document.Paths))
		}
	})
}

// noted is a test that notes what is wrong instead of failing.
type noted struct {
	testing.TB
	wrong []string
}

// Errorf implements testing.TB.
func (n *noted) Errorf(format string, args ...any) {
	n.wrong = append(n.wrong, fmt.Sprintf(format, args...))
}

// mutating changes what is read.
type mutating struct {
	net.Conn
	from, to string
}

// Read implements net.Conn.
func (m *mutating) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	copy(b, bytes.ReplaceAll(b[:n], []byte(m.from), []byte(m.to)))
	return n, err
}

// TestWhatAGatewaySendsIsHeldToItsContract changes a byte of what it sends, over
// each transport, and sees that the check of all tests notices.
func TestWhatAGatewaySendsIsHeldToItsContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		for _, c := range []struct {
			name, from, to string
			wrong          int
		}{
			{"as it is", "x", "x", 0},
			{"a field", `"recovered"`, `"recoverer"`, 2}, // by WebSocket and server-sent events
			{"a value", `"accepted","eventId":"e"`, `"accepted","eventId":"/"`, 2},
			{"a status", "HTTP/1.1 200", "HTTP/1.1 206", 2},
		} {
			n := &noted{TB: t}
			dial := func() *contracttest.Tap {
				return contracttest.New(n, &mutating{w.listener.dial().(*contracttest.Tap).Conn, c.from, c.to}, true)
			}
			socket, _, err := dialRaw(dial(), offered, "Authorization: Bearer acme.ada")
			w.ok(err)
			w.ok(socket.text(`{"type":"connect"}`))
			_, _, err = socket.next()
			w.ok(err)
			w.ok(socket.text(`{"type":"event","eventId":"e","payload":1}`))
			for accepted := false; !accepted; { // its result may come before
				_, message, err := socket.next()
				w.ok(err)
				accepted = bytes.Contains(message, []byte(`"accepted"`))
			}
			w.ok(socket.Close())
			for _, request := range []string{
				"GET /v1/results HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer acme.bob\r\n\r\n",
				"POST /v1/events HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer acme.bob\r\nContent-Length: 42\r\n\r\n" + `{"type":"event","eventId":"e","payload":1}`,
			} {
				conn := dial()
				_, err := io.WriteString(conn, request)
				w.ok(err)
				b := make([]byte, 8<<10)
				for range 3 { // header, and what comes at once
					synctest.Wait()
					_ = conn.SetReadDeadline(time.Now().Add(time.Second))
					if _, err = conn.Read(b); err != nil {
						break
					}
				}
				_ = conn.Close()
			}
			if len(n.wrong) != c.wrong {
				t.Errorf("%s: %d are wrong, want %d: %q", c.name, len(n.wrong), c.wrong, n.wrong)
			}
		}
	})
}

// TestContractHasWhatAddressesHear asks every endpoint from an address that has as many
// connections as it may. Nothing is read of it: the answer is there before it asks.
func TestContractHasWhatAddressesHear(t *testing.T) {
	addresses, err := limit.New[netip.Prefix](limit.Options{Open: 1, Burst: 1000})
	if err != nil {
		t.Fatal(err)
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(limit.Listen(inner, addresses)) }()
	defer func() { _ = server.Close() }()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	dial() // all that it may
	for _, asks := range []string{"GET /v1/stream", "GET /v1/results", "POST /v1/events", "POST /v1/ack"} {
		answer, err := io.ReadAll(dial())
		if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 429 ")) {
			t.Errorf("%q, %v", answer, err)
		}
		for _, err := range contracttest.Conversation([]byte(asks+" HTTP/1.1\r\nHost: gateway\r\n\r\n"), answer, true) {
			t.Error(err)
		}
	}
}

// Package contracttest checks that all traffic of a gateway in tests conforms to the documents of
// package contract.
package contracttest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/afterbay/afterbay/internal/gateway/contract"
)

// document is the OpenAPI document, with frames that allow no unnamed fields: a gateway must not
// send undocumented fields.
type document struct {
	compiler *jsonschema.Compiler
	paths    map[string]any
	mu       sync.Mutex // guards the fields below
	compiled map[string]*jsonschema.Schema
}

// file has a scheme, because a plain name would be relative to the working directory, which tests
// change.
const file = "test:///gateway-openapi.json"

var parsed = sync.OnceValue(func() *document {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(contract.OpenAPI()))
	if err != nil {
		panic(err)
	}
	whole := value.(map[string]any)
	for _, s := range whole["components"].(map[string]any)["schemas"].(map[string]any) {
		if object := s.(map[string]any); object["type"] == "object" && object["additionalProperties"] == nil {
			object["additionalProperties"] = false
		}
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(file, whole); err != nil {
		panic(err)
	}
	return &document{compiler: c, paths: whole["paths"].(map[string]any), compiled: map[string]*jsonschema.Schema{}}
})

// check validates JSON against the named schema of the document.
func (d *document) check(name string, data []byte) error {
	d.mu.Lock()
	s, err := d.compiled[name], error(nil)
	if s == nil {
		if s, err = d.compiler.Compile(file + "#/components/schemas/" + name); err == nil {
			d.compiled[name] = s
		}
	}
	d.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%.200s: %w", data, err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err == nil {
		err = s.Validate(value)
	}
	if err != nil {
		return fmt.Errorf("%.500s: %w", data, err)
	}
	return nil
}

// Frames that clients send. A server sends all others.
var ofClients = map[string]bool{"connect": true, "event": true, "cancel": true, "ack": true, "pong": true, "refresh": true}

// Server returns the error of a frame of a gateway, or nil.
func Server(data []byte) error { return checkFrame(data, false) }

// Client returns the error of a frame of a client, or nil.
func Client(data []byte) error { return checkFrame(data, true) }

var errSide = errors.New("a frame that only the other side sends")

func checkFrame(data []byte, client bool) error {
	var head struct{ Type string }
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("%.200q: %w", data, err)
	}
	if ofClients[head.Type] != client {
		return fmt.Errorf("%.200s: %w", data, errSide)
	}
	return parsed().check(head.Type, data)
}

// tapMost bounds the bytes that a Tap keeps per direction; later bytes are not checked.
const tapMost = 4 << 20

// Tap is a client's end of a connection to a gateway. When it is closed, it checks the traffic:
// HTTP responses, frames of the gateway, and the client's frames if the client must conform too.
type Tap struct {
	net.Conn
	t      testing.TB
	client bool

	mu            sync.Mutex // guards the fields below
	written, read bytes.Buffer
	checked       bool
}

// New returns conn with a tap. The caller must call Check at the end of its test, for connections
// that are still open.
func New(t testing.TB, conn net.Conn, client bool) *Tap {
	return &Tap{Conn: conn, t: t, client: client}
}

// Read implements net.Conn.
func (t *Tap) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	t.keep(&t.read, b[:n])
	return n, err
}

// Write implements net.Conn.
func (t *Tap) Write(b []byte) (int, error) {
	n, err := t.Conn.Write(b)
	t.keep(&t.written, b[:n])
	return n, err
}

func (t *Tap) keep(in *bytes.Buffer, b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.checked {
		in.Write(b[:min(len(b), tapMost-in.Len())])
	}
}

// Close implements net.Conn.
func (t *Tap) Close() error {
	t.Check()
	return t.Conn.Close()
}

// Check fails the test if the traffic does not conform to the documents, and then discards the
// traffic.
func (t *Tap) Check() {
	t.t.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, err := range Conversation(t.written.Bytes(), t.read.Bytes(), t.client) {
		t.t.Errorf("contract: %v", err)
	}
	t.written, t.read, t.checked = bytes.Buffer{}, bytes.Buffer{}, true
}

// Conversation returns the errors in the bytes that a client wrote and read on a connection. The
// bytes may end anywhere. With client it checks the client's frames too.
func Conversation(written, read []byte, client bool) (wrong []error) {
	requests, answers := bufio.NewReader(bytes.NewReader(written)), bufio.NewReader(bytes.NewReader(read))
	for {
		request, err := http.ReadRequest(requests)
		if err != nil {
			return wrong // the rest is not HTTP, or incomplete
		}
		response, err := http.ReadResponse(answers, request)
		if err != nil {
			return wrong
		}
		if response.StatusCode == http.StatusSwitchingProtocols {
			wrong = append(wrong, parsed().answer(request, response, nil, true)...)
			wrong = append(wrong, messages(answers, Server)...)
			if client {
				wrong = append(wrong, messages(requests, Client)...)
			}
			return wrong
		}
		_, _ = io.Copy(io.Discard, request.Body)
		body, readErr := io.ReadAll(response.Body)
		wrong = append(wrong, parsed().answer(request, response, body, readErr == nil)...)
		if readErr != nil {
			return wrong
		}
	}
}

// answer checks an HTTP response; whole reports that its body is complete.
func (d *document) answer(request *http.Request, response *http.Response, body []byte, whole bool) (wrong []error) {
	path, _ := d.paths[request.URL.Path].(map[string]any)
	operation, ok := path[strings.ToLower(request.Method)].(map[string]any)
	if !ok || response.StatusCode == http.StatusNotFound {
		return nil // preflights, and responses of other handlers
	}
	where := fmt.Sprintf("%s %s: %s", request.Method, request.URL.Path, response.Status)
	described, ok := operation["responses"].(map[string]any)[strconv.Itoa(response.StatusCode)].(map[string]any)
	if !ok {
		return []error{fmt.Errorf("%s: the document has no such answer: %.200s", where, body)}
	}
	if ref, ok := described["$ref"].(string); ok {
		described = d.response(ref[strings.LastIndexByte(ref, '/')+1:])
	}
	headers, _ := described["headers"].(map[string]any)
	for name := range headers {
		if name != "Afterbay-Cursor" && response.Header.Get(name) == "" {
			wrong = append(wrong, fmt.Errorf("%s: no header %s", where, name))
		}
	}
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	content, _ := described["content"].(map[string]any)
	if content[media] == nil && (media != "" || len(content) > 0) {
		return append(wrong, fmt.Errorf("%s: the document has no content %q", where, media))
	}
	for _, err := range d.body(media, body, whole, response.StatusCode >= 400) {
		wrong = append(wrong, fmt.Errorf("%s: %w", where, err))
	}
	return wrong
}

func (d *document) response(name string) map[string]any {
	var whole struct {
		Components struct{ Responses map[string]map[string]any }
	}
	if err := json.Unmarshal(contract.OpenAPI(), &whole); err != nil {
		panic(err)
	}
	return whole.Components.Responses[name]
}

func (d *document) body(media string, body []byte, whole, refused bool) (wrong []error) {
	check := func(err error) {
		if err != nil {
			wrong = append(wrong, err)
		}
	}
	switch {
	case media == "application/json" && whole && refused:
		check(d.check("refusal", body))
	case media == "application/cloudevents-batch+json" && whole:
		var events []json.RawMessage
		check(json.Unmarshal(body, &events))
		for _, e := range events {
			check(d.check("cloudevent", e))
		}
	case media == "application/x-ndjson" || media == "text/event-stream":
		for line := range bytes.Lines(body) {
			if media == "text/event-stream" {
				var ok bool
				if line, ok = bytes.CutPrefix(line, []byte("data: ")); !ok {
					continue
				}
			}
			if !bytes.HasSuffix(line, []byte("\n")) {
				continue // cut
			}
			if bytes.Contains(line, []byte(`"specversion"`)) {
				check(d.check("cloudevent", line))
			} else {
				check(Server(line))
			}
		}
	}
	return wrong
}

// messages checks the text messages of a WebSocket's bytes, up to the last complete one.
func messages(r *bufio.Reader, check func([]byte) error) (wrong []error) {
	var message []byte
	for text := false; ; {
		first, payload, err := frame(r)
		if err != nil {
			return wrong
		}
		switch opcode := first & 0x0f; {
		case opcode >= 8:
			continue // control
		case opcode > 0:
			text, message = opcode == 1, nil
		}
		message = append(message, payload...)
		if first&0x80 == 0 || !text {
			continue
		}
		if err := check(message); err != nil {
			wrong = append(wrong, err)
		}
	}
}

// frame reads a frame of RFC 6455, masked or not.
func frame(r *bufio.Reader) (first byte, payload []byte, err error) {
	var head [14]byte
	if _, err := io.ReadFull(r, head[:2]); err != nil {
		return 0, nil, err
	}
	n, more := uint64(head[1]&0x7f), 0
	switch n {
	case 126:
		more = 2
	case 127:
		more = 8
	}
	if _, err := io.ReadFull(r, head[2:2+more]); err != nil {
		return 0, nil, err
	}
	switch more {
	case 2:
		n = uint64(binary.BigEndian.Uint16(head[2:]))
	case 8:
		n = binary.BigEndian.Uint64(head[2:])
	}
	if n > tapMost {
		return 0, nil, io.ErrUnexpectedEOF
	}
	var mask [4]byte
	if head[1]&0x80 != 0 {
		if _, err := io.ReadFull(r, mask[:]); err != nil {
			return 0, nil, err
		}
	}
	payload = make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, err
	}
	for i := range payload {
		payload[i] ^= mask[i%4]
	}
	return head[0], payload, nil
}

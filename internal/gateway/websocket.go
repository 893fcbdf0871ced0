package gateway

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lxzan/gws"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// writeTimeout is how long the gateway waits for a client to read a message, accurate to a second.
const writeTimeout = 10 * time.Second

// readBufferBytes is the read buffer that an idle connection keeps. Longer messages bypass the
// buffer, at the cost of one more system call.
const readBufferBytes = 1 << 10

// sockets upgrades requests to WebSockets. The use of the library is limited to this file.
type sockets struct{ upgrader *gws.Upgrader }

func newSockets(g *Gateway) sockets {
	return sockets{gws.NewUpgrader(events{}, &gws.ServerOption{
		ReadMaxPayloadSize: g.options.MessageBytes, CheckUtf8Enabled: true, ReadBufferSize: readBufferBytes, SubProtocols: []string{wire.Protocol},
		Logger: silent{}, NewSession: func() gws.SessionStorage { return &holder{} },
	})}
}

// serveStream upgrades a request to a WebSocket. It rejects a bad request before the upgrade, while
// that is cheap.
func (g *Gateway) serveStream(w http.ResponseWriter, r *http.Request) {
	token, err := g.check(r)
	if err != nil {
		g.refuse(w, err)
		return
	}
	protocols := split(r.Header.Get("Sec-WebSocket-Protocol"))
	if !slices.Contains(protocols, wire.Protocol) {
		g.refuse(w, &refusal{http.StatusBadRequest, "the subprotocol " + wire.Protocol + " is missing", "ask for it in Sec-WebSocket-Protocol"})
		return
	}
	if !asksForWebSocket(r) {
		g.refuse(w, &refusal{http.StatusBadRequest, "the request does not ask for a WebSocket of RFC 6455", "connect with a WebSocket library, or get results from /v1/results; a proxy must forward Upgrade and Connection"})
		return
	}
	for _, p := range protocols {
		if bearer, ok := strings.CutPrefix(p, "bearer."); ok && token == "" {
			token = bearer
		}
	}
	var who *Identity
	if token != "" {
		identity, err := g.verify(r.Context(), token, correlationIn(w))
		if err != nil {
			g.refuse(w, err)
			return
		}
		who = &identity
	}
	conn := &connection{}
	s := newSession(g, conn, who, correlationIn(w))
	if err := g.enter(s); err != nil {
		s.cancel()
		g.refuse(w, err)
		return
	}
	conn.conn, err = g.sockets.upgrader.Upgrade(&hijacker{w, &conn.transport}, r)
	if err != nil { // the library has answered
		conn.transport.finish()
		g.exit(s)
		s.cancel()
		return
	}
	g.metrics.Opened.Add(1)
	conn.conn.Session().(*holder).session = s
	s.open()
	go g.readSocket(s, conn) // runs until its exit; the request's goroutine ends, which frees its memory
}

// asksForWebSocket reports whether the library would accept a request. The gateway checks this
// itself because the library's error answers say too little.
func asksForWebSocket(r *http.Request) bool {
	return r.Header.Get("Sec-WebSocket-Version") == "13" && r.Header.Get("Sec-WebSocket-Key") != "" &&
		strings.EqualFold(r.Header.Get("Upgrade"), "websocket") && strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade")
}

// readSocket reads a connection until it is closed.
func (g *Gateway) readSocket(s *session, conn *connection) {
	defer g.exit(s)
	defer conn.transport.finish()
	defer s.end()
	defer func() {
		if code := conn.transport.breach(); code != 0 {
			g.metrics.Closed.add(code)
		}
	}()
	// The library panics on a frame that claims 2^63 bytes or more.
	defer func() {
		if p := recover(); p != nil {
			g.options.Logger.Warn("gateway: a connection was closed because of an invalid frame", "panic", p, "correlation", s.correlation)
			_ = conn.conn.WriteClose(uint16(closeProtocol), nil)
		}
	}()
	conn.conn.ReadLoop()
}

// connection is a WebSocket of the library. It implements socket.
type connection struct {
	conn      *gws.Conn
	transport transport
}

func (c *connection) send(message []byte) error {
	c.transport.collect()
	return c.conn.WriteMessage(gws.OpcodeText, message)
}

func (c *connection) flush() error {
	err := c.transport.flush()
	if err != nil {
		_ = c.transport.Close() // ends the reader
	}
	return err
}

func (c *connection) close(code closeCode) {
	_ = c.conn.WriteClose(uint16(code), []byte(closeReasons[code]))
}

// events handles the callbacks of the library.
type events struct{ gws.BuiltinEventHandler }

// OnPing answers with a pong.
func (events) OnPing(c *gws.Conn, payload []byte) {
	c.Session().(*holder).session.spend()
	_ = c.WritePong(payload)
}

// OnMessage passes a text message to the session.
func (events) OnMessage(c *gws.Conn, m *gws.Message) {
	s := c.Session().(*holder).session
	if m.Opcode != gws.OpcodeText {
		s.fail(0, &wire.Error{Code: wire.CodeBadFrame, Message: "messages are text"})
		_ = m.Close()
		return
	}
	s.receive(m.Bytes())
	_ = m.Close() // parsed frames do not share its memory
}

// holder links a connection of the library to its session.
type holder struct {
	gws.SessionStorage
	session *session
}

type silent struct{}

func (silent) Error(...any) {}

// hijacker gives the library a transport that includes the bytes that the server read beyond the
// request. A client may send before it has the answer.
type hijacker struct {
	http.ResponseWriter
	transport *transport
}

func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.transport.Conn = conn
	h.transport.header = http.CanonicalHeaderKey(header.Correlation) + ": " + h.Header().Get(header.Correlation)
	if n := buffered.Reader.Buffered(); n > 0 {
		h.transport.early = make([]byte, n)
		if _, err := io.ReadFull(buffered.Reader, h.transport.early); err != nil {
			return nil, nil, errors.Join(err, conn.Close())
		}
	}
	return h.transport, buffered, nil
}

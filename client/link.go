package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/lxzan/gws"

	"github.com/afterbay/afterbay/internal/gateway/wire"
)

const (
	dialTimeout     = 10 * time.Second // token, network and handshake
	connectTimeout  = 10 * time.Second // until the gateway says that the client is connected
	writeTimeout    = 10 * time.Second
	closeTimeout    = time.Second
	againAfterError = time.Second      // before the retry of an event that the log did not accept
	ackEvery        = 32               // results
	renewLeast      = 10 * time.Second // minimum time between attempts to renew the token
	refreshID       = 2
)

// link is one connection. The goroutine that runs serve owns every field without another note.
type link struct {
	client  *Client
	conn    *gws.Conn
	closing <-chan struct{} // closed when the client ends
	done    chan struct{}   // closed when the connection has ended
	again   chan struct{}   // there is room again for dropped results
	left    bool            // the connection ended because of again
	expires chan time.Time  // receives each new expiry time of the token

	writing chan struct{} // held by the writer; a channel instead of a mutex, so that tests in virtual time can wait on it
	slots   chan struct{} // one for each event that waits for an answer; the gateway sets the limit
	bytes   int64         // largest message that the gateway accepts

	dropping   bool // drop results
	unacked    int  // results since the last ack
	idle       time.Duration
	since      time.Time // time of the connected frame
	ended      time.Time
	retryAfter time.Duration
	valid      time.Time // expiry time of the token; zero means no expiry
	err        error     // why the client ended the connection

	mu      sync.Mutex // guards the fields below
	waiting map[string]chan<- answer
}

// answer is the outcome of one attempt to send an event. If again is set, the event must be sent
// again after a while. Otherwise err is nil if the gateway accepted the event.
type answer struct {
	err   error
	again bool
	sent  bool // this attempt may have reached the gateway
	after time.Duration
}

func newLink(c *Client) *link {
	return &link{
		client: c, done: make(chan struct{}), again: make(chan struct{}, 1), expires: make(chan time.Time, 1), writing: make(chan struct{}, 1),
		waiting: map[string]chan<- answer{},
	}
}

// serve opens the connection, reads it until it ends, and returns the reason.
func (l *link) serve(ctx context.Context) error {
	l.closing = ctx.Done()
	if err := l.dial(ctx); err != nil {
		return err
	}
	var watch sync.WaitGroup
	finished := make(chan struct{})
	renewing, stop := context.WithCancel(ctx)
	watch.Go(func() { l.renew(renewing) })
	watch.Go(func() {
		select {
		case <-ctx.Done():
		case <-l.again:
			l.left = true
		case <-finished:
			return
		}
		_ = l.conn.NetConn().SetWriteDeadline(time.Now().Add(closeTimeout))
		_ = l.conn.WriteClose(1000, nil)
	})
	l.read()
	close(finished)
	stop()
	watch.Wait()
	_ = l.conn.NetConn().Close()
	l.ended = time.Now()
	return l.err
}

// renew sends a new token when three quarters of the lifetime of the current one have passed. If
// that fails, it tries again. If it keeps failing, the gateway ends the connection, and the next
// connection asks for a token.
func (l *link) renew(ctx context.Context) {
	var valid time.Time
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case valid = <-l.expires:
		case <-due:
			if token, err := l.client.options.Token(ctx); err == nil {
				l.client.metrics.Renewals.Add(1)
				l.bring(token)
				due = nil
				continue // the gateway's answer sets the next renewal
			}
		}
		due = time.After(max(renewLeast, time.Until(valid)/4*3)) // this can be centuries
	}
}

func (l *link) bring(token string) {
	if message, err := wire.Encode(&wire.Refresh{ID: refreshID, Token: token}); err == nil {
		_ = l.write(message) // a write error ends the connection
	}
}

// until records when the token expires, if it does.
func (l *link) until(valid time.Time) {
	if l.valid = valid; valid.IsZero() {
		return
	}
	select {
	case l.expires <- valid:
	default: // an earlier value is still unread
	}
}

// read reads the connection until it ends.
func (l *link) read() {
	defer func() {
		if p := recover(); p != nil { // the library panics if a frame claims to have 2^63 bytes or more
			l.err = cmp.Or(l.err, fmt.Errorf("the gateway's frames are bad: %v", p))
		}
	}()
	l.conn.ReadLoop()
}

// held returns how long the client was connected.
func (l *link) held() time.Duration {
	if l.since.IsZero() {
		return 0
	}
	return l.ended.Sub(l.since)
}

// reopen ends the connection, so that the next one resumes at the first dropped result.
func (l *link) reopen() {
	select {
	case l.again <- struct{}{}:
	default:
	}
}

func (l *link) reopened() bool { return l.left }

func (l *link) dial(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	o, u := &l.client.options, l.client.address
	token, err := o.Token(ctx)
	if err != nil {
		return fmt.Errorf("token: %w", err)
	}
	port := cmp.Or(u.Port(), map[string]string{"ws": "80", "wss": "443"}[u.Scheme])
	conn, err := o.Dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if u.Scheme == "ws" {
		return l.handshake(conn, token)
	}
	settings := &tls.Config{}
	if o.TLS != nil {
		settings = o.TLS.Clone()
	}
	settings.ServerName = cmp.Or(settings.ServerName, u.Hostname())
	return l.handshake(tls.Client(conn, settings), token)
}

// handshake performs the WebSocket handshake on conn. The library gets a longer timeout than dial
// uses, so that dial always gives up first: a timeout of the library leaks a goroutine.
func (l *link) handshake(conn net.Conn, token string) error {
	header := http.Header{}
	header.Set("Authorization", "Bearer "+token)
	header.Set("Sec-WebSocket-Protocol", wire.Protocol)
	var response *http.Response
	var err error
	l.conn, response, err = gws.NewClientFromConn(l, &gws.ClientOption{
		Addr: l.client.address.String(), RequestHeader: header, HandshakeTimeout: 2 * dialTimeout,
		ReadMaxPayloadSize: l.client.options.MessageBytes, CheckUtf8Enabled: true, Logger: silent{},
	}, conn)
	switch {
	case err == nil:
		return nil
	case response == nil || response.StatusCode == http.StatusSwitchingProtocols:
		return fmt.Errorf("handshake: %w", err)
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		l.retryAfter = min(time.Duration(seconds)*time.Second, backoffMost)
	}
	return &StatusError{response.StatusCode}
}

type silent struct{}

func (silent) Error(...any) {}

// write sends a message. After an error the connection ends.
func (l *link) write(message []byte) error {
	l.writing <- struct{}{}
	defer func() { <-l.writing }()
	if err := l.conn.NetConn().SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	return l.conn.WriteMessage(gws.OpcodeText, message)
}

func (l *link) tell(f wire.Frame) {
	message, err := wire.Encode(f)
	if err == nil {
		err = l.write(message)
	}
	if err != nil {
		l.fail(err)
	}
}

// fail ends the connection with err.
func (l *link) fail(err error) {
	if l.err == nil {
		l.err = err
	}
	_ = l.conn.NetConn().Close()
}

// submit sends an event and blocks until its answer.
func (l *link) submit(ctx context.Context, id string, message []byte) answer {
	if int64(len(message)) > l.bytes {
		return answer{err: &wire.Error{Code: wire.CodeTooLarge, Message: fmt.Sprintf("it has %d bytes, the gateway takes %d", len(message), l.bytes), EventID: id}}
	}
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return answer{again: true}
	case <-ctx.Done():
		return answer{err: context.Cause(ctx)}
	}
	defer func() { <-l.slots }()
	reply := make(chan answer, 1)
	l.expect(id, reply)
	defer l.expect(id, nil)
	_ = l.write(message) // a write error ends the connection
	select {
	case a := <-reply:
		return a
	case <-l.done:
	case <-ctx.Done():
		return answer{err: fmt.Errorf("it may be in the log: %w", context.Cause(ctx))}
	}
	select {
	case a := <-reply:
		return a
	default:
		return answer{again: true, sent: true}
	}
}

func (l *link) expect(id string, reply chan<- answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if reply == nil {
		delete(l.waiting, id)
		return
	}
	l.waiting[id] = reply
}

// reply passes an answer to the sender of an event. It reports whether a sender was waiting.
func (l *link) reply(id string, a answer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	reply, ok := l.waiting[id]
	if ok {
		delete(l.waiting, id)
		reply <- a
	}
	return ok
}

// OnOpen implements gws.Event.
func (l *link) OnOpen(*gws.Conn) {
	l.expectMessage(connectTimeout)
	o, in := &l.client.options, &l.client.inbox
	connect := &wire.Connect{ID: 1, SessionID: o.SessionID}
	switch {
	case l.dropping: // serve events only
	case in.cursor != "":
		connect.Resume, connect.AckEvery = &wire.Resume{Cursor: in.cursor}, ackEvery
	case o.Earliest:
		connect.Resume, connect.AckEvery = &wire.Resume{From: wire.FromEarliest}, ackEvery
	default:
		connect.AckEvery = ackEvery
	}
	l.tell(connect)
}

func (l *link) expectMessage(within time.Duration) {
	_ = l.conn.NetConn().SetReadDeadline(time.Now().Add(within))
}

// OnClose implements gws.Event.
func (l *link) OnClose(_ *gws.Conn, err error) {
	var closed *gws.CloseError
	var ours interface{ Uint16() uint16 } // a close code that the library chose for a bad frame
	switch {
	case l.err != nil:
	case errors.As(err, &closed):
		l.err = &CloseError{Code: int(closed.Code), Reason: string(closed.Reason)}
	case errors.As(err, &ours) && ours.Uint16() == codeTooLarge:
		l.err = &CloseError{Code: codeTooLarge, Reason: fmt.Sprintf("a message has more than %d bytes: raise MessageBytes", l.client.options.MessageBytes)}
	default:
		l.err = fmt.Errorf("the connection was cut: %w", err)
	}
}

// OnPing implements gws.Event.
func (l *link) OnPing(c *gws.Conn, payload []byte) {
	_ = c.NetConn().SetWriteDeadline(time.Now().Add(writeTimeout))
	_ = c.WritePong(payload)
}

// OnPong implements gws.Event.
func (l *link) OnPong(*gws.Conn, []byte) {}

// OnMessage implements gws.Event.
func (l *link) OnMessage(_ *gws.Conn, m *gws.Message) {
	if l.err != nil {
		return
	}
	f, problem := wire.ParseServer(m.Bytes())
	_ = m.Close() // parsed frames do not share its memory
	if problem != nil {
		l.fail(fmt.Errorf("the gateway's frame: %s", problem.Message)) // not a *wire.Error, so that the client tries another gateway
		return
	}
	l.receive(f)
	if l.idle > 0 && l.err == nil {
		l.expectMessage(l.idle)
	}
}

func (l *link) receive(f wire.Frame) {
	switch f := f.(type) {
	case *wire.Connected:
		l.connected(f)
	case *wire.Accepted:
		l.reply(f.EventID, answer{})
	case *wire.Backpressure:
		l.client.metrics.Backpressure.Add(1)
		l.reply(f.EventID, answer{again: true, sent: true, after: time.Duration(f.RetryAfterMs) * time.Millisecond})
	case *wire.ErrorFrame:
		l.problem(f)
	case *wire.ResultFrame:
		l.result(f)
	case *wire.Ping:
		l.tell(&wire.Pong{})
	case *wire.Refreshed:
		l.until(f.ExpiresAt)
	case *wire.Gap:
		if !l.dropping {
			l.client.skip(l, f)
		}
	case *wire.Disconnect:
		l.retryAfter = min(time.Duration(f.RetryAfterMs)*time.Millisecond, backoffMost)
		l.err = &CloseError{Code: f.Code, Reason: f.Reason}
	}
}

func (l *link) connected(f *wire.Connected) {
	if l.slots != nil {
		l.fail(errors.New("the gateway said twice that the client is connected"))
		return
	}
	if in := &l.client.inbox; in.cursor == "" {
		in.cursor = f.Cursor
	}
	l.slots, l.bytes = make(chan struct{}, max(1, f.PendingLimit)), f.MaxMessageBytes
	l.idle = time.Duration(f.PingMs+f.PongTimeoutMs) * time.Millisecond
	l.since = time.Now()
	l.until(f.ExpiresAt)
	l.client.connect(l)
}

// problem handles an error frame: it is about a frame that the client sent, or it takes the place
// of a result.
func (l *link) problem(f *wire.ErrorFrame) {
	switch {
	case f.Error == nil:
		l.fail(errors.New("the gateway's frame: an error without content"))
	case f.Seq > 0:
		l.result(&Result{Seq: f.Seq, Cursor: f.Cursor, EventID: f.Error.EventID, Status: wire.StatusError, Error: f.Error})
	case l.slots == nil:
		l.fail(f.Error) // the gateway rejected the client's identity or cursor
	case f.Error.Retryable && l.reply(f.Error.EventID, answer{again: true, sent: true, after: againAfterError}):
	case !f.Error.Retryable && l.reply(f.Error.EventID, answer{err: f.Error}):
	default:
		l.client.metrics.Errors.Add(1)
		if f.ID == refreshID {
			l.until(l.valid)
		}
	}
}

func (l *link) result(r *Result) {
	l.reply(r.EventID, answer{}) // a result proves that the event is in the log
	if l.dropping || !l.client.take(l, r) {
		return
	}
	if l.unacked++; l.unacked >= ackEvery {
		l.unacked = 0
		l.tell(&wire.Ack{Cursor: r.Cursor})
	}
}

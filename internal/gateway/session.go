package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/hub"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/stream"
)

const (
	connectTimeout     = 10 * time.Second // time for a new connection to send connect
	expiryGrace        = 25 * time.Second // after a token has expired, time to send a new one
	ackTimeout         = 60 * time.Second // for an ack that the client promised
	retryAfter         = 40 * time.Millisecond
	retryAfterDrain    = time.Second
	retryAfterOverload = time.Second
	answersMost        = 256 // answers that wait to be written; at this number the session stops reading
	strangersMost      = 16  // useless frames of an unauthenticated connection
	sessionIDBytes     = 128
)

// socket is the message connection of a session. Only one goroutine at a time calls send and close.
type socket interface {
	// send buffers a message for flush, or writes it together with the buffered messages. It blocks
	// on a client that does not read, but no longer than a deadline. After an error the connection
	// is closed.
	send(message []byte) error
	// flush writes the buffered messages, with the same deadline as send.
	flush() error
	// close sends the buffered messages and the reason, and closes the connection.
	close(code closeCode)
}

// session is a client connection in both directions. The goroutine that reads the connection passes
// messages to receive. Two workers write to the connection and append events to the log; an idle
// worker has no goroutine.
type session struct {
	gateway     *Gateway
	socket      socket
	correlation string          // correlation id of the upgrade request
	strange     bool            // not yet authenticated; guarded by the gateway's mutex
	ctx         context.Context // context of the connection
	cancel      context.CancelFunc
	writer      worker
	appends     worker
	tenant      string // tenant that the connection counts for; the reading goroutine owns tenant and useless
	useless     int    // useless frames before authentication

	mu   sync.Mutex // guards the fields below
	room sync.Cond  // signals that answers has room again
	admission
	subscription *hub.Subscription
	answers      []wire.Frame // to be written before more results
	inbound
	acks
	ending
	liveness
}

// admission is the identity of a session.
type admission struct {
	known     bool     // identity comes from the request: connect needs no token
	identity  Identity // valid while connected
	expires   time.Time
	connected bool
	name      string // key in gateway.named
}

// inbound holds the events of a session.
type inbound struct {
	events    []stream.Record      // events to append
	ids       []string             // ids of these events
	appending int                  // number of events that are being appended
	pending   map[string]time.Time // ids of events that have no result yet, with their arrival times
	limit     int                  // maximum size of pending
}

// acks tracks the results that the client has received and acknowledged.
type acks struct {
	ackEvery    int           // results between acks, as the client promised; 0 means no acks
	unacked     int           // results sent since the last ack that moved forward
	sent, acked stream.Offset // offsets of the newest result sent, and of the newest acknowledged
	owed        time.Time     // since when an ack is overdue
}

// ending is the state of closing a session.
type ending struct {
	leaving *wire.Disconnect // sent when all events are appended
	back    time.Time        // when the client may reconnect after leaving
	reading bool             // the connection is open and its reader is running
	broken  bool             // no further writes
	ended   bool
}

// liveness tracks when the client was last heard.
type liveness struct {
	opened, heard, pinged time.Time
	waits                 bool // a pong is outstanding
}

func newSession(g *Gateway, socket socket, who *Identity, correlation string) *session {
	now := time.Now()
	// A random offset spreads the pings of clients that connected at the same moment.
	s := &session{gateway: g, socket: socket, correlation: correlation, strange: who == nil}
	s.opened, s.pinged = now, now.Add(-rand.N(g.options.Ping/2))
	s.room.L = &s.mu
	s.writer.do, s.writer.crew = s.write, g.crew
	s.appends.do, s.appends.crew = s.append, g.crew
	s.ctx, s.cancel = context.WithCancel(g.ctx)
	if who != nil {
		s.known, s.identity = true, *who
	}
	return s
}

// receive handles a message of the client.
func (s *session) receive(message []byte) {
	frame, bad := wire.ParseClient(message)
	s.mu.Lock()
	asked := s.waits
	s.heard, s.waits = time.Now(), false
	connected := s.connected
	s.mu.Unlock()
	if bad != nil {
		s.reject(bad)
		return
	}
	if connect, ok := frame.(*wire.Connect); ok == connected {
		s.reject(wire.Refuse(message, outOfTurn(connected)))
		return
	} else if ok {
		s.connect(connect)
		return
	}
	switch f := frame.(type) {
	case *wire.Submission:
		s.submit(f)
	case *wire.Cancel:
		s.giveUp(f)
	case *wire.Ack:
		s.ack(f)
	case *wire.Pong:
		if !asked {
			s.spend()
		}
	case *wire.Refresh:
		s.refresh(f)
	}
}

// outOfTurn returns the error for a frame before connect, or for a second connect.
func outOfTurn(connected bool) *wire.Error {
	if connected {
		return &wire.Error{Code: wire.CodeBadFrame, Message: "connected already: make another connection to connect again"}
	}
	return &wire.Error{Code: wire.CodeUnauthorized, Message: "not connected: send connect first"}
}

// fail answers an invalid frame with an error.
func (s *session) fail(id int64, problem *wire.Error) {
	s.reject(&wire.ErrorFrame{ID: id, Error: problem})
}

// reject sends an error frame and charges the client for the invalid frame.
func (s *session) reject(answer *wire.ErrorFrame) {
	s.gateway.metrics.Bad.Add(1)
	s.answer(answer)
	s.spend()
}

// spend charges a useless or costly frame to the rate limit of the tenant, as one event. A tenant
// over its limit is disconnected. An unauthenticated connection is disconnected after a few such
// frames.
func (s *session) spend() {
	if s.tenant == "" {
		if s.useless++; s.useless >= strangersMost {
			s.leave(closeBadRequest, 0)
		}
		return
	}
	if _, refusal := s.gateway.tenants.Take(s.tenant, 1); refusal.Reason != "" {
		s.leave(closeQuota, refusal.Wait)
	}
}

// answer queues a frame for writing. If too many wait, it blocks, so that the session does not read
// from a client that does not read.
func (s *session) answer(frame wire.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.answers) >= answersMost && !s.broken {
		s.room.Wait()
	}
	s.push(frame)
}

// push queues a frame and starts the writer. The caller holds mu, and must limit how often it calls
// push.
func (s *session) push(frame wire.Frame) {
	s.put(frame)
	if s.reading && !s.broken { // without a reader the gateway may already have stopped waiting for workers
		s.writer.kick()
	}
}

// put queues a frame for the writer's next turn. The caller holds mu.
func (s *session) put(frame wire.Frame) {
	if frame != nil && !s.broken {
		s.answers = append(s.answers, frame)
	}
}

// wake is the callback of the hub for new results.
func (s *session) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.push(nil)
}

func (s *session) connect(f *wire.Connect) {
	g := s.gateway
	who := s.identity // only this goroutine writes it
	if f.Token != "" || !s.known {
		var err error
		if who, err = g.verify(s.ctx, f.Token, s.correlation); errors.Is(err, ErrUnavailable) {
			s.leave(closeInternal, retryAfterDrain)
			return
		} else if err != nil {
			s.leave(closeBadToken, 0)
			return
		}
	}
	if len(f.SessionID) > sessionIDBytes || f.MaxInflight < 0 || f.AckEvery < 0 {
		s.fail(f.ID, &wire.Error{Code: wire.CodeBadFrame, Message: fmt.Sprintf("connect: a session id may have at most %d bytes, and maxInflight and ackEvery must be 0 or more", sessionIDBytes)})
		return
	}
	start, problem := g.start(who, f.Resume)
	if problem != nil {
		s.fail(f.ID, problem)
		return
	}
	if s.tenant == "" {
		if refusal := g.tenants.Enter(who.Tenant); refusal.Reason != "" {
			s.leave(closeQuota, refusal.Wait)
			return
		}
		s.tenant = who.Tenant
	}
	subscription, err := g.subscribe(s.ctx, who, &start, s.wake, s.correlation)
	if err != nil {
		s.leave(closeInternal, time.Second)
		return
	}
	if f.SessionID != "" { // before the client knows that it is connected, and could reconnect
		s.replace(wire.Key(who.Tenant, who.Client) + "/" + f.SessionID)
	}
	g.know(s)
	s.begin(f, who, subscription, start)
}

// begin marks the session as connected and sends connected. That frame has the start cursor, so
// that a client that disconnects before its first result can resume there.
func (s *session) begin(f *wire.Connect, who Identity, subscription *hub.Subscription, start start) {
	g, o := s.gateway, &s.gateway.options
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		subscription.Close()
		return
	}
	s.connected, s.identity, s.expires, s.subscription = true, who, who.Expires, subscription
	s.limit, s.ackEvery, s.acked = o.PendingLimit, f.AckEvery, subscription.Start()-1
	if f.MaxInflight > 0 {
		s.limit = min(s.limit, f.MaxInflight)
	}
	s.push(&wire.Connected{
		ID: f.ID, ClientID: who.Client, TenantID: who.Tenant, Epoch: fmt.Sprint(o.Epoch), Cursor: g.cursor(who, subscription.Start()-1, start.digest),
		Recovered: start.gap == nil && subscription.Whole(), PingMs: o.Ping.Milliseconds(), PongTimeoutMs: o.PongTimeout.Milliseconds(),
		PendingLimit: s.limit, MaxMessageBytes: int64(o.MessageBytes), ExpiresAt: who.Expires,
	})
	if start.gap != nil {
		start.gap.Earliest = g.cursor(who, subscription.Start()-1, start.digest)
		s.push(start.gap)
	}
}

// replace registers the session under its name and closes the older of two connections with that
// name. That can be this one.
func (s *session) replace(name string) {
	s.mu.Lock()
	s.name = name
	ended := s.ended
	s.mu.Unlock()
	if ended {
		return
	}
	if older := s.gateway.name(name, s); older != nil {
		older.leave(closeReplaced, 0)
	}
}

func (s *session) refresh(f *wire.Refresh) {
	s.spend()
	who, err := s.gateway.verify(s.ctx, f.Token, s.correlation)
	if errors.Is(err, ErrUnavailable) {
		s.fail(f.ID, &wire.Error{Code: wire.CodeInternal, Message: err.Error(), Retryable: true})
		return
	}
	if err == nil && (who.Tenant != s.identity.Tenant || who.Client != s.identity.Client) {
		err = errors.New("it is of another client")
	}
	if err != nil {
		s.fail(f.ID, &wire.Error{Code: wire.CodeBadToken, Message: "the token is not one of this client"})
		return
	}
	s.mu.Lock()
	s.expires = who.Expires
	s.mu.Unlock()
	s.answer(&wire.Refreshed{ID: f.ID, ExpiresAt: who.Expires})
}

// ack handles an acknowledgement of all results up to a cursor. The gateway stores nothing durable
// for it: an ack only shows that the client is not slow.
func (s *session) ack(f *wire.Ack) {
	cursor, err := s.gateway.parseCursor(s.identity, f.Cursor)
	if err != nil {
		s.fail(0, &wire.Error{Code: wire.CodeBadCursor, Message: err.Error()})
		return
	}
	s.mu.Lock()
	to := min(cursor.Offset, s.sent)
	on := to > s.acked // a new position, not a repeated ack
	if on {
		s.unacked, s.acked = 0, to
	}
	s.mu.Unlock()
	if !on {
		s.spend()
	}
}

// submit queues an event for the next append.
func (s *session) submit(f *wire.Submission) {
	event := f.Event(s.identity.Tenant, s.identity.Client)
	if bad := prepare(&event, correlation{}); bad != nil {
		s.reject(bad)
		return
	}
	if refused := s.admit(&event); refused != nil {
		s.gateway.metrics.Refused.Add(1)
		refused.CorrelationID = event.Correlation
		s.answer(refused)
	}
}

// admit queues an event, or returns why the gateway does not accept it.
func (s *session) admit(event *wire.Event) *wire.Backpressure {
	draining := s.gateway.leaving()
	s.mu.Lock()
	defer s.mu.Unlock()
	pending := max(len(s.pending), len(s.events)+s.appending)
	switch {
	case draining || s.leaving != nil || s.ended:
		return &wire.Backpressure{Reason: wire.ReasonDraining, EventID: event.ID, RetryAfterMs: retryAfterDrain.Milliseconds()}
	case pending >= s.limit:
		return &wire.Backpressure{Reason: wire.ReasonPendingLimit, EventID: event.ID, Pending: pending, Limit: s.limit, RetryAfterMs: retryAfter.Milliseconds()}
	}
	if taken, refused := s.gateway.quota(s.identity, 1); taken == 0 {
		refused.EventID = event.ID
		return &refused
	}
	if !s.gateway.appends.TryAcquire(heldBytes(len(event.Payload))) {
		s.gateway.metrics.Overloaded.Add(1)
		return &wire.Backpressure{Reason: wire.ReasonOverload, EventID: event.ID, RetryAfterMs: retryAfterOverload.Milliseconds()}
	}
	if s.pending == nil {
		s.pending = map[string]time.Time{}
	}
	if _, again := s.pending[event.ID]; !again {
		s.pending[event.ID] = time.Now()
		s.gateway.metrics.Pending.Add(1)
	}
	s.enqueue(event.ID, wire.Submit(s.gateway.options.Inbox, event))
	return nil
}

// enqueue queues a record for the log, after the records before it. The caller holds mu.
func (s *session) enqueue(id string, record stream.Record) {
	s.events, s.ids = append(s.events, record), append(s.ids, id)
	s.appends.kick()
}

// append writes the queued events and answers each. It also runs after the client has disconnected:
// the events it sent may still enter the log.
func (s *session) append(bool) (more bool) {
	s.mu.Lock()
	events, ids := s.events, s.ids
	s.events, s.ids, s.appending = nil, nil, len(events)
	s.mu.Unlock()
	if len(events) == 0 {
		return false
	}
	err := s.gateway.append(events)
	for i := range events {
		s.gateway.appends.Release(heldBytes(len(events[i].Value)))
	}
	if s.answerAll(events, ids, err) {
		s.writer.run()
	}
	return false
}

// answerAll queues the answers for appended events. It reports whether the connection is still read
// and written.
func (s *session) answerAll(events []stream.Record, ids []string, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.appending = 0
	for i, id := range ids { // at most limit events
		err := errorOf(err, i)
		if err != nil && !isCancel(&events[i]) {
			s.forget(id)
		}
		s.put(appended(&events[i], id, err))
	}
	return s.reading && !s.broken
}

// heldBytes estimates the memory of an event with a payload of this size.
func heldBytes(payload int) int64 { return int64(payload) + 512 }

// forget removes an event from pending. The caller holds mu.
func (s *session) forget(id string) {
	if _, ok := s.pending[id]; ok {
		delete(s.pending, id)
		s.gateway.metrics.Pending.Add(-1)
	}
}

// open runs once, when the connection can be written to.
func (s *session) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = true
	s.push(nil) // leave may have been called already
}

// sever stops all writing and wakes the callers that wait for room.
func (s *session) sever() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken, s.answers = true, nil
	s.room.Broadcast()
}

// tick runs each second.
func (s *session) tick(now time.Time) {
	s.mu.Lock()
	o := &s.gateway.options
	code := closeCode(0)
	switch {
	case s.ended || s.leaving != nil:
	case !s.connected && now.Sub(s.opened) >= connectTimeout:
		code = closeNoConnect
	case s.connected && !s.expires.IsZero() && now.Sub(s.expires) >= expiryGrace:
		code = closeExpired
	case s.waits && now.Sub(s.pinged) >= o.PongTimeout:
		code = closeNoPong
	case s.ackEvery > 0 && s.unacked >= s.ackEvery && now.Sub(s.owed) >= ackTimeout:
		code = closeSlow
	case !s.waits && now.Sub(s.pinged) >= o.Ping:
		s.pinged, s.waits = now, true
		s.push(&wire.Ping{})
	}
	s.mu.Unlock()
	if code != 0 {
		s.leave(code, 0)
	}
}

// leave closes the connection gracefully: it first answers the events that are being appended, then
// tells the client the reason.
func (s *session) leave(code closeCode, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.leaving != nil {
		return
	}
	s.gateway.metrics.Closed.add(code)
	s.leaving, s.back = code.frame(0), time.Now().Add(after)
	s.push(nil)
}

// end runs once, in the reading goroutine, when the connection is closed.
func (s *session) end() {
	s.cancel()
	s.mu.Lock()
	s.ended, s.reading = true, false
	s.gateway.metrics.Pending.Add(-int64(len(s.pending)))
	s.pending = nil
	subscription, name := s.subscription, s.name
	s.mu.Unlock()
	if subscription != nil {
		subscription.Close()
	}
	if s.tenant != "" {
		s.gateway.tenants.Leave(s.tenant)
	}
	if name != "" {
		s.gateway.unname(name, s)
	}
}

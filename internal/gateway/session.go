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
	connectTimeout     = 10 * time.Second // until a connection says who it is
	expiryGrace        = 25 * time.Second // after a token's end, to bring another
	ackTimeout         = 60 * time.Second // for an ack that the client promised
	retryAfter         = 40 * time.Millisecond
	retryAfterDrain    = time.Second
	retryAfterOverload = time.Second
	answersMost        = 256 // that wait to be written: then the client is not read
	strangersMost      = 16  // useless frames of a connection before it has said who it is
	sessionIDBytes     = 128
)

// socket is a message connection, as far as a session needs it. Send and close
// are called by one goroutine at a time.
type socket interface {
	// send has a message wait for flush, or gives it to the network with those
	// that wait; it does not wait for a client that stands still for longer than a
	// deadline. After an error the connection is closed.
	send(message []byte) error
	// flush gives the messages that wait to the network, as send does.
	flush() error
	// close says why, behind the messages that wait, and closes the connection.
	close(code closeCode)
}

// session is a client that is connected both ways. Its messages come from the
// goroutine that reads the connection; two workers, each without a goroutine while
// it is idle, write to the connection and append events to the log.
type session struct {
	gateway     *Gateway
	socket      socket
	correlation string          // id of the request that made it one
	strange     bool            // nobody has said whose it is; guarded by the gateway's mutex
	ctx         context.Context // of the connection
	cancel      context.CancelFunc
	writer      worker
	appends     worker
	tenant      string // whose connections it is one of; it and useless are of the goroutine that reads
	useless     int    // frames of a stranger

	mu   sync.Mutex // guards what follows
	room sync.Cond  // answers has room again
	admission
	subscription *hub.Subscription
	answers      []wire.Frame // to be written before more results
	inbound
	acks
	ending
	liveness
}

// admission says whose a session is.
type admission struct {
	known     bool     // identity is from the request: connect needs no token
	identity  Identity // as it is while connected
	expires   time.Time
	connected bool
	name      string // in gateway.named
}

// inbound is the events of a session.
type inbound struct {
	events    []stream.Record      // to be appended,
	ids       []string             // and their ids
	appending int                  // events on their way into the log
	pending   map[string]time.Time // ids of events that have no result yet, and when they came
	limit     int                  // of pending
}

// acks are the results that a client was sent, and acknowledged.
type acks struct {
	ackEvery    int           // results between acks, which the client promised; 0 is none
	unacked     int           // results sent since the last ack that went on
	sent, acked stream.Offset // of the newest result, and of the newest that the client has
	owed        time.Time     // since when the client owes an ack
}

// ending is how a session ends.
type ending struct {
	leaving *wire.Disconnect // to be sent when all events are appended
	back    time.Time        // when the client may come again then
	reading bool             // the connection is open, and its reader there
	broken  bool             // nothing more is written
	ended   bool
}

// liveness is when a client was heard of.
type liveness struct {
	opened, heard, pinged time.Time
	waits                 bool // for a pong
}

func newSession(g *Gateway, socket socket, who *Identity, correlation string) *session {
	now := time.Now()
	// Pings of those that came at once do not go out at once.
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

// receive takes a message of the client.
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

// outOfTurn is what is wrong with a frame that came before its connection said who it
// is, or with saying so again.
func outOfTurn(connected bool) *wire.Error {
	if connected {
		return &wire.Error{Code: wire.CodeBadFrame, Message: "connected already: make another connection to connect again"}
	}
	return &wire.Error{Code: wire.CodeUnauthorized, Message: "not connected: send connect first"}
}

// fail answers a frame that is wrong, of a client that sends not too many.
func (s *session) fail(id int64, problem *wire.Error) {
	s.reject(&wire.ErrorFrame{ID: id, Error: problem})
}

// reject is fail, with the frame of the answer.
func (s *session) reject(answer *wire.ErrorFrame) {
	s.gateway.metrics.Bad.Add(1)
	s.answer(answer)
	s.spend()
}

// spend takes a frame that is of no use, or costs something, from the share of its
// tenant, as events do; who has nothing left is sent away, and so is a stranger soon.
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

// answer has a frame written. Where too many wait it waits, so that a client that
// does not read is not read.
func (s *session) answer(frame wire.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.answers) >= answersMost && !s.broken {
		s.room.Wait()
	}
	s.push(frame)
}

// push has a frame written. Its caller holds mu, and bounds how often it does so.
func (s *session) push(frame wire.Frame) {
	s.put(frame)
	if s.reading && !s.broken { // the gateway waits for the reader: it may wait for one more
		s.writer.kick()
	}
}

// put has a frame written by the writer's next turn. Its caller holds mu.
func (s *session) put(frame wire.Frame) {
	if frame != nil && !s.broken {
		s.answers = append(s.answers, frame)
	}
}

// wake is called by the hub when there are results.
func (s *session) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.push(nil)
}

func (s *session) connect(f *wire.Connect) {
	g := s.gateway
	who := s.identity // written by this goroutine alone
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
		s.fail(f.ID, &wire.Error{Code: wire.CodeBadFrame, Message: fmt.Sprintf("connect: a session id has at most %d bytes, maxInflight and ackEvery are not negative", sessionIDBytes)})
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
	if f.SessionID != "" { // before the client knows that it is connected, and comes again
		s.replace(wire.Key(who.Tenant, who.Client) + "/" + f.SessionID)
	}
	g.know(s)
	s.begin(f, who, subscription, start)
}

// begin makes the session a connected one. Connected says where it goes on, so
// that a client which is cut before its first result comes back there.
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

// replace ends the connection that the client's session had before, or this one where
// that is the newer.
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

// ack takes an acknowledgement of all results up to a cursor. Nothing durable comes
// of it: a client that goes on shows that it is not slow.
func (s *session) ack(f *wire.Ack) {
	cursor, err := s.gateway.parseCursor(s.identity, f.Cursor)
	if err != nil {
		s.fail(0, &wire.Error{Code: wire.CodeBadCursor, Message: err.Error()})
		return
	}
	s.mu.Lock()
	to := min(cursor.Offset, s.sent)
	on := to > s.acked // not one that it sent before
	if on {
		s.unacked, s.acked = 0, to
	}
	s.mu.Unlock()
	if !on {
		s.spend()
	}
}

// submit takes an event, to be appended with those that come meanwhile.
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

// admit returns why an event is not taken, or takes it.
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

// enqueue has a record of an event appended behind those before it. Its caller holds mu.
func (s *session) enqueue(id string, record stream.Record) {
	s.events, s.ids = append(s.events, record), append(s.ids, id)
	s.appends.kick()
}

// append writes the events that have come, and answers each. It goes on where the
// client is gone: what it sent may be in the log.
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

// answerAll has it written how the events were appended, and reports whether
// somebody reads that.
func (s *session) answerAll(events []stream.Record, ids []string, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.appending = 0
	for i, id := range ids { // at most limit of them
		err := errorOf(err, i)
		if err != nil && !isCancel(&events[i]) {
			s.forget(id)
		}
		s.put(appended(&events[i], id, err))
	}
	return s.reading && !s.broken
}

// heldBytes is about what an event with a payload of so many bytes takes.
func heldBytes(payload int) int64 { return int64(payload) + 512 }

// forget says that an event waits for nothing any more. Its caller holds mu.
func (s *session) forget(id string) {
	if _, ok := s.pending[id]; ok {
		delete(s.pending, id)
		s.gateway.metrics.Pending.Add(-1)
	}
}

// open is called once, when the connection can be written to.
func (s *session) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = true
	s.push(nil) // it may have been sent away already
}

// sever says that nothing more is written, so that nobody waits for it.
func (s *session) sever() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken, s.answers = true, nil
	s.room.Broadcast()
}

// tick is called each second.
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

// leave ends the connection when what it is about is done: events that are on
// their way into the log are answered, and the client is told why.
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

// end is called once, by the goroutine that read the connection, when it is
// closed.
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

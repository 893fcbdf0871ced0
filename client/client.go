// Package client sends events to gateways and receives their results. If a connection breaks, the
// client reconnects by itself, to whichever gateway answers, and resumes where it stopped. An event
// that was sent is durable in the log. The client receives each result of the log once, in order.
// See docs/howto/gateway-clients.md.
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// Event is an event to send. The application chooses EventID, a different one for each event.
// Sending an event again with the same id and payload does not create a second event.
type Event = wire.Submission

// Result is the result of an event. If Duplicate is true, the event already had a result: it was
// sent twice, for example because a connection broke before the gateway could answer.
type Result = wire.ResultFrame

// Options configures a Client. Token is required; the zero value of every other field is a good
// default.
type Options struct {
	// Token returns a currently valid token. The client calls it for each connection, and again
	// when three quarters of the lifetime of the connection's token have passed. Calls do not
	// overlap.
	Token func(ctx context.Context) (string, error)
	// Cursor and Seq are those of the newest result that the application has processed; store them
	// together with its output. The client receives the results after them. Without a Cursor the
	// client receives only new results.
	Cursor string
	Seq    uint64
	// Earliest makes a client without a Cursor start at the oldest retained result.
	Earliest bool
	// SessionID names a session with one connection at a time. A new connection with the same id
	// closes an older one at the same gateway at once. An older one at another gateway closes when
	// its pings time out. Without an id a client may have many connections.
	SessionID string
	// Buffer is the number of results that may wait for the application; 0 is 256.
	Buffer int
	// MessageBytes limits the size of a message from a gateway; 0 is 16 MiB.
	MessageBytes int
	// TLS is the configuration for wss addresses; nil uses Go's default.
	TLS *tls.Config
	// Dial opens network connections; nil uses a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Validate returns all errors in the options, joined.
func (o Options) Validate() error {
	var errs []error
	if o.Token == nil {
		errs = append(errs, errors.New("no Token: gateways refuse clients without one"))
	}
	if o.Cursor == "" && o.Seq != 0 {
		errs = append(errs, fmt.Errorf("no Cursor, but Seq is %d: keep both of a result", o.Seq))
	}
	if o.Cursor != "" && o.Earliest {
		errs = append(errs, errors.New("both Earliest and Cursor: leave one out"))
	}
	if o.Buffer < 0 || o.MessageBytes < 0 {
		errs = append(errs, fmt.Errorf("negative Buffer %d or MessageBytes %d: leave them 0 for the defaults", o.Buffer, o.MessageBytes))
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	o.Buffer = cmp.Or(o.Buffer, 256)
	o.MessageBytes = cmp.Or(o.MessageBytes, 16<<20)
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	return o
}

// ErrClosed means that the client was closed.
var ErrClosed = errors.New("the client is closed")

// Client is a connection to a gateway that reconnects. Its methods are safe for concurrent use.
//
// One goroutine opens the connections, one after the other, and reads them. Send writes to the
// current connection and waits for the answer. If that connection ends, Send waits for the next one
// and sends again. Results go through a bounded channel. If it stays full, the connection keeps
// serving events but drops results. The log still has them: once there is room, the next connection
// receives them.
type Client struct {
	options Options
	address *url.URL
	metrics Metrics
	cancel  context.CancelFunc
	results chan item
	ended   chan struct{} // closed when all goroutines have ended
	inbox   inbox         // owned by the reading goroutine

	mu      sync.Mutex // guards the fields below
	link    *link      // nil between connections
	ready   bool       // the handshake of link is complete
	changed chan struct{}
	trouble error // why the previous connection ended
	err     error // why the client no longer connects
	sending map[string]struct{}
	behind  bool // results were dropped
}

// Dial connects to a gateway at an address such as wss://example.org. If the address has no path,
// Dial uses /v1/stream. Dial blocks until the client is connected, or a permanent error occurs, or
// ctx is done. After Dial has returned, ctx no longer affects the client.
func Dial(ctx context.Context, address string, o Options) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	u, err := parseAddress(address)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	o = o.withDefaults()
	c := &Client{
		options: o, address: u, results: make(chan item, o.Buffer), ended: make(chan struct{}), changed: make(chan struct{}),
		sending: map[string]struct{}{}, inbox: inbox{cursor: o.Cursor, seq: o.Seq, attempts: map[string]int{}},
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = cancel
	go func() {
		defer close(c.ended)
		c.run(life)
	}()
	if _, err := c.connected(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("client: connect to %s: %w", u.Host, err)
	}
	return c, nil
}

func parseAddress(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("address: %w", err)
	}
	switch u.Scheme {
	case "http":
		u.Scheme = "ws"
	case "https":
		u.Scheme = "wss"
	}
	if u.Scheme != "ws" && u.Scheme != "wss" || u.Host == "" {
		return nil, fmt.Errorf("address %q: use ws:// or wss:// and a host", address)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/stream"
	}
	return u, nil
}

// Close ends the client and waits for its goroutines. Calls that are blocked in the client return
// ErrClosed.
func (c *Client) Close() {
	c.cancel()
	<-c.ended
}

// Metrics returns the counters of the client.
func (c *Client) Metrics() *Metrics { return &c.metrics }

// Next blocks until the next result. A *Gap means that some results are lost; later results follow.
// Any other error is final, or is the error of ctx.
func (c *Client) Next(ctx context.Context) (*Result, error) {
	select {
	case i, ok := <-c.results:
		if !ok {
			return nil, c.why()
		}
		c.taken()
		return i.result, i.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Results returns an iterator over the results that Next returns. It ends after the first error
// that is not a *Gap.
func (c *Client) Results(ctx context.Context) iter.Seq2[*Result, error] {
	return func(yield func(*Result, error) bool) {
		for {
			result, err := c.Next(ctx)
			var gap *Gap
			if !yield(result, err) || err != nil && !errors.As(err, &gap) {
				return
			}
		}
	}
}

// Send sends an event and blocks until it is durable in the log; the event will then have exactly
// one result. If the connection breaks or the gateway applies backpressure, Send sends the event
// again with the same id. If ctx is done or the client is closed, the event may or may not be in
// the log: send it again to make sure. If the gateway rejects the event, the error is a
// *wire.Error.
func (c *Client) Send(ctx context.Context, e *Event) error {
	if err := c.send(ctx, e); err != nil {
		return fmt.Errorf("client: event %.160q: %w", e.EventID, err)
	}
	return nil
}

func (c *Client) send(ctx context.Context, e *Event) error {
	event := e.Event("tenant", "client") // placeholders: the token determines the real ones
	if err := event.Validate(); err != nil {
		return err
	}
	message, err := wire.Encode(e)
	if err != nil {
		return err
	}
	return c.deliver(ctx, e.EventID, message)
}

// Cancel withdraws an event that was sent, and blocks until the cancel is durable. An event without
// a result ends as rejected, code cancelled; an event with a result keeps it. Call Cancel only
// after Send has returned. It returns the same errors as Send.
func (c *Client) Cancel(ctx context.Context, eventID string) error {
	err := wire.CheckID("eventId", eventID)
	if err == nil {
		var message []byte
		if message, err = wire.Encode(&wire.Cancel{EventID: eventID}); err == nil {
			err = c.deliver(ctx, eventID, message)
		}
	}
	if err != nil {
		return fmt.Errorf("client: cancel event %.160q: %w", eventID, err)
	}
	return nil
}

// deliver sends a message about an event until the gateway answers it.
func (c *Client) deliver(ctx context.Context, id string, message []byte) error {
	if !c.claim(id) {
		return errors.New("it is being sent: wait for that, or give each event its own id")
	}
	defer c.release(id)
	for tries := 0; ; tries++ {
		l, err := c.connected(ctx)
		if err != nil {
			return err
		}
		a := l.submit(ctx, id, message)
		if !a.again {
			return a.err
		}
		if a.sent {
			c.metrics.Resent.Add(1)
		}
		if err := c.pause(ctx, grown(a.after, tries)); err != nil {
			return err
		}
	}
}

// pause waits for d. It returns early if ctx is done or the client ends.
func (c *Client) pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.ended:
		return c.why()
	}
}

func (c *Client) claim(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, sent := c.sending[id]; sent {
		return false
	}
	c.sending[id] = struct{}{}
	return true
}

func (c *Client) release(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sending, id)
}

// why returns the error that ended the client.
func (c *Client) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

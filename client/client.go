// Package client sends events to gateways and receives their results. It comes
// back by itself when a connection is cut, to whatever gateway answers, and goes
// on where it was: an event that was sent is durable in the log, and each result
// of the log is received once, in order. docs/howto/gateway-clients.md has the
// whole.
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

// Event is what a client sends. EventID is its own choice, one for each event: an
// event that is sent again with the same id and payload is the same one.
type Event = wire.Submission

// Result is the result of an event. If Duplicate is true, the event had a result
// before: it was sent twice, for example because a connection was cut before the
// gateway could answer.
type Result = wire.ResultFrame

// Options of a Client. Token is needed; the zero value of every other field is a
// good default.
type Options struct {
	// Token returns a token that is valid now: for the next connection, and for the
	// one there is when three quarters of its token's time are over. Calls do not
	// overlap.
	Token func(ctx context.Context) (string, error)
	// Cursor and Seq are those of the newest result that the application has,
	// kept beside what it made of it: the results after it are received. An
	// application that has none receives those that come from now on.
	Cursor string
	Seq    uint64
	// Earliest receives all results that are retained where there is no Cursor.
	Earliest bool
	// SessionID is of this client alone: its newest connection ends the others at
	// the same gateway at once. One that was left at another ends with its pings.
	// Without an id there may be many.
	SessionID string
	// Buffer is how many results may wait for the application; 0 is 256.
	Buffer int
	// MessageBytes bounds a message of a gateway; 0 is 16 MiB.
	MessageBytes int
	// TLS is for addresses of wss; nil is the default of Go.
	TLS *tls.Config
	// Dial makes connections; nil is that of net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Validate returns all that is wrong with the options, and why.
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

// ErrClosed says that the client was closed.
var ErrClosed = errors.New("the client is closed")

// Client is connected to a gateway, or on its way to the next one. Its methods may
// be called by many goroutines.
//
// One goroutine makes the connections, one after the other, and reads them. Send
// writes to the one there is and waits for the answer, or for the next connection
// and sends again. Results go through a bounded channel. Where it stays full the
// connection goes on for the sake of events, and its results are dropped: they are
// in the log, and received by the next connection once there is room.
type Client struct {
	options Options
	address *url.URL
	metrics Metrics
	cancel  context.CancelFunc
	results chan item
	ended   chan struct{} // closed when all goroutines are gone
	inbox   inbox         // of the goroutine that reads

	mu      sync.Mutex // guards what follows
	link    *link      // nil between connections
	ready   bool       // link is connected
	changed chan struct{}
	trouble error // of the connection before
	err     error // why there are no more connections
	sending map[string]struct{}
	behind  bool // results were dropped
}

// Dial connects to a gateway at an address such as wss://example.org, whose path
// is /v1/stream where it has none. It returns when the client is connected, or
// with why it never will be, or when ctx is done; the client stays after that.
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

// Close ends the client and waits for its goroutines. Those that wait for it get
// ErrClosed.
func (c *Client) Close() {
	c.cancel()
	<-c.ended
}

// Metrics returns what the client counts.
func (c *Client) Metrics() *Metrics { return &c.metrics }

// Next waits for the next result. A *Gap says that some results are lost; later
// ones follow. Any other error is final, or that of ctx.
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

// Results returns the results as Next does. After an error that is no *Gap there
// are no more.
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

// Send sends an event and returns when it is durable in the log, so that it will
// have its one result. Where the connection is cut, or the gateway takes no more
// events for the moment, it is sent again, with the same id. When ctx is done, or
// the client closed, the event may be in the log or not: send it again to know. An
// event that the gateway refuses is a *wire.Error.
func (c *Client) Send(ctx context.Context, e *Event) error {
	if err := c.send(ctx, e); err != nil {
		return fmt.Errorf("client: event %.160q: %w", e.EventID, err)
	}
	return nil
}

func (c *Client) send(ctx context.Context, e *Event) error {
	event := e.Event("tenant", "client") // those of the token
	if err := event.Validate(); err != nil {
		return err
	}
	message, err := wire.Encode(e)
	if err != nil {
		return err
	}
	return c.deliver(ctx, e.EventID, message)
}

// Cancel gives up an event that was sent. It blocks until the cancel is durable. An event
// without a result ends as rejected, code cancelled; an event with a result keeps it.
// Wait for Send first. Cancel returns the same errors as Send.
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

// deliver sends a message about an event until it is answered.
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

// pause waits, unless ctx is done or the client ends.
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

// why returns why the client ended.
func (c *Client) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

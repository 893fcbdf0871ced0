package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/wire"
)

const (
	backoffFirst = 500 * time.Millisecond
	backoffMost  = 20 * time.Second
	stable       = 10 * time.Second // a connection that held: the next failure is a first one
	againMost    = time.Second      // between tries of an event that is not taken
)

// backoff returns how long to wait after so many failures in a row: anything up to
// a bound that doubles, so that clients which lost one gateway do not come to the
// next one together.
func backoff(failures int) time.Duration {
	bound := backoffMost
	if failures < 6 { // 500 ms << 6 is more
		bound = min(bound, backoffFirst<<failures)
	}
	return rand.N(bound)
}

// grown returns how long to wait before an event is sent again that was not taken
// so many times: what the gateway asks for, doubled each time, and up to as much
// more.
func grown(after time.Duration, tries int) time.Duration {
	if after <= 0 {
		return 0
	}
	bound := max(after, min(againMost, after<<min(tries, 10)))
	return bound + rand.N(bound)
}

// run makes connections, one after the other, until one is not to be followed by
// another, and then ends the client.
func (c *Client) run(ctx context.Context) {
	for failures := 0; ; failures++ {
		l := newLink(c)
		c.begin(l)
		err := l.serve(ctx)
		c.lost(l, err)
		if final := c.final(ctx, err); final != nil {
			c.end(final)
			return
		}
		if l.held() >= stable {
			failures = 0
		}
		wait := max(l.retryAfter, backoff(failures))
		if l.reopened() {
			wait, failures = 0, 0
		}
		if c.pause(ctx, wait) != nil {
			c.end(ErrClosed)
			return
		}
	}
}

// final returns why there is no other connection after one that ended by err; nil
// where there is.
func (c *Client) final(ctx context.Context, err error) error {
	var (
		closed  *CloseError
		refused *StatusError
		problem *wire.Error
	)
	switch {
	case ctx.Err() != nil:
		return ErrClosed
	case errors.As(err, &closed) && closed.final(), errors.As(err, &refused) && refused.final(), errors.As(err, &problem):
		return err
	}
	return nil
}

// begin makes l the connection, which is not ready. Results that were dropped are
// still dropped by it where there is no room for them.
func (c *Client) begin(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link, c.ready, l.dropping = l, false, c.behind
}

// connect says that events can be sent over l.
func (c *Client) connect(l *link) {
	c.metrics.Connects.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = true
	c.tell()
}

// lost says that l is no more. Those who wait for its answers come for the next.
func (c *Client) lost(l *link, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link, c.ready, c.trouble = nil, false, err
	close(l.done)
}

func (c *Client) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	c.tell()
	close(c.results)
}

// tell wakes those who wait in connected. Its caller holds mu.
func (c *Client) tell() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// connected waits for a connection.
func (c *Client) connected(ctx context.Context) (*link, error) {
	for {
		c.mu.Lock()
		l, ready, changed, trouble, err := c.link, c.ready, c.changed, c.trouble, c.err
		c.mu.Unlock()
		switch {
		case err != nil:
			return nil, err
		case ready:
			return l, nil
		case ctx.Err() != nil && trouble != nil:
			return nil, fmt.Errorf("%w; the connection before: %w", context.Cause(ctx), trouble)
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// CloseError is how a gateway ended a connection.
type CloseError struct {
	Code   int // 4000 to 4499 end the client; after others it comes again
	Reason string
}

// Error returns code and reason.
func (e *CloseError) Error() string {
	return fmt.Sprintf("the gateway closed the connection: %d %s", e.Code, e.Reason)
}

const codeTooLarge = 1009 // of RFC 6455

// final reports whether the client is not to come again: it would end likewise.
func (e *CloseError) final() bool { return e.Code >= 4000 && e.Code < 4500 || e.Code == codeTooLarge }

// StatusError is the answer of a gateway that refused a connection.
type StatusError struct{ Status int }

// Error returns the status, and where to look.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("the gateway refused the connection: %d %s", e.Status, http.StatusText(e.Status))
	switch e.Status {
	case http.StatusUnauthorized:
		text += ": its log says what is wrong with the token"
	case http.StatusNotFound:
		text += ": name the address that it says clients connect to"
	}
	return text
}

func (e *StatusError) final() bool {
	return e.Status >= 400 && e.Status < 500 && e.Status != http.StatusRequestTimeout && e.Status != http.StatusTooManyRequests
}

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
	stable       = 10 * time.Second // a connection that lasted this long resets the failure count
	againMost    = time.Second      // maximum base delay between retries of an event that was not accepted
)

// backoff returns how long to wait after this many failures in a row. The time is random, below a
// bound that doubles. So clients that lost one gateway do not all reach the next one at the same
// moment.
func backoff(failures int) time.Duration {
	bound := backoffMost
	if failures < 6 { // 500 ms << 6 exceeds the maximum
		bound = min(bound, backoffFirst<<failures)
	}
	return rand.N(bound)
}

// grown returns how long to wait before an event is sent again. It doubles the delay that the
// gateway asked for with each try, and adds a random part of up to the same length.
func grown(after time.Duration, tries int) time.Duration {
	if after <= 0 {
		return 0
	}
	bound := max(after, min(againMost, after<<min(tries, 10)))
	return bound + rand.N(bound)
}

// run opens connections, one after the other, until one ends with a final error. It then ends the
// client.
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

// final returns the error with which the client ends after a connection ended with err. It returns
// nil if the client must reconnect.
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

// begin makes l the current connection, not yet ready. If results were dropped and there is still
// no room for them, l drops results too.
func (c *Client) begin(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link, c.ready, l.dropping = l, false, c.behind
}

// connect marks l as ready for events.
func (c *Client) connect(l *link) {
	c.metrics.Connects.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = true
	c.tell()
}

// lost marks l as ended. Senders that wait for its answers move to the next connection.
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

// tell wakes the callers that wait in connected. The caller holds mu.
func (c *Client) tell() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// connected blocks until a connection is ready.
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

// CloseError is the close code with which a gateway ended a connection.
type CloseError struct {
	Code   int // 4000 to 4499 end the client; after any other code it reconnects, except 1009
	Reason string
}

// Error returns the code and the reason.
func (e *CloseError) Error() string {
	return fmt.Sprintf("the gateway closed the connection: %d %s", e.Code, e.Reason)
}

const codeTooLarge = 1009 // RFC 6455: message too big

// final reports whether a reconnect would fail in the same way.
func (e *CloseError) final() bool { return e.Code >= 4000 && e.Code < 4500 || e.Code == codeTooLarge }

// StatusError is the HTTP status with which a gateway refused a connection.
type StatusError struct{ Status int }

// Error returns the status and a hint where to look.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("the gateway refused the connection: %d %s", e.Status, http.StatusText(e.Status))
	switch e.Status {
	case http.StatusUnauthorized:
		text += ": its log has the error of the token"
	case http.StatusNotFound:
		text += ": use the address that its log gives for clients"
	}
	return text
}

func (e *StatusError) final() bool {
	return e.Status >= 400 && e.Status < 500 && e.Status != http.StatusRequestTimeout && e.Status != http.StatusTooManyRequests
}

package kafka

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// lease is until when outputs may be written outside of transactions. Of these no
// broker refuses the outputs of a process that stood still, was removed from its
// group meanwhile, and would write them behind what the next owner wrote. So its own
// clock does, with each write to a connection: a check before could be long ago.
//
// The broker takes offsets from members alone, so a transaction says that this one is
// still a member, and remains one for as long as it need not be heard.
type lease struct{ until atomic.Pointer[time.Time] }

// begin returns when a lease ends that lasts so long from a time on.
func (l *lease) begin(from time.Time, lasts time.Duration) time.Time {
	until := from.Add(lasts)
	l.until.Store(&until)
	return until
}

// end has everything written again. A lease whose outputs are not known to be written
// does not end so: its member does.
func (l *lease) end() { l.until.Store(nil) }

// guard returns what makes connections that nothing is written to once the lease
// is over.
func (l *lease) guard(dial dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &leased{conn, l}, nil
	}
}

// leased is a connection under a lease.
type leased struct {
	net.Conn
	lease *lease
}

// Write implements net.Conn.
func (c *leased) Write(b []byte) (int, error) {
	if until := c.lease.until.Load(); until != nil && time.Now().After(*until) {
		return 0, fmt.Errorf("kafka: outputs are not written, which others may be past: %w", net.ErrClosed)
	}
	return c.Conn.Write(b)
}

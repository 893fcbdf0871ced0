package kafka

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// lease limits how long outputs may be written outside of transactions. A process may pause, lose
// its partitions meanwhile, and then write outputs after those of the next owner. No broker rejects
// such outputs. So the process checks its own clock at each write to a connection; an earlier check
// could be long ago.
//
// A committed transaction proves that this process is a member, since the broker accepts offsets
// only from members. The process then stays a member for the session timeout even if it is silent.
type lease struct{ until atomic.Pointer[time.Time] }

// begin starts a lease of the given duration and returns its end.
func (l *lease) begin(from time.Time, lasts time.Duration) time.Time {
	until := from.Add(lasts)
	l.until.Store(&until)
	return until
}

// end removes the limit. It is called only when all outputs of the lease are written. Otherwise the
// member ends instead.
func (l *lease) end() { l.until.Store(nil) }

// guard wraps dial: its connections reject writes after the lease has ended.
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
		return 0, fmt.Errorf("kafka: outputs are not written, because another member may have written later ones: %w", net.ErrClosed)
	}
	return c.Conn.Write(b)
}

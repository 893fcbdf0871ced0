package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/hub"
	"github.com/afterbay/afterbay/internal/gateway/limit"
)

// Options configures a Gateway. CursorKey is required; the zero value of every other field is a
// good default.
type Options struct {
	// Inbox is the topic that the gateway appends events to. Results is the topic that it reads
	// results from. The defaults are inbox and results.
	Inbox, Results string
	// CursorKey signs cursors. It has at least 32 bytes and is the same for all gateways.
	CursorKey []byte
	// Epoch identifies the log. It must change when the log has lost records.
	Epoch uint64
	// Origins are the origins of pages that may connect and read answers, such as
	// https://example.org; "*" allows any. A request without an origin does not come from a page
	// and is always served.
	Origins []string
	// Connections is the maximum number of connected clients; 0 is 10,000. At most an eighth of
	// them may be unauthenticated.
	Connections int
	// PendingLimit is the maximum number of events of a connection without a result; 0 is 50.
	PendingLimit int
	// MessageBytes limits the size of a client's message; 0 is 64 KiB.
	MessageBytes int
	// AppendingBytes limits the bytes of all connections' events that are being appended to the
	// log; 0 is 256 MiB.
	AppendingBytes int64
	// Ping is the time between pings; 0 is 15 s. A client must answer a ping within PongTimeout; 0
	// is 10 s.
	Ping, PongTimeout time.Duration
	// DrainWindow is the time over which the gateway spreads the closing of connections when it
	// ends; 0 is 30 s.
	DrainWindow time.Duration
	// Tenants limits each tenant: open connections, and new connections and events per second.
	// Zeros are 10,000 open connections, a rate of 10,000 per second and a burst of 20,000.
	Tenants limit.Options
	// Hub limits the memory for results.
	Hub hub.Options
	// Logger receives errors; nil is slog.Default().
	Logger *slog.Logger
	// Fault is called before events are appended (append) and before they are accepted (accept).
	// Crash tests end the process there.
	Fault func(stage string)
}

const cursorKeyBytesMin = 32

// Validate returns all errors in the options, joined.
func (o Options) Validate() error {
	errs := []error{o.Hub.Validate()}
	if len(o.CursorKey) < cursorKeyBytesMin {
		errs = append(errs, fmt.Errorf("CursorKey has %d bytes, want at least %d: others could make cursors", len(o.CursorKey), cursorKeyBytesMin))
	}
	for _, n := range [...]struct {
		name  string
		value int64
	}{
		{"Connections", int64(o.Connections)}, {"PendingLimit", int64(o.PendingLimit)}, {"MessageBytes", int64(o.MessageBytes)}, {"AppendingBytes", o.AppendingBytes},
		{"Ping", int64(o.Ping)}, {"PongTimeout", int64(o.PongTimeout)}, {"DrainWindow", int64(o.DrainWindow)},
	} {
		if n.value < 0 {
			errs = append(errs, fmt.Errorf("%s is %d: leave it 0 for the default", n.name, n.value))
		}
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	o.Inbox, o.Results = cmp.Or(o.Inbox, "inbox"), cmp.Or(o.Results, "results")
	o.Connections = cmp.Or(o.Connections, 10_000)
	o.PendingLimit = cmp.Or(o.PendingLimit, 50)
	o.MessageBytes = cmp.Or(o.MessageBytes, 64<<10)
	o.AppendingBytes = cmp.Or(o.AppendingBytes, 256<<20)
	o.Ping, o.PongTimeout = cmp.Or(o.Ping, 15*time.Second), cmp.Or(o.PongTimeout, 10*time.Second)
	o.DrainWindow = cmp.Or(o.DrainWindow, 30*time.Second)
	o.Tenants.Open, o.Tenants.Rate, o.Tenants.Burst = cmp.Or(o.Tenants.Open, 10_000), cmp.Or(o.Tenants.Rate, 10_000), cmp.Or(o.Tenants.Burst, 20_000)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Fault == nil {
		o.Fault = func(string) {}
	}
	return o
}

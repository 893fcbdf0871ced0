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

// Options of a Gateway. CursorKey is needed; the zero value of every other field
// is a good default.
type Options struct {
	// Inbox is the topic that events are appended to, and Results the one that
	// results are read from; they are inbox and results.
	Inbox, Results string
	// CursorKey signs cursors, at least 32 bytes, the same for all gateways.
	CursorKey []byte
	// Epoch is of the log: one that lost records has another.
	Epoch uint64
	// Origins of pages that may connect, and read answers, as https://example.org;
	// "*" is any. A request without an origin comes from no page and is served.
	Origins []string
	// Connections is how many clients may be connected, an eighth of them without
	// having said yet who they are; 0 is 10,000.
	Connections int
	// PendingLimit is how many events of a connection may wait for their result;
	// 0 is 50.
	PendingLimit int
	// MessageBytes bounds a message of a client; 0 is 64 KiB.
	MessageBytes int
	// AppendingBytes bounds the events of all connections that are on their way
	// into the log; 0 is 256 MiB.
	AppendingBytes int64
	// Ping is between pings, and PongTimeout how long a client may leave one
	// unanswered; 0 is 15 s and 10 s.
	Ping, PongTimeout time.Duration
	// DrainWindow is the time over which clients are sent away when the gateway
	// ends; 0 is 30 s.
	DrainWindow time.Duration
	// Tenants bounds each tenant: its connections, and how many connections and
	// events it begins a second. Zeros are 10,000 connections, 10,000 a second and
	// 20,000 at once after a pause.
	Tenants limit.Options
	// Hub bounds what is kept of results.
	Hub hub.Options
	// Logger gets what goes wrong; nil is slog.Default().
	Logger *slog.Logger
	// Fault is called before events are appended (append) and before they are
	// accepted (accept): crash tests end the process there.
	Fault func(stage string)
}

const cursorKeyBytesMin = 32

// Validate returns all that is wrong with the options, and why.
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

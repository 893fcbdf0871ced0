package report

import (
	"context"
	"time"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/task/async"
)

// Queued is an event of the async queue in the output of queue ls.
type Queued struct {
	Partition int32      `json:"partition"`
	Offset    int64      `json:"offset"`
	Key       string     `json:"key"`
	Waits     string     `json:"waits"` // "call", or "key" if earlier events of its key wait
	Attempts  int        `json:"attempts"`
	Since     time.Time  `json:"since"`
	Due       *time.Time `json:"due,omitempty"`
	Priority  string     `json:"priority"` // high, normal or low
	Tenant    string     `json:"tenant,omitempty"`
	Error     string     `json:"error,omitempty"`
	Bytes     int        `json:"bytes"`
}

// NewQueued describes an entry of the async queue.
func NewQueued(e *async.Entry) Queued {
	p := Queued{
		Partition: e.Record.Partition.Index, Offset: int64(e.Record.Offset), Key: string(e.Record.Key), Waits: "call",
		Attempts: e.Attempts, Priority: e.Class.String(), Tenant: e.Tenant, Since: time.UnixMicro(e.Since).UTC(), Error: e.Error, Bytes: len(e.Record.Value),
	}
	if e.Behind {
		p.Waits = "key"
	}
	if e.Due != 0 {
		due := time.UnixMicro(e.Due).UTC()
		p.Due = &due
	}
	return p
}

// Order makes a process retry queued events at once or, with drop, give them up. It returns the
// number of events.
func Order(ctx context.Context, client *admin.Client, pipeline string, drop bool, partition int32, offset int64) (int, error) {
	return client.Command(ctx, pipeline, async.Command{Drop: drop, Partition: partition, Offset: offset})
}

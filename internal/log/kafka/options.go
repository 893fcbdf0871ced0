package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/afterbay/afterbay/stream"
)

// Options say how a Log reaches its brokers and what bounds it. The zero value
// of every field but Brokers is a good default.
type Options struct {
	Brokers []string // host:port of some brokers; the others are found by them

	// Dir is the local folder that makes restarts fast: it holds a copy of the
	// state (see LocalState) and the identity by which a process takes up its partitions again.
	// One process uses it. Where it is empty, a temporary folder is removed by
	// Close, and a process that starts again is a stranger that reads its state
	// back from the changelog.
	Dir string

	Delivery     Delivery            // when the outputs of a step are written
	Deliveries   map[string]Delivery // the same for some groups, where it is another
	ClientID     string              // shown in the brokers' logs and quotas; "" is afterbay
	Rack         string              // reads go to a replica in it where there is one
	TLS          *tls.Config         // nil speaks plain text
	SASL         SASL                // who is asking; nobody where its Mechanism is empty
	ServerGroups bool                // the brokers assign partitions (KIP-848) in place of the members

	// Stay keeps a member's partitions reserved when it is closed, until
	// Timeouts.Session: a process that restarts within it has them back without a
	// rebalance. It needs Dir. Otherwise a closed member leaves its group, and
	// the other members have its partitions at once.
	Stay bool

	// Standbys is how many other processes keep a warm copy of the state beside
	// each partition: one of them takes over soon when the owner dies. The copies
	// share State.MemoryBytes with the states that the process owns. The most that
	// a member of the group asks for counts; one with 0 keeps none itself.
	Standbys int

	Timeouts Timeouts
	State    LocalState

	Replication    int // of the topics made here; 0 is the broker's default
	MaxRecordBytes int // key, value and headers of one record together; 0 is 900 KB, below the brokers' default of 1 MiB a batch
	BufferRecords  int // read ahead of Poll by a member; 0 is 4,096
	BufferBytes    int // of a fetch from one broker; 0 is 1 MiB
	MaxProducers   int // of AppendOnce with an open transactional client; 0 is 64

	Logger *slog.Logger // nil is slog.Default

	dial func(ctx context.Context, network, host string) (net.Conn, error) // nil is TCP
}

// Timeouts are how long the group and the brokers wait for a member.
type Timeouts struct {
	Session     time.Duration // a member that is silent for as long is removed; 0 is 6 s
	Heartbeat   time.Duration // between two signs of life; 0 is a quarter of Session
	Rebalance   time.Duration // a member may go without Poll for as long while others wait; 0 is 10 s
	Transaction time.Duration // a commit that takes longer is aborted by the broker; 0 is 2 s
}

// LocalState bounds the local copy of the states.
type LocalState struct {
	MemoryBytes     int64         // of cells in memory; 0 is 1 GiB
	CheckpointEvery time.Duration // 0 is 10 s
	RebuildAfter    time.Duration // a copy that was caught up longer ago is rebuilt; 0 is 12 h, half of the changelogs' delete.retention.ms
}

// Delivery says when the outputs of a step are written.
type Delivery = stream.Delivery

// The deliveries. On Kafka ExactlyOnce writes outputs in the transaction of their step,
// whose readers see it an interval later.
const (
	ExactlyOnce = stream.ExactlyOnce
	AtLeastOnce = stream.AtLeastOnce
	AtMostOnce  = stream.AtMostOnce
)

// SASL is who a client says that it is.
type SASL struct {
	Mechanism      string // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; "" for none
	User, Password string // of PLAIN and SCRAM
	// Token returns the bearer token of OAUTHBEARER, at each new connection.
	Token func(ctx context.Context) (string, error)
}

// Validate returns all that is wrong with the options, and why.
func (o Options) Validate() error {
	var errs []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("kafka: "+format, args...))
		}
	}
	wrong(len(o.Brokers) == 0, "Brokers is empty: name one as host:port")
	for _, broker := range o.Brokers {
		_, _, err := net.SplitHostPort(broker)
		wrong(err != nil, "broker %q is not host:port", broker)
	}
	wrong(o.Stay && o.Dir == "", "Stay without Dir: a process that starts again has no identity to take its partitions up by")
	for _, d := range append(slices.Collect(maps.Values(o.Deliveries)), o.Delivery) {
		wrong(d < ExactlyOnce || d > AtMostOnce, "Delivery is %d: there are exactly, at least and at most once", d)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"Timeouts.Session", o.Timeouts.Session}, {"Timeouts.Heartbeat", o.Timeouts.Heartbeat}, {"Timeouts.Rebalance", o.Timeouts.Rebalance},
		{"Timeouts.Transaction", o.Timeouts.Transaction}, {"State.RebuildAfter", o.State.RebuildAfter}, {"State.CheckpointEvery", o.State.CheckpointEvery},
	} {
		wrong(d.value < 0, "%s is %v: time runs forward", d.name, d.value)
	}
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"Standbys", int64(o.Standbys)}, {"Replication", int64(o.Replication)}, {"MaxRecordBytes", int64(o.MaxRecordBytes)}, {"BufferRecords", int64(o.BufferRecords)},
		{"BufferBytes", int64(o.BufferBytes)}, {"MaxProducers", int64(o.MaxProducers)}, {"State.MemoryBytes", o.State.MemoryBytes},
	} {
		wrong(n.value < 0, "%s is %d: it is an amount", n.name, n.value)
	}
	wrong(o.Standbys > 0 && o.ServerGroups, "Standbys with ServerGroups: brokers that assign partitions do not know who has a warm copy")
	wrong(o.Replication > 1<<15-1, "Replication is %d: there are no so many brokers", o.Replication)
	wrong(o.MaxRecordBytes > 512<<20, "MaxRecordBytes is %d, more than 512 MiB: a fetch brings a record whole", o.MaxRecordBytes)
	d := o.withDefaults()
	wrong(d.Timeouts.Heartbeat >= d.Timeouts.Session, "Timeouts.Heartbeat is %v, not below Timeouts.Session, %v: every member would be removed", d.Timeouts.Heartbeat, d.Timeouts.Session)
	if _, err := o.SASL.mechanism(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// delivery is that of a group.
func (o *Options) delivery(group string) Delivery {
	if d, ok := o.Deliveries[group]; ok {
		return d
	}
	return o.Delivery
}

func (o Options) withDefaults() Options {
	orElse(&o.ClientID, "afterbay")
	orElse(&o.Timeouts.Session, 6*time.Second)
	orElse(&o.Timeouts.Heartbeat, o.Timeouts.Session/4)
	orElse(&o.Timeouts.Rebalance, 10*time.Second)
	orElse(&o.Timeouts.Transaction, 2*time.Second)
	orElse(&o.MaxRecordBytes, 900_000)
	orElse(&o.BufferRecords, 4096)
	orElse(&o.BufferBytes, 1<<20)
	orElse(&o.MaxProducers, 64)
	orElse(&o.State.RebuildAfter, deleteRetention/2)
	orElse(&o.State.CheckpointEvery, 10*time.Second)
	orElse(&o.State.MemoryBytes, 1<<30)
	orElse(&o.Logger, slog.Default())
	return o
}

func orElse[T comparable](value *T, def T) {
	var zero T
	if *value == zero {
		*value = def
	}
}

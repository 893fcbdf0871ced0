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

// Options configures the connections and limits of a Log. The zero value of every field but Brokers
// is a good default.
type Options struct {
	Brokers []string // host:port of some brokers; they name the others

	// Dir is the local folder that makes restarts fast. It holds a copy of the state (see
	// LocalState) and the identity with which a process gets its partitions back. Only one process
	// may use it. If Dir is empty, the log uses a temporary folder that Close removes. A restarted
	// process then has a new identity and restores its state from the changelog.
	Dir string

	Delivery     Delivery            // when outputs are written
	Deliveries   map[string]Delivery // overrides Delivery by group
	ClientID     string              // shown in the brokers' logs and quotas; "" is afterbay
	Rack         string              // read from a replica in this rack if there is one
	TLS          *tls.Config         // nil means no TLS
	SASL         SASL                // no credentials if Mechanism is empty
	ServerGroups bool                // the brokers assign partitions (KIP-848), not the members

	// Stay keeps the partitions of a closed member reserved for Timeouts.Session. A process that
	// restarts within that time gets them back without a rebalance. It needs Dir. Without Stay, a
	// closed member leaves its group, and other members get its partitions at once.
	Stay bool

	// Standbys is the number of other processes that keep a warm copy of the state of each
	// partition. If the owner dies, one of them takes over quickly. The copies share
	// State.MemoryBytes with the owned states. The largest value among the members of the group
	// counts. A member with 0 keeps no copies itself.
	Standbys int

	Timeouts Timeouts
	State    LocalState

	Replication    int // for topics that the log creates; 0 is the broker's default
	MaxRecordBytes int // key, value and headers of one record together; 0 is 900 KB, below the brokers' default limit of 1 MiB per batch
	BufferRecords  int // records that a member reads ahead of Poll; 0 is 4,096
	BufferBytes    int // size of a fetch from one broker; 0 is 1 MiB
	MaxProducers   int // AppendOnce producers with an open transactional client; 0 is 64

	Logger *slog.Logger // nil is slog.Default

	dial func(ctx context.Context, network, host string) (net.Conn, error) // nil is TCP
}

// Timeouts says how long the group and the brokers wait for a member.
type Timeouts struct {
	Session     time.Duration // the group removes a member after this time without a heartbeat; 0 is 6 s
	Heartbeat   time.Duration // interval of heartbeats; 0 is a quarter of Session
	Rebalance   time.Duration // maximum time without Poll while others wait; 0 is 10 s
	Transaction time.Duration // the broker aborts a commit that takes longer; 0 is 2 s
}

// LocalState limits the local copy of the states.
type LocalState struct {
	MemoryBytes     int64         // for cells in memory; 0 is 1 GiB
	CheckpointEvery time.Duration // 0 is 10 s
	RebuildAfter    time.Duration // a copy is rebuilt if it was last caught up longer ago; 0 is 12 h, half of the changelogs' delete.retention.ms
}

// Delivery says when the outputs of a transaction are written.
type Delivery = stream.Delivery

// The deliveries. On Kafka, ExactlyOnce writes outputs in the transaction of their inputs. Readers
// see them one commit interval later.
const (
	ExactlyOnce = stream.ExactlyOnce
	AtLeastOnce = stream.AtLeastOnce
	AtMostOnce  = stream.AtMostOnce
)

// SASL holds the credentials of a client.
type SASL struct {
	Mechanism      string // PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; "" for none
	User, Password string // for PLAIN and SCRAM
	// Token returns the bearer token for OAUTHBEARER. It is called for each new connection.
	Token func(ctx context.Context) (string, error)
}

// Validate returns all errors in the options.
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
		wrong(d < ExactlyOnce || d > AtMostOnce, "Delivery is %d: use exactly once, at least once or at most once", d)
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
	wrong(o.Standbys > 0 && o.ServerGroups, "Standbys with ServerGroups: brokers that assign partitions do not know which member has a warm copy")
	wrong(o.Replication > 1<<15-1, "Replication is %d: use at most the number of brokers", o.Replication)
	wrong(o.MaxRecordBytes > 512<<20, "MaxRecordBytes is %d, more than 512 MiB: a fetch brings a record whole", o.MaxRecordBytes)
	d := o.withDefaults()
	wrong(d.Timeouts.Heartbeat >= d.Timeouts.Session, "Timeouts.Heartbeat is %v, not below Timeouts.Session, %v: every member would be removed", d.Timeouts.Heartbeat, d.Timeouts.Session)
	if _, err := o.SASL.mechanism(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// delivery returns the Delivery of a group.
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

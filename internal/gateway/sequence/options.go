package sequence

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/internal/state/deadletter"
)

// Options configures a Sequencer. Each comment gives the default that replaces a zero value.
type Options struct {
	// Name is the name of the gateway. Its topics are <name>.inbox and <name>.results; its groups
	// are <name>.sequence and <name>.outcomes.
	Name       string
	Partitions int32    // of inbox and results, cannot change: 8
	Input      string   // topic that the pipeline reads; its records are keyed by its stream.Topic.Key, or else by client
	Sources    []Source // topics that the pipeline writes and clients receive
	Limits     Limits

	Metrics *Metrics     // nil: a new Metrics
	Logger  *slog.Logger // nil: slog.Default

	// Fault is called around the commits of both loops (sequence-write, -sync and -after, and the
	// same of outcomes). Crash tests end the process there.
	Fault func(stage string)
}

// Source is a topic that the pipeline writes.
type Source struct {
	Topic string
	Kind  Kind
}

// Kind says what the records of a source mean for the client of their event.
type Kind int

// The values of Kind.
const (
	Outputs  Kind = iota // results: the first one ends its event. The status is ok, except for records that carry another end (Pipeline.Answers)
	Partials             // partial results, before the final one
	Letters              // dead letters: status dead_lettered, or expired or rejected
	Late                 // events that came too late: status rejected
)

// Limits limits the state of clients and events.
type Limits struct {
	// Window is how long an id and its result are remembered after the append: 24 h. An event
	// without an outcome then ends as expired.
	Window time.Duration
	// IDs is the number of newest ids that a partition remembers: 1,000,000. Each takes about 200
	// bytes plus its result.
	IDs int
	// Held and HeldBytes limit the events of a client that wait for one with a smaller sequence
	// number: 32 events, with payloads of 512 KiB in total.
	Held, HeldBytes int
	// HeldFor is how long such an event waits: 30 s.
	HeldFor time.Duration
	// Ahead is how far a client's timestamp may be after the append time: 1 h.
	Ahead time.Duration
	// EventBytes limits the payload of an event: 256 KiB.
	EventBytes int
}

// Defaults of Options and Limits.
const (
	DefaultPartitions = 8
	DefaultWindow     = 24 * time.Hour
	DefaultIDs        = 1_000_000
	DefaultHeld       = 32
	DefaultHeldBytes  = 512 << 10
	DefaultHeldFor    = 30 * time.Second
	DefaultAhead      = time.Hour
	DefaultEventBytes = 256 << 10
)

// Inbox returns the topic to append a gateway's events to.
func Inbox(name string) string { return naming.Of(name, naming.Inbox) }

// Results returns the topic of a gateway's results.
func Results(name string) string { return naming.Of(name, naming.Results) }

// Group returns the consumer group that owns the state of clients.
func Group(name string) string { return naming.Of(name, naming.Sequence) }

// CopyGroup returns the consumer group that copies the pipeline's outputs to the inbox.
func CopyGroup(name string) string { return naming.Of(name, naming.Outcomes) }

// DeadTopic returns the dead letter topic for invalid records of the inbox.
func DeadTopic(name string) string { return deadletter.Topic(Group(name)) }

func (o *Options) setDefaults() {
	o.Partitions = cmp.Or(o.Partitions, DefaultPartitions)
	o.Metrics = cmp.Or(o.Metrics, new(Metrics))
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Fault == nil {
		o.Fault = func(string) {}
	}
	l := &o.Limits
	l.Window, l.IDs = cmp.Or(l.Window, DefaultWindow), cmp.Or(l.IDs, DefaultIDs)
	l.Held, l.HeldBytes, l.HeldFor = cmp.Or(l.Held, DefaultHeld), cmp.Or(l.HeldBytes, DefaultHeldBytes), cmp.Or(l.HeldFor, DefaultHeldFor)
	l.Ahead, l.EventBytes = cmp.Or(l.Ahead, DefaultAhead), cmp.Or(l.EventBytes, DefaultEventBytes)
}

// validate returns all errors in the options, after defaults are set.
func (o *Options) validate() error {
	var errs []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	l := &o.Limits
	wrong(o.Name == "", "Name is empty: topics and groups are called by it")
	wrong(o.Input == "", "Input is empty: name the topic that the pipeline reads")
	wrong(len(o.Sources) == 0, "Sources are empty: no event would ever have a result")
	wrong(o.Partitions < 0, "Partitions is %d: use 1 or more", o.Partitions)
	wrong(l.Window < time.Second, "Limits.Window is %v: use 1s or more", l.Window)
	wrong(l.HeldFor <= 0 || l.HeldFor >= l.Window, "Limits.HeldFor is %v: use less than the window of %v", l.HeldFor, l.Window)
	wrong(l.Ahead < 0, "Limits.Ahead is %v: use 0 or more", l.Ahead)
	wrong(l.IDs < 1 || l.Held < 1 || l.HeldBytes < 1 || l.EventBytes < 1, "Limits has a number below 1: %+v", *l)
	wrong(l.Held > l.IDs, "Limits.Held is %d: more than the %d ids that are remembered", l.Held, l.IDs)
	seen := map[string]bool{o.Input: true, Inbox(o.Name): true, Results(o.Name): true}
	for _, s := range o.Sources {
		wrong(seen[s.Topic], "Sources has topic %q: it occurs twice, or is the input or a topic of the gateway", s.Topic)
		wrong(s.Kind < Outputs || s.Kind > Late, "Sources has topic %q of kind %d: use Outputs, Partials, Letters or Late", s.Topic, s.Kind)
		seen[s.Topic] = true
	}
	return errors.Join(errs...)
}

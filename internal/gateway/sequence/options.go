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

// Options of a Sequencer. Zero values stand for the defaults beside them.
type Options struct {
	// Name is that of the gateway: its topics are <name>.inbox and
	// <name>.results, its groups <name>.sequence and <name>.outcomes.
	Name       string
	Partitions int32    // of inbox and results, for ever: 8
	Input      string   // topic that the pipeline reads; its records are keyed as its stream.Topic.Key says, or else by client
	Sources    []Source // topics that the pipeline writes, which clients get
	Limits     Limits

	Metrics *Metrics     // nil: counted for nobody
	Logger  *slog.Logger // nil: slog.Default

	// Fault is called at the stages of both loops with a step in flight
	// (sequence-write, -sync and -after, and those of outcomes): crash tests end the
	// process there.
	Fault func(stage string)
}

// Source is a topic that the pipeline writes.
type Source struct {
	Topic string
	Kind  Kind
}

// Kind is what the records of a source are to the client of their event.
type Kind int

// The kinds of sources.
const (
	Outputs  Kind = iota // the result: the first one of an event. It is ok, but of ends that say otherwise (Pipeline.Answers)
	Partials             // parts of it, which come before
	Letters              // dead letters: dead_lettered
	Late                 // events that came too late: rejected
)

// Limits bound what is kept of clients and their events.
type Limits struct {
	// Window is how long ids are remembered after the append, with their
	// results: 24 h. An event without an outcome ends then, as expired.
	Window time.Duration
	// IDs is how many a partition remembers, the newest: 1,000,000, of about 200
	// bytes each and their results.
	IDs int
	// Held and HeldBytes are how many events of a client wait for one with a
	// smaller sequence number, and the bytes of their payloads: 32, 512 KiB.
	Held, HeldBytes int
	// HeldFor is how long they wait: 30 s.
	HeldFor time.Duration
	// Ahead is how far the time that a client gives may be after the append:
	// 1 h.
	Ahead time.Duration
	// EventBytes bounds an event's payload: 256 KiB.
	EventBytes int
}

// The defaults of Options and Limits.
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

// Inbox returns the topic that a gateway appends events to.
func Inbox(name string) string { return naming.Of(name, naming.Inbox) }

// Results returns the topic of results.
func Results(name string) string { return naming.Of(name, naming.Results) }

// Group returns the group whose state is what is known of clients.
func Group(name string) string { return naming.Of(name, naming.Sequence) }

// CopyGroup returns the group that copies what the pipeline writes.
func CopyGroup(name string) string { return naming.Of(name, naming.Outcomes) }

// DeadTopic returns the topic of records of the inbox that nobody should have
// written.
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

// validate returns all that is wrong with options that have their defaults.
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
		wrong(seen[s.Topic], "Sources has topic %q: it is there before, or is the input or a topic of the gateway", s.Topic)
		wrong(s.Kind < Outputs || s.Kind > Late, "Sources has topic %q of kind %d: use Outputs, Partials, Letters or Late", s.Topic, s.Kind)
		seen[s.Topic] = true
	}
	return errors.Join(errs...)
}

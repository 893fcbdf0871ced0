// Package limit bounds what one address or one tenant may take of a gateway:
// connections at a time, and connections or events a second.
//
// It is asked before anything is paid for (no token is read, nothing upgraded), so a
// refusal costs a lookup in a map under a lock and allocates nothing. What it
// remembers is bounded too, whoever knocks.
package limit

import (
	"cmp"
	"container/list"
	"fmt"
	"net/netip"
	"sync"
	"time"
)

// Options bounds each key of a Limiter. The zero value is for addresses.
type Options struct {
	Open  int     // connections at a time; 0 is 256
	Rate  float64 // connections or events a second, 0.001 to 1e6; 0 is 20
	Burst int     // of them at once after a pause, 1 to 1e6; 0 is 100
	Keys  int     // keys that are remembered; 0 is 65,536, about 12 MB
}

// withDefaults returns o with the values that its zeros stand for.
func (o Options) withDefaults() (Options, error) {
	o.Open, o.Rate, o.Burst, o.Keys = cmp.Or(o.Open, 256), cmp.Or(o.Rate, 20), cmp.Or(o.Burst, 100), cmp.Or(o.Keys, 1<<16)
	switch {
	case o.Open < 1:
		return o, fmt.Errorf("open connections of a key: %d: use 1 or more", o.Open)
	case !(o.Rate >= 0.001 && o.Rate <= 1e6):
		return o, fmt.Errorf("rate of a key: %v a second: use 0.001 to 1e6", o.Rate)
	case o.Burst < 1 || o.Burst > 1e6:
		return o, fmt.Errorf("burst of a key: %d: use 1 to 1e6", o.Burst)
	case o.Keys < 1:
		return o, fmt.Errorf("keys: %d: use 1 or more", o.Keys)
	}
	return o, nil
}

// Reason is why something is refused: a label of metrics. "" is that it is not.
type Reason string

// The reasons.
const (
	Connections Reason = "connection_limit" // the key has as many as it may
	Rate        Reason = "rate_limit"       // it comes too fast
	Full        Reason = "full"             // too many other keys are at it
)

// Refusal says why not, and when to come again. The zero value is that it is
// admitted.
type Refusal struct {
	Reason Reason
	Wait   time.Duration // before it is worth another try
}

// retry is the wait where nobody knows when there will be room.
const retry = 5 * time.Second

// Limiter bounds keys of one kind: addresses or tenants. It may be used by many
// goroutines.
type Limiter[K comparable] struct {
	o        Options
	begun    time.Time
	interval int64 // ns between two at Rate
	burst    int64 // ns of Burst

	mu      sync.Mutex // guards the rest
	entries map[K]*entry[K]
	idle    *list.List // of *entry[K] without a connection, the longest unused first
	stats   Stats
}

// entry is what is known of a key. Its bucket is one number (GCRA): when it will be
// full again.
type entry[K comparable] struct {
	key  K
	open int
	full int64         // ns since begun
	idle *list.Element // nil while there is a connection
}

// New returns a Limiter; an error says which option is out of range.
func New[K comparable](o Options) (*Limiter[K], error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	interval := int64(float64(time.Second) / o.Rate)
	return &Limiter[K]{
		o: o, begun: time.Now(), interval: interval, burst: interval * int64(o.Burst),
		entries: make(map[K]*entry[K]), idle: list.New(),
	}, nil
}

// Enter asks for a connection. Where the refusal is zero, Leave ends it.
func (l *Limiter[K]) Enter(key K) Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	e := l.entry(key, now)
	switch {
	case e == nil:
		return l.refuse(Full, 1, retry)
	case e.open >= l.o.Open:
		return l.refuse(Connections, 1, retry)
	}
	if taken, refusal := l.take(e, now, 1); taken == 0 {
		return refusal
	}
	if e.open++; e.idle != nil {
		l.idle.Remove(e.idle)
		e.idle = nil
	}
	l.stats.Open++
	return Refusal{}
}

// Leave ends a connection that Enter admitted.
func (l *Limiter[K]) Leave(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[key]
	if e == nil || e.open == 0 {
		panic("limit: more connections left than entered")
	}
	l.stats.Open--
	if e.open--; e.open == 0 {
		e.idle = l.idle.PushBack(e)
	}
}

// Take asks for n events at once, and returns how many are admitted: the first of
// them. The refusal is of the others, and waits until as many fit as ever do at once.
func (l *Limiter[K]) Take(key K, n int) (taken int, _ Refusal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	e := l.entry(key, now)
	if e == nil {
		return 0, l.refuse(Full, n, retry)
	}
	return l.take(e, now, n)
}

func (l *Limiter[K]) now() int64 { return int64(time.Since(l.begun)) }

// entry returns what is known of a key; nil where there is no room for another.
func (l *Limiter[K]) entry(key K, now int64) *entry[K] {
	// Two for each call: the map shrinks faster than it grows, and no call
	// pays for all.
	l.forget(now)
	l.forget(now)
	e := l.entries[key]
	switch {
	case e == nil && len(l.entries) >= l.o.Keys:
		return nil
	case e == nil:
		e = &entry[K]{key: key}
		e.idle = l.idle.PushBack(e)
		l.entries[key] = e
	case e.idle != nil:
		l.idle.MoveToBack(e.idle)
	}
	return e
}

// forget drops the key that was unused for longest, if nothing would be otherwise
// for it were it to come again.
func (l *Limiter[K]) forget(now int64) {
	front := l.idle.Front()
	if front == nil {
		return
	}
	if e := front.Value.(*entry[K]); e.full <= now {
		l.idle.Remove(front)
		delete(l.entries, e.key)
		l.stats.Forgotten++
	}
}

func (l *Limiter[K]) take(e *entry[K], now int64, n int) (taken int, _ Refusal) {
	full := max(e.full, now)
	taken = int(min(int64(n), max(0, now+l.burst-full)/l.interval))
	full += int64(taken) * l.interval
	if taken > 0 {
		e.full = full
		l.stats.Admitted += int64(taken)
	}
	rest := n - taken
	if rest == 0 {
		return taken, Refusal{}
	}
	fits := full + int64(min(rest, l.o.Burst))*l.interval - l.burst
	return taken, l.refuse(Rate, rest, time.Duration(fits-now))
}

// refuse counts what is refused: n connections or events.
func (l *Limiter[K]) refuse(reason Reason, n int, wait time.Duration) Refusal {
	switch reason {
	case Connections:
		l.stats.Connections += int64(n)
	case Rate:
		l.stats.Rate += int64(n)
	case Full:
		l.stats.Full += int64(n)
	}
	return Refusal{reason, wait}
}

// Stats is what a Limiter did since it was made.
type Stats struct {
	Keys      int   // that are remembered
	Open      int   // connections
	Admitted  int64 // by Enter and Take
	Forgotten int64 // keys

	Connections, Rate, Full int64 // refused, by reason
}

// Stats returns what the Limiter did.
func (l *Limiter[K]) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Keys = len(l.entries)
	return s
}

// Address returns the key of an address: a person has one of IPv4, but 2^64 of IPv6.
func Address(of netip.Addr) netip.Prefix {
	of = of.Unmap().WithZone("")
	bits := of.BitLen()
	if of.Is6() {
		bits = 64
	}
	prefix, _ := of.Prefix(bits) // the zero Addr is a key too
	return prefix
}

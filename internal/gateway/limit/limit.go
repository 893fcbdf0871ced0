// Package limit limits how much of a gateway one address or one tenant may use: open connections,
// and connections or events per second.
//
// The gateway asks a limiter before any expensive work, such as reading a token or upgrading a
// connection. A refusal costs one map lookup under a lock and allocates nothing. The number of
// remembered keys is limited too, however many clients try.
package limit

import (
	"cmp"
	"container/list"
	"fmt"
	"net/netip"
	"sync"
	"time"
)

// Options sets the limits of each key of a Limiter. The zero value is suitable for addresses.
type Options struct {
	Open  int     // open connections; 0 is 256
	Rate  float64 // connections or events per second, 0.001 to 1e6; 0 is 20
	Burst int     // connections or events at once after a pause, 1 to 1e6; 0 is 100
	Keys  int     // maximum number of keys in memory; 0 is 65,536, about 12 MB
}

// withDefaults returns o with each 0 replaced by its default.
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

// Reason is why something is refused; "" means that it is admitted. It is a label of metrics.
type Reason string

// The values of Reason.
const (
	Connections Reason = "connection_limit" // the key has reached its limit of open connections
	Rate        Reason = "rate_limit"       // the key exceeds its rate
	Full        Reason = "full"             // too many other keys are in use
)

// Refusal says why a request is refused, and when to retry. The zero value means that it is
// admitted.
type Refusal struct {
	Reason Reason
	Wait   time.Duration // time until a retry can succeed
}

// retry is the wait if it is unknown when there will be room.
const retry = 5 * time.Second

// Limiter limits keys of one kind: addresses or tenants. It is safe for concurrent use.
type Limiter[K comparable] struct {
	o        Options
	begun    time.Time
	interval int64 // ns between two events at Rate
	burst    int64 // ns of Burst

	mu      sync.Mutex // guards the fields below
	entries map[K]*entry[K]
	idle    *list.List // of *entry[K] without a connection, least recently used first
	stats   Stats
}

// entry is the state of a key. The generic cell rate algorithm (GCRA) needs only one number for the
// bucket: the time when the bucket will be full again.
type entry[K comparable] struct {
	key  K
	open int
	full int64         // ns since begun
	idle *list.Element // nil while the key has an open connection
}

// New returns a Limiter. The error names an option that is out of range.
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

// Enter admits a connection or refuses it. If the refusal is zero, the caller must call Leave when
// the connection ends.
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

// Take asks for n events at once, and returns how many are admitted, counted from the first. The
// refusal is for the rest. Its Wait ends when the rest fits, or as much of it as Burst allows at
// once.
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

// entry returns the state of a key; nil if there is no room for another key.
func (l *Limiter[K]) entry(key K, now int64) *entry[K] {
	// Forgetting two keys in each call makes the map shrink faster than it can grow. So no single
	// call has to clean up everything.
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

// forget removes the least recently used key without a connection if its bucket is full again. Such
// a key has the same limits as a new one.
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

// refuse counts n refused connections or events.
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

// Stats holds the counters of a Limiter since its creation.
type Stats struct {
	Keys      int   // keys in memory
	Open      int   // open connections
	Admitted  int64 // events and connections, by Enter and Take
	Forgotten int64 // keys removed from memory

	Connections, Rate, Full int64 // refused, by reason
}

// Stats returns the counters of the Limiter.
func (l *Limiter[K]) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Keys = len(l.entries)
	return s
}

// Address returns the key of an address: the whole IPv4 address, or the /64 prefix of an IPv6
// address, because one user typically has 2^64 IPv6 addresses.
func Address(of netip.Addr) netip.Prefix {
	of = of.Unmap().WithZone("")
	bits := of.BitLen()
	if of.Is6() {
		bits = 64
	}
	prefix, _ := of.Prefix(bits) // the zero Addr is a valid key
	return prefix
}

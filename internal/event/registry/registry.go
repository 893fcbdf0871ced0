package registry

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/afterbay/afterbay/internal/control"
	"github.com/afterbay/afterbay/internal/event/decode"
)

// The bounds of what is kept, and of waiting.
const (
	answersMax = 1000        // answers about ids
	unknownFor = time.Minute // how long an id stays unknown: its schema may be registered late

	stalledAfter = 10 * time.Second // the time between two probes of readiness of Kubernetes
)

// Registry finds schemas by their ids, and keeps what it found. It is safe for concurrent use.
type Registry struct {
	options Options
	client  *sr.Client
	http    *http.Client
	ctx     context.Context // of lookups; done when the registry is closed
	cancel  context.CancelFunc
	lookups sync.WaitGroup
	backoff control.Backoff

	mu      sync.Mutex
	known   map[question]*entry
	used    uint64 // uses of entries so far
	stats   Stats
	awaited error // why the newest attempt to find an output failed; nil if it did not
}

// question is what is asked of the registry: the schema of an id, or the id of the version before it.
type question struct {
	id     int
	before bool
}

// entry is what is known of a question.
type entry struct {
	*answer                     // nil while it is looked up
	fault   error               // of the newest attempt to look it up
	since   time.Time           // of the first attempt that failed
	waiting map[*Decoder]func() // to be woken when it is known, or when it failed
	used    uint64
}

// Stats counts what a registry was asked.
type Stats struct {
	Lookups uint64 `json:"lookups"` // requests that brought an answer
	Faults  uint64 `json:"faults"`  // requests that failed, and were tried again
	Unknown uint64 `json:"unknown"` // Lookups of ids that the registry did not know
	Evicted uint64 `json:"evicted"` // answers that made room for others
	Kept    int    `json:"kept"`    // answers
	Waiting int    `json:"waiting"` // ids that are looked up now

	// Away is the schema id or subject that is waited for, and why its newest lookup failed; "" if none
	// did. Of several ids it is the lowest.
	Away string `json:"away,omitempty"`
	// Stalled is set if an id is waited for since at least 10 s, or an output at all: nothing is computed before
	// its schema is found.
	Stalled bool `json:"-"`
}

// New returns a registry. Nothing is asked yet.
func New(o Options) (*Registry, error) {
	client, plain, err := newClient(&o)
	if err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	r := &Registry{options: o, client: client, http: plain, known: map[question]*entry{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r, nil
}

// Close ends lookups. What waits for them is not woken.
func (r *Registry) Close() {
	r.cancel()
	r.lookups.Wait()
	r.http.CloseIdleConnections()
}

func (r *Registry) now() time.Time { return r.options.Now() }

// Stats returns what was asked so far.
func (r *Registry) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	if r.awaited != nil {
		s.Waiting, s.Away, s.Stalled = 1, r.awaited.Error(), true
	}
	lowest := math.MaxInt
	for of, e := range r.known {
		if e.answer != nil {
			s.Kept++
			continue
		}
		s.Waiting++
		if e.fault == nil {
			continue
		}
		s.Stalled = s.Stalled || r.now().Sub(e.since) >= stalledAfter
		if of.id < lowest {
			lowest, s.Away = of.id, fmt.Sprintf("schema id %d: %v", of.id, e.fault)
		}
	}
	return s
}

// Decoder implements decode.Format. Whether the fields are as a schema has them is known when a
// record names it.
func (r *Registry) Decoder(fields []decode.Field) (decode.Decoder, error) {
	return r.decoder(fields, false), nil
}

func (r *Registry) decoder(fields []decode.Field, whole bool) *Decoder {
	return &Decoder{registry: r, fields: fields, whole: whole, programs: map[typeOf]*program{}}
}

// find returns what is known of a question; nil if it is looked up, and then why the newest
// attempt failed. wake is called once, when it is known or when an attempt failed.
func (r *Registry) find(of question, d *Decoder, wake func()) (*answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.known[of]
	if e != nil && e.answer != nil && !e.until.IsZero() && !r.now().Before(e.until) {
		e = nil
	}
	if e == nil {
		e = &entry{waiting: map[*Decoder]func(){}}
		r.evict()
		r.known[of] = e
		r.lookups.Go(func() { r.lookUp(of, e) })
	}
	r.used++
	e.used = r.used
	if e.answer == nil {
		e.waiting[d] = wake
	}
	return e.answer, e.fault
}

// evict makes room for an entry.
func (r *Registry) evict() {
	if len(r.known) < answersMax {
		return
	}
	var oldest question
	least := uint64(math.MaxUint64)
	for of, e := range r.known {
		if e.answer != nil && e.used < least {
			oldest, least = of, e.used
		}
	}
	if least < math.MaxUint64 {
		delete(r.known, oldest)
		r.stats.Evicted++
	}
}

// lookUp asks until the registry answers.
func (r *Registry) lookUp(of question, e *entry) {
	for attempt := 1; ; attempt++ {
		found, err := r.ask(r.ctx, of)
		if r.ctx.Err() != nil {
			return
		}
		r.settle(e, found, err)
		if err == nil {
			return
		}
		select {
		case <-time.After(r.backoff.Delay(strconv.Itoa(of.id), attempt)):
		case <-r.ctx.Done():
			return
		}
	}
}

// settle notes the result of an attempt, and wakes those that wait.
func (r *Registry) settle(e *entry, found *answer, err error) {
	r.mu.Lock()
	var first bool // attempt that failed
	if err == nil {
		r.stats.Lookups++
		if !found.until.IsZero() {
			r.stats.Unknown++
		}
		e.answer, e.fault = found, nil
	} else {
		r.stats.Faults++
		if first, e.fault = e.fault == nil, err; first {
			e.since = r.now()
		}
	}
	waiting := e.waiting
	if err == nil || first {
		e.waiting = map[*Decoder]func(){}
	} else {
		waiting = nil // they know that it is away
	}
	r.mu.Unlock()
	for _, wake := range waiting {
		wake()
	}
}

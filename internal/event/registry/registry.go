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

// Limits of the cache, and of waiting.
const (
	answersMax = 1000        // cached answers about ids
	unknownFor = time.Minute // how long an id counts as unknown: its schema may be registered later

	stalledAfter = 10 * time.Second // the time between two readiness probes of Kubernetes
)

// Registry finds schemas by their ids, and caches them. It is safe for concurrent use.
type Registry struct {
	options Options
	client  *sr.Client
	http    *http.Client
	ctx     context.Context // for lookups; cancelled when the registry is closed
	cancel  context.CancelFunc
	lookups sync.WaitGroup
	backoff control.Backoff

	mu      sync.Mutex
	known   map[question]*entry
	used    uint64 // number of uses of entries so far
	stats   Stats
	awaited error // why the newest attempt to find an output did not reach the registry; nil if it did
}

// question asks the registry for the schema of an id, or for the id of the version before it.
type question struct {
	id     int
	before bool
}

// entry is the state of one question.
type entry struct {
	*answer                     // nil while the lookup runs
	fault   error               // error of the newest attempt
	since   time.Time           // time of the first failed attempt
	waiting map[*Decoder]func() // decoders to wake when the answer is known, or when the first attempt fails
	used    uint64
}

// Stats counts the requests to a registry.
type Stats struct {
	Lookups uint64 `json:"lookups"` // requests that were answered
	Faults  uint64 `json:"faults"`  // requests that failed and were retried
	Unknown uint64 `json:"unknown"` // Lookups of ids that the registry did not know
	Evicted uint64 `json:"evicted"` // answers evicted from the cache
	Kept    int    `json:"kept"`    // answers in the cache
	Waiting int    `json:"waiting"` // ids being looked up now

	// Away names a schema id or subject that the engine waits for, with the error of its newest
	// lookup. It is "" if no lookup failed. Of several ids it is the lowest.
	Away string `json:"away,omitempty"`
	// Stalled reports that the engine has waited for an id for at least 10 s, or waits for an
	// output. Processing stops until the schema is found.
	Stalled bool `json:"-"`
}

// New returns a registry. It sends no request.
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

// Close ends lookups. It does not wake the decoders that wait for them.
func (r *Registry) Close() {
	r.cancel()
	r.lookups.Wait()
	r.http.CloseIdleConnections()
}

func (r *Registry) now() time.Time { return r.options.Now() }

// Stats returns the counts so far.
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

// Decoder implements decode.Format. Whether a schema has the fields is checked when a record names
// the schema.
func (r *Registry) Decoder(fields []decode.Field) (decode.Decoder, error) {
	return r.decoder(fields, false), nil
}

func (r *Registry) decoder(fields []decode.Field, whole bool) *Decoder {
	return &Decoder{registry: r, fields: fields, whole: whole, programs: map[typeOf]*program{}}
}

// find returns the answer to a question. While the lookup runs it returns nil, and the error of the
// newest attempt. It then calls wake once: when the answer is known, or when the first attempt
// fails.
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

// lookUp asks until the registry answers or is closed.
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

// settle stores the result of an attempt, and wakes the waiting decoders.
func (r *Registry) settle(e *entry, found *answer, err error) {
	r.mu.Lock()
	var first bool // the first failed attempt
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
		waiting = nil // they already know that the registry does not answer
	}
	r.mu.Unlock()
	for _, wake := range waiting {
		wake()
	}
}

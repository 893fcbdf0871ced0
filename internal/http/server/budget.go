package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	budgetDefault = 128 << 20
	budgetWait    = 2 * time.Second // how long a request waits for the memory of others

	// A request may need this many bytes, plus this many for each byte of the request.
	requestBytes  = 640 << 10
	requestFactor = 56

	stepBytes = 32 << 10 // granularity of an Account

	worksEach = 2 // Rooms that may work for each core
)

// Budget limits the memory of the requests of a process, and how many of them may use the CPU at
// the same time. It is safe for concurrent use.
type Budget struct {
	most  int64
	free  *semaphore.Weighted
	used  atomic.Int64
	works chan struct{} // one element for each Room that works
}

// NewBudget returns a budget of this many bytes; 0 is 128 MiB. The process needs about twice as
// much, because freed memory is collected late.
func NewBudget(bytes int64) *Budget {
	b := &Budget{most: cmp.Or(bytes, budgetDefault), works: make(chan struct{}, worksEach*runtime.GOMAXPROCS(0))}
	b.free = semaphore.NewWeighted(b.most)
	return b
}

// Bytes returns the size of the budget.
func (b *Budget) Bytes() int64 { return b.most }

// Used returns the bytes in use by requests.
func (b *Budget) Used() int64 { return b.used.Load() }

// Account is the share of a Budget that one request has. A request may need 640 KiB, plus 56 bytes
// for each of its bytes received so far. So a small request never costs much, whatever its
// compression ratio or number of rows.
//
// Its methods are safe for concurrent use. A nil Account has unlimited memory; a request that no
// Server serves has a nil Account.
type Account struct {
	budget  *Budget
	counted *counters
	came    atomic.Int64 // bytes of the request received

	places atomic.Int64 // number of its rooms that work

	mu    sync.Mutex
	need  int64
	fixed int64 // part of need that Room.Reserve charged
	taken int64 // bytes taken from the budget
}

type accountKey struct{}

// AccountOf returns the account of a context's request; nil if no Server serves the request.
func AccountOf(ctx context.Context) *Account {
	account, _ := ctx.Value(accountKey{}).(*Account)
	return account
}

// charge charges n bytes for a room. If it must wait, the room rests. Fixed bytes are allowed
// whatever the size of the request.
func (a *Account) charge(by *Room, n int64, fixed bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if fixed {
		a.fixed += n
	} else if most := requestBytes + requestFactor*a.came.Load() + a.fixed; a.need+n > min(most, a.budget.most) {
		a.counted.add(tooLarge)
		return &Refusal{
			Status: http.StatusRequestEntityTooLarge, Code: "too_large", Hint: "send fewer rows or elements in a request",
			Message: fmt.Sprintf("the request of %d bytes needs more than %s of memory", a.came.Load(), Size(min(most, a.budget.most)>>10<<10)),
		}
	}
	if more := a.need + n - a.taken; more > 0 {
		more = min((more+stepBytes-1)/stepBytes*stepBytes, a.budget.most-a.taken)
		if !a.wait(by, more) {
			a.counted.add(overMemory)
			return &Refusal{
				Status: http.StatusServiceUnavailable, Code: "over_memory", After: time.Second,
				Message: "other requests use all of the " + Size(a.budget.most) + " of memory for requests", Hint: "send it again later",
			}
		}
		a.taken += more
	}
	a.need += n
	return nil
}

// wait takes bytes from the budget. It waits until other requests return enough.
func (a *Account) wait(by *Room, n int64) bool {
	if !a.budget.free.TryAcquire(n) {
		by.Rest()
		ctx, cancel := context.WithTimeout(by.ctx, budgetWait)
		defer cancel()
		if a.budget.free.Acquire(ctx, n) != nil {
			return false
		}
	}
	a.budget.used.Add(n)
	return true
}

// Need returns the charged bytes that are not yet returned.
func (a *Account) Need() int64 {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.need
}

// give returns n charged bytes.
func (a *Account) give(n int64) {
	if a == nil || n <= 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.need -= n
	if spare := (a.taken - a.need) / stepBytes * stepBytes; spare > 0 {
		a.release(spare)
	}
}

func (a *Account) release(n int64) {
	a.taken -= n
	a.budget.used.Add(-n)
	a.budget.free.Release(n)
}

// work takes a place for a working room.
func (a *Account) work(ctx context.Context) error {
	works := a.budget.works
	select {
	case works <- struct{}{}:
	default:
		select {
		case works <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	a.places.Add(1)
	return nil
}

// rest returns a place, unless close has returned it: a goroutine may outlive its request.
func (a *Account) rest() {
	for {
		n := a.places.Load()
		if n == 0 {
			return
		}
		if a.places.CompareAndSwap(n, n-1) {
			<-a.budget.works
			return
		}
	}
}

// close returns everything. A handler that panics may still hold places.
func (a *Account) close() {
	for range a.places.Swap(0) {
		<-a.budget.works
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.taken > 0 {
		a.release(a.taken)
	}
	a.need, a.fixed = 0, 0
}

func itoa(n int) string { return strconv.Itoa(n) }

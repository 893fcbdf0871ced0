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
	budgetWait    = 2 * time.Second // of a request for the memory of others

	// What a request may need: this, and this many bytes for each of its own.
	requestBytes  = 640 << 10
	requestFactor = 56

	stepBytes = 32 << 10 // that an Account takes at once

	worksEach = 2 // Rooms that work, of each core
)

// Budget bounds the memory that the requests of a process need, and how many of them
// keep a core busy at a time. It may be used by many goroutines.
type Budget struct {
	most  int64
	free  *semaphore.Weighted
	used  atomic.Int64
	works chan struct{} // one element for each Room that works
}

// NewBudget returns a budget of so many bytes; 0 is 128 MiB. The process needs about
// twice as much for them, since freed memory is collected late.
func NewBudget(bytes int64) *Budget {
	b := &Budget{most: cmp.Or(bytes, budgetDefault), works: make(chan struct{}, worksEach*runtime.GOMAXPROCS(0))}
	b.free = semaphore.NewWeighted(b.most)
	return b
}

// Bytes returns how many bytes there are.
func (b *Budget) Bytes() int64 { return b.most }

// Used returns how many of them requests have.
func (b *Budget) Used() int64 { return b.used.Load() }

// Account is what one request has of a Budget. A request may need 640 KiB, and 56 bytes
// for each byte of it that came: so a small request never costs much, however far it is
// compressed or however many rows it stands for.
//
// Its methods may be called by several goroutines. A nil Account, as of a request that
// no Server serves, has all memory.
type Account struct {
	budget  *Budget
	counted *counters
	came    atomic.Int64 // bytes of the request

	places atomic.Int64 // of its rooms that work

	mu    sync.Mutex
	need  int64
	fixed int64 // of need, what Room.Reserve charged
	taken int64 // of the budget
}

type accountKey struct{}

// AccountOf returns the account of the request of a context; nil if no Server serves the
// request.
func AccountOf(ctx context.Context) *Account {
	account, _ := ctx.Value(accountKey{}).(*Account)
	return account
}

// charge charges n bytes for a room, which rests if they have to be waited for. Fixed
// ones are allowed whatever the size of the request.
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

// wait takes bytes of the budget, and waits for others to give some back.
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

// Need returns the bytes that were charged and not given back.
func (a *Account) Need() int64 {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.need
}

// give gives n bytes back that were charged.
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

// work takes one of the places for rooms that work.
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

// rest gives a place back, unless close did: a goroutine may outlive its request.
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

// close gives all back. A handler that panics may have places.
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

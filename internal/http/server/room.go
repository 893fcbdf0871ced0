package server

import "context"

// Room charges what one piece of work needs to the account of its request. Close gives
// it back, which only a request that does several pieces has to do: an account ends with
// its request. The zero Room has all memory. It is for one goroutine.
//
// Work that keeps a core busy, such as parsing, is done between Work and Rest. Of all
// rooms of the process two for each core work at a time: hundreds that did would have
// each health check wait for its turn behind all of them.
type Room struct {
	ctx     context.Context
	account *Account
	taken   int64
	works   bool
}

// RoomOf returns a room of the request of a context.
func RoomOf(ctx context.Context) *Room { return &Room{ctx: ctx, account: AccountOf(ctx)} }

// Take charges n bytes that are about to be allocated, as Account.Take does.
func (r *Room) Take(n int64) error {
	if r.account == nil {
		return nil
	}
	worked := r.works
	err := r.account.take(r.ctx, n, r)
	if worked {
		r.Work() // not within take, which has the lock of the account
	}
	if err == nil {
		r.taken += max(n, 0)
	}
	return err
}

// Reserve charges n bytes as Account.Reserve does.
func (r *Room) Reserve(n int64) error {
	if r.account == nil {
		return nil
	}
	worked := r.Rest()
	err := r.account.Reserve(r.ctx, n)
	if worked {
		r.Work()
	}
	if err == nil {
		r.taken += max(n, 0)
	}
	return err
}

// Give gives n bytes back that were charged.
func (r *Room) Give(n int64) {
	r.account.Give(n)
	r.taken -= n
}

// Grow returns dst with room for n more bytes. It charges a buffer before it allocates
// it, and goes on charging the one that it replaces, which is garbage but not collected
// yet.
func (r *Room) Grow(dst []byte, n int) ([]byte, error) {
	if cap(dst)-len(dst) >= n {
		return dst, nil
	}
	room := max(2*cap(dst), len(dst)+n)
	if err := r.Take(int64(room)); err != nil {
		return dst, err
	}
	return append(make([]byte, 0, room), dst...), nil
}

// Add appends part to dst.
func (r *Room) Add(dst, part []byte) ([]byte, error) {
	if cap(dst)-len(dst) < len(part) {
		var err error
		if dst, err = r.Grow(dst, len(part)); err != nil {
			return dst, err
		}
	}
	return append(dst, part...), nil
}

// Another charges an append to a slice of so many elements of size bytes, if that has to
// grow.
func (r *Room) Another(length, capacity int, size uintptr) error {
	if length < capacity {
		return nil
	}
	return r.Take(int64(2*capacity+1) * int64(size))
}

// Work waits until few rooms of the process work. Do not wait for anything else before
// Rest; reading the body that the room has opened, and Take, rest while they wait.
func (r *Room) Work() {
	if r.account != nil && !r.works {
		r.account.budget.works <- struct{}{}
		r.works = true
	}
}

// Rest lets others work, and reports whether the room worked. A nil Room never does.
func (r *Room) Rest() (worked bool) {
	if r == nil || !r.works {
		return false
	}
	<-r.account.budget.works
	r.works = false
	return true
}

// Close gives all back.
func (r *Room) Close() {
	r.Rest()
	r.Give(r.taken)
}

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

// Take charges n bytes that are about to be allocated. The error is a *Refusal, if the
// request needs more than its size allows or the budget was used up for 2 s, or that of
// Work.
func (r *Room) Take(n int64) error { return r.charge(n, false) }

// Reserve charges n bytes as Take does, but to the process alone: whatever the size of
// the request. It is for memory that a stream has as long as it lasts.
func (r *Room) Reserve(n int64) error { return r.charge(n, true) }

func (r *Room) charge(n int64, fixed bool) error {
	if r.account == nil || n <= 0 {
		return nil
	}
	worked := r.works
	err := r.account.charge(r, n, fixed)
	if err == nil {
		r.taken += n
	}
	if worked { // not within charge, which has the lock of the account
		if ended := r.Work(); err == nil {
			err = ended
		}
	}
	return err
}

// Give gives n bytes back that were charged.
func (r *Room) Give(n int64) {
	r.account.give(n)
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

// Work waits until few rooms of the process work. The error is that of the context, if
// the request ends first; then the room does not work. Do not wait for anything else
// before Rest; reading the body that the room has opened, Take and Reserve rest while
// they wait.
func (r *Room) Work() error {
	if r.account == nil || r.works {
		return nil
	}
	err := r.account.work(r.ctx)
	r.works = err == nil
	return err
}

// Rest lets others work, and reports whether the room worked. A nil Room never does.
func (r *Room) Rest() (worked bool) {
	if r == nil || !r.works {
		return false
	}
	r.account.rest()
	r.works = false
	return true
}

// Close gives all back.
func (r *Room) Close() {
	r.Rest()
	r.Give(r.taken)
}

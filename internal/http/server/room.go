package server

import "context"

// Room charges the memory of one piece of work to the account of its request. Close returns the
// memory. Only a request with several pieces of work must call Close, because an account ends with
// its request. The zero Room has unlimited memory. A Room is for one goroutine.
//
// CPU-bound work, such as parsing, must run between Work and Rest. Only two rooms for each core
// work at a time, over the whole process. Otherwise a health check would wait for its turn behind
// hundreds of working requests.
type Room struct {
	ctx     context.Context
	account *Account
	taken   int64
	works   bool
}

// RoomOf returns a new room for a context's request.
func RoomOf(ctx context.Context) *Room { return &Room{ctx: ctx, account: AccountOf(ctx)} }

// Take charges n bytes before they are allocated. The error is a *Refusal if the request needs more
// than its size allows, or if the budget was used up for 2 s. It can also be the error of Work.
func (r *Room) Take(n int64) error { return r.charge(n, false) }

// Reserve charges n bytes like Take, but only against the budget of the process, whatever the size
// of the request. It is for memory that a stream holds until it ends.
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
	if worked { // not within charge, which holds the account's lock
		if ended := r.Work(); err == nil {
			err = ended
		}
	}
	return err
}

// Give returns n charged bytes.
func (r *Room) Give(n int64) {
	r.account.give(n)
	r.taken -= n
}

// Grow returns dst with capacity for n more bytes. It charges a buffer before it allocates it. The
// replaced buffer stays charged, because it is not yet collected.
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

// Another charges an append to a slice with elements of size bytes, if the slice must grow.
func (r *Room) Another(length, capacity int, size uintptr) error {
	if length < capacity {
		return nil
	}
	return r.Take(int64(2*capacity+1) * int64(size))
}

// Work waits until fewer rooms of the process work. The error is that of the context, if the
// request ends first; the room then does not work. Before Rest, the caller must not wait for
// anything else. Take, Reserve, and reads of the body that the room has opened are allowed: they
// rest while they wait.
func (r *Room) Work() error {
	if r.account == nil || r.works {
		return nil
	}
	err := r.account.work(r.ctx)
	r.works = err == nil
	return err
}

// Rest lets other rooms work. It reports whether the room worked; a nil Room never does.
func (r *Room) Rest() (worked bool) {
	if r == nil || !r.works {
		return false
	}
	r.account.rest()
	r.works = false
	return true
}

// Close returns everything.
func (r *Room) Close() {
	r.Rest()
	r.Give(r.taken)
}

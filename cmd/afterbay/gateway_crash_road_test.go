package main

import (
	"net"
	"sync"
	"testing"
)

// The directions of a road.
const (
	there = iota // what those who connect send
	back         // what they get
)

// road is a TCP proxy to a process that comes and goes. It can hold what is on its
// way, as a network does that is cut in two: connections stay, nothing arrives.
type road struct {
	listener net.Listener
	group    sync.WaitGroup

	mu    sync.Mutex // guards what follows
	to    string     // "" where nobody is
	held  [2]chan struct{}
	trips map[*trip]struct{}
}

// trip is a connection of a road.
type trip struct {
	ends [2]net.Conn
	once sync.Once
	cut  chan struct{}
}

func newRoad(t *testing.T) *road {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &road{listener: l, trips: map[*trip]struct{}{}}
	r.group.Go(r.serve)
	t.Cleanup(func() {
		_ = l.Close()
		r.lead("")
		r.cut(1 << 30)
		r.group.Wait()
	})
	return r
}

func (r *road) address() string { return r.listener.Addr().String() }

// lead has those who connect from now on reach an address; "" refuses them.
func (r *road) lead(to string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = to
}

// open reports whether the road leads anywhere, and how many are on it.
func (r *road) open() (is bool, trips int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.to != "", len(r.trips)
}

// hold keeps what is on its way in some directions until release.
func (r *road) hold(ways ...int) (release func()) {
	goOn := make(chan struct{})
	set := func(c chan struct{}) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, way := range ways {
			r.held[way] = c
		}
	}
	set(goOn)
	return sync.OnceFunc(func() {
		set(nil)
		close(goOn)
	})
}

// cut ends n connections, any; what is held of them is lost.
func (r *road) cut(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t := range r.trips {
		if n--; n < 0 {
			return
		}
		t.end()
	}
}

func (t *trip) end() {
	t.once.Do(func() {
		close(t.cut)
		for _, end := range t.ends {
			_ = end.Close()
		}
	})
}

func (r *road) serve() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.group.Go(func() { r.carry(conn) })
	}
}

func (r *road) carry(conn net.Conn) {
	r.mu.Lock()
	to := r.to
	r.mu.Unlock()
	var other net.Conn
	err := net.ErrClosed
	if to != "" {
		other, err = net.Dial("tcp", to) //nolint:noctx // of a test
	}
	if err != nil {
		_ = conn.Close()
		return
	}
	t := &trip{ends: [2]net.Conn{conn, other}, cut: make(chan struct{})}
	r.mu.Lock()
	r.trips[t] = struct{}{}
	r.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { r.copy(t, there) })
	both.Go(func() { r.copy(t, back) })
	both.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.trips, t)
}

func (r *road) copy(t *trip, way int) {
	defer t.end()
	buffer := make([]byte, 16<<10)
	for {
		n, err := t.ends[way].Read(buffer)
		if n > 0 && r.passes(t, way) {
			_, err = t.ends[1-way].Write(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}

// passes waits while a direction is held. False says that the connection was cut.
func (r *road) passes(t *trip, way int) bool {
	for {
		r.mu.Lock()
		held := r.held[way]
		r.mu.Unlock()
		if held == nil {
			return true
		}
		select {
		case <-held:
		case <-t.cut:
			return false
		}
	}
}

package server

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Class determines the limit that a request counts against.
type Class uint8

// The values of Class.
const (
	Data     Class = iota // a request of a client: events, predictions
	Stream                // a long-lived request: following records, a stream of predictions
	Watch                 // watching health; it needs no token, so it has few places
	Operator              // metrics and requests of the command line
	Probe                 // health over gRPC, which reads a body
	Health                // no limit
	classes
)

var classNames = [classes]string{"data", "stream", "watch", "operator", "probe", "health"}

// String returns the name of the class in metrics.
func (c Class) String() string { return classNames[c] }

// PaceBytes is the minimum speed of a body or a reply, in bytes per second.
const PaceBytes = 8 << 10

// The pace of bodies and replies. The client may delay a body for readGrace and a reply for
// writeGrace. Bytes that move restore waiting time, up to that limit: PaceBytes restore one second.
// A large request needs a higher pace, so that everything it holds would move within heldFor. For a
// body that is the bytes received; for a reply it is the memory that the request holds.
//
// So a request that moves just fast enough holds memory for about heldFor, however large it is. The
// parsed form of a body does not count, because the client cannot know its size.
const (
	readGrace  = 10 * time.Second
	writeGrace = 20 * time.Second
	heldFor    = time.Minute
	pieceBytes = 64 << 10
	lateFor    = 500 * time.Millisecond // for input that arrives after the reply
	lateBytes  = 256 << 10
)

// ServeHTTP serves a request within the limits.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	class := s.options.Class(r)
	x := &exchange{ResponseWriter: w, control: http.NewResponseController(w), one: r.ProtoMajor == 1, ends: r.Close, rest: writeGrace}
	x.account.budget, x.account.counted = s.options.Memory, &s.refusals
	defer x.finish()
	if x.one {
		_ = x.control.SetWriteDeadline(time.Now().Add(writeGrace)) // the deadline of the previous request may have passed
	}
	if why := s.enter(class, r); why != nil {
		s.refusals[tooMany].Add(1)
		x.body = r.Body
		w.Header().Set("Connection", "close")
		if x.one { // an HTTP/2 connection may have other requests in flight
			s.conns.yield(r.Context())
		}
		s.options.Refuse(x, r, why)
		return
	}
	defer s.exit(class)
	r = r.WithContext(context.WithValue(r.Context(), accountKey{}, &x.account))
	if r.Body != nil && r.Body != http.NoBody {
		x.body = &paced{ReadCloser: r.Body, exchange: x, rest: readGrace}
		r.Body = x.body
	}
	s.options.Handler.ServeHTTP(x, r)
}

// enter takes a place for a request, or returns a refusal.
func (s *Server) enter(class Class, r *http.Request) *Refusal {
	if class < Operator {
		if why := inReserve(r.Context()); why != nil {
			return why
		}
	}
	places := s.classes[class]
	if places == nil {
		return nil
	}
	select {
	case places <- struct{}{}:
		return nil
	default:
	}
	return &Refusal{
		Status: http.StatusTooManyRequests, Code: "too_many", After: time.Second,
		Message: itoa(cap(places)) + " requests of class " + class.String() + " are in flight, which is the limit", Hint: "send it again later",
	}
}

func (s *Server) exit(class Class) {
	if places := s.classes[class]; places != nil {
		<-places
	}
}

// exchange is a request and its reply. It sets the deadlines of both, unless the handler sets its
// own.
type exchange struct {
	http.ResponseWriter
	control *http.ResponseController
	account Account
	body    io.ReadCloser // nil if there is no body
	one     bool          // HTTP/1
	ends    bool          // the client asked to close the connection
	begun   bool          // the header of the reply is written
	duplex  bool          // the reply may begin before the body has ended
	gone    bool          // hijacked
	rest    time.Duration // how long the client may still delay the reply
	reads   atomic.Bool   // the handler sets the read deadlines
	writes  atomic.Bool

	mu    sync.Mutex
	ended bool // the handler has returned
}

// paced is the body of a request, which must arrive at a minimum pace.
type paced struct {
	io.ReadCloser
	*exchange
	rest  time.Duration // how long the client may still delay a Read
	timer *time.Timer
	whole bool // the body has ended
}

// Read implements io.Reader. The handler's time between two calls does not count.
func (b *paced) Read(p []byte) (int, error) {
	if b.whole || b.reads.Load() {
		return b.read(p)
	}
	began := time.Now()
	if b.timer == nil {
		b.timer = time.AfterFunc(b.rest, b.late)
	} else {
		b.timer.Reset(b.rest)
	}
	n, err := b.read(p)
	if !b.timer.Stop() && b.whole && !b.reads.Load() {
		_ = b.control.SetReadDeadline(time.Time{}) // the deadline would otherwise end the request's context
	}
	b.rest = left(b.rest, began, n, b.account.came.Load(), readGrace)
	return n, err
}

func (b *paced) read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.account.came.Add(int64(n))
	b.whole = b.whole || err == io.EOF
	return n, err
}

// late ends a Read that has waited too long.
func (b *paced) late() {
	if !b.reads.Load() {
		_ = b.within(b.control.SetReadDeadline, time.Now().Add(-time.Second)) // a test's connection may not support deadlines
	}
}

// left returns how long a client may delay the next call, after a call that moved n bytes while
// held bytes are held.
func left(rest time.Duration, began time.Time, n int, held int64, most time.Duration) time.Duration {
	pace := max(PaceBytes, time.Duration(held)/(heldFor/time.Second))
	rest += time.Duration(n)*time.Second/pace - time.Since(began)
	return min(max(rest, time.Millisecond), most)
}

// unread reports whether the body has not ended.
func (x *exchange) unread() bool {
	b, ok := x.body.(*paced)
	return ok && !b.whole || !ok && x.body != nil && x.body != http.NoBody
}

// WriteHeader implements http.ResponseWriter. Over HTTP/1, a reply before the body has been read
// ends the connection; otherwise the server would first wait for the body.
func (x *exchange) WriteHeader(status int) {
	if status >= 200 {
		x.begin()
	}
	x.ResponseWriter.WriteHeader(status)
}

func (x *exchange) begin() {
	if x.begun {
		return
	}
	x.begun = true
	if x.one && !x.duplex && x.unread() {
		x.Header().Set("Connection", "close")
	}
}

// Write implements io.Writer.
func (x *exchange) Write(p []byte) (written int, err error) {
	x.begin()
	for {
		piece := p[written:min(len(p), written+pieceBytes)]
		began := time.Now()
		x.patience(x.rest)
		n, err := x.ResponseWriter.Write(piece)
		x.rest = left(x.rest, began, n, x.account.Need(), writeGrace)
		written += n
		if err != nil || written == len(p) {
			x.patience(0)
			return written, err
		}
	}
}

// patience sets the deadline of the next write; 0 means none. An HTTP/2 stream needs none while it
// is idle, because a deadline ends it even if nothing is being written.
func (x *exchange) patience(d time.Duration) {
	switch {
	case x.writes.Load():
	case d > 0:
		_ = x.control.SetWriteDeadline(time.Now().Add(d))
	case !x.one:
		_ = x.control.SetWriteDeadline(time.Time{})
	}
}

// FlushError sends the written bytes.
func (x *exchange) FlushError() error {
	x.begin()
	began := time.Now()
	x.patience(x.rest)
	err := x.control.Flush()
	x.rest = left(x.rest, began, 0, x.account.Need(), writeGrace)
	x.patience(0)
	return err
}

// Flush implements http.Flusher.
func (x *exchange) Flush() { _ = x.FlushError() } // the next write returns the error

// SetReadDeadline sets a read deadline. The server then sets no read deadlines of its own.
func (x *exchange) SetReadDeadline(t time.Time) error {
	x.reads.Store(true)
	return x.within(x.control.SetReadDeadline, t)
}

// SetWriteDeadline sets a write deadline. The server then sets no write deadlines of its own.
func (x *exchange) SetWriteDeadline(t time.Time) error {
	x.writes.Store(true)
	return x.within(x.control.SetWriteDeadline, t)
}

// within sets a deadline unless the handler has returned. After that, net/http panics over HTTP/2,
// and a timer or the end of a context may still call within.
func (x *exchange) within(set func(time.Time) error, t time.Time) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return net.ErrClosed
	}
	return set(t)
}

// EnableFullDuplex allows the reply to begin before the body has ended.
func (x *exchange) EnableFullDuplex() error {
	x.duplex = true
	return x.control.EnableFullDuplex()
}

// Hijack hands the connection over to the handler.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	x.gone = true
	return x.control.Hijack()
}

// Unwrap is called by http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// finish returns the memory. After the handler, the server has little time to write the end of the
// reply, and to read and discard the rest of the body.
func (x *exchange) finish() {
	x.account.close()
	x.mu.Lock()
	x.ended = true
	x.mu.Unlock()
	if x.gone {
		return
	}
	_ = x.control.SetWriteDeadline(time.Now().Add(writeGrace))
	if x.one && x.unread() {
		_ = x.control.SetReadDeadline(time.Now().Add(lateFor))
		if x.ends && x.control.Flush() == nil {
			// net/http would close the connection. With unread bytes TCP would reset it, and the
			// client could lose the reply.
			_, _ = io.CopyN(io.Discard, x.body, lateBytes)
		}
	}
}

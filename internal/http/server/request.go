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

// Class says which bound a request counts against.
type Class uint8

// The classes.
const (
	Data     Class = iota // a request of a client: events, predictions
	Stream                // one that lasts: records that are followed, a stream of predictions
	Watch                 // health that is followed; it needs no token, so it has few places
	Operator              // metrics, and what the command line asks
	Probe                 // health by gRPC, which reads a body
	Health                // no bound
	classes
)

var classNames = [classes]string{"data", "stream", "watch", "operator", "probe", "health"}

// String returns the class in metrics.
func (c Class) String() string { return classNames[c] }

// PaceBytes is how many bytes a second of a body or a reply have to move, at least.
const PaceBytes = 8 << 10

// Pace of bodies and of replies. The client may keep a body waiting for readGrace and a
// reply for writeGrace. Bytes that move give waiting time back, never more than that:
// a second for PaceBytes, or if that is more for a part of what is there, by heldFor: of
// the bytes of the body that came, or of the memory that the request holds while it
// replies. So a request that moves just fast enough holds memory for about heldFor,
// however large it is. What a body is parsed to does not count: the client cannot know it.
const (
	readGrace  = 10 * time.Second
	writeGrace = 20 * time.Second
	heldFor    = time.Minute
	pieceBytes = 64 << 10
	lateFor    = 500 * time.Millisecond // for what a client still sends that was answered already
	lateBytes  = 256 << 10
)

// ServeHTTP answers a request within the bounds.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	class := s.options.Class(r)
	x := &exchange{ResponseWriter: w, control: http.NewResponseController(w), one: r.ProtoMajor == 1, ends: r.Close, rest: writeGrace}
	x.account.budget, x.account.counted = s.options.Memory, &s.refusals
	defer x.finish()
	if x.one {
		_ = x.control.SetWriteDeadline(time.Now().Add(writeGrace)) // that of the request before may have passed
	}
	if why := s.enter(class, r); why != nil {
		s.refusals[tooMany].Add(1)
		x.body = r.Body
		w.Header().Set("Connection", "close")
		if x.one { // one of HTTP/2 may have other requests under way
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
		Message: itoa(cap(places)) + " requests of class " + class.String() + " are under way, which is the most", Hint: "send it again later",
	}
}

func (s *Server) exit(class Class) {
	if places := s.classes[class]; places != nil {
		<-places
	}
}

// exchange is a request and its reply. It gives both their time, unless the handler
// sets deadlines of its own.
type exchange struct {
	http.ResponseWriter
	control *http.ResponseController
	account Account
	body    io.ReadCloser // nil is none
	one     bool          // HTTP/1
	ends    bool          // the client asked for the connection to be closed
	begun   bool          // the header of the reply was written
	duplex  bool          // the reply may begin before the body has ended
	gone    bool          // hijacked
	rest    time.Duration // that the client may keep the reply waiting
	reads   atomic.Bool   // deadlines of reads are the handler's
	writes  atomic.Bool

	mu    sync.Mutex
	ended bool // the handler has returned
}

// paced is the body of a request, which has to come at a minimum pace.
type paced struct {
	io.ReadCloser
	*exchange
	rest  time.Duration // that the client may keep a Read waiting
	timer *time.Timer
	whole bool // it has ended
}

// Read implements io.Reader. The time of the handler between two calls does not count.
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
		_ = b.control.SetReadDeadline(time.Time{}) // it would end the request's context
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

// late ends a Read that has waited for too long.
func (b *paced) late() {
	if !b.reads.Load() {
		_ = b.within(b.control.SetReadDeadline, time.Now().Add(-time.Second)) // a connection of a test may have none
	}
}

// left returns how long a client may keep the next call waiting, after one that moved n
// bytes while so many are held.
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

// WriteHeader implements http.ResponseWriter. Over HTTP/1 a reply to a body that was
// not read ends the connection: the server would wait for the body first.
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

// patience gives the next write its time. 0 is no deadline. A stream of HTTP/2 needs
// that: a deadline ends it even if it has nothing to write.
func (x *exchange) patience(d time.Duration) {
	switch {
	case x.writes.Load():
	case d > 0:
		_ = x.control.SetWriteDeadline(time.Now().Add(d))
	case !x.one:
		_ = x.control.SetWriteDeadline(time.Time{})
	}
}

// FlushError sends the bytes written.
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

// SetReadDeadline takes the time of reads over.
func (x *exchange) SetReadDeadline(t time.Time) error {
	x.reads.Store(true)
	return x.within(x.control.SetReadDeadline, t)
}

// SetWriteDeadline takes the time of writes over.
func (x *exchange) SetWriteDeadline(t time.Time) error {
	x.writes.Store(true)
	return x.within(x.control.SetWriteDeadline, t)
}

// within sets a deadline unless the handler has returned. After that net/http panics
// over HTTP/2, and a timer or the end of a context may still be on its way here.
func (x *exchange) within(set func(time.Time) error, t time.Time) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return net.ErrClosed
	}
	return set(t)
}

// EnableFullDuplex lets the reply begin before the body has ended.
func (x *exchange) EnableFullDuplex() error {
	x.duplex = true
	return x.control.EnableFullDuplex()
}

// Hijack hands the connection over to the handler.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	x.gone = true
	return x.control.Hijack()
}

// Unwrap is for http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// finish gives the memory back. The server has little time behind the handler to write
// the end of the reply, and to read and drop the rest of the body.
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
			// net/http would close the connection, and with bytes that are not read
			// TCP resets it, which can take the reply from the client.
			_, _ = io.CopyN(io.Discard, x.body, lateBytes)
		}
	}
}

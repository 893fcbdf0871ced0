package serving

import (
	"context"
	"encoding/binary"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/afterbay/afterbay/internal/http/server"
)

// frames decompresses the messages of a gRPC request. It charges each message to the account of the
// request before it allocates memory, because gRPC itself would decompress a message of any ratio.
// A message returns its memory when it is answered. Until then frames does not read the next one,
// because gRPC buffers everything that it can read.
type frames struct {
	in       io.ReadCloser
	ending   context.Context // done when the process ends
	r        *http.Request
	coding   string
	most     int64
	rest     []byte // rest of the current message
	room     *server.Room
	later    bool          // a message has been read
	answered chan struct{} // one element if the last message is answered
	closed   chan struct{}
	close    func()
	failed   error
	refused  atomic.Pointer[error] // failed, unless the connection caused it
	prefixed [prefixBytes]byte
}

const (
	prefixBytes = 5 // precede a message: a byte that is 1 if it is compressed, and its length
	copies      = 3 // copies of a message: here, in gRPC, and in its handler
)

// framed returns a gRPC request with frames as its body, for messages of at most bytesMax. The body
// ends once ending is done.
func framed(ending context.Context, r *http.Request, bytesMax int64) *http.Request {
	coding := r.Header.Get("Grpc-Encoding")
	if coding == "identity" {
		coding = ""
	}
	f := &frames{
		in: r.Body, ending: ending, coding: coding, most: bytesMax, room: server.RoomOf(r.Context()),
		answered: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	f.close = sync.OnceFunc(func() { close(f.closed) })
	f.r = r.WithContext(context.WithValue(r.Context(), framesKey{}, f))
	f.r.Body = f
	return f.r
}

type framesKey struct{}

// unread returns why a message of a call is missing; err is gRPC's error. For a refused message,
// frames passes an empty one to gRPC. Otherwise gRPC would return Unavailable, as for all body
// errors, and clients would retry.
func unread(ctx context.Context, err error) error {
	if f, _ := ctx.Value(framesKey{}).(*frames); f != nil {
		if why := f.refused.Load(); why != nil {
			return *why
		}
	}
	return err
}

// answered allows the next message of a stream to be read. Call it once for each message.
func answered(ctx context.Context) {
	if f, _ := ctx.Value(framesKey{}).(*frames); f != nil {
		f.answered <- struct{}{} // reading has removed the previous element
	}
}

// Close implements io.Closer. gRPC calls it at the end of the call.
func (f *frames) Close() error {
	f.close()
	return f.in.Close()
}

// Read implements io.Reader.
func (f *frames) Read(p []byte) (int, error) {
	if len(f.rest) == 0 && f.failed == nil {
		if f.failed = f.next(); f.failed != nil {
			if _, ok := status.FromError(f.failed); ok {
				refused := f.failed
				f.refused.Store(&refused)
				f.rest, f.failed = make([]byte, prefixBytes), io.EOF
			}
		}
	}
	n := copy(p, f.rest)
	if f.rest = f.rest[n:]; n > 0 {
		return n, nil
	}
	return 0, f.failed
}

// next reads a message.
func (f *frames) next() error {
	if _, err := io.ReadFull(f.in, f.prefixed[:]); err != nil {
		if err != io.EOF && f.ending.Err() != nil {
			return errEnding // gRPC would report it as an i/o timeout
		}
		return err
	}
	if f.later {
		select {
		case <-f.answered:
		case <-f.closed:
			return http.ErrBodyReadAfterClose
		}
	}
	f.room.Close()
	f.later = true
	size := int64(binary.BigEndian.Uint32(f.prefixed[1:]))
	if size > f.most {
		return status.Errorf(codes.ResourceExhausted, "a message of %d bytes: at most %d are taken", size, f.most)
	}
	message, err := f.read(io.LimitReader(f.in, size), size)
	switch {
	case err != nil:
		return grpcError(f.r.Context(), err)
	case f.prefixed[0] == 0 && int64(len(message)) < size:
		return io.ErrUnexpectedEOF
	}
	if err := f.room.Take(copies * int64(len(message))); err != nil {
		return grpcError(f.r.Context(), err)
	}
	f.prefixed[0] = 0
	binary.BigEndian.PutUint32(f.prefixed[1:], uint32(len(message)))
	f.rest = append(append(make([]byte, 0, prefixBytes+len(message)), f.prefixed[:]...), message...)
	return nil
}

// read reads a message with the limits of a request body.
func (f *frames) read(in io.Reader, size int64) ([]byte, error) {
	one := (&http.Request{Body: io.NopCloser(in), ContentLength: size, Header: http.Header{}}).WithContext(f.r.Context())
	if f.prefixed[0] == 1 {
		one.Header.Set("Content-Encoding", f.coding)
		one.ContentLength = -1
	}
	return f.room.ReadBody(one, f.most, server.Gzip)
}

package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/afterbay/afterbay/internal/http/ingest"
)

// flushAfter is how long a line of a stream may wait for others.
const flushAfter = 20 * time.Millisecond

// streamLines sends what all yields, a line each, until it ends or the server
// does. An error before the first line is the reply; one after it is sent as
// the last line, {"error":...}.
func streamLines[T any](s *Server, w http.ResponseWriter, r *http.Request, all func(context.Context) iter.Seq2[T, error], encode func([]byte, T) []byte) {
	ctx, cancel := context.WithCancel(r.Context())
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-s.ending:
			cancel()
		case <-ctx.Done():
		}
	})
	defer watch.Wait()
	defer cancel()
	lines := newLineWriter(w)
	defer lines.close()
	var line []byte
	for item, err := range all(ctx) {
		switch {
		case err != nil && ctx.Err() != nil:
			return
		case err != nil && !lines.begun:
			refuse(w, err)
			return
		case err != nil:
			text, _ := json.Marshal(ingest.Problem{Error: err.Error()})
			_ = lines.write(text) // the client is gone: nobody is left to tell
			return
		}
		line = encode(line[:0], item)
		if lines.write(line) != nil {
			return
		}
	}
	lines.begin()
}

// lineWriter sends lines. What waits goes out when nothing follows for a while.
type lineWriter struct {
	w     http.ResponseWriter
	begun bool // by the one goroutine that writes

	mu     sync.Mutex // guards the rest
	buffer *bufio.Writer
	flush  *time.Timer
	closed bool
}

func newLineWriter(w http.ResponseWriter) *lineWriter {
	l := &lineWriter{w: w, buffer: bufio.NewWriterSize(w, 32<<10)}
	l.flush = time.AfterFunc(time.Hour, l.send)
	l.flush.Stop()
	return l
}

func (l *lineWriter) begin() {
	if !l.begun {
		l.begun = true
		l.w.Header().Set("Content-Type", "application/x-ndjson")
		l.w.WriteHeader(http.StatusOK)
		l.send()
	}
}

func (l *lineWriter) write(line []byte) error {
	l.begin()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.buffer.Buffered() == 0 {
		l.flush.Reset(flushAfter)
	}
	if _, err := l.buffer.Write(line); err != nil {
		return err
	}
	return l.buffer.WriteByte('\n')
}

func (l *lineWriter) send() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		// The next write reports what is wrong with the connection.
		_ = l.buffer.Flush()
		_ = http.NewResponseController(l.w).Flush()
	}
}

func (l *lineWriter) close() {
	l.flush.Stop()
	if l.begun {
		l.send()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

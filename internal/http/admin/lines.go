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

// flushAfter is how long a line may wait for more lines before it is sent.
const flushAfter = 20 * time.Millisecond

// streamLines sends the items of all, one on each line, until they or the server end. An error
// before the first line is sent as an error reply; a later one is sent as the last line,
// {"error":...}.
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
			_ = lines.write(text) // an error means that the client has disconnected
			return
		}
		line = encode(line[:0], item)
		if lines.write(line) != nil {
			return
		}
	}
	lines.begin()
}

// lineWriter sends lines. It flushes its buffer if no more lines follow for flushAfter.
type lineWriter struct {
	w     http.ResponseWriter
	begun bool // owned by the writing goroutine

	mu     sync.Mutex // guards the fields below
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
		// The next write reports an error of the connection.
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

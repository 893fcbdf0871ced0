package serving

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/afterbay/afterbay/internal/http/server"
)

const (
	chunkRows   = 1024                 // rows answered together, if the model is fast
	chunkTime   = 5 * time.Millisecond // how long an answer waits for others, if the model is slow
	streamBytes = windowBytes + 2*outBytes
	outBytes    = 64 << 10         // answers collected before they go to the backlog
	lingerEach  = time.Second      // wait for more of a body that is discarded
	lingerTotal = 30 * time.Second // total time for discarding a body
	endGrace    = 20 * time.Second // how long the client may pause before it has read everything
	idleGrace   = 10 * time.Second // the same, if it has sent nothing for the idle timeout
)

// stream is one request for predictions, record by record. Its goroutine reads the body into a
// window. It answers all complete records in the window before it reads again. So an answer never
// waits for a record that was not sent yet. A second goroutine writes the contents of the backlog,
// and flushes when the backlog is empty.
type stream struct {
	*settings
	h        *Handler
	w        http.ResponseWriter
	control  *http.ResponseController
	raw      io.Reader // the body before decompression
	window   *window
	room     *server.Room // works while records are parsed and answers are written
	split    splitter
	parser   parser
	chunk    *chunk
	size     int // rows in the next chunk
	backlog  *backlog
	out      []byte
	sum      summary
	index    int64
	begun    bool
	writer   chan error
	deadline time.Time
}

// predictStream handles POST /v1/models/{name}:predict-stream.
func (h *Handler) predictStream(w http.ResponseWriter, r *http.Request, m *served) {
	control := http.NewResponseController(w)
	// Without full duplex, net/http discards up to 262,144 bytes of the body before the first byte
	// of the answer. HTTP/2 is always full duplex.
	_ = control.EnableFullDuplex()
	s := &stream{h: h, w: w, control: control, raw: r.Body, sum: summary{Done: true, Model: m.pinned()}, chunk: newChunk(m), size: m.callRows}
	var bad *refusal
	if s.settings, bad = parseSettings(r, m); bad != nil {
		s.refuse(bad)
		return
	}
	s.room = server.RoomOf(r.Context())
	defer s.room.Rest()
	if err := s.room.Reserve(streamBytes); err != nil {
		s.refuse(asRefusal(err, false))
		return
	}
	if s.reply == server.Zstd && s.room.Reserve(zstdBytes) != nil {
		s.reply = "" // an uncompressed answer is better than none
	}
	body := server.NewBody(r, s.encoding, h.options.RatioMax)
	defer body.Close()
	s.window = newWindow(body, h.options.RecordBytesMax)
	s.window.more = func(n int) error { return s.room.Reserve(int64(n)) }
	stop := context.AfterFunc(h.ctx, func() { _ = control.SetReadDeadline(time.Now()) })
	defer stop()
	_ = control.SetWriteDeadline(time.Time{})
	s.run()
}

func (s *stream) run() {
	defer func() {
		if s.backlog != nil {
			s.backlog.close()
		}
	}()
	if bad := s.prepare(); bad != nil {
		s.refuse(bad)
		return
	}
	if !s.expects || s.window.begun {
		s.begin() // many clients wait for the headers before they send records
	}
	complete := s.answerAll()
	if !s.begun {
		s.begin()
	}
	s.out = s.render.done(s.out, &s.sum)
	s.backlog.last(s.out)
	if !complete {
		s.linger()
	}
	err := s.finish()
	header := s.w.Header()
	header.Set("X-Afterbay-Records", strconv.FormatInt(s.sum.Records, 10))
	header.Set("X-Afterbay-Errors", strconv.FormatInt(s.sum.Errors, 10))
	header.Set("X-Afterbay-Status", s.sum.status())
	if err != nil {
		panic(http.ErrAbortHandler) // so that the client sees that the stream was cut off
	}
}

func (s *summary) status() string {
	switch {
	case s.Fatal != nil:
		return "fatal"
	case s.Aborted != "":
		return "aborted"
	}
	return "ok"
}

// refuse replies that there will be no predictions.
func (s *stream) refuse(bad *refusal) {
	_ = s.control.SetWriteDeadline(time.Now().Add(lingerTotal))
	bad.write(s.w)
	_ = s.control.Flush()
	s.linger()
}

// prepare selects how to read the body. It reads and checks a CSV header while the request can
// still be refused.
func (s *stream) prepare() *refusal {
	switch s.format {
	case formatLines:
		s.split, s.parser = &lines{}, newObjects(s.model)
		return nil
	case formatJSON:
		s.split, s.parser = &elements{}, newObjects(s.model)
		return nil
	}
	table := &cells{}
	s.split, s.parser = &cellLines{}, table
	if !s.header {
		table.ordered(s.model)
		return nil
	}
	for {
		first, ok := s.split.next(s.window)
		switch {
		case ok && first.fault != "":
			return refuse(http.StatusUnprocessableEntity, "bad_header", "line %d: %s", first.line, first.fault)
		case ok:
			if err := table.header(s.model, first.text); err != nil {
				return refuse(http.StatusUnprocessableEntity, "bad_header", "%v", err)
			}
			return nil
		case s.window.eof:
			return refuse(http.StatusUnprocessableEntity, "bad_header", "the body is empty: CSV starts with a header that names the columns, or say text/csv; header=absent")
		}
		if err := s.fill(); err != nil {
			why := s.explainRead(err)
			return refuse(http.StatusBadRequest, why.Code, "%s", why.Message)
		}
	}
}

// begin sends the headers and starts to write answers.
func (s *stream) begin() {
	header := s.w.Header()
	header.Set("Content-Type", s.render.mediaType())
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // turns off buffering in proxies
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Trailer", "X-Afterbay-Records, X-Afterbay-Errors, X-Afterbay-Status")
	header.Add("Vary", "Accept, Accept-Encoding")
	if s.reply != "" {
		header.Set("Content-Encoding", s.reply)
	}
	s.w.WriteHeader(http.StatusOK)
	s.begun = true
	s.backlog = newBacklog(s.h.spills)
	s.out = s.render.begin(s.out)
	s.writer = make(chan error, 1)
	go func() { s.writer <- s.write() }() // finish waits for it
}

// answerAll answers the records of the body. It reports whether it has read the whole body.
func (s *stream) answerAll() bool {
	s.model.shared.Enter() // announces rows, except while waiting for the client
	defer s.model.shared.Leave()
	for {
		s.chunk.reset()
		if err := s.room.Work(); err != nil {
			s.sum.Fatal = s.explainRead(err)
			return false
		}
		more, fatal := s.gather()
		s.room.Rest()
		if s.chunk.Rows.N > 0 {
			s.predict()
		}
		_ = s.room.Work() // if the request has ended, the available answers are still sent
		wanted := s.emit()
		s.room.Rest()
		if !wanted {
			return false
		}
		switch {
		case fatal != nil:
			s.sum.Fatal = fatal
			return false
		case more:
			if s.flush() != nil {
				return false
			}
			continue
		case s.window.eof:
			return true
		case s.h.ctx.Err() != nil:
			s.sum.Fatal = &reason{Code: "shutting_down", Message: "the process is ending", Retryable: true}
			return false
		}
		if s.begun {
			if err := s.flush(); err != nil {
				return false
			}
		}
		s.model.shared.Leave()
		err := s.fill()
		s.model.shared.Enter()
		if err != nil {
			s.sum.Fatal = s.explainRead(err)
			return false
		}
		if !s.begun {
			s.begin()
		}
	}
}

// predict scores the chunk. It adapts the size of the next chunk to the time taken; the minimum is
// the size of a model call.
func (s *stream) predict() {
	start := time.Now()
	s.chunk.predict(s.ctx)
	switch took := time.Since(start); {
	case took < chunkTime/2:
		s.size = min(2*s.size, max(chunkRows, s.model.callRows))
	case took > chunkTime:
		s.size = max(s.size/2, s.model.callRows)
	}
}

// gather moves complete records from the window to the chunk. more is true if the chunk is full.
func (s *stream) gather() (more bool, fatal *reason) {
	for len(s.chunk.marks) < s.size {
		r, ok := s.split.next(s.window)
		switch {
		case !ok:
			return false, nil
		case r.fatal:
			return false, &reason{Code: "bad_body", Message: r.fault, Line: r.line}
		}
		right, torn := s.chunk.add(s.parser, r)
		if torn && !right {
			s.split.again(s.window, r)
		}
		if !right && s.onError == onErrorFail {
			return true, nil
		}
	}
	return true, nil
}

// emit writes the answers of the chunk. It returns false if the stream must end.
func (s *stream) emit() bool {
	row := 0
	var right, wrong int64
	for i := range s.chunk.marks {
		m := &s.chunk.marks[i]
		if m.fault == "" {
			s.out = s.render.result(s.out, s.index, m.id, s.chunk.Answer(row))
			right++
		} else {
			wrong++
			s.sum.Errors++
			if s.onError == onErrorSkip {
				s.sum.Skipped++
			} else {
				s.out = s.render.fault(s.out, s.index, m)
			}
		}
		if m.fault == "" || m.code == "model_failed" {
			row++
		}
		s.index++
		if m.fault != "" && s.enough() {
			break
		}
		if len(s.out) >= outBytes && s.flush() != nil {
			break
		}
	}
	s.sum.Records = s.index
	s.sum.OK += right
	s.h.stats.count(right, wrong)
	return s.sum.Aborted == "" && s.sum.Fatal == nil
}

// enough reports whether the record just counted is the invalid one that ends the stream.
func (s *stream) enough() bool {
	switch {
	case s.onError == onErrorFail:
		s.sum.Aborted = "bad_record"
	case s.maxErrors >= 0 && s.sum.Errors > s.maxErrors:
		s.sum.Aborted = "max_errors"
	}
	return s.sum.Aborted != ""
}

// flush passes the answers to the writer.
func (s *stream) flush() error {
	if len(s.out) == 0 {
		return nil
	}
	if !s.begun {
		s.begin()
	}
	worked := s.room.Rest()
	err := s.backlog.put(s.out)
	if worked {
		_ = s.room.Work()
	}
	s.out = s.out[:0]
	if errors.Is(err, errNotRead) {
		s.h.stats.unread.Add(1)
		s.sum.Fatal = &reason{Code: "response_not_read", Message: fmt.Sprintf(
			"%d bytes of responses wait, which is the limit: read them while you send", s.h.spills.each)}
	} else if err != nil {
		s.sum.Fatal = &reason{Code: "disconnected", Message: err.Error()}
	}
	return err
}

// fill reads more of the body.
func (s *stream) fill() error {
	now := time.Now()
	if idle := s.h.options.IdleTimeout; s.deadline.Sub(now) < idle-idle/8 {
		s.deadline = now.Add(idle) // setting a deadline for each read would be costly
		_ = s.control.SetReadDeadline(s.deadline)
		if s.h.ctx.Err() != nil {
			_ = s.control.SetReadDeadline(now)
		}
	}
	return s.window.fill()
}

const idleTimeout = "idle_timeout"

func (s *stream) explainRead(err error) *reason {
	var bad *server.Refusal
	switch {
	case s.h.ctx.Err() != nil:
		return &reason{Code: "shutting_down", Message: "the process is ending", Retryable: true}
	case errors.As(err, &bad):
		return &reason{Code: bad.Code, Message: bad.Error(), Retryable: bad.After > 0}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &reason{Code: idleTimeout, Message: "nothing came for " + s.h.options.IdleTimeout.String(), Retryable: true}
	}
	return &reason{Code: "body_cut", Message: "the body was cut: " + err.Error(), Retryable: true}
}

// write sends the contents of the backlog until its end.
func (s *stream) write() error {
	out := newOutBody(s.w, s.reply)
	spare := make([]byte, 0, outBytes)
	dirty := true // because of the headers
	for {
		p, err := s.backlog.take(spare, false)
		if p == nil && err == nil {
			if dirty {
				if err := errors.Join(out.Flush(), s.control.Flush()); err != nil {
					return s.broken(err)
				}
				dirty = false
			}
			p, err = s.backlog.take(spare, true)
		}
		if err != nil {
			return err
		}
		if p == nil {
			if err := out.Close(); err != nil {
				return s.broken(err)
			}
			return nil
		}
		dirty = true
		for rest := p; len(rest) > 0; {
			n, err := out.Write(rest[:min(len(rest), pieceBytes)])
			s.backlog.advance(n, err)
			if err != nil {
				return s.broken(err)
			}
			rest = rest[n:]
		}
		if spare = p; cap(spare) > 2*memoryBytes {
			spare = make([]byte, 0, outBytes)
		}
	}
}

// broken records the write error and ends the reading.
func (s *stream) broken(err error) error {
	s.backlog.advance(0, err)
	_ = s.control.SetReadDeadline(time.Now())
	return err
}

// linger reads and discards further input: many clients read nothing before they have sent
// everything.
func (s *stream) linger() {
	end := time.Now().Add(lingerTotal)
	buffer := make([]byte, pieceBytes)
	for time.Now().Before(end) && s.h.ctx.Err() == nil {
		_ = s.control.SetReadDeadline(time.Now().Add(lingerEach))
		if _, err := s.raw.Read(buffer); err != nil {
			return
		}
	}
}

// finish waits until the client has read everything or reads too slowly.
func (s *stream) finish() error {
	grace := min(endGrace, s.h.options.IdleTimeout)
	if s.sum.Fatal != nil && s.sum.Fatal.Code == idleTimeout {
		grace = min(idleGrace, grace)
	}
	timer := time.NewTicker(grace)
	defer timer.Stop()
	before := s.backlog.taken()
	for {
		select {
		case err := <-s.writer:
			return err
		case <-timer.C:
			if now := s.backlog.taken(); now-before >= int64(grace.Seconds()*server.PaceBytes) {
				before = now
				continue
			}
			_ = s.control.SetWriteDeadline(time.Now())
			return errors.Join(errNotRead, <-s.writer, io.ErrUnexpectedEOF)
		}
	}
}

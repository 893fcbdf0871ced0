package gateway

import (
	"time"

	"github.com/afterbay/afterbay/internal/gateway/hub"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/stream"
)

// write sends queued answers and results. If patient is false, it does not read the log.
func (s *session) write(patient bool) (more bool) {
	answers, leaving, subscription := s.next()
	for _, frame := range answers {
		if !s.send(frame) {
			return false
		}
	}
	if leaving != nil {
		s.send(leaving)
		s.socket.close(closeCode(leaving.Code))
		s.sever()
		return false
	}
	state := hub.Idle
	if subscription != nil {
		state = subscription.State()
	}
	if state != hub.Queued && !s.flush() || state == hub.Idle {
		return false
	}
	if state == hub.Behind && !patient {
		return true
	}
	return s.results(subscription) && subscription.State() != hub.Idle
}

// results sends the next results. It returns false if this connection can send no more.
func (s *session) results(subscription *hub.Subscription) bool {
	records, gap, err := s.gateway.read(s.ctx, s.identity, subscription, s.correlation)
	switch {
	case gap != nil:
		return s.send(gap) && s.flush()
	case err != nil && s.ctx.Err() == nil:
		s.leave(closeInternal, retryAfterDrain) // leave makes the writer run again
		return false
	case err != nil:
		return false
	}
	return s.deliver(records)
}

// next returns the queued answers, and the last frame if the connection must end now. A connection
// that leaves first waits for its appends.
func (s *session) next() ([]wire.Frame, *wire.Disconnect, *hub.Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := s.answers
	s.answers = nil
	s.room.Broadcast()
	if s.leaving != nil && len(s.events)+s.appending == 0 {
		s.leaving.RetryAfterMs = max(0, time.Until(s.back).Milliseconds()) // leave may be long ago
		return answers, s.leaving, nil
	}
	return answers, nil, s.subscription
}

// deliver sends results. It returns false if the connection is broken.
func (s *session) deliver(records []stream.Record) bool {
	for i := range records {
		result, frame := s.gateway.result(s.identity, &records[i])
		if frame == nil {
			continue
		}
		s.mu.Lock()
		s.sent = records[i].Offset
		if s.unacked++; s.unacked == s.ackEvery {
			s.owed = time.Now()
		}
		if result.Status.Terminal() || result.Status == wire.StatusError {
			s.forget(result.Event)
		}
		s.mu.Unlock()
		if !s.send(frame) {
			return false
		}
	}
	return s.flush()
}

// flush writes the buffered messages. It returns false if the connection is broken.
func (s *session) flush() bool {
	if s.socket.flush() != nil {
		s.sever()
		return false
	}
	return true
}

// send writes or buffers a frame. It returns false if the connection is broken.
func (s *session) send(frame wire.Frame) bool {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	message, err := wire.Append((*buffer)[:0], frame)
	if err != nil {
		s.gateway.metrics.Unreadable.Add(1)
		s.gateway.options.Logger.Error("gateway: result", "error", err, "correlation", wire.CorrelationOf(frame))
		return true
	}
	if err := s.socket.send(message); err != nil {
		s.sever()
		return false
	}
	return true
}

package gateway

import (
	"time"

	"github.com/afterbay/afterbay/internal/gateway/hub"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/stream"
)

// write sends what there is to be sent, in one piece. Where it is not patient it
// reads nothing of the log.
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

// results sends the next results; false where there are none for this connection any
// more.
func (s *session) results(subscription *hub.Subscription) bool {
	records, gap, err := s.gateway.read(s.ctx, s.identity, subscription, s.correlation)
	switch {
	case gap != nil:
		return s.send(gap) && s.flush()
	case err != nil && s.ctx.Err() == nil:
		s.leave(closeInternal, retryAfterDrain) // it has this called again
		return false
	case err != nil:
		return false
	}
	return s.deliver(records)
}

// next returns the answers that wait, and whether the connection is to end: that
// of one that leaves waits for its events.
func (s *session) next() ([]wire.Frame, *wire.Disconnect, *hub.Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := s.answers
	s.answers = nil
	s.room.Broadcast()
	if s.leaving != nil && len(s.events)+s.appending == 0 {
		s.leaving.RetryAfterMs = max(0, time.Until(s.back).Milliseconds()) // this may be long after leave
		return answers, s.leaving, nil
	}
	return answers, nil, s.subscription
}

// deliver sends results; false where the connection is broken.
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

// flush writes what send collected; false where the connection is broken.
func (s *session) flush() bool {
	if s.socket.flush() != nil {
		s.sever()
		return false
	}
	return true
}

// send writes a frame, or has it wait for flush; false where the connection is
// broken.
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

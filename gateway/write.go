package gateway

import (
	"errors"
	"time"

	"github.com/afterbay/afterbay/gateway/hub"
	"github.com/afterbay/afterbay/gateway/wire"
	"github.com/afterbay/afterbay/stream"
)

// write sends what there is to be sent, until there is nothing more.
func (s *session) write() {
	for {
		answers, leaving, subscription := s.next()
		for _, frame := range answers {
			if !s.send(frame) {
				return
			}
		}
		if leaving != nil {
			s.send(leaving)
			s.socket.close(closeCode(leaving.Code))
			s.sever()
			return
		}
		if len(answers) > 0 && !s.flush() {
			return
		}
		if subscription == nil {
			if len(answers) == 0 {
				return
			}
			continue
		}
		records, err := subscription.Read(s.ctx)
		var gap *hub.Gap
		switch {
		case errors.As(err, &gap):
			s.gateway.metrics.Gaps.Add(1)
			if !s.send(s.gateway.gapFrame(s.identity, gap)) || !s.flush() {
				return
			}
			continue
		case err != nil:
			if s.ctx.Err() == nil {
				s.gateway.options.Logger.Error("gateway: read results", "error", err)
				s.leave(closeInternal, retryAfterDrain)
				continue
			}
			return
		case len(records) == 0 && len(answers) == 0:
			return
		}
		if !s.deliver(records) {
			return
		}
	}
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
	message, err := wire.Encode(frame)
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

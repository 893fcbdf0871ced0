package gateway

import (
	"net/http"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/stream"
)

// giveUp queues a cancel of an event for the log, after the events that came before it. A cancel
// does not count against the limit of pending events, but it counts as an event of the tenant.
func (s *session) giveUp(f *wire.Cancel) {
	if !wire.ValidID(f.EventID) {
		s.reject(badEvent(f.EventID, "", wire.CheckID("eventId", f.EventID)))
		return
	}
	record := wire.CancelRecord(s.gateway.options.Inbox, s.identity.Tenant, s.identity.Client, f.EventID, s.correlation)
	if refused := s.admitCancel(f.EventID, record); refused != nil {
		s.gateway.metrics.Refused.Add(1)
		s.answer(refused)
	}
}

// admitCancel queues a cancel, or returns why the gateway does not accept it.
func (s *session) admitCancel(id string, record stream.Record) *wire.Backpressure {
	draining := s.gateway.leaving()
	s.mu.Lock()
	defer s.mu.Unlock()
	if draining || s.leaving != nil || s.ended {
		return &wire.Backpressure{Reason: wire.ReasonDraining, EventID: id, RetryAfterMs: retryAfterDrain.Milliseconds()}
	}
	if taken, refused := s.gateway.quota(s.identity, 1); taken == 0 {
		refused.EventID = id
		return &refused
	}
	if !s.gateway.appends.TryAcquire(heldBytes(0)) {
		s.gateway.metrics.Overloaded.Add(1)
		return &wire.Backpressure{Reason: wire.ReasonOverload, EventID: id, RetryAfterMs: retryAfterOverload.Milliseconds()}
	}
	s.enqueue(id, record)
	return nil
}

func isCancel(r *stream.Record) bool { return header.Get(r, header.Inbox) == wire.InboxCancel }

// serveCancel accepts a cancel by HTTP request, and answers when the cancel is in the log.
func (g *Gateway) serveCancel(w http.ResponseWriter, r *http.Request) {
	who, ok := g.begin(w, r)
	if !ok {
		return
	}
	defer g.work.Done()
	body, err := server.ReadBody(r, int64(g.options.MessageBytes))
	if err != nil {
		g.refuse(w, unread(err, cancelHint))
		return
	}
	frame, _ := wire.ParseClient(body)
	cancel, ok := frame.(*wire.Cancel)
	if !ok || !wire.ValidID(cancel.EventID) {
		g.refuse(w, &refusal{http.StatusBadRequest, "no frame of type cancel with the id of an event", cancelHint})
		return
	}
	if taken, refusal := g.tenants.Take(who.Tenant, 1); taken == 0 {
		g.metrics.Refused.Add(1)
		g.refuse(w, &overQuota{refusal})
		return
	}
	record := wire.CancelRecord(g.options.Inbox, who.Tenant, who.Client, cancel.EventID, correlationIn(w))
	if err := g.append([]stream.Record{record}); err != nil {
		g.refuse(w, errNotTaken)
		return
	}
	ingest.WriteJSON(w, http.StatusAccepted, map[string]string{"type": "accepted", "eventId": cancel.EventID})
}

const cancelHint = `send {"type":"cancel","eventId":"..."}`

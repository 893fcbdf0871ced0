package sequence_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/gateway/sequence"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/stream"
)

// model is what a sequencer promises, written as plainly as can be: lists that are
// searched from the front.
type model struct {
	limits  sequence.Limits
	clock   time.Time
	known   []*known // in the order they came
	waiting []*known // likewise, of those that were held
	clients map[string]*numbers

	results   []wire.Result
	forwarded []string // client/event
	bad       int
}

type numbers struct {
	seq      uint64
	sequence int64
}

type known struct {
	event  wire.Event
	came   time.Time // the greatest time of an append so far
	at     time.Time
	state  string // forwarded, held, ended, redriven
	result wire.Result
}

func newModel(l sequence.Limits) *model { return &model{limits: l, clients: map[string]*numbers{}} }

func (m *model) find(tenant, client, id string) *known {
	for _, k := range m.known {
		if k.event.Tenant == tenant && k.event.Client == client && k.event.ID == id {
			return k
		}
	}
	return nil
}

func (m *model) of(tenant, client string) *numbers {
	key := wire.Key(tenant, client)
	if m.clients[key] == nil {
		m.clients[key] = &numbers{}
	}
	return m.clients[key]
}

func (m *model) held(tenant, client string) (list []*known, bytes int) {
	for _, k := range m.known {
		if k.state == "held" && k.event.Tenant == tenant && k.event.Client == client {
			list, bytes = append(list, k), bytes+len(k.event.Payload)
		}
	}
	return list, bytes
}

func (m *model) write(r wire.Result) {
	n := m.of(r.Tenant, r.Client)
	n.seq++
	r.Seq = n.seq
	m.results = append(m.results, r)
}

func (m *model) end(k *known, r wire.Result) {
	r.Tenant, r.Client, r.Event, r.Causal, r.Correlation = k.event.Tenant, k.event.Client, k.event.ID, k.event.Causal, k.event.Correlation
	k.state, k.result = "ended", r
	m.write(r)
}

func (m *model) reject(k *known, code string, retryable bool, at time.Time) {
	m.end(k, wire.Result{Status: wire.StatusRejected, Time: at, Error: &wire.Error{Code: code, Retryable: retryable}})
}

func (m *model) forward(k *known) {
	switch {
	case k.event.Time.After(k.at.Add(m.limits.Ahead)):
		m.reject(k, wire.CodeTimestamp, false, k.at)
	case len(k.event.Payload) > m.limits.EventBytes:
		m.reject(k, wire.CodeTooLarge, false, k.at)
	default:
		k.state = "forwarded"
		m.forwarded = append(m.forwarded, wire.Key(k.event.Tenant, k.event.Client)+"/"+k.event.ID)
	}
}

func (m *model) take(r *stream.Record) {
	switch header.Get(r, header.Inbox) {
	case wire.InboxEvent:
		e, err := wire.ParseSubmit(r)
		if err != nil {
			m.bad++
			return
		}
		m.passes(r.Time)
		m.submit(e, r.Time)
		m.forget()
	case wire.InboxOutcome:
		if result, err := wire.ParseOutcome(r); err != nil {
			m.bad++
		} else {
			m.outcome(result)
		}
	case wire.InboxTime:
		m.passes(r.Time)
		m.forget()
	default:
		m.bad++
	}
}

func (m *model) submit(e wire.Event, at time.Time) {
	if k := m.find(e.Tenant, e.Client, e.ID); k != nil {
		switch {
		case string(k.event.Payload) != string(e.Payload):
			m.write(wire.Result{Tenant: e.Tenant, Client: e.Client, Event: e.ID, Causal: e.Causal, Correlation: e.Correlation, Status: wire.StatusError, Time: at,
				Error: &wire.Error{Code: wire.CodeEventIDConflict}})
		case k.state == "ended" || k.state == "redriven":
			again := k.result
			again.Duplicate = true
			m.write(again)
		}
		return
	}
	k := &known{event: e, came: m.clock, at: at}
	m.known = append(m.known, k)
	n := m.of(e.Tenant, e.Client)
	held, bytes := m.held(e.Tenant, e.Client)
	same := false
	for _, h := range held {
		same = same || h.event.Sequence == e.Sequence
	}
	switch {
	case e.Sequence == 0:
		m.forward(k)
	case e.Sequence <= n.sequence:
		m.reject(k, wire.CodeSequence, false, at)
	case e.Sequence == n.sequence+1:
		n.sequence++
		m.forward(k)
		for again := true; again; {
			again = false
			for _, h := range held {
				if h.state == "held" && h.event.Sequence == n.sequence+1 {
					n.sequence++
					m.forward(h)
					again = true
				}
			}
		}
	case same:
		m.reject(k, wire.CodeSequence, false, at)
	case len(held) >= m.limits.Held || bytes+len(e.Payload) > m.limits.HeldBytes:
		m.reject(k, wire.CodeSequence, true, at)
	default:
		k.state = "held"
		m.waiting = append(m.waiting, k)
	}
}

func (m *model) outcome(r wire.Result) {
	k := m.find(r.Tenant, r.Client, r.Event)
	if k != nil {
		r.Correlation = k.event.Correlation
	}
	switch {
	case k == nil || k.state == "redriven":
	case k.state == "ended":
		letter := k.result.Status == wire.StatusDeadLettered || k.result.Status == wire.StatusExpired ||
			k.result.Status == wire.StatusRejected && k.result.Error.Code == wire.CodeTenantQuota
		if letter && r.Status == wire.StatusOK {
			k.state = "redriven"
			r.Causal, r.Event = r.Event, "redriven"
			m.write(r)
		}
	case r.Status.Terminal():
		m.end(k, r)
	default:
		r.Causal = k.event.Causal
		m.write(r)
	}
}

// passes moves the time on. Who waited for too long is rejected, in the order in
// which they came, up to the first that is not so old.
func (m *model) passes(at time.Time) {
	if at.After(m.clock) {
		m.clock = at
	}
	for len(m.waiting) > 0 {
		k := m.waiting[0]
		if k.came.Add(m.limits.HeldFor).After(m.clock) {
			return
		}
		if k.state == "held" {
			m.reject(k, wire.CodeSequence, true, m.clock)
		}
		m.waiting = m.waiting[1:]
	}
}

func (m *model) forget() {
	for len(m.known) > 0 {
		k := m.known[0]
		if len(m.known) <= m.limits.IDs && k.came.Add(m.limits.Window).After(m.clock) {
			return
		}
		if k.state == "forwarded" || k.state == "held" {
			m.end(k, wire.Result{Status: wire.StatusExpired, Time: m.clock, Error: &wire.Error{Code: wire.CodeExpired, Retryable: true}})
		}
		m.known = m.known[1:]
	}
}

// inbox is random records of an inbox.
func inbox(rng *rand.Rand, name string, n int) []stream.Record {
	at := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC) // after the wall's time, which so has no part in it
	sequences := map[string]int64{}
	type sent struct{ tenant, client, id string }
	recent := []sent{{"t0", "c0", "never sent"}}
	var list []stream.Record
	for i := range n {
		at = at.Add(time.Duration(rng.IntN(8000)) * time.Millisecond)
		tenant, client, id := fmt.Sprint("t", rng.IntN(2)), fmt.Sprint("c", rng.IntN(3)), fmt.Sprint("e", i-rng.IntN(2)*rng.IntN(20))
		if again := recent[max(0, len(recent)-1-rng.IntN(12))]; rng.IntN(3) > 0 && again.id != "never sent" {
			tenant, client, id = again.tenant, again.client, again.id
			if rng.IntN(2) == 0 {
				id = fmt.Sprint("e", i)
			}
		}
		key := wire.Key(tenant, client)
		var r stream.Record
		switch rng.IntN(12) {
		case 0, 1, 2, 3, 4:
			e := wire.Event{Tenant: tenant, Client: client, ID: id, Payload: fmt.Appendf(nil, `{"n":%d}`, rng.IntN(8)/7)}
			if rng.IntN(3) > 0 {
				sequences[key]++
				e.Sequence = max(0, sequences[key]+int64(rng.IntN(3))-1)
			}
			if rng.IntN(15) == 0 {
				e.Payload = []byte(`"` + strings.Repeat("x", 80) + `"`)
			}
			if rng.IntN(10) == 0 {
				e.Time, e.Causal, e.Correlation = at.Add(time.Duration(rng.IntN(120))*time.Minute), "e0", "corr"
			}
			r = wire.Submit(sequence.Inbox(name), &e)
			recent = append(recent, sent{tenant, client, id})
		case 5, 6, 7, 8, 9:
			result := wire.Result{Tenant: tenant, Client: client, Event: id, Payload: []byte(`{"ok":1}`), Time: at, Status: wire.StatusOK, Model: "m@1", Correlation: "another"}
			switch rng.IntN(5) {
			case 0:
				result.Status, result.Attempt = wire.StatusPartial, 1
			case 1, 2:
				result.Status, result.Payload, result.Error = wire.StatusDeadLettered, nil, &wire.Error{Code: wire.CodeDeadLettered, Attempts: 2}
			}
			r = wire.Outcome(sequence.Inbox(name), &result)
		case 10:
			r = stream.Record{Partition: stream.Partition{Topic: sequence.Inbox(name), Index: stream.ByKey}, Key: []byte(key), Headers: []stream.Header{{Key: header.Inbox, Value: []byte(wire.InboxTime)}}}
		case 11:
			r = stream.Record{Partition: stream.Partition{Topic: sequence.Inbox(name), Index: stream.ByKey}, Key: []byte(key), Value: []byte("who?")}
			switch rng.IntN(3) {
			case 0:
				r.Headers = []stream.Header{{Key: header.Inbox, Value: []byte(wire.InboxEvent)}, {Key: header.ClientEvent, Value: []byte("a/b")}}
			case 1: // as if it were another client's
				r.Headers = []stream.Header{{Key: header.Inbox, Value: []byte(wire.InboxOutcome)}, {Key: header.Status, Value: []byte("ok")}, {Key: header.ClientEvent, Value: []byte("t7/c7/e1")}}
			}
		}
		r.Time = at.Add(-time.Duration(rng.IntN(2)*rng.IntN(10_000)) * time.Millisecond) // clocks differ
		list = append(list, r)
	}
	return list
}

package gateway_test

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/limit"
	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// eve is of another tenant than the clients of connect.
func (w *world) eve() *raw {
	w.Helper()
	c, _, err := dialRaw(w.listener.dial(), offered, "Authorization: Bearer other.eve")
	w.ok(err)
	w.ok(c.send(&wire.Connect{ID: 1}))
	if f, ok := w.receive(c).(*wire.Connected); !ok {
		w.Fatalf("%+v", f)
	}
	return c
}

func TestTenantsHaveTheirOwnBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{Tenants: limit.Options{Open: 2, Rate: 1, Burst: 5}})
		defer w.close()
		ada, _ := w.connect("ada", nil)
		bob, _ := w.connect("bob", nil) // the tenant has 3 of its burst left
		third, _, err := dialRaw(w.listener.dial(), offered, "Authorization: Bearer acme.eva")
		w.ok(err)
		w.ok(third.send(&wire.Connect{ID: 1}))
		frames, how := w.ends(third)
		if len(frames) != 1 || how == nil || how.code != 4506 {
			t.Fatalf("%+v, %+v", frames, how)
		}
		if f, ok := frames[0].(*wire.Disconnect); !ok || f.Reason != "tenant_quota" || !f.Reconnect || f.RetryAfterMs <= 0 {
			t.Errorf("%+v", frames[0])
		}
		if r := w.request(http.MethodGet, "/v1/results?wait=0s", "eva", ""); r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" {
			t.Errorf("%s, %v", r.Status, r.Header)
		}
		posted := w.lines(w.request(http.MethodPost, "/v1/events", "bob", `{"type":"event","eventId":"b1","payload":"never"}`+"\n"))
		if f, ok := posted[0].(*wire.Accepted); !ok || len(posted) != 1 {
			t.Errorf("%+v", f)
		}
		for _, id := range []string{"a1", "a2"} {
			w.ok(ada.send(event(id, `"never"`)))
			if f, ok := w.receive(ada).(*wire.Accepted); !ok || f.EventID != id {
				t.Errorf("%+v", f)
			}
		}
		w.ok(ada.send(event("a3", `"never"`)))
		refused, ok := w.receive(ada).(*wire.Backpressure)
		if !ok || refused.Reason != wire.ReasonTenantQuota || refused.EventID != "a3" || refused.RetryAfterMs <= 0 || refused.RetryAfterMs > 1001 {
			t.Errorf("%+v", refused)
		}
		posted = w.lines(w.request(http.MethodPost, "/v1/events", "bob", `{"type":"event","eventId":"b2","payload":1}`+"\n"))
		if f, ok := posted[0].(*wire.Backpressure); !ok || f.EventID != "b2" {
			t.Errorf("%+v", posted)
		}
		eve := w.eve() // whom that is nothing to
		w.ok(eve.send(event("e1", `"never"`)))
		if f, ok := w.receive(eve).(*wire.Accepted); !ok {
			t.Errorf("%+v", f)
		}
		time.Sleep(time.Duration(refused.RetryAfterMs) * time.Millisecond)
		w.ok(ada.send(event("a3", `"never"`)))
		after := w.receive(ada)
		if f, ok := after.(*wire.Accepted); !ok || f.EventID != "a3" {
			t.Errorf("after the wait: %+v", after)
		}
		w.ok(bob.Close())
		time.Sleep(2 * time.Second)
		w.connect("eva", nil) // in the place of bob
		if s := w.gateway.Tenants(); s.Open != 3 || s.Connections != 2 || s.Rate != 2 {
			t.Errorf("%+v", s)
		}
	})
}

// TestEventsOfARequestAreTakenFromTheFirst posts more than the tenant may send, with
// one in between that is none: nothing is taken behind what is refused.
func TestEventsOfARequestAreTakenFromTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{Tenants: limit.Options{Rate: 10, Burst: 3}})
		defer w.close()
		post := func(ids ...string) (answers []string, wait int64) {
			body := ""
			for _, id := range ids {
				body += `{"type":"event","eventId":"` + id + `","payload":"never"}` + "\n"
			}
			for _, answer := range w.lines(w.request(http.MethodPost, "/v1/events", "ada", body)) {
				switch f := answer.(type) {
				case *wire.Accepted:
					answers = append(answers, f.EventID)
				case *wire.Backpressure:
					if f.Reason != wire.ReasonTenantQuota || wait != 0 && f.RetryAfterMs != wait {
						t.Errorf("%+v after %d", f, wait)
					}
					answers, wait = append(answers, "not "+f.EventID), f.RetryAfterMs
				case *wire.ErrorFrame:
					answers = append(answers, "bad")
				}
			}
			return answers, wait
		}
		got, wait := post("e1", "e 2", "e3", "e4", "e5", "e6")
		if want := []string{"e1", "bad", "e3", "e4", "not e5", "not e6"}; !slices.Equal(got, want) || wait != 201 {
			t.Errorf("%v, again after %d ms; want %v, 201 ms", got, wait, want)
		}
		if m := w.gateway.Metrics(); m.Accepted.Load() != 3 || m.Refused.Load() != 2 {
			t.Errorf("accepted %d, refused %d; want 3, 2", m.Accepted.Load(), m.Refused.Load())
		}
		time.Sleep(time.Duration(wait) * time.Millisecond)
		if got, _ := post("e5", "e6"); !slices.Equal(got, []string{"e5", "e6"}) {
			t.Errorf("after the wait: %v", got)
		}
	})
}

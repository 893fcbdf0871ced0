package gateway_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/wire"
)

func TestEventIsAcceptedWhenItIsInTheLogAndHasItsResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		c, connected := w.connect("ada", nil)
		if connected.ClientID != "ada" || connected.TenantID != "acme" || connected.PendingLimit != 50 || connected.MaxMessageBytes != 64<<10 || connected.Cursor == "" {
			t.Errorf("connected: %+v", connected)
		}
		w.ok(c.send(&wire.Submission{EventID: "e1", Payload: []byte(`7`), TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}))
		var accepted, got bool
		cursor := ""
		for !accepted || !got {
			switch f := w.receive(c).(type) {
			case *wire.Accepted:
				accepted = f.EventID == "e1"
			case *wire.ResultFrame:
				got, cursor = true, f.Cursor
				if f.Seq != 1 || f.EventID != "e1" || string(f.Payload) != `{"of":7}` || f.CorrelationID != "0af7651916cd43dd8448eb211c80319c" {
					t.Errorf("result: %+v", f)
				}
			default:
				t.Fatalf("%T: %+v", f, f)
			}
		}
		w.ok(c.send(&wire.Ack{Cursor: cursor}))
		w.ok(c.Close())

		// What comes while it is away is there when it comes again, and no more.
		other, _ := w.connect("ada", nil)
		w.ok(other.send(event("e2", `8`)))
		for range 2 {
			w.receive(other)
		}
		c, _ = w.connect("ada", &wire.Resume{Cursor: cursor})
		if f, ok := w.receive(c).(*wire.ResultFrame); !ok || f.Seq != 2 || f.EventID != "e2" {
			t.Errorf("after the resume: %+v", f)
		}
		all, _ := w.connect("ada", &wire.Resume{From: wire.FromEarliest})
		for seq := range uint64(2) {
			if f, ok := w.receive(all).(*wire.ResultFrame); !ok || f.Seq != seq+1 {
				t.Errorf("from the beginning: %+v", f)
			}
		}
		synctest.Wait()
		if m := w.gateway.Metrics(); m.Connections.Load() != 3 || m.Resumes.Load() != 1 || m.Accepted.Load() != 2 || m.Pending.Load() != 0 {
			t.Errorf("%d connections, %d resumes, %d accepted, %d pending", m.Connections.Load(), m.Resumes.Load(), m.Accepted.Load(), m.Pending.Load())
		}
	})
}

func TestHandshakesThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{Origins: []string{"https://example.org"}, Connections: 2})
		defer w.close()
		const bearer = "Authorization: Bearer acme.ada"
		for _, c := range []struct {
			name   string
			lines  []string
			status int
		}{
			{"another origin", []string{offered, bearer, "Origin: https://example.org.evil"}, http.StatusForbidden},
			{"no subprotocol", []string{bearer}, http.StatusBadRequest},
			{"another subprotocol", []string{bearer, "Sec-WebSocket-Protocol: afterbay.v2"}, http.StatusBadRequest},
			{"bad token", []string{offered, "Authorization: Bearer nobody"}, http.StatusUnauthorized},
			{"bad token of a browser", []string{offered + ", bearer.nobody"}, http.StatusUnauthorized},
			{"bad client", []string{offered, "Authorization: Bearer acme.a/b"}, http.StatusUnauthorized},
		} {
			_, response, err := dialRaw(w.listener.dial(), c.lines...)
			if err == nil || response == nil || response.StatusCode != c.status {
				t.Errorf("%s: %+v, %v; want %d", c.name, response, err, c.status)
			}
		}
		for _, lines := range [][]string{{offered + ", bearer.acme.ada", "Origin: https://example.org"}, {"Sec-WebSocket-Protocol: other, " + wire.Protocol, bearer}} {
			_, response, err := dialRaw(w.listener.dial(), lines...)
			if err != nil || response.Header.Get("Sec-WebSocket-Protocol") != wire.Protocol {
				t.Errorf("%q: %v, %+v", lines, err, response)
			}
		}
		if _, response, err := dialRaw(w.listener.dial(), offered, bearer); err == nil || response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
			t.Errorf("the third of two: %+v, %v", response, err)
		}
	})
}

func TestConnectionsEndWithTheirCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{DrainWindow: time.Second})
		defer w.close()
		end := func(name string, c *raw, code int) {
			t.Helper()
			frames, how := w.ends(c)
			if how == nil || how.code != code {
				t.Errorf("%s: ended by %v, want %d", name, how, code)
				return
			}
			if last, ok := frames[len(frames)-1].(*wire.Disconnect); !ok || last.Code != code || last.Reconnect != (code >= 4500) || last.Reason != how.reason {
				t.Errorf("%s: its last frame is %+v", name, frames[len(frames)-1])
			}
			if n := w.gateway.Metrics().Closed.Of(code); n == 0 {
				t.Errorf("%s: %d is not counted", name, code)
			}
		}
		began := time.Now()
		silent, _, err := dialRaw(w.listener.dial(), offered)
		w.ok(err)
		end("no connect", silent, 4508)
		if took := time.Since(began); took < 10*time.Second || took > 12*time.Second {
			t.Errorf("without a connect it ended after %v", took)
		}

		wrong, _, err := dialRaw(w.listener.dial(), offered)
		w.ok(err)
		w.ok(wrong.send(&wire.Connect{Token: "nobody"}))
		end("bad token", wrong, 4001)

		mute, _ := w.connect("mute", nil)
		end("no pong", mute, 4503)

		old, _, err := dialRaw(w.listener.dial(), offered)
		w.ok(err)
		w.ok(old.send(&wire.Connect{Token: fmt.Sprint("acme.old.", time.Now().Add(5*time.Second).Unix())}))
		old.pongs = true
		end("token expired", old, 4502)

		first, _, err := dialRaw(w.listener.dial(), offered)
		w.ok(err)
		w.ok(first.send(&wire.Connect{Token: "acme.tab", SessionID: "7"}))
		w.receive(first)
		second, _, err := dialRaw(w.listener.dial(), offered)
		w.ok(err)
		w.ok(second.send(&wire.Connect{Token: "acme.tab", SessionID: "7"}))
		w.receive(second)
		end("replaced", first, 4009)

		go w.finish()
		end("drain", second, 4501)
	})
}

func TestDrainSpreadsAndAnswersWhatIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{DrainWindow: 20 * time.Second, PongTimeout: time.Minute})
		defer w.close()
		began := time.Now()
		ended := make(chan time.Duration)
		for i := range 40 {
			c, _ := w.connect(fmt.Sprint("c", i), nil)
			w.ok(c.send(event("e", `1`)))
			w.receive(c)
			w.receive(c)
			go func() {
				w.ends(c)
				ended <- time.Since(began)
			}()
		}
		go w.finish()
		seconds := map[int]int{}
		for range 40 {
			seconds[int((<-ended).Seconds())]++
		}
		for second, n := range seconds {
			if n > 4 {
				t.Errorf("%d of 40 ended in second %d of 20", n, second)
			}
		}
		if _, response, err := dialRaw(w.listener.dial(), offered); err == nil || response != nil && response.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("a new connection: %+v, %v", response, err)
		}
	})
}

// TestClientThatIsSentAwayLateWaitsForLess has a client not read for a while, so that it
// is told after its turn.
func TestClientThatIsSentAwayLateWaitsForLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{DrainWindow: time.Second})
		defer w.close()
		c, _ := w.connect("ada", nil)
		w.ok(c.send(event("e", `1`)))
		synctest.Wait()
		go w.finish()
		time.Sleep(700 * time.Millisecond)
		frames, _ := w.ends(c)
		if last, ok := frames[len(frames)-1].(*wire.Disconnect); !ok || last.RetryAfterMs != 1300 {
			t.Errorf("its last frame is %+v, want one that says 1.3 s", frames[len(frames)-1])
		}
	})
}

func TestMoreThanIsPendingIsAnsweredWithBackpressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{PendingLimit: 5})
		defer w.close()
		c, _ := w.connect("ada", nil)
		for i := range 5 {
			w.ok(c.send(event(fmt.Sprint("e", i), `"never"`)))
		}
		for range 5 {
			if f, ok := w.receive(c).(*wire.Accepted); !ok {
				t.Errorf("%+v", f)
			}
		}
		w.ok(c.send(event("more", `1`)))
		if f, ok := w.receive(c).(*wire.Backpressure); !ok || f.Reason != wire.ReasonPendingLimit || f.EventID != "more" || f.Pending != 5 || f.Limit != 5 || f.RetryAfterMs <= 0 {
			t.Errorf("%+v", f)
		}
		for _, r := range w.resultsOf("ada", 0) {
			t.Errorf("%s was taken", r.Event)
		}
		if n := w.gateway.Metrics().Pending.Load(); n != 5 {
			t.Errorf("%d are pending", n)
		}
		w.ok(c.Close())
		synctest.Wait()
		if n := w.gateway.Metrics().Pending.Load(); n != 0 {
			t.Errorf("%d are pending when nobody is there", n)
		}
	})
}

func TestBadFramesAreAnsweredAndTheConnectionStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		_, foreign := w.connect("eve", nil)
		c, _, err := dialRaw(w.listener.dial(), offered)
		w.ok(err)
		for _, x := range []struct{ message, code string }{
			{`{"type":"event","eventId":"e","payload":1}`, wire.CodeUnauthorized},
			{`{"type":"refresh","id":3,"token":"acme.ada"}`, wire.CodeUnauthorized},
			{`{"type":"connect","token":"acme.ada","resume":{"cursor":"` + foreign.Cursor + `"}}`, wire.CodeBadCursor},
			{`{"type":"connect","token":"acme.ada","resume":{"from":"here"}}`, wire.CodeBadFrame},
			{`{"type":"connect","token":"acme.ada","maxInflight":-1}`, wire.CodeBadFrame},
			{`{"type":"connect","token":"acme.ada"}`, ""},
			{`{"type":"connect","token":"acme.ada"}`, wire.CodeBadFrame},
			{`{"type":"event","eventId":"e","payload":1,"priority":"high"}`, wire.CodeBadFrame},
			{`{`, wire.CodeBadFrame},
			{`{"type":"fly"}`, wire.CodeBadFrame},
			{`{"type":"event","eventId":"a b","payload":1}`, wire.CodeBadEvent},
			{`{"type":"event","eventId":"e"}`, wire.CodeBadEvent},
			{`{"type":"ack","cursor":"` + foreign.Cursor + `"}`, wire.CodeBadCursor},
			{`{"type":"refresh","token":"acme.eve"}`, wire.CodeBadToken},
		} {
			w.ok(c.text(x.message))
			f := w.receive(c)
			if e, ok := f.(*wire.ErrorFrame); x.code == "" {
				if _, ok := f.(*wire.Connected); !ok {
					t.Errorf("%s: %+v", x.message, f)
				}
			} else if !ok || e.Error.Code != x.code {
				t.Errorf("%s: %+v, want %s", x.message, f, x.code)
			} else if strings.Contains(x.message, `"eventId":"e"`) && e.Error.EventID != "e" || strings.Contains(x.message, `"id":3`) && e.ID != 3 {
				t.Errorf("%s: %+v, %+v says not of what", x.message, e, e.Error)
			}
		}
		w.ok(c.text(`{"type":"refresh","id":4,"token":"acme.ada"}`))
		if f, ok := w.receive(c).(*wire.Refreshed); !ok || f.ID != 4 {
			t.Errorf("%+v", f)
		}
	})
}

// hasEnded sees that so many connections are counted as ended by the gateway, by code.
func (w *world) hasEnded(want map[int]int) {
	w.Helper()
	for code, n := range w.gateway.Metrics().Closed.All() {
		if n != uint64(want[code]) {
			w.Errorf("%d are counted as ended by %d, want %d", n, code, want[code])
		}
	}
}

// TestFramesOfRFC6455 sends frames rightly and wrongly, to connections that are
// connected.
func TestFramesOfRFC6455(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{MessageBytes: 1000})
		defer w.close()
		submission := []byte(`{"type":"event","eventId":"e","payload":"é"}`)
		half := bytes.IndexByte(submission, 0xc3) + 1 // within a character
		join := func(frames ...[]byte) []byte { return bytes.Join(frames, nil) }
		unmasked := append([]byte{fin | opText, byte(len(submission))}, submission...)
		endless := binary.BigEndian.AppendUint64([]byte{fin | opText, 0x80 | 127}, 1<<63)
		ended := map[int]int{} // by the gateway
		for _, c := range []struct {
			name  string
			bytes []byte
			code  int // of the close frame; 0 where the event is accepted
		}{
			{"whole", frame(fin|opText, submission), 0},
			{"in parts, within a character", join(frame(opText, submission[:half]), frame(fin|opContinue, submission[half:])), 0},
			{"in many parts", join(frame(opText, nil), frame(opContinue, submission[:5]), frame(opContinue, nil), frame(fin|opContinue, submission[5:])), 0},
			{"a ping within", join(frame(opText, submission[:9]), frame(fin|opPing, []byte("hi")), frame(fin|opContinue, submission[9:])), 0},
			{"pongs of nobody", join(frame(fin|opPong, nil), frame(fin|opText, submission)), 0},
			{"bad UTF-8", frame(fin|opText, []byte{'"', 0xff, '"'}), 1007},
			{"bad UTF-8 over two frames", join(frame(opText, []byte{'"', 0xc3}), frame(fin|opContinue, []byte{'"'})), 1007},
			{"no mask", unmasked, 1002},
			{"reserved bits", frame(fin|0x40|opText, submission), 1002},
			{"reserved opcode", frame(fin|3, submission), 1002},
			{"reserved control", frame(fin|11, nil), 1002},
			{"continuation of nothing", frame(fin|opContinue, submission), 1002},
			{"a message within another", join(frame(opText, submission[:5]), frame(fin|opText, submission)), 1002},
			{"a ping in parts", frame(opPing, nil), 1002},
			{"a long ping", frame(fin|opPing, make([]byte, 126)), 1002},
			{"too large", frame(fin|opText, bytes.Repeat([]byte{' '}, 1001)), 1009},
			{"too large in parts", join(frame(opText, bytes.Repeat([]byte{' '}, 600)), frame(fin|opContinue, bytes.Repeat([]byte{' '}, 600))), 1009},
			{"2^63 bytes", join(endless, make([]byte, 4)), 1002},
			{"a normal close", frame(fin|opClose, []byte{0x03, 0xe8}), 1000},
			{"a close with a code of its own", frame(fin|opClose, []byte{0x0f, 0xa0}), 4000},
			{"a close with a code that nobody may send", frame(fin|opClose, []byte{0x03, 0xed}), 1002},
			{"a close of one byte", frame(fin|opClose, []byte{0x03}), 1002},
		} {
			if c.code > 1000 && c.code < 4000 {
				ended[c.code]++
			}
			conn, _ := w.connect("ada", nil)
			go func() { _, _ = conn.Write(c.bytes) }() // a pipe takes no more than is read
			if c.code != 0 {
				if frames, how := w.ends(conn); how == nil || how.code != c.code {
					t.Errorf("%s: %d frames, then %v, want %d", c.name, len(frames), how, c.code)
				}
			}
			for accepted := c.code != 0; !accepted; {
				op, payload, err := conn.next()
				if err != nil {
					t.Errorf("%s: %v", c.name, err)
					break
				}
				if op == opPong && string(payload) != "hi" {
					t.Errorf("%s: pong %q", c.name, payload)
				}
				accepted = strings.Contains(string(payload), `"accepted"`)
			}
			_ = conn.Close()
		}
		if n := w.gateway.Metrics().Accepted.Load(); n != 5 {
			t.Errorf("%d events were accepted, want 5", n)
		}
		synctest.Wait()
		w.hasEnded(ended)
	})
}

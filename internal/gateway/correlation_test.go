package gateway_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/hub"
	"github.com/afterbay/afterbay/internal/gateway/sequence"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

const trace, traceParent = "0af7651916cd43dd8448eb211c80319c", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// posts is a pipeline whose events end in every way, by their text.
func posts(t *testing.T) *pipeline.Runner {
	runner, err := builtin.New(lang.Pipeline{
		Name: "posts", Replies: []string{"decisions", "aside"},
		Input: lang.Input{Topic: "posts", Key: "user", Partitions: partitions, Repartition: partitions, Fields: []lang.Field{{Name: "user", Type: "string"}, {Name: "text", Type: "string"}}},
		Steps: []lang.Step{&steps.Route{Cases: []lang.Case{
			{Name: "filtered", When: `text == "filtered"`, Then: "drop"},
			{Name: "dead", When: `text == "dead"`, Then: "dlq"},
			{Name: "unread", When: `text == "unread"`, Steps: []lang.Step{&steps.Emit{Topic: "aside", Names: []string{"text"}}}},
			{Name: "default", Steps: []lang.Step{&steps.Emit{Topic: "decisions", Names: []string{"text"}}}},
		}}},
	}, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return runner
}

// TestCorrelationIDGoesThroughAllHops sends events by every way and follows each
// one's id: answer, inbox, pipeline's input, what the pipeline writes, result.
func TestCorrelationIDGoesThroughAllHops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := memory.New(memory.Options{})
		w := &world{TB: t, log: log, reads: log, auth: tokens{}}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		runner := posts(t)
		group.Go(func() { w.ok(runner.Run(ctx, w.log)) })
		synctest.Wait() // the pipeline has made its topics
		sequencer, err := sequence.New(w.log, sequence.Options{
			Name: "chat", Partitions: partitions, Input: "posts", Limits: sequence.Limits{Window: time.Minute},
			Sources: []sequence.Source{{Topic: "decisions"}, {Topic: "posts.ended"}, {Topic: "posts.dlq", Kind: sequence.Letters}},
		})
		w.ok(err)
		w.ok(sequencer.MakeTopics(ctx))
		group.Go(func() { w.ok(sequencer.Run(ctx)) })
		stop := w.start(gateway.Options{Inbox: "chat.inbox", Results: "chat.results", CursorKey: make([]byte, 32), DrainWindow: 1, Logger: slog.New(slog.DiscardHandler)})

		ids := w.sendPosts()
		c, _ := w.connect("ada", &wire.Resume{From: wire.FromEarliest})
		c.pongs = true
		statuses := map[string]wire.Status{}
		for len(statuses) < len(ids) {
			switch f := w.receive(c).(type) {
			case *wire.ResultFrame:
				statuses[f.EventID] = f.Status
				if f.CorrelationID != ids[f.EventID] {
					t.Errorf("result of %s: correlation %q, want %q", f.EventID, f.CorrelationID, ids[f.EventID])
				}
			default:
				t.Fatalf("%T: %+v", f, f)
			}
		}
		stop()
		cancel()
		group.Wait()
		want := map[string]wire.Status{"socket": "ok", "made": "ok", "line": "ok", "traced": "ok", "cloud": "ok", "filtered": "ok", "dead": "dead_lettered", "unread": "expired", "rejected": "rejected"}
		if !maps.Equal(statuses, want) {
			t.Errorf("%v, want %v", statuses, want)
		}
		w.checkHops(ids, map[string][]string{
			"chat.inbox": slices.Collect(maps.Keys(want)), "chat.results": slices.Collect(maps.Keys(want)),
			"posts":     {"socket", "made", "line", "traced", "cloud", "filtered", "dead", "unread"},
			"decisions": {"socket", "made", "line", "traced", "cloud"}, "posts.ended": {"filtered"}, "posts.dlq": {"dead"}, "aside": {"unread"},
		})
		w.ok(w.log.Close())
	})
}

// sendPosts sends events, and returns the correlation id that each is to have.
func (w *world) sendPosts() map[string]string {
	w.Helper()
	c, _ := w.connect("ada", nil)
	post := func(id string) json.RawMessage { return fmt.Appendf(nil, `{"user":"u","text":%q}`, id) }
	ids := map[string]string{"socket": "of the frame", "line": "of the line", "traced": trace, "cloud": "of the cloud event"}
	for _, e := range []*wire.Submission{{EventID: "socket", CorrelationID: "of the frame"}, {EventID: "traced", TraceParent: traceParent}, {EventID: "made"}, {EventID: "filtered"}, {EventID: "dead"}, {EventID: "unread"}} {
		e.Payload = post(e.EventID)
		w.ok(c.send(e))
		accepted, ok := w.accepted(c)
		if want := ids[e.EventID]; !ok || accepted.EventID != e.EventID || accepted.CorrelationID == "" || want != "" && accepted.CorrelationID != want {
			w.Errorf("%s is answered by %+v, want correlation %q", e.EventID, accepted, want)
		}
		ids[e.EventID] = accepted.CorrelationID
	}
	for _, x := range []struct {
		id, body string
		header   []string
	}{
		{"line", `{"type":"event","eventId":"line","correlationId":"of the line","payload":` + string(post("line")) + `}`, []string{"X-Correlation-Id", "of the request", "Traceparent", "00-wrong"}},
		{"rejected", `{"type":"event","eventId":"rejected","payload":1,"timestamp":"9000-01-01T00:00:00Z"}`, []string{"X-Correlation-Id", "of the request"}},
		{"cloud", string(post("cloud")), []string{"Ce-Specversion", "1.0", "Ce-Id", "cloud", "Ce-Source", "/posts", "Ce-Type", "post", "Ce-Correlationid", "of the cloud event", "Content-Type", "application/json", "Traceparent", traceParent}},
	} {
		r := w.request(http.MethodPost, "/v1/events", "ada", x.body, x.header...)
		request := r.Header.Get("X-Correlation-Id")
		if want := map[string]string{"cloud": trace}[x.id]; request != want && want+request != "of the request" {
			w.Errorf("%s: the answer has correlation %q", x.id, request)
		}
		accepted, ok := w.lines(r)[0].(*wire.Accepted)
		if ids[x.id] == "" {
			ids[x.id] = request
		}
		if !ok || accepted.CorrelationID != ids[x.id] {
			w.Errorf("%s is answered by %+v, want correlation %q", x.id, accepted, ids[x.id])
		}
	}
	return ids
}

// accepted returns the next frame that is no result, of events before.
func (w *world) accepted(c *raw) (accepted *wire.Accepted, ok bool) {
	w.Helper()
	for {
		f := w.receive(c)
		if _, result := f.(*wire.ResultFrame); !result {
			accepted, ok = f.(*wire.Accepted)
			return accepted, ok
		}
	}
}

// checkHops sees that all records of events have their correlation ids, and in
// which topics there are some.
func (w *world) checkHops(ids map[string]string, want map[string][]string) {
	w.Helper()
	topics, err := w.log.Topics(w.Context())
	w.ok(err)
	got := map[string][]string{}
	for _, topic := range topics {
		for p := range topic.Partitions {
			at := stream.Partition{Topic: topic.Name, Index: p}
			_, next, err := w.log.Offsets(w.Context(), at)
			w.ok(err)
			for offset := range next {
				r, found, err := w.log.Peek(w.Context(), at, offset)
				w.ok(err)
				event := header.Get(&r, header.ClientEvent)
				if !found || event == "" {
					continue
				}
				id := event[strings.LastIndexByte(event, '/')+1:]
				if correlation := header.Get(&r, header.Correlation); correlation != ids[id] {
					w.Errorf("%v@%d, of %s: correlation %q, want %q", at, offset, id, correlation, ids[id])
				}
				traced := strings.HasPrefix(header.Get(&r, header.TraceParent), "00-"+trace)
				if want := id == "traced" || id == "cloud"; traced != want && (topic.Name == "posts" || topic.Name == "decisions") {
					w.Errorf("%v@%d, of %s: %v", at, offset, id, r.Headers)
				}
				if !slices.Contains(got[topic.Name], id) {
					got[topic.Name] = append(got[topic.Name], id)
				}
			}
		}
	}
	for topic, events := range want {
		if slices.Sort(events); !slices.Equal(slices.Sorted(slices.Values(got[topic])), events) {
			w.Errorf("%s has records of %v, want %v", topic, got[topic], events)
		}
	}
}

// full is a log that takes nothing.
type full struct{ *memory.Log }

var errLogFull = errors.New("no space left")

func (full) Append(context.Context, ...stream.Record) error { return errLogFull }

// TestLinesOfTheLogSayTheCorrelationID has an append fail, and a record be no
// result.
func TestLinesOfTheLogSayTheCorrelationID(t *testing.T) {
	log := memory.New(memory.Options{})
	w := &world{TB: t, log: log}
	for _, topic := range []string{"inbox", "results"} {
		w.ok(log.CreateTopic(t.Context(), stream.Topic{Name: topic, Partitions: partitions}))
	}
	var out bytes.Buffer
	g, err := gateway.New(t.Context(), full{log}, tokens{}, gateway.Options{CursorKey: make([]byte, 32), Logger: slog.New(slog.NewJSONHandler(&out, nil))})
	w.ok(err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- g.Run(ctx) }()
	server := httptest.NewServer(g.Handler())
	ask := func(method, path, body string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		w.ok(err)
		r.Header.Set("Authorization", "Bearer acme.ada")
		response, err := http.DefaultClient.Do(r)
		w.ok(err)
		return response
	}
	refused := ask(http.MethodPost, "/v1/events", `{"type":"event","eventId":"e","correlationId":"not appended","payload":1}`)
	if f, ok := w.lines(refused)[0].(*wire.ErrorFrame); !ok || f.CorrelationID != "not appended" || refused.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%s, %+v", refused.Status, f)
	}
	result := wire.ResultRecord("results", &wire.Result{Tenant: "acme", Client: "ada", Seq: 1, Event: "e", Status: "ok", Correlation: "not readable"})
	for i := range result.Headers {
		if result.Headers[i].Key == header.Status {
			result.Headers[i].Value = []byte("fine")
		}
	}
	w.ok(log.Append(t.Context(), result))
	for g.Metrics().Unreadable.Load() == 0 { // the reader of the log may take longer than one poll
		if frames := w.lines(ask(http.MethodGet, "/v1/results?from=earliest&wait=100ms", "")); len(frames) > 0 {
			t.Fatalf("%+v", frames)
		}
	}
	server.Close()
	cancel()
	w.ok(<-ended)
	w.ok(log.Close())
	for _, want := range []string{`"correlation":["not appended"]`, `"correlation":"not readable"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no line of the log has %s:\n%s", want, out.String())
		}
	}
}

// TestLinesOfTheLogSayWhoseRequestItWas has tokens refused and not verified, and results
// not read, by every way.
func TestLinesOfTheLogSayWhoseRequestItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newGatedWorld(t)
		defer w.close()
		_, from := w.connect("ada", nil)
		_, stop := w.standStill()
		stop()
		w.reads = &still{w.log, nil, errors.New("the disk is away")}
		var out bytes.Buffer // written by its handler, a line at a time
		defer w.start(gateway.Options{CursorKey: []byte(cursorKey), Hub: hub.Options{IndexRecords: 1}, Logger: slog.New(slog.NewJSONHandler(&out, nil))})()
		var want []string
		line := func(message, correlation string) string {
			want = append(want, `"msg":"gateway: `+message+`".*"correlation":"`+correlation+`"}`)
			return correlation
		}
		get := func(query, token, correlation string) string {
			r := w.request(http.MethodGet, "/v1/results"+query, "", "", "Authorization", "Bearer "+token, "X-Correlation-Id", correlation)
			body, err := io.ReadAll(r.Body)
			w.ok(errors.Join(err, r.Body.Close()))
			return string(body)
		}
		socket := func(correlation, token string, frames ...wire.Frame) {
			c, _, err := dialRaw(w.listener.dial(), offered, "Authorization: Bearer "+token, "X-Correlation-Id: "+correlation)
			for _, f := range frames {
				w.ok(err)
				err = c.send(f)
			}
			if len(frames) > 0 {
				w.ends(c)
			}
		}
		const ada = "acme.ada"
		get("", "nobody", line("token refused", "bad token"))
		get("?wait=1s", "down", line("token not verified", "no keys"))
		r := w.request(http.MethodPost, "/v1/events", "", "", "Authorization", "Bearer nobody", "X-Correlation-Id", line("token refused", "events"))
		w.ok(r.Body.Close())
		socket(line("token refused", "handshake"), "nobody")
		socket(line("token refused", "connect"), ada, &wire.Connect{Token: "nobody"})
		socket(line("token refused", "refresh"), ada, &wire.Connect{}, &wire.Refresh{Token: "nobody"}) // which ends without its pongs
		if body := get("?cursor="+from.Cursor, ada, line("read results", "stream")); !strings.Contains(body, `"code":4507`) {
			t.Errorf("the stream ends by %s", body)
		}
		get("?wait=20s&cursor="+from.Cursor, ada, line("read results", "poll"))
		socket(line("read results", "session"), ada, &wire.Connect{Resume: &wire.Resume{Cursor: from.Cursor}})
		c, _, err := dialRaw(w.listener.dial(), offered, "X-Correlation-Id: "+line("a connection was closed because of an invalid frame", "frames"))
		w.ok(err)
		_, err = c.Write(append(binary.BigEndian.AppendUint64([]byte{fin | opText, 0x80 | 127}, 1<<63), make([]byte, 4)...))
		w.ok(err)
		w.ends(c)
		synctest.Wait()
		for _, want := range want {
			if !regexp.MustCompile(want).MatchString(out.String()) {
				t.Errorf("no line of the log is %s:\n%s", want, out.String())
			}
		}
	})
}

func TestCorrelationIDsOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gateway.Options{})
		defer w.close()
		seen := map[string]bool{}
		socket := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-Websocket-Version", "13", "Sec-Websocket-Key", "dGhlIHNhbXBsZSBub25jZQ==", "Sec-Websocket-Protocol", wire.Protocol}
		for _, x := range []struct {
			path   string
			header []string
			status int
		}{
			{"/v1/results?wait=0s", nil, http.StatusOK}, {"/v1/results?wait=no", nil, http.StatusBadRequest},
			{"/v1/stream", nil, http.StatusBadRequest}, {"/v1/stream", socket, http.StatusSwitchingProtocols}, {"/v1/stream", append(socket, "Sec-Websocket-Version", "12"), http.StatusBadRequest},
		} {
			for _, c := range []struct {
				header []string
				want   string // "" is a new one
			}{
				{nil, ""}, {[]string{"Traceparent", traceParent}, trace}, {[]string{"Traceparent", "00-x"}, ""},
				{[]string{"Traceparent", traceParent, "X-Correlation-Id", "order 7"}, "order 7"}, {[]string{"X-Correlation-Id", strings.Repeat("x", 129)}, ""}, {[]string{"X-Correlation-Id", "grün"}, ""},
			} {
				r := w.request(http.MethodGet, x.path, "ada", "", slices.Concat(x.header, c.header)...)
				w.ok(r.Body.Close())
				got := r.Header.Get("X-Correlation-Id")
				if c.want != "" && got != c.want || got == "" || c.want == "" && seen[got] {
					t.Errorf("%s %q: correlation %q", x.path, c.header, got)
				}
				seen[got] = true
				want := x.status
				if c.want == "" && len(c.header) > 0 && c.header[0] == "X-Correlation-Id" {
					want = http.StatusBadRequest
				}
				if r.StatusCode != want {
					t.Errorf("%s %q: %s, want %d", x.path, c.header, r.Status, want)
				}
			}
		}
	})
}

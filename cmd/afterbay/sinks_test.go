package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/http/admin"
)

const freezesPipeline = `pipeline: fraud
input:
  topic: payments
  partitions: 2
  key: customer
  fields: {tx: string, customer: string, amount: number}
budget: {p99: 1h, model: 1ms}
steps:
  - emit: {topic: freezes, when: 'amount > 10', id: '"freeze:" + tx', value: [tx, customer]}
sinks:
  - from: freezes
    name: cards
    http: {url: '${CARD_API}/freeze', headers: {X-Team: risk}, token: '${CARD_TOKEN}'}
`

// cardService freezes cards, but not that of t3.
type cardService struct {
	mu    sync.Mutex // guards what follows
	calls map[string]int
	wrong []string
}

func (c *cardService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	c.calls[key]++
	if r.URL.Path != "/freeze" || r.Header.Get("X-Team") != "risk" || r.Header.Get("Authorization") != "Bearer secret" ||
		!strings.Contains(string(body), strings.TrimPrefix(key, "freeze:")) {
		c.wrong = append(c.wrong, fmt.Sprint(r.URL.Path, r.Header, string(body)))
	}
	if key == "freeze:t3" {
		http.Error(w, "no such card", http.StatusUnprocessableEntity)
	}
}

func TestSinksGetWhatPipelinesWroteOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	service := &cardService{calls: map[string]int{}}
	server := httptest.NewServer(service)
	defer server.Close()
	t.Setenv("CARD_API", server.URL)
	t.Setenv("CARD_TOKEN", "secret")
	write(t, "fraud.yaml", freezesPipeline)
	var events strings.Builder
	for i := range 40 {
		fmt.Fprintf(&events, "{\"tx\":\"t%d\",\"customer\":\"c%d\",\"amount\":%d}\n", i, i%7, 11*(i%2))
	}
	if r := command(t, "", "lint", "fraud.yaml"); r.code != exitOK {
		t.Fatal(r.stderr)
	}
	must(t, events.String(), "produce", "payments", "--partitions", "2", "--key", "customer")
	out := must(t, "", "run", "fraud.yaml", "--listen", "none", "--until-idle")
	for _, want := range []string{
		"sink cards: freezes to " + server.URL + "/...",
		"sink fraud.cards: 19 delivered, 0 repeated, 1 dead letters, 0 failed calls",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%s, want %s", out, want)
		}
	}
	must(t, "", "run", "fraud.yaml", "--listen", "none", "--until-idle")
	if len(service.calls) != 20 || len(service.wrong) > 0 {
		t.Errorf("%d ids, wrong calls: %v", len(service.calls), service.wrong)
	}
	for id, n := range service.calls {
		if n != 1 {
			t.Errorf("%d calls for %s", n, id)
		}
	}
	if dead := must(t, "", "tail", "fraud.cards.dlq", "--headers"); !strings.Contains(dead, "sink:cards") || !strings.Contains(dead, "no such card") || strings.Count(dead, "\n") != 1 {
		t.Error(dead)
	}
	if lag := must(t, "", "lag", "fraud"); !strings.Contains(lag, "fraud.cards  freezes") {
		t.Error(lag)
	}
}

func TestSinksThatCannotBeAreRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("CARD_TOKEN", "secret")
	for api, change := range map[string][2]string{
		"http://cards": {"from: freezes", "from: frozen"},
		"cards":        {"", ""},
	} {
		t.Setenv("CARD_API", api)
		write(t, "fraud.yaml", strings.Replace(freezesPipeline, change[0], change[1], 1))
		want := map[string]string{"http://cards": `the pipeline does not write "frozen"`, "cards": "the URL is not valid"}[api]
		if r := command(t, "", "lint", "fraud.yaml"); r.code != exitInvalid || !strings.Contains(r.stdout+r.stderr, want) {
			t.Errorf("%s: %+v", api, r)
		}
	}
}

func TestBudgetIsComparedWithWhatEventsTook(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("CARD_API", "http://127.0.0.1:1") // where nobody is
	t.Setenv("CARD_TOKEN", "secret")
	write(t, "fraud.yaml", strings.Replace(freezesPipeline, "{p99: 1h, model: 1ms}", "{p99: 2us, commit: 1us}", 1))
	out, end := background(t, "run", "fraud.yaml", "--listen", "127.0.0.1:0")
	out.wait(t, "afterbay tail freezes --follow")
	follow, _ := background(t, "tail", "freezes", "--follow", "--limit", "1")
	must(t, `{"tx":"t1","customer":"c1","amount":99}`, "produce", "payments")
	follow.wait(t, "t1")
	var b admin.Budget
	for deadline := time.Now().Add(time.Minute); b.Events == 0 && time.Now().Before(deadline); { // counts are behind the log for a moment
		if err := json.Unmarshal([]byte(must(t, "", "budget", "fraud", "--json", "--plot", "budget.svg")), &b); err != nil {
			t.Fatal(err)
		}
	}
	if b.Pipeline != "fraud" || b.Events != 1 || b.Missed != 1 || b.Limit != 2e-6 || len(b.Phases) != 5 || b.Phases[4].Share != 1e-6 || b.P99 < b.Phases[4].P50 || b.Bound <= 0 {
		t.Errorf("%+v", b)
	}
	text := must(t, "", "budget", "fraud")
	for _, want := range []string{"commit", "SHARE", "1 events, 1 took longer than the 2\u00b5s of the budget, 1 of them because of ", "it is not kept"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
	if svg, err := os.ReadFile("budget.svg"); err != nil || !strings.Contains(string(svg), "</svg>") || strings.Count(string(svg), "<rect") != 7 {
		t.Errorf("%v: %s", err, svg)
	}
	for _, want := range []string{"PIPELINE  EVENTS", "fraud     1 ", "PIPELINE  SINK ", "after a crash, a restart replays"} {
		if text := must(t, "", "status"); !strings.Contains(text, want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
	if r := command(t, "", "budget", "nobody"); r.code != exitFailure || !strings.Contains(r.stderr, "unknown pipeline") {
		t.Errorf("%+v", r)
	}
	end()
	for _, line := range [][]string{{"budget", "fraud"}, {"status"}} {
		if r := command(t, "", line...); r.code != exitFailure || !strings.Contains(r.stderr, "start afterbay run") {
			t.Errorf("%v: %+v", line, r)
		}
	}
}

func TestTracesOfEventsAreSent(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("CARD_TOKEN", "secret")
	var mu sync.Mutex
	var traces, calls string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/v1/traces" {
			traces += string(body)
		} else {
			calls += r.Header.Get("Traceparent") + " " + r.Header.Get("X-Correlation-Id") + "\n"
		}
	}))
	defer server.Close()
	t.Setenv("CARD_API", server.URL)
	write(t, "fraud.yaml", freezesPipeline)
	out, end := background(t, "run", "fraud.yaml", "--listen", "127.0.0.1:0", "--token", "t", "--traces", server.URL, "--trace-ratio", "0")
	out.wait(t, "afterbay tail freezes --follow")
	url := out.String()
	_, url, _ = strings.Cut(url, "listening on ")
	url, _, _ = strings.Cut(url, ": POST")
	for i, parent := range []string{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", ""} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/topics/payments", strings.NewReader(fmt.Sprintf(`{"tx":"t%d","customer":"c","amount":99}`, i)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer t")
		r.Header.Set("Traceparent", parent)
		r.Header.Set("X-Correlation-Id", "order-7")
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		if reply.StatusCode != http.StatusOK || reply.Header.Get("X-Correlation-Id") != "order-7" {
			t.Errorf("%s, correlation %q", reply.Status, reply.Header.Get("X-Correlation-Id"))
		}
	}
	follow, _ := background(t, "tail", "freezes", "--follow", "--limit", "2")
	follow.wait(t, `"tx":"t1"`)
	end() // sends what is left, and delivers
	must(t, "", "run", "fraud.yaml", "--listen", "none", "--until-idle")
	mu.Lock()
	defer mu.Unlock()
	if strings.Count(traces, `"name":"fraud"`) != 1 || !strings.Contains(traces, `"traceId":"0af7651916cd43dd8448eb211c80319c"`) || !strings.Contains(traces, `"name":"commit"`) {
		t.Error(traces)
	}
	_, span, _ := strings.Cut(calls, "00-0af7651916cd43dd8448eb211c80319c-")
	span, _, _ = strings.Cut(span, "-01 order-7")
	if len(span) != 16 || !strings.Contains(traces, `"spanId":"`+span+`","parentSpanId":"b7ad6b7169203331","name":"fraud"`) || strings.Count(calls, "order-7") != 2 {
		t.Errorf("calls of the sink:\n%s", calls)
	}
}

package admin

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/observe"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// post sends records of partition 1, and returns the status of the reply and its
// Retry-After.
func (l *lagging) post(records int) (status int, after string) {
	l.Helper()
	key := ""
	for n := 0; stream.Place([]byte(key), 2) != 1; n++ {
		key = fmt.Sprint(n)
	}
	body := strings.Repeat(fmt.Sprintf("{\"k\":%q}\n", key), records)
	r := httptest.NewRequestWithContext(l.Context(), http.MethodPost, "/v1/topics/in", strings.NewReader(body))
	r.Host = "127.0.0.1"
	reply := httptest.NewRecorder()
	l.http.ServeHTTP(reply, r)
	return reply.Code, reply.Header().Get("Retry-After")
}

func (l *lagging) wantPost(records, status int, after string) {
	l.Helper()
	if got, wait := l.post(records); got != status || wait != after {
		l.Fatalf("%d records: %d, Retry-After %q, want %d, %q", records, got, wait, status, after)
	}
}

// waits returns how many records of partition 1 are not committed.
func (l *lagging) waits() int {
	l.Helper()
	p := stream.Partition{Topic: "in", Index: 1}
	_, next, err := l.Log.Offsets(l.Context(), p)
	if err != nil {
		l.Fatal(err)
	}
	committed, err := l.Committed(l.Context(), "copy", p)
	if err != nil {
		l.Fatal(err)
	}
	return int(next - committed)
}

func TestSourceIsTurnedAwayUntilTheBacklogIsLow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := watchingBacklog(t, lang.Lag{}, lang.Backlog{Max: 100, High: 75, Low: 25})
		l.watch()
		l.wantPost(101, 413, "")
		l.wantPost(60, 200, "")
		l.wantPost(41, 429, "1")
		l.wantPost(20, 200, "") // between two measurements
		l.wantPost(1, 429, "1")
		if n := l.waits(); n != 80 {
			t.Fatalf("%d records wait", n)
		}
		l.pass(5 * time.Second)
		l.commit(20) // 60 are left, and in 10 s it takes 10 more
		l.pass(5 * time.Second)
		l.wantPost(1, 429, "18")
		reply := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/status", nil)
		r.Host = "127.0.0.1"
		l.http.ServeHTTP(reply, r)
		var got Status
		if err := json.Unmarshal(reply.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		want := []running.Source{{Pipeline: "copy", Topic: "in", Queue: "backlog", State: "throttled", Waiting: 60, Max: 100, High: 75, Low: 25, Switches: 1, ThrottledSeconds: 10, Refused: 3}}
		if diff := cmp.Diff(want, got.Pipelines[0].Sources); diff != "" {
			t.Error(diff)
		}
		l.commit(55)
		l.wantPost(1, 429, "18") // not measured yet
		l.pass(time.Second)
		l.wantPost(50, 200, "")
		if text := l.logged.String(); strings.Count(text, "records are refused") != 2 || strings.Count(text, "records are taken again") != 1 {
			t.Error(text)
		}
	})
}

// TestBacklogIsNeverBeyondItsBound has sources send what they like.
func TestBacklogIsNeverBeyondItsBound(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	synctest.Test(t, func(t *testing.T) {
		l := watchingBacklog(t, lang.Lag{}, lang.Backlog{Max: 100})
		l.watch()
		taken, refused, committed := 0, 0, 0
		for range 2000 {
			switch random.IntN(4) {
			case 0:
				committed += random.IntN(1 + taken - committed)
				l.commit(stream.Offset(committed))
			case 1:
				l.pass(time.Duration(random.IntN(700)) * time.Millisecond)
			default:
				n := 1 + random.IntN(30)
				if status, _ := l.post(n); status == 200 {
					taken += n
				} else {
					refused++
				}
			}
			if n := l.waits(); n > 100 {
				t.Fatalf("%d records wait", n)
			}
		}
		if taken < 1000 || refused < 100 {
			t.Errorf("%d records were taken, %d requests refused", taken, refused)
		}
		l.commit(stream.Offset(taken))
		l.pass(time.Second)
		l.wantPost(70, 200, "")
	})
}

func TestRecordsOnTheirWayCountAsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := watchingBacklog(t, lang.Lag{}, lang.Backlog{Max: 100}).backlogs
		found := func(n int64) { b.measured(time.Now(), []observe.Lag{{Group: "copy", Topic: "in", Records: n}}) }
		done, err := b.admit("in", 40)
		if err != nil {
			t.Fatal(err)
		}
		b.begin()
		found(0) // before they are in the log
		if n := b.waiting(b.list[0]); n != 40 {
			t.Errorf("%d wait", n)
		}
		b.begin()
		done()
		found(40)
		if n := b.waiting(b.list[0]); n < 40 {
			t.Errorf("%d wait", n)
		}
		b.begin()
		found(40)
		if n := b.waiting(b.list[0]); n != 40 {
			t.Errorf("%d wait", n)
		}
	})
}

// TestClientWaitsAndSendsLess appends more than may wait to a server whose
// pipeline has been slow.
func TestClientWaitsAndSendsLess(t *testing.T) {
	var sizes []int
	refused := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var lines int
		for buffer := make([]byte, 1); ; {
			if n, err := r.Body.Read(buffer); n == 0 && err != nil {
				break
			} else if buffer[0] == '\n' {
				lines++
			}
		}
		sizes = append(sizes, lines)
		switch {
		case lines > 3:
			problem(w, http.StatusRequestEntityTooLarge, "", "too many")
		case len(sizes) > 2 && !refused:
			refused = true
			w.Header().Set("Retry-After", "1")
			problem(w, http.StatusTooManyRequests, "", "behind")
		default:
			if got, want := r.Header.Get(ingest.HeaderSequence), fmt.Sprint(5+2*(len(sizes)-4)); got != want {
				t.Errorf("request %d begins with record %s, want %s", len(sizes), got, want)
			}
			ingest.WriteJSON(w, http.StatusOK, ingest.Reply{Appended: lines - 1, Repeated: 1})
		}
	}))
	defer server.Close()
	records := make([]stream.Record, 10)
	for i := range records {
		records[i] = stream.Record{Partition: stream.Partition{Topic: "in"}, Value: []byte("{}")}
	}
	client := &Client{URL: server.URL}
	repeated, err := client.AppendOnce(t.Context(), "me", 5, records...)
	if diff := cmp.Diff([]int{10, 5, 2, 2, 2, 2, 2, 2}, sizes); diff != "" || err != nil || repeated != 5 || !refused {
		t.Errorf("%v, %d repeated, %s", err, repeated, diff)
	}
}

// TestRecordsThatAreCopiedFirstWaitUntilTheCopyIsRead has a pipeline of two
// inputs, of which one is bounded.
func TestRecordsThatAreCopiedFirstWaitUntilTheCopyIsRead(t *testing.T) {
	input := func(topic string, most int) lang.Input {
		return lang.Input{Topic: topic, Key: "k", Fields: []lang.Field{{Name: "k", Type: "string"}}, Backlog: lang.Backlog{Max: most}}
	}
	runner, err := builtin.New(lang.Pipeline{
		Name: "both", Inputs: []lang.Input{input("chats", 100), input("calls", 0)},
		Steps: []lang.Step{&steps.Emit{Topic: "out", Names: []string{"k"}}},
	}, running.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := newBacklogs([]*running.Runner{runner}, slog.New(slog.DiscardHandler))
	b.begin()
	b.measured(time.Now(), []observe.Lag{
		{Group: "both.repartition.chats", Topic: "chats", Records: 1}, {Group: "both.repartition.chats", Topic: "chats", Partition: 1, Records: 2},
		{Group: "both.repartition.calls", Topic: "calls", Records: 10}, {Group: "both", Topic: "both.repartition", Records: 20}, {Group: "other", Topic: "chats", Records: 40},
	})
	if len(b.list) != 1 || b.list[0].topic != "chats" || b.waiting(b.list[0]) != 23 {
		t.Errorf("%d bounds, %d wait, want 23", len(b.list), b.waiting(b.list[0]))
	}
}

// TestRecordsThatWaitFurtherDownTheChainCount bounds the first of three pipelines,
// beside one that has nothing to do with them.
func TestRecordsThatWaitFurtherDownTheChainCount(t *testing.T) {
	var runners []*running.Runner
	for _, name := range []string{"in", "a", "b", "other"} {
		runner, err := builtin.New(lang.Pipeline{
			Name:  "of-" + name,
			Input: lang.Input{Topic: name, Key: "k", Fields: []lang.Field{{Name: "k", Type: "string"}}, Backlog: lang.Backlog{Max: 100}},
			Steps: []lang.Step{&steps.Emit{Topic: map[string]string{"in": "a", "a": "b", "b": "c", "other": "d"}[name], Names: []string{"k"}}},
		}, running.Options{})
		if err != nil {
			t.Fatal(err)
		}
		runners = append(runners, runner)
	}
	b := newBacklogs(runners, slog.New(slog.DiscardHandler))
	b.queued = func(r *running.Runner) int64 { return int64(1000 * (slices.Index(runners, r) + 1)) }
	b.begin()
	b.measured(time.Now(), []observe.Lag{
		{Group: "of-in", Topic: "in", Records: 1}, {Group: "of-a", Topic: "a", Records: 2}, {Group: "of-a", Topic: "a", Partition: 1, Records: 4},
		{Group: "of-b", Topic: "b", Records: 8}, {Group: "of-other", Topic: "other", Records: 16}, {Group: "reader", Topic: "a", Records: 32},
	})
	for i, want := range []int{5015, 3014, 8, 16} {
		if got := b.waiting(b.list[i]); got != want {
			t.Errorf("%s: %d wait, want %d", b.list[i].runner.Name(), got, want)
		}
	}
}

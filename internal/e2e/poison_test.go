package e2e_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	modelserver "github.com/afterbay/afterbay/internal/models/remote"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

var callsTimed = flag.Bool("calls.timed", false, "TestPoisonEndsAndStopsNobody and TestCallsHaveThePlacesThatAreThere also compare times, on a machine that does nothing else")

// chatStub is a chat server on loopback. A question is answered after the time that it
// takes, in so many places: others are refused, or wait for one.
type chatStub struct {
	takes  time.Duration
	slots  int  // 0 is any number
	queues bool // a request without a place waits for one

	server *httptest.Server
	places chan struct{}
	mu     sync.Mutex
	asked  map[string]int       // by question
	at     map[string]time.Time // of the answer
	keys   map[string]bool      // of idempotency
	under  int                  // way
	most   int
	spans  []span
	codes  map[int]int
}

type span struct{ from, to time.Time }

func (s *chatStub) start(t *testing.T) string {
	s.asked, s.at, s.keys, s.codes = map[string]int{}, map[string]time.Time{}, map[string]bool{}, map[int]int{}
	s.places = make(chan struct{}, max(s.slots, 1))
	s.server = httptest.NewServer(s)
	t.Cleanup(s.server.Close)
	return s.server.URL
}

func (s *chatStub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.Method == http.MethodGet {
		fmt.Fprint(w, `{}`)
		return
	}
	var asked struct{ Messages []struct{ Content string } }
	_ = json.Unmarshal(body, &asked)
	question := asked.Messages[0].Content
	s.mu.Lock()
	s.asked[question]++
	s.keys[r.Header.Get("Idempotency-Key")] = true
	s.under++
	s.most = max(s.most, s.under)
	began := time.Now()
	s.mu.Unlock()
	code, content := s.answer(r.Context(), question)
	s.mu.Lock()
	s.under--
	if s.codes[code]++; code == http.StatusOK {
		s.at[question] = time.Now()
		s.spans = append(s.spans, span{began, time.Now()})
	}
	s.mu.Unlock()
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"choices":[{"message":{"content":%q},"finish_reason":"stop"}]}`, content)
}

func (s *chatStub) answer(ctx context.Context, question string) (code int, content string) {
	kind, _, _ := strings.Cut(question, " ")
	if s.slots > 0 {
		select {
		case s.places <- struct{}{}:
			defer func() { <-s.places }()
		default:
			if !s.queues {
				return http.StatusTooManyRequests, ""
			}
			select {
			case s.places <- struct{}{}:
				defer func() { <-s.places }()
			case <-ctx.Done():
				return http.StatusRequestTimeout, ""
			}
		}
	}
	switch kind {
	case "fails":
		return http.StatusInternalServerError, ""
	case "refused":
		return http.StatusTooManyRequests, ""
	case "long":
		<-ctx.Done() // the caller gives it up
		return http.StatusRequestTimeout, ""
	}
	timer := time.NewTimer(s.takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	if kind == "schema" {
		return http.StatusOK, "I will not say"
	}
	return http.StatusOK, `{"anger": 0.5}`
}

// chatPipeline asks the stub about each event.
func chatPipeline(t *testing.T, url string, call lang.Calling, score steps.Score) lang.Pipeline {
	m, err := modelserver.Load(t.Context(), modelserver.Options{
		URL: url, API: modelserver.Chat, Model: "m", Chat: modelserver.ChatConfig{Prompt: "{text}"},
		Inputs: []model.Input{{Name: "text", Type: model.String}}, Outputs: []model.Output{{Name: "anger", Size: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	score.Model, score.Inputs = "chat", []string{"text"}
	return lang.Pipeline{
		Name:   "chats",
		Input:  lang.Input{Topic: "in", Partitions: 1, Key: "text", Fields: []lang.Field{{Name: "text", Type: "string"}}},
		Commit: lang.Commit{Interval: 5 * time.Millisecond},
		Models: []lang.Model{{Name: "chat", Go: "chat", Version: 1, Outputs: []lang.Field{{Name: "anger", Type: "number"}}, Call: &call}},
		Steps:  []lang.Step{&score, &steps.Emit{Topic: "out", Names: []string{"text", "chat.anger"}}},
		Code:   lang.Code{Models: map[string]model.Model{"chat": m}},
	}
}

// runChats runs a pipeline over questions to its end, and to that of the server that is asked.
func runChats(t *testing.T, s *chatStub, p lang.Pipeline, questions []string) answers.Answer {
	t.Helper()
	var events []stream.Record
	for _, q := range questions {
		events = append(events, stream.Record{Partition: stream.Partition{Topic: "in"}, Key: []byte(q), Value: fmt.Appendf(nil, `{"text":%q}`, q)})
	}
	answer, _ := runQueueing(t, memory.New(memory.Options{}), p, 1, events)
	s.server.Close() // requests that their callers gave up are counted, too
	return answer
}

// poisoned returns n questions with one of each kind among them, spread.
func poisoned(n int, kinds ...string) (questions []string) {
	for i := range n {
		kind := "fine"
		if len(kinds) > 0 && i%(n/len(kinds)) == 0 && i/(n/len(kinds)) < len(kinds) {
			kind = kinds[i/(n/len(kinds))]
		}
		questions = append(questions, fmt.Sprint(kind, " ", i))
	}
	return questions
}

// TestPoisonEndsAndStopsNobody asks a chat model 170 questions. It never answers 10 of
// them as it should. The others are answered, and each of the 10 is a dead letter.
func TestPoisonEndsAndStopsNobody(t *testing.T) {
	t.Parallel() // it waits more than it computes
	const n, attempts = 170, 3
	figures := []string{fmt.Sprint("poison.attempts ", attempts, " calls")}
	run := func(t *testing.T, name string, score steps.Score, kinds ...string) time.Duration {
		s := &chatStub{takes: 100 * time.Millisecond}
		timeout := 3 * time.Second // on a busy machine a good call may take one
		if *callsTimed {
			timeout = time.Second
		}
		p := chatPipeline(t, s.start(t), lang.Calling{Timeout: timeout, Attempts: attempts}, score)
		began := time.Now()
		answer := runChats(t, s, p, poisoned(n, kinds...))
		if outputs, dead := len(answer.Values("out")), len(answer.Values("chats.dlq")); outputs != n-len(kinds) || dead != len(kinds) {
			t.Fatalf("%d outputs of %d, %d dead letters of %d", outputs, n-len(kinds), dead, len(kinds))
		}
		var after []time.Duration
		calls := map[string][]int{}
		for question, times := range s.asked {
			if kind, _, _ := strings.Cut(question, " "); kind != "fine" {
				calls[kind] = append(calls[kind], times)
			} else {
				after = append(after, s.at[question].Sub(began))
			}
		}
		slices.Sort(after)
		for kind, times := range calls {
			if slices.Min(times) < attempts || *callsTimed && slices.Max(times) > attempts {
				t.Errorf("%s: calls of each event: %v, of %d attempts", kind, times, attempts)
			}
		}
		t.Logf("%d poison: p50 %v, the last good one after %v, all after %v; calls of poison %v", len(kinds), after[len(after)/2].Round(time.Millisecond), after[len(after)-1].Round(time.Millisecond), time.Since(began).Round(time.Millisecond), calls)
		p50 := after[len(after)/2]
		figures = append(figures, fmt.Sprintf("%s.p50 %d ms", name, p50.Milliseconds()))
		for kind, times := range calls {
			figures = append(figures, fmt.Sprintf("%s.calls.%s %d calls", name, kind, slices.Max(times)))
		}
		return p50
	}
	for name, score := range map[string]steps.Score{"async": {Async: true}, "in-place": {}} {
		t.Run(name, func(t *testing.T) {
			mixed := []string{"schema", "fails", "long", "schema", "fails", "long", "schema", "fails", "long", "schema"}
			if !*callsTimed {
				run(t, name, score, mixed...)
				return
			}
			without := run(t, "poison."+name+".none", score)
			for _, poison := range []struct {
				name  string
				kinds []string
			}{
				{"mixed", mixed}, {"schema", slices.Repeat([]string{"schema"}, 10)}, {"fails", slices.Repeat([]string{"fails"}, 10)},
				{"long", slices.Repeat([]string{"long"}, 10)}, {"two-long", []string{"long", "long"}}, {"two-refused", []string{"refused", "refused"}},
			} {
				of := "poison." + name + "." + poison.name
				with := run(t, of, score, poison.kinds...)
				figures = append(figures, fmt.Sprintf("%s.p50-ratio %.2f x", of, float64(with)/float64(without)))
				if with > without*3/2 {
					t.Errorf("%v: p50 %v, %v without", poison.kinds, with, without)
				}
			}
		})
	}
	if *callsTimed {
		slices.Sort(figures)
		fmt.Fprintln(t.Output(), strings.Join(figures, "\n"))
	}
}

// TestRequestsInPlaceHaveTheTimeoutEach asks more questions in the places of events than
// can be answered within a timeout. Each is answered in time, and asked once.
func TestRequestsInPlaceHaveTheTimeoutEach(t *testing.T) {
	t.Parallel()
	const n = 112 // 16 at a time: 7 s in all
	s := &chatStub{takes: time.Second}
	answer := runChats(t, s, chatPipeline(t, s.start(t), lang.Calling{Timeout: 6 * time.Second}, steps.Score{}), poisoned(n))
	if outputs := len(answer.Values("out")); outputs != n {
		t.Errorf("%d outputs of %d", outputs, n)
	}
	for question, times := range s.asked {
		if times != 1 {
			t.Errorf("%s: asked %d times", question, times)
		}
	}
}

package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/afterbay/afterbay/model"
)

// named is a server that notes the names of calls, and hangs up on those that
// come over a connection that was used before.
type named struct {
	mutex  sync.Mutex
	names  []string
	used   map[string]bool // by the client's address
	cruel  bool
	answer string
}

func (n *named) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if r.Method == http.MethodGet {
		fmt.Fprint(w, `{"name": "m"}`)
		return
	}
	n.names = append(n.names, r.Header.Get(idempotencyHeader))
	if n.cruel && n.used[r.RemoteAddr] {
		panic(http.ErrAbortHandler)
	}
	n.used[r.RemoteAddr] = true
	fmt.Fprint(w, n.answer)
}

func (n *named) take() []string {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	names := n.names
	n.names = nil
	return names
}

func startNamed(t *testing.T, cruel bool) (*named, *Model) {
	t.Helper()
	n := &named{used: map[string]bool{}, cruel: cruel, answer: `{"outputs": [{"name": "p", "datatype": "FP32", "shape": [1, 1], "data": [1]}]}`}
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	m, err := Load(t.Context(), Options{URL: server.URL, JSON: true, Model: "m", Inputs: []model.Input{{Name: "a", Type: model.Number}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return n, m
}

func predictOne(ctx context.Context, m *Model, value float64) error {
	return m.Predict(ctx, model.Rows{Width: 1, Values: []float64{value}}, make([]float32, 1))
}

func TestCallHasTheSameNameWheneverItIsMade(t *testing.T) {
	n, m := startNamed(t, false)
	about := func(event string) context.Context {
		return model.WithCall(t.Context(), model.Call{Event: event, Once: true})
	}
	for _, c := range []struct {
		ctx   context.Context
		value float64
	}{{t.Context(), 1}, {t.Context(), 1}, {about(""), 1}, {t.Context(), 2}, {about("e1"), 1}, {about("e1"), 1}, {about("e2"), 1}} {
		if err := predictOne(c.ctx, m, c.value); err != nil {
			t.Fatal(err)
		}
	}
	got := n.take()
	want := []int{0, 0, 0, 1, 2, 2, 3}
	if len(got) != len(want) || len(got[0]) != 32 {
		t.Fatalf("%q", got)
	}
	for i := range want {
		for j := range want {
			if (got[i] == got[j]) != (want[i] == want[j]) {
				t.Errorf("calls %d and %d have the names %q and %q", i, j, got[i], got[j])
			}
		}
	}
}

func TestCallOfSomebodyWhoRepeatsIsMadeOnce(t *testing.T) {
	n, m := startNamed(t, true)
	if err := predictOne(t.Context(), m, 1); err != nil { // leaves an idle connection
		t.Fatal(err)
	}
	n.take()
	var failure *Error
	if err := predictOne(model.WithCall(t.Context(), model.Call{Once: true}), m, 1); !errors.As(err, &failure) || failure.Fault != Unreachable {
		t.Errorf("%v", err)
	}
	if names := n.take(); len(names) != 1 {
		t.Errorf("the call was made %d times", len(names))
	}
	for range 2 { // the first leaves an idle connection, the second is repeated over another one
		if err := predictOne(t.Context(), m, 1); err != nil {
			t.Fatal(err)
		}
	}
	if names := n.take(); len(names) != 3 || names[1] != names[2] {
		t.Errorf("a call that anybody may repeat has the names %q", names)
	}
}

// TestCallsOfEveryAPIHaveNames asks each twice for the same, and once for another.
func TestCallsOfEveryAPIHaveNames(t *testing.T) {
	text, sound := []model.Input{{Name: "text", Type: model.String}}, []model.Input{{Name: "sound", Type: model.Bytes}}
	score := []model.Output{{Name: "score", Size: 1}}
	for _, o := range []Options{
		{API: Embeddings, Model: "m", Inputs: text, Outputs: score},
		{API: Moderations, Model: "m", Inputs: text, Outputs: score},
		{API: Chat, Model: "m", Inputs: text, Outputs: score, Chat: ChatConfig{Prompt: "{text}?"}},
		{API: HTTP, Inputs: text, Outputs: score},
		{API: Transcriptions, Model: "m", Inputs: sound, Outputs: []model.Output{{Name: "text", Size: 1, Type: model.String}}},
	} {
		t.Run(string(o.API), func(t *testing.T) {
			n := &named{used: map[string]bool{}, answer: "{}"}
			server := httptest.NewServer(n)
			defer server.Close()
			o.URL = server.URL
			m, err := Load(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if info := m.Info(); info.Request == "" || info.Timeout == 0 || info.Generative != (o.API == Chat || o.API == Transcriptions) {
				t.Errorf("%+v", info)
			}
			n.take()
			for _, asks := range []string{"a", "a", "b"} {
				rows := model.Rows{BytesWidth: 1, Bytes: [][]byte{[]byte(asks)}}
				if err := m.Answer(t.Context(), rows, make([]float32, 1), make([][]byte, 1)); err == nil {
					t.Error("an empty answer is taken")
				}
			}
			if names := n.take(); len(names) != 3 || names[0] == "" || names[0] != names[1] || names[1] == names[2] {
				t.Errorf("%q", names)
			}
		})
	}
}

// TestRequestsAreOfWhatIsAskedNotOfWhere opens a model on another host, and one of another
// path.
func TestRequestsAreOfWhatIsAskedNotOfWhere(t *testing.T) {
	of := func(url string) string {
		m, err := Open(Options{URL: url, API: HTTP, Inputs: []model.Input{{Name: "text", Type: model.String}}, Outputs: []model.Output{{Name: "score", Size: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		return m.Info().Request
	}
	first := of("https://models/tone")
	if moved := of("http://localhost:1/tone"); moved != first {
		t.Errorf("on another host, %s is asked, not %s", moved, first)
	}
	if other := of("https://models/mood"); other == first {
		t.Errorf("the request of another path is %s too", other)
	}
}

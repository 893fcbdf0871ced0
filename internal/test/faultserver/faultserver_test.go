package faultserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/internal/models/remote"
	"github.com/afterbay/afterbay/internal/test/faultserver"
	"github.com/afterbay/afterbay/model"
)

func TestMain(m *testing.M) {
	faultserver.Main()
	os.Exit(m.Run())
}

// start starts a server that notes its calls, and a model of two numbers that it
// holds.
func start(t *testing.T, o faultserver.Options, timeout time.Duration) (*faultserver.Process, *remote.Model) {
	t.Helper()
	o.File = filepath.Join(t.TempDir(), "calls")
	server := faultserver.Start(t, o)
	return server, load(t, server, timeout)
}

func load(t *testing.T, server *faultserver.Process, timeout time.Duration) *remote.Model {
	t.Helper()
	m, err := remote.Load(t.Context(), remote.Options{
		URL: server.URL, JSON: true, Model: "risk", Timeout: timeout,
		Inputs: []model.Input{{Name: "a", Type: model.Number}, {Name: "b", Type: model.Number}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// predict asks for the scores of rows (a, 0.5), once.
func predict(m *remote.Model, numbers ...float64) ([]float32, error) {
	rows := model.Rows{Width: 2}
	for _, a := range numbers {
		rows.Append([]float64{a, 0.5}, nil)
	}
	scores := make([]float32, len(numbers))
	return scores, m.Predict(model.WithCall(context.Background(), model.Call{Once: true}), rows, scores)
}

func counts(t *testing.T, server *faultserver.Process) faultserver.Counts {
	t.Helper()
	calls, err := faultserver.ReadCalls(server.Options.File)
	if err != nil {
		t.Fatal(err)
	}
	return faultserver.Count(calls)
}

func TestEveryRowIsScoredByItselfAndCounted(t *testing.T) {
	server, m := start(t, faultserver.Options{}, 20*time.Second)
	for _, numbers := range [][]float64{{1, 2, 3}, {3}, {2, 1}} {
		scores, err := predict(m, numbers...)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range numbers {
			if want := faultserver.Score(fmt.Sprint(a), "0.5"); scores[i] != want || want < 0 || want >= 1 {
				t.Errorf("the score of %g is %g, want %g", a, scores[i], want)
			}
		}
	}
	got := counts(t, server)
	if got.Calls != 3 || got.Paid != 3 || got.Rows != 6 || got.Distinct != 3 || got.Flying != 1 || len(got.Names) != 3 {
		t.Errorf("%+v", got)
	}
}

func TestFaultsAreThoseOfServersAndPass(t *testing.T) {
	for _, c := range []struct {
		fault   faultserver.Fault
		options faultserver.Options
		want    remote.Fault // 0 is an answer
		paid    int          // of two calls
	}{
		{faultserver.Slow, faultserver.Options{Slow: 1}, 0, 2},
		{faultserver.Hang, faultserver.Options{Hang: 1}, remote.Late, 1},
		{faultserver.Fail, faultserver.Options{Fail: 1}, remote.Failed, 1},
		{faultserver.Reset, faultserver.Options{Reset: 1}, remote.Unreachable, 2},
		{faultserver.Half, faultserver.Options{Half: 1}, remote.Unreachable, 2},
	} {
		t.Run(string(c.fault), func(t *testing.T) {
			c.options.Tries = 1
			server, m := start(t, c.options, 20*time.Second)
			first := m
			if c.want == remote.Late {
				first = load(t, server, 2*time.Second) // in which the call has to come to the server
			}
			wantFault(t, first, c.want)
			wantFault(t, m, 0)
			if got := counts(t, server); got.Calls != 2 || got.Paid != c.paid || got.Faults[c.fault] != 1 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// wantFault makes a call, which is to have a fault; 0 is none.
func wantFault(t *testing.T, m *remote.Model, want remote.Fault) {
	t.Helper()
	scores, err := predict(m, 1)
	var failure *remote.Error
	switch {
	case want == 0 && (err != nil || scores[0] != faultserver.Score("1", "0.5")):
		t.Errorf("%v, %v", scores, err)
	case want != 0 && (!errors.As(err, &failure) || failure.Fault != want):
		t.Errorf("%v, want %v", err, want)
	}
}

func TestWrongAnswersAreSeenToBeWrong(t *testing.T) {
	server, m := start(t, faultserver.Options{Wrong: 1, Tries: 1}, 20*time.Second)
	said := map[string]bool{}
	for a := range 40 {
		_, err := predict(m, float64(a), float64(a+1000))
		var failure *remote.Error
		if !errors.As(err, &failure) || failure.Fault != remote.Malformed {
			t.Errorf("%v", err)
			continue
		}
		said[failure.Err.Error()] = true
	}
	if len(said) < 4 {
		t.Errorf("the faults are %v", said)
	}
	if got := counts(t, server); got.Paid != 40 || got.Faults[faultserver.Wrong] != 40 {
		t.Errorf("%+v", got)
	}
}

func TestSharesAreThoseOfTheOptionsAndTheSeedChooses(t *testing.T) {
	chosen := func(seed uint64) string {
		server, m := start(t, faultserver.Options{Seed: seed, Fail: 0.3, Wrong: 0.2, Tries: 1}, 20*time.Second)
		for a := range 200 {
			_, _ = predict(m, float64(a))
		}
		got := counts(t, server)
		if f, w := got.Faults[faultserver.Fail], got.Faults[faultserver.Wrong]; f < 40 || f > 80 || w < 22 || w > 60 {
			t.Errorf("%+v", got)
		}
		calls, err := faultserver.ReadCalls(server.Options.File)
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for i := range calls {
			fmt.Fprintln(&all, calls[i].Rows, calls[i].Fault)
		}
		return all.String()
	}
	one, again, two := chosen(1), chosen(1), chosen(2)
	if one != again || one == two {
		t.Errorf("equal with one seed: %v; different with another: %v", one == again, one != two)
	}
}

func TestServerIsGoneOrOutOfOrderForAWhile(t *testing.T) {
	always := faultserver.Cycle{Every: time.Hour, For: time.Hour}
	server, m := start(t, faultserver.Options{Flap: always}, 20*time.Second)
	wantFault(t, m, remote.Unreachable)
	if got := counts(t, server); got.Paid != 0 || got.Faults[faultserver.Down] != 1 {
		t.Errorf("%+v", got)
	}
	server, m = start(t, faultserver.Options{Burst: always}, 20*time.Second)
	wantFault(t, m, remote.Failed)
	if got := counts(t, server); got.Paid != 0 || got.Faults[faultserver.Fail] != 1 {
		t.Errorf("%+v", got)
	}
	_, m = start(t, faultserver.Options{Flap: faultserver.Cycle{Every: time.Hour, For: time.Minute}}, 20*time.Second)
	wantFault(t, m, 0)
}

func TestPoisonRefusesTheWholeCall(t *testing.T) {
	server, m := start(t, faultserver.Options{Poison: "666"}, 20*time.Second)
	var failure *remote.Error
	if _, err := predict(m, 1, 666, 3); !errors.As(err, &failure) || failure.Fault != remote.Refused {
		t.Errorf("%v", err)
	}
	wantFault(t, m, 0)
	if got := counts(t, server); got.Paid != 1 || got.Faults[faultserver.Poisoned] != 1 {
		t.Errorf("%+v", got)
	}
}

// post calls with a name, and returns the answer.
func post(t *testing.T, url, name, body string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Idempotency-Key", name)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestCallsOfOpenAIAreAnsweredInTheirForm(t *testing.T) {
	server, _ := start(t, faultserver.Options{}, 20*time.Second)
	var vectors struct {
		Data []struct{ Embedding []float32 }
	}
	read(t, post(t, server.URL+"/v1/embeddings", "", `{"model": "e", "input": ["one", "two"]}`), &vectors)
	for i, text := range []string{"one", "two"} {
		for k := range faultserver.EmbeddingSize {
			if got, want := vectors.Data[i].Embedding[k], faultserver.Score(text, fmt.Sprint(k)); got != want {
				t.Errorf("number %d of %q is %g, want %g", k, text, got, want)
			}
		}
	}
	var flags struct {
		Results []struct {
			Scores map[string]float32 `json:"category_scores"`
		}
	}
	read(t, post(t, server.URL+"/v1/moderations", "", `{"input": "two"}`), &flags)
	if got, want := flags.Results[0].Scores["harm"], faultserver.Score("two"); got != want {
		t.Errorf("the score is %g, want %g", got, want)
	}
	const question = `{"model": "c", "messages": [{"role": "user", "content": "why?"}]}`
	var reply struct {
		Choices []struct{ Message struct{ Content string } }
	}
	read(t, post(t, server.URL+"/v1/chat/completions", "", question), &reply)
	if got, want := reply.Choices[0].Message.Content, fmt.Sprint(faultserver.Score(question)); got != want {
		t.Errorf("the answer is %s, want %s", got, want)
	}
	for range 2 { // a sound is the same in every form
		if text := transcribe(t, server.URL, faultserver.Say("my parcel is late", []byte{1, 2, 3})); text != "my parcel is late" {
			t.Errorf("%q", text)
		}
	}
	if got := counts(t, server); got.Rows != 6 || got.Distinct != 5 {
		t.Errorf("%+v", got)
	}
	if text := post(t, server.URL+"/v1/embeddings", "", `{"input": 7}`); !strings.Contains(text, "is to be a text") {
		t.Error(text)
	}
}

// transcribe has a server hear a sound.
func transcribe(t *testing.T, url string, sound []byte) string {
	t.Helper()
	m, err := remote.Load(t.Context(), remote.Options{URL: url + "/v1", API: remote.Transcriptions, Model: "w", Inputs: []model.Input{{Name: "audio", Type: model.Bytes}}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	texts := make([][]byte, 1)
	if err := calling.Ask(model.WithCall(t.Context(), model.Call{Once: true}), m, model.Rows{BytesWidth: 1, Bytes: [][]byte{sound}}, nil, texts); err != nil {
		t.Fatal(err)
	}
	return string(texts[0])
}

func read(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func TestNameThatIsHonouredHasOneEffectThroughRestarts(t *testing.T) {
	for _, honour := range []bool{true, false} {
		o := faultserver.Options{Honour: honour, File: filepath.Join(t.TempDir(), "calls")}
		server := faultserver.Start(t, o)
		first := post(t, server.URL+"/freeze", "freeze:1", `{"card":1}`)
		if second := post(t, server.URL+"/freeze", "freeze:1", `{"card":1}`); second != first || !strings.HasPrefix(first, `{"score":`) {
			t.Errorf("%s and %s", first, second)
		}
		server.End()
		server = server.Again(t)
		post(t, server.URL+"/freeze", "freeze:1", `{"card":1}`)
		post(t, server.URL+"/freeze", "freeze:2", `{"card":2}`)
		want := map[string]int{"freeze:1": 3, "freeze:2": 1}
		repeats := 0
		if honour {
			want["freeze:1"], repeats = 1, 2
		}
		got := counts(t, server)
		if diff := cmp.Diff(want, got.Names); diff != "" || got.Repeats != repeats || got.Calls != 4 || got.Distinct != 2 {
			t.Errorf("%+v %s", got, diff)
		}
	}
}

func TestCallThatAKillCutOffIsNone(t *testing.T) {
	name := filepath.Join(t.TempDir(), "calls")
	if calls, err := faultserver.ReadCalls(name); calls != nil || err != nil {
		t.Errorf("%v, %v", calls, err)
	}
	text := `{"at":1,"path":"/a","rows":["x"],"paid":true}` + "\n"
	if err := os.WriteFile(name, []byte(text+text[:20]), 0o644); err != nil {
		t.Fatal(err)
	}
	if calls, err := faultserver.ReadCalls(name); len(calls) != 1 || err != nil {
		t.Errorf("%v, %v", calls, err)
	}
	if err := os.WriteFile(name, []byte("what?\n"+text), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := faultserver.ReadCalls(name); err == nil {
		t.Error("a line that is no call is read")
	}
}

func TestOptionsSayWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		options faultserver.Options
		want    string
	}{
		{faultserver.Options{Slow: 2}, "slow is 2: use 0 to 1"},
		{faultserver.Options{Slow: 0.6, Half: 0.6}, "1.2 together"},
		{faultserver.Options{Flap: faultserver.Cycle{Every: time.Second, For: time.Minute}}, "1m0s of every 1s"},
		{faultserver.Options{Tries: -1}, "negative"},
	} {
		if _, err := faultserver.New(c.options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.options, err)
		}
	}
}

package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/model"
)

// fakeService answers calls with what handle returns for their bodies: a status
// and a text.
func fakeService(t *testing.T, handle func(path string, body []byte) (int, string)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			if strings.HasPrefix(r.URL.Path, "/v2/") { // metadata
				_, _ = io.WriteString(w, "{}")
				return
			}
			http.NotFound(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		status, text := handle(r.URL.Path, body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

var oneText = []model.Input{{Name: "text", Type: model.String}}

func textRows(texts ...string) model.Rows {
	rows := model.Rows{BytesWidth: 1}
	for _, text := range texts {
		rows.Append(nil, [][]byte{[]byte(text)})
	}
	return rows
}

func scoresOf(m *Model, rows model.Rows) ([]float32, error) {
	scores := make([]float32, rows.Len()*m.info.Scores())
	return scores, m.Predict(context.Background(), rows, scores)
}

func TestEmbeddingsAreOfTheirTexts(t *testing.T) {
	answer := ""
	url := fakeService(t, func(path string, body []byte) (int, string) {
		if path != "/v1/embeddings" || string(body) != `{"model":"small","input":["a","bc"],"encoding_format":"float"}` {
			t.Errorf("%s: %s", path, body)
		}
		return 200, answer
	})
	m := loadFrom(t, Options{URL: url, API: Embeddings, Model: "small", Inputs: oneText, Outputs: []model.Output{{Name: "vector", Size: 2}}})
	for _, answer = range []string{
		`{"data": [{"index": 1, "embedding": [3, -4e1]}, {"index": 0, "embedding": [ 1.5 , 2 ]}]}`,
		`{"data": [{"embedding": [1.5, 2]}, {"embedding": [3, -40]}]}`,
	} {
		if scores, err := scoresOf(m, textRows("a", "bc")); err != nil || !slices.Equal(scores, []float32{1.5, 2, 3, -40}) {
			t.Errorf("%s: %v, %v", answer, scores, err)
		}
	}
	for _, answer = range []string{
		``, `[]`, `{"data": []}`, `{"data": [{"embedding": [1, 2]}]}`,
		`{"data": [{"index": 0, "embedding": [1, 2]}, {"index": 0, "embedding": [1, 2]}]}`,
		`{"data": [{"index": 1, "embedding": [1, 2]}, {"index": 2, "embedding": [1, 2]}]}`,
		`{"data": [{"embedding": [1, 2]}, {"embedding": [1]}]}`,
		`{"data": [{"embedding": [1, 2]}, {"embedding": [1, 2, 3]}]}`,
		`{"data": [{"embedding": [1, 2]}, {"embedding": [1, null]}]}`,
		`{"data": [{"embedding": [1, 2]}, {"embedding": [1, 1e39]}]}`,
		`{"data": [{"embedding": [1, 2]}, {"embedding": null}]}`,
		`{"data": [{"embedding": [1, 2]}, {"embedding": "AAAA"}]}`,
	} {
		_, err := scoresOf(m, textRows("a", "bc"))
		wantFault(t, err, Malformed, url)
	}
	if err := m.Check(nil, [][]byte{nil}); err == nil || !strings.Contains(err.Error(), `"text": it is missing`) {
		t.Error(err)
	}
	if err := m.Check(nil, [][]byte{{0xff}}); err == nil {
		t.Error("bytes that are not UTF-8 pass")
	}
	if err := m.Predict(t.Context(), model.Rows{Width: 1, Values: []float64{1}}, make([]float32, 2)); err == nil {
		t.Error("rows of numbers pass")
	}
}

func TestModerationsAreScoresOfCategories(t *testing.T) {
	answer := ""
	url := fakeService(t, func(path string, body []byte) (int, string) {
		if path != "/api/v3/moderations" || string(body) != `{"model":"omni","input":["a","b"]}` {
			t.Errorf("%s: %s", path, body)
		}
		return 200, answer
	})
	m := loadFrom(t, Options{URL: url + "/api/v3/", API: Moderations, Model: "omni", Inputs: oneText, Outputs: []model.Output{{Name: "hate/threat", Size: 1}, {Name: "flagged", Size: 1}}})
	answer = `{"results": [{"flagged": false, "category_scores": {"hate/threat": 0.25, "spam": 1}}, {"flagged": true, "category_scores": {"hate/threat": 1}}]}`
	if scores, err := scoresOf(m, textRows("a", "b")); err != nil || !slices.Equal(scores, []float32{0.25, 0, 1, 1}) {
		t.Errorf("%v, %v", scores, err)
	}
	for _, answer = range []string{
		`{}`, `{"results": [{"flagged": true, "category_scores": {"hate/threat": 1}}]}`,
		strings.ReplaceAll(answer, "0.25", "null"), strings.ReplaceAll(answer, "hate/threat", "hate"), strings.ReplaceAll(answer, `"flagged": true, `, ""),
		strings.ReplaceAll(answer, "0.25", "1e300"),
	} {
		_, err := scoresOf(m, textRows("a", "b"))
		wantFault(t, err, Malformed)
	}
}

// chatOptions ask how angry a text is.
func chatOptions(url string) Options {
	return Options{
		URL: url, API: Chat, Model: "gpt", Inputs: []model.Input{{Name: "text", Type: model.String}, {Name: "age", Type: model.Number}},
		Outputs: []model.Output{{Name: "anger", Size: 1}, {Name: "sure", Size: 1}},
		Chat:    ChatConfig{System: "You rate.", Prompt: `How angry, as {"anger": 1}? {age}: {text}`, Answer: 32},
	}
}

func TestChatModelIsAskedForNumbers(t *testing.T) {
	content := func(text, finish string) string {
		data, err := json.Marshal(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": text}, "finish_reason": finish}}})
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	var mu sync.Mutex
	var bodies []string
	url := fakeService(t, func(path string, body []byte) (int, string) {
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, path+" "+string(body))
		switch {
		case bytes.Contains(body, []byte(": x")):
			return 200, content("I will not say", "stop")
		case bytes.Contains(body, []byte(": y")):
			return 400, `{"error": {"message": "too odd", "code": 7}}`
		case bytes.Contains(body, []byte(": z")):
			return 200, content("", "content_filter")
		case bytes.Contains(body, []byte(": cut")):
			return 200, content(`{"anger": 0.`, "length")
		}
		return 200, content("```json\n{\"anger\": 0.75, \"sure\": true, \"why\": \"so\"}\n```", "stop")
	})
	m := loadFrom(t, chatOptions(url))
	rows := model.Rows{Width: 1, BytesWidth: 1}
	for i, text := range []string{"a", "x", "y", "b", "z", "cut"} {
		rows.Append([]float64{float64(i) + 0.1}, [][]byte{[]byte(text)})
	}
	scores, err := scoresOf(m, rows)
	var failed model.RowErrors
	if !errors.As(err, &failed) || len(failed) != 4 {
		t.Fatalf("%v, %v", scores, err)
	}
	for i, want := range []struct {
		row   int
		fault Fault
		word  string
	}{{1, Unfit, "I will not say is not an object"}, {2, Refused, "too odd"}, {4, Refused, "filter"}, {5, Unfit, "cut at 32 tokens"}} {
		if failed[i].Row != want.row {
			t.Errorf("row %d failed, not %d", failed[i].Row, want.row)
		}
		wantFault(t, failed[i].Err, want.fault, want.word)
	}
	if scores[0] != 0.75 || scores[1] != 1 || scores[6] != 0.75 || scores[7] != 1 {
		t.Errorf("%v", scores)
	}
	want := `/v1/chat/completions {"model":"gpt","messages":[{"role":"system","content":"You rate."},` +
		`{"role":"user","content":"How angry, as {\"anger\": 1}? 0.1: a"}],"temperature":0,"max_tokens":32,"response_format":{"json_schema":{"name":"scores",` +
		`"schema":{"additionalProperties":false,"properties":{"anger":{"type":"number"},"sure":{"type":"number"}},"required":["anger","sure"],"type":"object"},"strict":true},"type":"json_schema"}}`
	if !slices.Contains(bodies, want) || len(bodies) != 6 {
		t.Errorf("asked:\n%s\nnot:\n%s", strings.Join(bodies, "\n"), want)
	}
	o := chatOptions(url)
	o.Chat.Reasons, bodies = true, nil
	_, err = scoresOf(loadFrom(t, o), rows.Slice(0, 1))
	want = strings.Replace(want, `"temperature":0,"max_tokens":32`, `"max_completion_tokens":32`, 1)
	if err != nil || !slices.Contains(bodies, want) {
		t.Errorf("asked:\n%s\nnot:\n%s", strings.Join(bodies, "\n"), want)
	}
}

func TestAnswersAreStreamed(t *testing.T) {
	text := ""
	var body []byte
	url := fakeService(t, func(_ string, asked []byte) (int, string) {
		body = asked
		return 200, text
	})
	o := chatOptions(url)
	o.Outputs = []model.Output{{Name: "words", Size: 1, Type: model.String}}
	m := loadFrom(t, o)
	piece := func(content, finish string) string {
		return fmt.Sprintf("data: {\"choices\": [{\"delta\": {\"content\": %s}, \"finish_reason\": %s}]}\n\n", content, finish)
	}
	whole := ": hello\n\nevent: x\n" + piece(`""`, "null") + piece(`"How "`, "null") + "data:" + piece(`"dare"`, "null")[6:] + piece("null", `"length"`) +
		"data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 9, \"completion_tokens\": 2}}\n\n"
	rows := model.Rows{Width: 1, BytesWidth: 1}
	rows.Append([]float64{1}, [][]byte{[]byte("a")})
	var parts []string
	ask := func() (string, error) {
		parts = nil
		texts := make([][]byte, 1)
		ctx := model.WithCall(t.Context(), model.Call{Part: func(row int, part string) { parts = append(parts, fmt.Sprint(row, part)) }})
		err := m.Answer(ctx, rows, nil, texts)
		return string(texts[0]), err
	}
	for _, text = range []string{whole + "data: [DONE]\n\n", whole, strings.ReplaceAll(whole, "\n", "\r\n") + "data: [DONE]\r\n\r\n"} {
		answer, err := ask()
		if err != nil || answer != "How dare" || !slices.Equal(parts, []string{"0How ", "0dare"}) {
			t.Errorf("%s in %q, %v", answer, parts, err)
		}
	}
	if !bytes.Contains(body, []byte(`"max_tokens":32,"stream":true`)) || bytes.Contains(body, []byte("response_format")) {
		t.Errorf("asked: %s", body)
	}
	for cut, want := range map[string]Fault{
		whole[:len(whole)/2]:                         Unreachable,
		piece(`"How "`, "null"):                      Unreachable,
		piece(`"How "`, "null") + "data: [DONE]\n\n": Unreachable,
		"":            Unreachable,
		"data: {\n\n": Malformed,
		"data: {\"error\": {\"message\": \"oh\"}}\n\n":    Failed,
		strings.Repeat(": nothing at all\n\n", 100_000):   Malformed,
		piece(`"How "`, `"content_filter"`) + "data: x\n": Refused,
	} {
		text = cut
		answer, err := ask()
		wantFault(t, err, want)
		if answer != "" {
			t.Errorf("an answer beside an error: %s", answer)
		}
	}
}

func TestSoundsBecomeTexts(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return
		}
		file, about, err := r.FormFile("file")
		if err != nil || r.URL.Path != "/v1/audio/transcriptions" || r.FormValue("model") != "whisper" {
			http.Error(w, "what?", http.StatusBadRequest)
			return
		}
		sound, _ := io.ReadAll(file)
		_ = json.NewEncoder(w).Encode(map[string]string{"text": about.Filename + ": " + string(sound)})
	}))
	defer server.Close()
	m := loadFrom(t, Options{URL: server.URL, API: Transcriptions, Model: "whisper", Inputs: []model.Input{{Name: "sound", Type: model.Bytes}}})
	for sound, name := range map[string]string{"fLaC...": "sound.flac", "ID3...": "sound.mp3", "OggS\x00...": "sound.ogg", "RIFF....WAVE": "sound.wav"} {
		texts := make([][]byte, 1)
		if err := m.Answer(t.Context(), model.Rows{BytesWidth: 1, Bytes: [][]byte{[]byte(sound)}}, nil, texts); err != nil || string(texts[0]) != name+": "+sound {
			t.Errorf("%q, %v", texts, err)
		}
	}
	if err := m.Check(nil, [][]byte{nil}); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("no sound at all: %v", err)
	}
	err := m.Predict(t.Context(), model.Rows{BytesWidth: 1, Bytes: [][]byte{[]byte("x")}}, nil)
	wantFault(t, err, Refused, "Answerer")
}

func TestJSONIsMapped(t *testing.T) {
	answer, body := "", ""
	url := fakeService(t, func(path string, asked []byte) (int, string) {
		body = path + " " + string(asked)
		return 200, answer
	})
	o := Options{
		URL: url + "/score", API: HTTP,
		Inputs:  []model.Input{{Name: "amount", Type: model.Number}, {Name: "spend.sum", Type: model.Number}, {Name: "card", Type: model.String}, {Name: "box", Type: model.Number, Shape: []int{2}}},
		Outputs: []model.Output{{Name: "risk", Size: 1}, {Name: "v", Size: 2}},
		Mapping: Mapping{Rows: "data.rows", Results: "out.list", Send: []Place{{Name: "amount", Place: "tx.amount"}, {Name: "card", Place: "tx.card"}}, Read: []Place{{Name: "risk", Place: "scores.1"}}},
	}
	m := loadFrom(t, o)
	rows := model.Rows{Width: 4, BytesWidth: 1}
	rows.Append([]float64{0.1, 2, 3, 4}, [][]byte{[]byte("x<y")})
	rows.Append([]float64{float64(math.NaN()), 1e9, 0, 0}, [][]byte{nil})
	answer = `{"out": {"list": [{"scores": [0, 0.5], "v": [1, 2]}, {"scores": [0, true], "v": [3, 4]}]}}`
	scores, err := scoresOf(m, rows)
	if err != nil || !slices.Equal(scores, []float32{0.5, 1, 2, 1, 3, 4}) {
		t.Errorf("%v, %v", scores, err)
	}
	if want := `/score {"data":{"rows":[{"box":[3,4],"spend.sum":2,"tx":{"amount":0.1,"card":"x\u003cy"}},{"box":[0,0],"spend.sum":1000000000,"tx":{"amount":null,"card":null}}]}}`; body != want {
		t.Errorf("asked %s\nnot   %s", body, want)
	}
	valid := answer
	for _, answer = range []string{"", "{}", `{"out": {"list": {}}}`, `{"out": {"list": []}}`} {
		_, err := scoresOf(m, rows)
		wantFault(t, err, Malformed)
	}
	for _, answer = range []string{
		`{"out": {"list": [1, 2]}}`, strings.ReplaceAll(valid, "true", `"1"`), strings.ReplaceAll(valid, "true", "null"), strings.ReplaceAll(valid, "[3, 4]", "[3]"),
		strings.ReplaceAll(valid, "[3, 4]", "3"), strings.ReplaceAll(valid, "[3, 4]", "[3, [4]]"), strings.ReplaceAll(valid, "0.5", "1e40"),
	} {
		_, err := scoresOf(m, rows)
		wantFault(t, err, Unfit)
	}
	for _, err := range []error{m.Check([]float64{1, float64(math.Inf(1)), 0, 0}, [][]byte{nil}), m.Check(rows.Values[:4], [][]byte{{0xff}})} {
		if err == nil {
			t.Error("what JSON has no place for passes")
		}
	}
	if err := m.Check(rows.Values[4:], [][]byte{nil}); err != nil {
		t.Error(err)
	}
}

func TestRowOfPlainJSONIsACallOfItsOwn(t *testing.T) {
	var calls atomic.Int32
	url := fakeService(t, func(_ string, body []byte) (int, string) {
		calls.Add(1)
		var row struct{ A, B float64 }
		if err := json.Unmarshal(body, &row); err != nil {
			t.Error(err)
		}
		if row.A < 0 {
			return 422, "negative"
		}
		return 201, fmt.Sprint(row.A + row.B)
	})
	m := loadFrom(t, Options{URL: url, API: HTTP, Inputs: twoNumbers, Outputs: []model.Output{{Name: "sum", Size: 1}}, Calls: 3})
	rows := model.Rows{Width: 2}
	for i := range 20 {
		rows.Append([]float64{float64(i), 1}, nil)
	}
	rows.Values[2*7] = -1
	scores, err := scoresOf(m, rows)
	var failed model.RowErrors
	if !errors.As(err, &failed) || len(failed) != 1 || failed[0].Row != 7 || calls.Load() != 20 {
		t.Fatalf("%v by %d calls", err, calls.Load())
	}
	for i, score := range scores {
		if i != 7 && score != float32(i+1) {
			t.Errorf("row %d: %v", i, score)
		}
	}
}

func TestServerThatIsAwayIsNotAskedForEachRow(t *testing.T) {
	var calls atomic.Int32
	url := fakeService(t, func(string, []byte) (int, string) {
		calls.Add(1)
		return 503, "loading"
	})
	m := loadFrom(t, Options{URL: url, API: HTTP, Inputs: twoNumbers, Outputs: []model.Output{{Name: "sum", Size: 1}}, Calls: 2})
	_, err := scoresOf(m, model.Rows{Width: 2, Values: make([]float64, 200)})
	wantFault(t, err, Unreachable, "loading")
	if calling.BlameOf(err) != model.BlameWay || errors.As(err, new(model.RowErrors)) || calls.Load() > 4 {
		t.Errorf("%v by %d calls", err, calls.Load())
	}
}

func TestRowsThatAreTooManyAreSplitOnce(t *testing.T) {
	var calls, refused, most atomic.Int32
	most.Store(10)
	url := fakeService(t, func(_ string, body []byte) (int, string) {
		calls.Add(1)
		var asked struct{ Rows []struct{ A float64 } }
		if err := json.Unmarshal(body, &asked); err != nil {
			t.Error(err)
		}
		if len(asked.Rows) > int(most.Load()) {
			refused.Add(1)
			return 413, "too large"
		}
		list := make([]float64, len(asked.Rows))
		for i, row := range asked.Rows {
			list[i] = row.A
		}
		text, err := json.Marshal(list)
		if err != nil {
			t.Error(err)
		}
		return 200, string(text)
	})
	m := loadFrom(t, Options{URL: url, API: HTTP, Inputs: twoNumbers, Outputs: []model.Output{{Name: "sum", Size: 1}}, Mapping: Mapping{Rows: "rows"}})
	rows := model.Rows{Width: 2}
	for i := range 64 {
		rows.Append([]float64{float64(i), 1}, nil)
	}
	for round := range 20 {
		scores, err := scoresOf(m, rows)
		if err != nil {
			t.Fatal(err)
		}
		for i, score := range scores {
			if score != float32(i) {
				t.Fatalf("row %d: %v", i, score)
			}
		}
		if n := refused.Load(); round == 0 && n != 3 || n > 4 { // 64, 32 and 16 rows; after many calls it tries more
			t.Errorf("round %d: %d calls of %d were refused", round, n, calls.Load())
		}
	}
	most.Store(0)
	_, err := scoresOf(m, rows)
	wantFault(t, err, Refused, "too large")
}

func TestTokensUnderWayAreBounded(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	under, worst, two := 0, 0, make(chan struct{})
	url := fakeService(t, func(string, []byte) (int, string) {
		mu.Lock()
		if under++; under == 2 && worst < 2 {
			close(two)
		}
		worst = max(worst, under)
		mu.Unlock()
		select {
		case <-two: // the first call waits for the second
		case <-t.Context().Done():
		}
		time.Sleep(5 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		under--
		return 200, `{"choices": [{"message": {"content": "{\"anger\": 0, \"sure\": 1}"}, "finish_reason": "stop"}]}`
	})
	o := chatOptions(url)
	o.Chat.Tokens = 120 // a question has about 52 with its answer
	m := loadFrom(t, o)
	rows := model.Rows{Width: 1, BytesWidth: 1}
	for range 20 {
		rows.Append([]float64{1}, [][]byte{[]byte("a")})
	}
	rows.Append([]float64{1}, [][]byte{bytes.Repeat([]byte("a"), 5000)}) // goes alone
	if _, err := scoresOf(m, rows); err != nil || worst != 2 {
		t.Errorf("%v, %d calls at a time", err, worst)
	}
	if s := m.server.(*chat).tokens; s.free != 120 || len(s.waiting) > 0 {
		t.Errorf("%d tokens are free at the end, %d wait", s.free, len(s.waiting))
	}
}

func TestTokensThatNobodyWaitsForGoToOthers(t *testing.T) {
	s := newTokens(10)
	give, err := s.take(t.Context(), 6)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone, small := make(chan error), make(chan func())
	go func() { _, err := s.take(ctx, 8); gone <- err }()
	for waiting := 0; waiting != 1; { // the large one is first
		s.mu.Lock()
		waiting = len(s.waiting)
		s.mu.Unlock()
	}
	go func() { give, _ := s.take(context.Background(), 4); small <- give }()
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	(<-small)()
	give()
	if s.free != 10 {
		t.Errorf("%d are free", s.free)
	}
}

func TestSecretsComeFromFilesAndGoInAnyHeader(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	wanted := "one"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-API-Key") != wanted || r.Header.Get("Authorization") != "" {
			http.Error(w, `{"error": {"message": "who are you?"}}`, http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"sum": 3}`)
	}))
	defer server.Close()
	o := Options{URL: server.URL, API: HTTP, Inputs: twoNumbers, Outputs: []model.Output{{Name: "sum", Size: 1}}, BearerFile: file, Header: "X-API-Key"}
	_, err := Load(t.Context(), o)
	wantFault(t, err, Denied, "read the token", file)
	replace := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace("one\n")
	m := loadFrom(t, o)
	for _, wanted = range []string{"one", "two"} { // it is replaced
		replace(wanted)
		if scores, err := predict(m, 1, 2); err != nil || scores[0] != 3 {
			t.Errorf("%v, %v", scores, err)
		}
	}
	replace("three")
	_, err = predict(m, 1, 2)
	wantFault(t, err, Denied, "who are you?")
	replace("a\nb")
	_, err = predict(m, 1, 2)
	wantFault(t, err, Denied, "one line")
}

func TestFaultsSayWhatTheyAreAbout(t *testing.T) {
	for status, want := range map[int]Fault{
		307: Denied, 400: Refused, 401: Denied, 403: Denied, 404: Denied, 408: Late, 409: Unreachable, 413: Refused, 422: Refused, 429: Unreachable,
		500: Failed, 501: Failed, 502: Unreachable, 503: Unreachable, 504: Late, 529: Failed,
	} {
		var got *Error
		if err := statusFault(status, "", "7"); !errors.As(err, &got) || got.Fault != want || got.After != 7*time.Second {
			t.Errorf("HTTP %d: %+v, not %v", status, got, want)
		}
	}
	for f := Late; f <= Denied; f++ {
		err := fmt.Errorf("x: %w", fault(f, "y"))
		want := map[Fault]model.Blame{Late: model.BlameWay, Unreachable: model.BlameWay, Denied: model.BlameWay, Failed: model.BlameModel, Malformed: model.BlameModel, Refused: model.BlameRows, Unfit: model.BlameAnswer}[f]
		if got := calling.BlameOf(err); got != want {
			t.Errorf("%v: blame %v, not %v", f, got, want)
		}
	}
}

func TestOptionsOfServicesAreValidated(t *testing.T) {
	for word, o := range map[string]Options{
		`API "other" is not one`:                 {URL: "http://h", API: "other"},
		"takes http or https":                    {URL: "grpc://h:1", API: Chat},
		"one input, of type string":              {URL: "http://h", API: Embeddings, Inputs: twoNumbers},
		"an embedding is one":                    {URL: "http://h", API: Embeddings, Outputs: []model.Output{{Name: "a", Size: 1}, {Name: "b", Size: 1}}},
		"one input, of type bytes":               {URL: "http://h", API: Transcriptions, Inputs: oneText},
		"single numbers and texts with names":    {URL: "http://h", API: Moderations, Outputs: []model.Output{{Name: "a", Size: 2}}},
		"no outputs":                             {URL: "http://h", API: HTTP},
		"no prompt":                              {URL: "http://h", API: Chat, Inputs: oneText},
		"has no {text}":                          {URL: "http://h", API: Chat, Inputs: oneText, Chat: ChatConfig{Prompt: "{txet}"}},
		"what to ask belongs to API chat":        {URL: "http://h", API: HTTP, Chat: ChatConfig{Prompt: "?"}},
		"a mapping belongs to API http":          {URL: "http://h", Mapping: Mapping{Rows: "rows"}},
		"a version: API http has none":           {URL: "http://h", API: HTTP, Version: "1"},
		"has no tensors":                         {URL: "http://h", API: HTTP, JSON: true},
		`a place for "c", which is not an input`: {URL: "http://h", API: HTTP, Inputs: twoNumbers, Mapping: Mapping{Send: []Place{{Name: "c", Place: "c"}}}},
		`a place of "c", which is not an output`: {URL: "http://h", API: HTTP, Inputs: twoNumbers, Mapping: Mapping{Read: []Place{{Name: "c", Place: "c"}}}},
		`"b" cannot be placed at "a.b": another`: {URL: "http://h", API: HTTP, Inputs: twoNumbers, Mapping: Mapping{Send: []Place{{Name: "b", Place: "a.b"}}}},
		`"a..b" has an empty name`:               {URL: "http://h", API: HTTP, Inputs: twoNumbers, Mapping: Mapping{Rows: "a..b"}},
		"a token, and a file of one":             {URL: "http://localhost", Bearer: "x", BearerFile: "y"},
		"would pass h in the clear":              {URL: "http://h", BearerFile: "y"},
		`header "a b"`:                           {URL: "http://h", Header: "a b"},
		"a number of tokens is negative":         {URL: "http://h", API: Chat, Chat: ChatConfig{Prompt: "{text}", Answer: -1}, Inputs: oneText},
		"a prompt takes single numbers and t":    {URL: "http://h", API: Chat, Chat: ChatConfig{Prompt: "{i}"}, Inputs: []model.Input{{Name: "i", Type: model.Bytes}}},
	} {
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v\nlacks %q", err, word)
		}
	}
	for _, o := range []Options{chatOptions("https://h/v1"), {URL: "http://h/x", API: HTTP, Inputs: twoNumbers, Outputs: []model.Output{{Size: 1}}}} {
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
	}
}

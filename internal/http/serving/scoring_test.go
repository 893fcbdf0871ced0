package serving_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/http/serving"
	"github.com/afterbay/afterbay/model"
)

// described is what a model of the tests says of itself.
func described(outputs []model.Output, inputs ...model.Input) model.Info {
	return model.Info{Kind: "test", Inputs: inputs, Outputs: outputs}
}

// sum is a model whose score is the sum of its numbers; missing ones count 1000.
type sum struct{ fail func(model.Rows) error }

func (m *sum) Info() model.Info {
	inputs := model.Numbers(4)
	for i := range inputs {
		inputs[i].Name = "abcd"[i : i+1]
	}
	inputs[3].Categories = []string{"low", "high", "c2", "c3", "c4", "c5", "c6", "c7", "c8"}
	return described([]model.Output{{Name: "total", Size: 1}}, inputs...)
}

func (m *sum) Check(values []float64, _ [][]byte) error {
	for i, v := range values {
		if math.IsInf(float64(float32(v)), 0) {
			return fmt.Errorf("input %d is infinite", i)
		}
	}
	return nil
}

func (m *sum) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	if m.fail != nil {
		if err := m.fail(rows); err != nil {
			return err
		}
	}
	for i := range rows.N {
		scores[i] = 0
		for _, v := range rows.Values[i*rows.Width : (i+1)*rows.Width] {
			if v != v {
				v = 1000
			}
			scores[i] += float32(v)
		}
	}
	return nil
}

// spam is a model of one text with two classes: how many of its bytes are '!'.
type spam struct{}

func (spam) Info() model.Info {
	return described([]model.Output{{Name: "class", Size: 2}}, model.Input{Name: "text", Type: model.String})
}

func (spam) Check(_ []float64, texts [][]byte) error {
	if texts[0] == nil {
		return errors.New("text is missing")
	}
	return nil
}

func (spam) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	for i, text := range rows.Bytes {
		share := float32(bytes.Count(text, []byte{'!'})) / float32(max(1, len(text)))
		scores[2*i], scores[2*i+1] = 1-share, share
	}
	return nil
}

// vector is a model that embeds a text in three numbers.
type vector struct{ spam }

func (vector) Info() model.Info {
	return described([]model.Output{{Name: "embedding", Size: 3}}, model.Input{Name: "text", Type: model.String})
}

func (vector) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	for i, text := range rows.Bytes {
		scores[3*i], scores[3*i+1], scores[3*i+2] = float32(len(text)), 0.5, -1
	}
	return nil
}

// mixed takes a number and a text, and has two outputs.
type mixed struct{}

func (mixed) Info() model.Info {
	return described([]model.Output{{Name: "double", Size: 1}, {Name: "pair", Size: 2}}, model.Input{Name: "n", Type: model.Number}, model.Input{Name: "text", Type: model.String})
}

func (mixed) Check([]float64, [][]byte) error { return nil }

func (mixed) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	for i := range rows.N {
		scores[3*i], scores[3*i+1], scores[3*i+2] = float32(2*rows.Values[i]), float32(len(rows.Bytes[i])), float32(rows.Values[i])
	}
	return nil
}

func newSum() *sum { return &sum{} }

func models() []serving.Named {
	return []serving.Named{
		{Name: "sum", Version: "7", Model: newSum()}, {Name: "spam", Model: spam{}, Scores: []string{"ham", "spam"}},
		{Name: "vector", Model: vector{}}, {Name: "mixed", Model: mixed{}},
	}
}

// start runs a server until the test ends, and returns its URL.
func start(t testing.TB, list []serving.Named, o serving.ServerOptions) string {
	t.Helper()
	url, _ := startUntil(t, list, o)
	return url
}

// startUntil is start with a function that ends the server before.
func startUntil(t testing.TB, list []serving.Named, o serving.ServerOptions) (string, func()) {
	t.Helper()
	o.Address = "127.0.0.1:0"
	if o.SpillDir == "" {
		o.SpillDir = t.TempDir()
	}
	server, err := serving.Listen(list, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return server.URL(), cancel
}

// ask sends a request and returns the response with all of its body.
func ask(t testing.TB, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%v after %q", err, text)
	}
	return response, string(text)
}

// stream posts a body and returns the lines of the answer.
func stream(t testing.TB, url, contentType, body string, headers ...string) []string {
	t.Helper()
	response, text := ask(t, http.MethodPost, url, body, append([]string{"Content-Type", contentType}, headers...)...)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", response.Status, text)
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

func wantLines(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const (
	ndjson = "application/x-ndjson"
	done2  = `{"done":true,"records":2,"ok":2,"errors":0,"model":"sum@7"}`
)

func TestRecordsOfEveryFormatAreAnsweredInOrder(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{}) + "/v1/models/sum:predict-stream"
	results := []string{`{"index":0,"id":"x","prediction":10}`, `{"index":1,"id":7,"prediction":1002.5}`, done2}
	for contentType, body := range map[string]string{
		ndjson:                     "{\"id\":\"x\",\"a\":1,\"b\":2,\"c\":3,\"d\":4}\r\n\n{\"d\":null,\"c\":0,\"b\":1.5,\"a\":1,\"more\":[{}],\"custom_id\":7}",
		"application/jsonl":        "\xef\xbb\xbf{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"id\":\"x\"}\n{\"\\u0061\":1e0,\"b\":15e-1,\"c\":0,\"d\":null,\"id\":7}\n",
		"application/json":         " [ {\"a\":1,\"b\":2,\"c\":3,\n\"d\":4,\"id\":\"x\"} , {\"a\":1,\"b\":1.5,\"c\":0,\"d\":null,\"id\":7}\n]\n",
		"text/csv":                 "\xef\xbb\xbfid,d,c,b,a\nx,4,3,2,1\r\n\n7,, 0,1.5,1",
		"text/csv; header=present": "a,\"b\",c,d,id\n1,2,3,4,\"x\"\n\"1\",1.5,0,,7\n",
	} {
		wantLines(t, contentType, stream(t, url, contentType, body), results...)
	}
	wantLines(t, "two objects", stream(t, url, "application/json", `{"a":1,"b":2,"c":3,"d":4,"id":"x"} {"a":1,"b":1.5,"c":0,"d":null,"id":7}`), results...)
	wantLines(t, "without a header", stream(t, url, "text/csv; header=absent", "1,2,3,high\n1,2,3,0"),
		`{"index":0,"prediction":7}`, `{"index":1,"prediction":6}`, done2)
	wantLines(t, "arrays", stream(t, url, "application/json", `[[1,2,3,"high"],[1,2,3,0]]`), `{"index":0,"prediction":7}`, `{"index":1,"prediction":6}`, done2)
	wantLines(t, "nothing", stream(t, url, "application/json", `[]`), `{"done":true,"records":0,"ok":0,"errors":0,"model":"sum@7"}`)
}

func TestAnswersHaveTheFormThatIsAccepted(t *testing.T) {
	base := start(t, models(), serving.ServerOptions{}) + "/v1/models/"
	body := "1,2,3,4\nx,2,3,4\n"
	wantLines(t, "CSV", stream(t, base+"sum:predict-stream", "text/csv; header=absent", body, "Accept", "text/csv"),
		"index,id,total,error", "0,,10,", `1,,,"bad_record: line 2: a: ""x"" is not a number: leave the cell empty if the value is missing"`,
		`done,,,"{""done"":true,""records"":2,""ok"":1,""errors"":1,""model"":""sum@7""}"`)
	wantLines(t, "CSV without header", stream(t, base+"sum:predict-stream", "text/csv; header=absent", "1,2,3,4", "Accept", "text/csv; header=absent"),
		"0,,10,", `done,,,"{""done"":true,""records"":1,""ok"":1,""errors"":0,""model"":""sum@7""}"`)
	wantLines(t, "events", stream(t, base+"sum:predict-stream", "text/csv; header=absent", "1,2,3,4", "Accept", "text/event-stream"),
		`data: {"index":0,"prediction":10}`, "", `data: {"done":true,"records":1,"ok":1,"errors":0,"model":"sum@7"}`, "")
	wantLines(t, "classes", stream(t, base+"spam/predict", ndjson, `{"text":"a!!!"}`),
		`{"index":0,"prediction":"spam","probabilities":{"ham":0.25,"spam":0.75}}`, `{"done":true,"records":1,"ok":1,"errors":0,"model":"spam@1"}`)
	wantLines(t, "several outputs", stream(t, base+"mixed/versions/1:predict-stream", "text/csv", "text,n\n\"a \"\"b\"\"\nc\",3"),
		`{"index":0,"prediction":{"double":6,"pair":[7,3]}}`, `{"done":true,"records":1,"ok":1,"errors":0,"model":"mixed@1"}`)
}

func TestAnswersHaveTheCorrelationIDOfTheirRequests(t *testing.T) {
	base := start(t, models(), serving.ServerOptions{})
	for _, path := range []string{"/v2/models/sum", "/v1/models/sum:predict-stream", "/v1/nothing"} {
		if r, _ := ask(t, http.MethodPost, base+path, "", "x-correlation-id", "order-17"); r.Header.Get("X-Correlation-Id") != "order-17" {
			t.Errorf("%s: %v", path, r.Header)
		}
	}
	if r, _ := ask(t, http.MethodGet, base+"/v2", ""); r.Header["X-Correlation-Id"] != nil {
		t.Errorf("without one: %v", r.Header)
	}
}

func TestBadRecordCostsOneErrorLine(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{}) + "/v1/models/sum:predict-stream"
	for contentType, row := range map[string]string{"text/csv; header=absent": "%v,1,1,1\n", ndjson: "{\"a\":%v,\"b\":1,\"c\":1,\"d\":1}\n"} {
		var body strings.Builder
		for i := range 1000 {
			if i == 49 {
				fmt.Fprintf(&body, row, "foo")
			} else {
				fmt.Fprintf(&body, row, i)
			}
		}
		right := 0
		for i, line := range stream(t, url, contentType, body.String()) {
			switch {
			case i == 49:
				if !strings.HasPrefix(line, `{"index":49,"error":{"code":"bad_record","message":"`) || !strings.Contains(line, `"line":50,`) {
					t.Errorf("record 50: %s", line)
				}
			case i == 1000:
				wantLines(t, "the end", []string{line}, `{"done":true,"records":1000,"ok":999,"errors":1,"model":"sum@7"}`)
			case line != fmt.Sprintf(`{"index":%d,"prediction":%d}`, i, i+3):
				t.Errorf("record %d: %s", i, line)
			default:
				right++
			}
		}
		if right != 999 {
			t.Errorf("%s: %d results", contentType, right)
		}
	}
}

// faults returns the messages of error lines, by index.
func faults(t testing.TB, lines []string) map[int]string {
	t.Helper()
	found := map[int]string{}
	for _, line := range lines {
		var l struct {
			Index int
			Error *struct{ Message string }
			Fatal *struct{ Message string }
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if l.Error != nil {
			found[l.Index] = l.Error.Message
		}
		if l.Fatal != nil {
			found[-1] = l.Fatal.Message
		}
	}
	return found
}

func TestFaultsOfRecordsAreNamed(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{}) + "/v1/models/sum:predict-stream"
	for _, c := range []struct{ contentType, record, want string }{
		{ndjson, `{"a":1,"b":2,"c":3}`, "d: absent: send null if the value is missing"},
		{ndjson, `{"a":1,"b":2,"c":3,"d":"medium"}`, `d: "medium" is not one of its categories`},
		{ndjson, `{"a":"1","b":2,"c":3,"d":4}`, "a: not a number"},
		{ndjson, `{"a":1,"a":2,"b":2,"c":3,"d":4}`, "a: occurs in the record twice"},
		{ndjson, `{"a":1e99,"b":2,"c":3,"d":4}`, "input 0 is infinite"},
		{ndjson, `{"a":1,"b":2,"c":3,"d":4,"id":[]}`, "id: not a string or number"},
		{ndjson, `[1,2,3]`, "d: absent: send null if the value is missing"},
		{ndjson, `[1,2,3,4,5]`, "more than 4 elements: the model has 4 inputs"},
		{ndjson, `5`, "byte 0: unexpected '5', want a JSON object or array"},
		{ndjson, `{"a":1,"b":2,"c":3,"d":4`, "byte 24: the record ends too early"},
		{"text/csv; header=absent", "1,2,3", "3 cells, want 4"},
		{"text/csv; header=absent", `1,2,3,4"`, `a quote within a cell: write "" for it, in a cell in quotes`},
		{"text/csv; header=absent", `"1"2,2,3,4`, "a quote is not closed, or something follows it"},
		{"text/csv; header=absent", `"1,2,3,4`, "a quote is not closed"},
	} {
		if got := faults(t, stream(t, url, c.contentType, c.record+"\n"))[0]; got != c.want {
			t.Errorf("%s: %q, want %q", c.record, got, c.want)
		}
	}
	for body, want := range map[string]string{
		`[{"a":1},{]`: "the body ends too early", `[1] 2`: "something follows the array", `[}`: "a closing bracket has no opening bracket", `1`: "want JSON objects, or one array of records", `{"a":1`: "the body ends too early",
	} {
		if got := faults(t, stream(t, url, "application/json", body))[-1]; got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

func TestOversizeRecordIsSkipped(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{}) + "/v1/models/sum:predict-stream"
	long := strings.Repeat("x", 3<<20)
	for contentType, body := range map[string]string{
		ndjson:                    "[1,1,1,1]\n[\"" + long + "\"]\n[2,2,2,2]\n",
		"application/json":        `[[1,1,1,1],["` + long + `"],[2,2,2,2]]`,
		"text/csv; header=absent": "1,1,1,1\n" + long + "\n2,2,2,2\n",
	} {
		lines := stream(t, url, contentType, body)
		if len(lines) != 4 || lines[0] != `{"index":0,"prediction":4}` || lines[2] != `{"index":2,"prediction":8}` || faults(t, lines)[1] != "larger than 1 MiB" {
			t.Errorf("%s: %q", contentType, lines)
		}
	}
	quote := "1,1,1,1\n\"" + strings.Repeat(strings.Repeat("1", 9999)+"\n", 200) + "2,2,2,2\n"
	lines := stream(t, url, "text/csv; header=absent", quote)
	if got := faults(t, lines)[1]; got != "a quote is not closed within 1 MiB" || !strings.Contains(lines[len(lines)-1], `"ok":2,`) {
		t.Errorf("a quote that never closes: %q, %s", got, lines[len(lines)-1])
	}
}

func TestPolicyOfBadRecords(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{}) + "/v1/models/sum:predict-stream"
	body := "1,1,1,1\nx,1,1,1\ny,1,1,1\n2,1,1,1\n"
	for query, want := range map[string]string{
		"on_error=continue":              `{"done":true,"records":4,"ok":2,"errors":2,"model":"sum@7"}`,
		"on_error=skip":                  `{"done":true,"records":4,"ok":2,"errors":2,"skipped":2,"model":"sum@7"}`,
		"on_error=fail":                  `{"done":true,"records":2,"ok":1,"errors":1,"aborted":"bad_record","model":"sum@7"}`,
		"max_errors=1":                   `{"done":true,"records":3,"ok":1,"errors":2,"aborted":"max_errors","model":"sum@7"}`,
		"on_error=skip&max_errors=0":     `{"done":true,"records":2,"ok":1,"errors":1,"skipped":1,"aborted":"max_errors","model":"sum@7"}`,
		"on_error=continue&max_errors=2": `{"done":true,"records":4,"ok":2,"errors":2,"model":"sum@7"}`,
	} {
		lines := stream(t, url+"?"+query, "text/csv; header=absent", body)
		wantLines(t, query, lines[len(lines)-1:], want)
		if shown := len(faults(t, lines)); strings.Contains(query, "skip") != (shown == 0) {
			t.Errorf("%s: %d error lines", query, shown)
		}
	}
}

func TestRefusalsComeBeforeTheFirstByte(t *testing.T) {
	base := start(t, models(), serving.ServerOptions{}) + "/v1/models/"
	for _, c := range []struct {
		path, contentType, body, accept, encoding string
		status                                    int
		code                                      string
	}{
		{"none:predict-stream", ndjson, "", "", "", 404, "model_not_found"},
		{"sum/versions/8:predict-stream", ndjson, "", "", "", 404, "model_not_found"},
		{"sum:explode", ndjson, "", "", "", 404, "not_found"},
		{"sum:predict-stream", "text/plain", "", "", "", 415, "unsupported_type"},
		{"sum:predict-stream", "text/csv; charset=latin1", "", "", "", 415, "unsupported_type"},
		{"sum:predict-stream", "text/csv; header=maybe", "", "", "", 415, "unsupported_type"},
		{"sum:predict-stream", ndjson, "", "", "br", 415, "unsupported_encoding"},
		{"sum:predict-stream", ndjson, "", "image/png", "", 406, "not_acceptable"},
		{"sum:predict-stream", "text/csv", "", "", "", 422, "bad_header"},
		{"sum:predict-stream", "text/csv", "a,b,c\n1,2,3\n", "", "", 422, "bad_header"},
		{"sum:predict-stream", "text/csv", "a,b,c,d,e\n", "", "", 422, "bad_header"},
		{"sum:predict-stream", "text/csv", "a,b,c,d,a\n", "", "", 422, "bad_header"},
		{"sum:predict-stream?on_error=x", ndjson, "", "", "", 400, "bad_query"},
		{"sum:predict-stream?max_errors=-1", ndjson, "", "", "", 400, "bad_query"},
	} {
		var headers []string
		if c.accept != "" {
			headers = append(headers, "Accept", c.accept)
		}
		if c.encoding != "" {
			headers = append(headers, "Content-Encoding", c.encoding)
		}
		response, text := ask(t, http.MethodPost, base+c.path, c.body, append(headers, "Content-Type", c.contentType)...)
		if response.StatusCode != c.status || !strings.Contains(text, `"code":"`+c.code+`"`) {
			t.Errorf("%v: %d %s", c, response.StatusCode, text)
		}
	}
}

func TestStreamsEndWithTheServer(t *testing.T) {
	url, end := startUntil(t, models(), serving.ServerOptions{})
	body, client := io.Pipe()
	defer client.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/models/sum:predict-stream", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", ndjson)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.WriteString(client, "[1,2,3,4]\n"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(response.Body)
	if !lines.Scan() || lines.Text() != `{"index":0,"prediction":10}` {
		t.Fatalf("%q, %v", lines.Text(), lines.Err())
	}
	end()
	if !lines.Scan() || !strings.Contains(lines.Text(), `"fatal":{"code":"shutting_down"`) {
		t.Errorf("%q, %v", lines.Text(), lines.Err())
	}
}

func TestIdleStreamEnds(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{Options: serving.Options{IdleTimeout: 50 * time.Millisecond}})
	body, client := io.Pipe()
	defer client.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/models/sum:predict-stream", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", ndjson)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"fatal":{"code":"idle_timeout"`) {
		t.Errorf("%q, %v", lines.Text(), lines.Err())
	}
}

// brand is a model of one category. Its score is the code of the category.
type brand struct{ sum }

func (*brand) Info() model.Info {
	return described([]model.Output{{Name: "code", Size: 1}}, model.Input{Name: "brand", Type: model.Number, Categories: []string{"10", "20", "35"}})
}

func TestNumbersOfCategoriesAreCategories(t *testing.T) {
	url := start(t, []serving.Named{{Name: "brand", Model: &brand{}}}, serving.ServerOptions{})
	for contentType, body := range map[string]string{
		ndjson: "{\"brand\":35}\n{\"brand\":2}\n{\"brand\":\"20\"}\n{\"brand\":1e1}", "text/csv": "brand\n35\n2\n20\n10.0",
	} {
		lines := stream(t, url+"/v1/models/brand:predict-stream", contentType, body)
		text := strings.Join(lines, "\n")
		for _, want := range []string{`{"index":0,"prediction":2}`, `{"index":2,"prediction":1}`, `{"index":3,"prediction":0}`, "2 is not one of the categories 10, 20, 35"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %s; want %s", contentType, text, want)
			}
		}
	}
	for data, want := range map[string]string{"[35,10]": `"data":[2,0]`, "[35,0]": `row 1: input \"brand\": 0 is not one of the categories 10, 20, 35`} {
		body := `{"inputs":[{"name":"brand","shape":[2],"datatype":"INT32","data":` + data + `}]}`
		if _, text := ask(t, http.MethodPost, url+"/v2/models/brand/infer", body, "Content-Type", jsonType); !strings.Contains(text, want) {
			t.Errorf("%s: %s; want %s", data, text, want)
		}
	}
}

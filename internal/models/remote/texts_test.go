package remote

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/model"
)

// textsOf asks about rows.
func textsOf(m *Model, rows model.Rows) ([]float32, []string, error) {
	scores, texts := make([]float32, rows.Len()*m.Info().Scores()), make([][]byte, rows.Len()*m.Info().Texts())
	err := m.Answer(context.Background(), rows, scores, texts)
	words := make([]string, len(texts))
	for i, text := range texts {
		if words[i] = string(text); text == nil {
			words[i] = "none"
		}
	}
	return scores, words, err
}

func TestServersOfModelsAnswerWithTexts(t *testing.T) {
	host := startFake(t)
	for name, form := range forms {
		o := form.at(host, "sum")
		o.Outputs = []model.Output{{Name: "label", Size: 1, Type: model.String}, {Name: "sum", Size: 1}}
		m := loadFrom(t, o)
		scores, texts, err := textsOf(m, model.Rows{Width: 2, Values: []float64{1, 2, 3, 4, 5, 6.5}})
		if want := []string{"\u20ac 3", "\u20ac 7", "\u20ac 11.5"}; err != nil || !slices.Equal(texts, want) || !slices.Equal(scores, []float32{3, 7, 11.5}) {
			t.Errorf("%s: %v, %q, %v", name, scores, texts, err)
		}
		wantFault(t, m.Predict(t.Context(), model.Rows{Width: 2, Values: []float64{1, 2}}, make([]float32, 1)), Refused, "Answerer")
		for server, want := range map[string]string{"shape": "which is not 1 rows of 1", "garbage": "", "name": "output \"sum\" is not among"} {
			o.Model = server
			_, _, err := textsOf(loadFrom(t, o), model.Rows{Width: 2, Values: []float64{1, 2}})
			wantFault(t, err, Malformed, want)
		}
		o.Model, o.Outputs = "sum", []model.Output{{Name: "sum", Size: 1, Type: model.String}}
		_, _, err = textsOf(loadFrom(t, o), model.Rows{Width: 2, Values: []float64{1, 2}})
		wantFault(t, err, Malformed, "output sum is of type FP")
		o.Model = "described"
		if _, err := Load(t.Context(), o); err == nil || !strings.Contains(err.Error(), "is of type FP64: no text") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChatModelAnswersWithTextsAndNumbers(t *testing.T) {
	content := `{"mood": "angry \u00e9", "anger": 0.5}`
	var body []byte
	url := fakeService(t, func(_ string, asked []byte) (int, string) {
		body = asked
		return 200, fmt.Sprintf(`{"choices": [{"message": {"content": %q}, "finish_reason": "stop"}]}`, content)
	})
	o := chatOptions(url)
	o.Outputs = []model.Output{{Name: "mood", Size: 1, Type: model.String}, {Name: "anger", Size: 1}}
	m := loadFrom(t, o)
	rows := model.Rows{Width: 1, BytesWidth: 1}
	rows.Append([]float64{1}, [][]byte{[]byte("a")})
	scores, texts, err := textsOf(m, rows)
	if err != nil || !slices.Equal(texts, []string{"angry \u00e9"}) || !slices.Equal(scores, []float32{0.5}) {
		t.Errorf("%v, %q, %v", scores, texts, err)
	}
	if !strings.Contains(string(body), `"properties":{"anger":{"type":"number"},"mood":{"type":"string"}}`) || strings.Contains(string(body), "stream") {
		t.Errorf("asked %s", body)
	}
	for _, content = range []string{`{"mood": 5, "anger": 0.5}`, `{"anger": 0.5}`, `{"mood": "a"}`} {
		_, _, err := textsOf(m, rows)
		wantFault(t, err, Unfit, "has no ")
	}
	o.Outputs, o.Chat.Answer = o.Outputs[:1], 0 // one text is the answer as it is
	content = "not JSON"
	_, texts, err = textsOf(loadFrom(t, o), rows)
	if err != nil || texts[0] != "not JSON" || strings.Contains(string(body), "response_format") || !strings.Contains(string(body), `"max_tokens":1024`) {
		t.Errorf("%q, %v, asked %s", texts, err, body)
	}
}

func TestModerationsAnswerWithWhatIsFlagged(t *testing.T) {
	answer := `{"results": [{"flagged": true, "categories": {"violence": true, "hate": true, "spam": false}, "category_scores": {"hate": 0.75}}, {"categories": {}, "category_scores": {"hate": 0.25}}]}`
	url := fakeService(t, func(string, []byte) (int, string) { return 200, answer })
	m := loadFrom(t, Options{URL: url, API: Moderations, Model: "omni", Inputs: oneText, Outputs: []model.Output{{Name: "labels", Size: 1, Type: model.String}, {Name: "hate", Size: 1}}})
	scores, texts, err := textsOf(m, textRows("a", "b"))
	if err != nil || !slices.Equal(texts, []string{"hate,violence", ""}) || !slices.Equal(scores, []float32{0.75, 0.25}) {
		t.Errorf("%v, %q, %v", scores, texts, err)
	}
	answer = strings.ReplaceAll(answer, `"categories": {}, `, "")
	_, _, err = textsOf(m, textRows("a", "b"))
	wantFault(t, err, Malformed, "result 1 has no categories")
}

func TestMappedAnswersHaveTexts(t *testing.T) {
	answer := ""
	url := fakeService(t, func(string, []byte) (int, string) { return 200, answer })
	m := loadFrom(t, Options{
		URL: url, API: HTTP, Inputs: oneText, Mapping: Mapping{Rows: "rows"},
		Outputs: []model.Output{{Name: "name", Size: 1, Type: model.String}, {Name: "risk", Size: 1}, {Name: "raw", Size: 1, Type: model.Bytes}},
	})
	answer = `[{"name": "Ann", "risk": 1, "raw": "AAEC"}, {"risk": 2}, {"name": {"b": [1, "x"]}, "risk": 3, "raw": ""}]`
	scores, texts, err := textsOf(m, textRows("a", "b", "c"))
	want := []string{"Ann", "\x00\x01\x02", "none", "none", `{"b":[1,"x"]}`, ""}
	if err != nil || !slices.Equal(texts, want) || !slices.Equal(scores, []float32{1, 2, 3}) {
		t.Errorf("%v, %q, %v", scores, texts, err)
	}
	for _, answer = range []string{`[{"risk": 1, "raw": "A"}, {"risk": 1}, {"risk": 1}]`, `[{"risk": 1, "raw": 5}, {"risk": 1}, {"risk": 1}]`} {
		_, _, err := textsOf(m, textRows("a", "b", "c"))
		wantFault(t, err, Unfit, "base64")
	}
}

package builtin_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/internal/test/servertest"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

const ragFile = `
pipeline: answers
input:
  topic: questions
  partitions: 2
  key: customer
  fields: {customer: string, n: int, text: string}
commit: {interval: 1ms}
models:
  embed: {go: embed, version: 1, outputs: {vector: 'number[26]'}}
  write: {go: write, version: 1, outputs: {text: string}}
steps:
  - score: {model: embed, inputs: [text]}
  - lookup:
      name: near
      vector: embed.vector
      postgres: {url: '${POSTGRES}', table: documents, column: embedding}
      where: {customer: customer, kind: '"chat" + (n < 0 ? "" : "s")'}
      limit: 2
      when: text != "none"
      fields: {body: string, distance: number, id: optional int}
      empty: {body: '"nothing is known"', distance: '2.0'}
      join: '; '
      call: {timeout: 5s, backoff: {base: 10ms, max: 50ms}, breaker: {probe: 20ms}}
      MORE
  - let: {prompt: 'near.body + ". " + text'}
  - score: {model: write, inputs: [prompt]}
  - emit: {topic: written, value: [n, write.text, near.id, near.distance]}
`

// letters is a model of texts: how often each letter is there.
type letters struct{}

func (letters) Info() model.Info {
	return model.Info{Kind: "letters", Digest: strings.Repeat("1", 64), Inputs: []model.Input{{Name: "text", Type: model.String}}, Outputs: []model.Output{{Name: "vector", Size: 26}}}
}

func (letters) Check([]float64, [][]byte) error { return nil }

func (letters) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	clear(scores)
	for i, text := range rows.Bytes {
		for _, c := range text {
			if c >= 'a' && c <= 'z' {
				scores[26*i+int(c-'a')]++
			}
		}
	}
	return nil
}

// scribe is a model that writes what it was given in capitals.
type scribe struct{}

func (scribe) Info() model.Info {
	return model.Info{Kind: "scribe", Digest: strings.Repeat("2", 64), Inputs: []model.Input{{Name: "text", Type: model.String}}, Outputs: []model.Output{{Name: "text", Size: 1, Type: model.String}}}
}

func (scribe) Check([]float64, [][]byte) error { return nil }

func (scribe) Predict(context.Context, model.Rows, []float32) error { return calling.ErrTexts }

func (scribe) Answer(_ context.Context, rows model.Rows, _ []float32, texts [][]byte) error {
	for i, text := range rows.Bytes {
		texts[i] = []byte(strings.ToUpper(string(text)))
	}
	return nil
}

var words = []string{"apple", "bridge", "cloud", "dough", "engine", "fjord", "grip", "hymn"}

// wantedNear is what is written for a question: the two documents of its customer
// that are nearest, by the cosine of their letters.
func wantedNear(n int) string {
	customer, text := n%3, words[n%len(words)]
	if n%20 == 19 {
		return fmt.Sprintf(`{"n":%d,"write_text":"NOTHING IS KNOWN. NONE","near_id":null,"near_distance":2}`, n)
	}
	count := func(text string) []float32 {
		scores := make([]float32, 26)
		letters{}.Predict(context.Background(), model.Rows{BytesWidth: 1, Bytes: [][]byte{[]byte(text)}}, scores)
		return scores
	}
	type one struct {
		id       int
		distance float64
	}
	var all []one
	asked := count(text)
	for id, word := range words {
		if id%3 != customer {
			continue
		}
		var ab, aa, bb float64
		for i, b := range count(word + " " + word[:1]) {
			a := asked[i]
			ab, aa, bb = ab+float64(a*b), aa+float64(a*a), bb+float64(b*b)
		}
		all = append(all, one{id, 1 - ab/math.Sqrt(aa*bb)})
	}
	slices.SortFunc(all, func(a, b one) int {
		if a.distance < b.distance {
			return -1
		}
		return 1
	})
	first, second := all[0].id, all[1].id
	return strings.ToUpper(fmt.Sprintf("%s %s; %s %s. %s", words[first], words[first][:1], words[second], words[second][:1], text))
}

// fillDocuments gives each of three customers some of the words, and others that
// are of no chat.
func fillDocuments(t *testing.T, postgres *servertest.Server) {
	t.Helper()
	to := postgres.Postgres(t)
	if _, err := to.Exec(t.Context(), `create extension vector; create table documents (id int, customer text, kind text, body text, embedding vector(26))`); err != nil {
		t.Fatal(err)
	}
	for id, word := range words {
		body := word + " " + word[:1]
		scores := make([]float32, 26)
		letters{}.Predict(t.Context(), model.Rows{BytesWidth: 1, Bytes: [][]byte{[]byte(body)}}, scores)
		for _, kind := range []string{"chats", "calls"} {
			if _, err := to.Exec(t.Context(), `insert into documents values ($1, $2, $3, $4, $5::text::vector)`,
				id, fmt.Sprint("c", id%3), kind, body, strings.ReplaceAll(fmt.Sprint(scores), " ", ",")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestNearestDocumentsOfEventsFeedTheNextModel(t *testing.T) {
	postgres := servertest.Postgres(t)
	fillDocuments(t, postgres)
	for name, more := range map[string]string{"at once": "cache: {ttl: 1m}", "recorded": "journal: true", "in order": "ordered: true"} {
		t.Run(name, func(t *testing.T) {
			parsed, err := config.ParseWith("answers.yaml", []byte(strings.ReplaceAll(ragFile, "MORE", more)), func(name string) (string, bool) { return postgres.URL, name == "POSTGRES" }, builtin.Kinds())
			if err != nil {
				t.Fatal(err)
			}
			p := parsed.Pipelines[0]
			p.Code = lang.Code{Models: map[string]model.Model{"embed": letters{}, "write": scribe{}}}
			runner, err := builtin.New(p, pipeline.Options{Members: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer runner.Close()
			log, err := embedded.Open(t.TempDir(), embedded.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			ctx, stop := context.WithCancel(t.Context())
			if err := runner.CreateTopics(ctx, log); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- runner.Run(ctx, log) }()
			for part := range 3 {
				if part == 1 {
					postgres.Kill()
				}
				ask(t, log, part*60, (part+1)*60)
				if part == 1 {
					if err := postgres.Start(ctx); err != nil {
						t.Fatal(err)
					}
				}
				if err := runner.WaitIdle(ctx, log); err != nil {
					t.Fatal(err)
				}
			}
			stop()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			checkNear(t, log, runner, name)
		})
	}
}

// ask appends questions from to before to, every twentieth of which has no text.
func ask(t *testing.T, log stream.Log, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		customer, text := fmt.Sprint("c", n%3), words[n%len(words)]
		if n%20 == 19 {
			text = "none"
		}
		if err := log.Append(t.Context(), stream.Record{
			Partition: stream.Partition{Topic: "questions", Index: stream.ByKey}, Key: []byte(customer),
			Value: fmt.Appendf(nil, `{"customer":%q,"n":%d,"text":%q}`, customer, n, text),
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func checkNear(t *testing.T, log stream.Log, runner *pipeline.Runner, name string) {
	t.Helper()
	answer, err := answers.RunAll(t.Context(), log, runner, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := answer.Values("written")
	if len(got) != 180 || runner.Counts().DeadLetters > 0 || name != "at once" && runner.Counts().Retries == 0 {
		t.Errorf("%d outputs, counts %+v", len(got), runner.Counts())
	}
	for n := range 180 {
		at := fmt.Sprintf(`{"n":%d,`, n)
		i := slices.IndexFunc(got, func(value string) bool { return strings.HasPrefix(value, at) })
		if want := wantedNear(n); i < 0 || !strings.Contains(got[i], want) {
			t.Fatalf("question %d: %q lacks %q", n, got[max(i, 0)], want)
		}
	}
	if stats := runner.Snapshot().Lookups[0]; name == "at once" && stats.Calls > 30 {
		t.Errorf("%d calls for %d keys", stats.Calls, stats.Keys)
	}
}

package e2e_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/lookup"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

// What is outside of the log is on Kafka what it is in memory, of which other tests
// are: on a broker in this process, and on a real one.
var kafkaEngines = []string{"kafka", "kafka broker"}

// onEngine runs a pipeline on an empty log.
func onEngine(t *testing.T, engine string, p lang.Pipeline, events []stream.Record) map[string][]string {
	t.Helper()
	log := openLog(t, engine, t.TempDir())
	defer closeLog(t, log)
	answer, _ := runQueueing(t, log, p, 2, events)
	all := map[string][]string{"dead": answer.Values(p.Name + ".dlq")}
	for _, topic := range []string{"out", "drafts"} {
		for key, values := range byKey(answer, topic) {
			all[topic+" "+key] = values
		}
	}
	return all
}

// TestRowsOutsideAreFoundOnKafka has the source of rows fail at first, with
// its rows kept for a while and recorded.
func TestRowsOutsideAreFoundOnKafka(t *testing.T) {
	for _, engine := range kafkaEngines {
		for _, journal := range []*lang.Journal{nil, {By: "event"}} {
			t.Run(fmt.Sprint(engine, " journal ", journal != nil), func(t *testing.T) {
				s, failed := &shelf{}, 0
				s.instead = func() error {
					s.mu.Lock()
					defer s.mu.Unlock()
					if failed++; failed <= 2 {
						return &lookup.Error{Err: errors.New("connection refused")}
					}
					return nil
				}
				p := shelfPipeline(s, func(l *steps.Lookup) {
					l.Ordered, l.Cache.TTL, l.Journal = true, time.Hour, journal
					l.Call = &lang.Calling{Backoff: lang.Backoff{Base: 10 * time.Millisecond, Max: 10 * time.Millisecond}}
				})
				got := onEngine(t, engine, p, queueEvents(200, 20))
				want := map[string][]string{}
				for key, values := range rowLevels(200, 20) {
					want["out "+key] = values
				}
				want["dead"] = got["dead"]
				if fmt.Sprint(got) != fmt.Sprint(want) || len(got["dead"]) != 20 {
					t.Errorf("%d dead letters, %v\nwant %v", len(got["dead"]), got, want)
				}
			})
		}
	}
}

// TestTextsAndVectorsAreAnsweredOnKafka has a model answer with them off the
// loop, in order, and its answers recorded.
func TestTextsAndVectorsAreAnsweredOnKafka(t *testing.T) {
	for _, engine := range kafkaEngines {
		t.Run(engine, func(t *testing.T) {
			p := writerPipeline(steps.Score{Async: true, Ordered: true}, &lang.Calling{}, writerOutputs)
			p.Models[0].Journal = &lang.Journal{}
			got := onEngine(t, engine, p, writerEvents("hello", "ho", "mute", "hello"))
			hello := `{"loud":"HELLO!","writer_words":"HELLO","writer_vector":[0.1,-2.5,1e-7],"writer_more":"AAEC","writer_length":5,"summed_sum":-2.4000000953674316}`
			ho := `{"loud":"HO!","writer_words":"HO","writer_vector":[0.1,-2.5,1e-7],"writer_more":null,"writer_length":2,"summed_sum":-2.4000000953674316}`
			want := map[string][]string{"out k0": {hello}, "out k1": {ho}, "out k3": {hello}, "dead": got["dead"]}
			if fmt.Sprint(got) != fmt.Sprint(want) || len(got["dead"]) != 1 || !strings.Contains(got["dead"][0], "mute") {
				t.Errorf("%v\nwant %v", got, want)
			}
		})
	}
}

// TestWordsAreShownOnKafka has a model break off in the middle of what it says
// about one of two texts: each word is shown behind those before it, and the whole
// comes once.
func TestWordsAreShownOnKafka(t *testing.T) {
	for _, engine := range kafkaEngines {
		t.Run(engine, func(t *testing.T) {
			m := &talker{asked: map[string]int{}}
			p := writerPipeline(steps.Score{Async: true, Partial: &steps.Partial{Topic: "drafts", Interval: 150 * time.Millisecond}}, &lang.Calling{}, []lang.Field{{Name: "words", Type: "string"}})
			p.Models[0].Journal, p.Code.Models["writer"] = &lang.Journal{By: "event"}, model.Model(m)
			p.Steps = []lang.Step{p.Steps[0], &steps.Emit{Topic: "out", Names: []string{"writer.words"}}}
			got := onEngine(t, engine, p, writerEvents("a", "again"))
			for i, text := range []string{"a", "again"} {
				var whole strings.Builder
				for n := range 10 {
					fmt.Fprintf(&whole, "%s%d ", text, n)
				}
				key := fmt.Sprint(" k", i)
				if want := []string{fmt.Sprintf(`{"writer_words":%q}`, whole.String())}; !slices.Equal(got["out"+key], want) {
					t.Errorf("%s: %q, want %q", text, got["out"+key], want)
				}
				longest := 0
				for _, draft := range got["drafts"+key] {
					_, words, _ := strings.Cut(draft, `"writer_words":"`)
					words, _ = strings.CutSuffix(words, `"}`)
					if longest = max(longest, len(words)); !strings.HasPrefix(whole.String(), words) {
						t.Errorf("%s: draft %q of %q", text, words, whole.String())
					}
				}
				if longest == 0 { // how many there are is a matter of time, which TestWordsAreShownWhileTheyCome has in its hands
					t.Errorf("%s: drafts %q", text, got["drafts"+key])
				}
			}
			if len(got["dead"]) > 0 {
				t.Errorf("dead letters %q", got["dead"])
			}
		})
	}
}

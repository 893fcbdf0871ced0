package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// patient is a talker that says 5 words, or fails before the next one by a chance of
// so many percent, each time for another reason.
type patient struct {
	talker
	rng             *rand.Rand // guarded by talker.mu
	failed, percent int
}

func (m *patient) fails() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rng.IntN(100) >= m.percent {
		return nil
	}
	m.failed++
	return fmt.Errorf("failure %d: %w", m.failed, blamed(model.BlameWay))
}

func (m *patient) Answer(ctx context.Context, rows model.Rows, _ []float32, texts [][]byte) error {
	for i := range 5 {
		if err := m.fails(); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
		word := fmt.Sprintf("%s%d ", rows.Bytes[0], i)
		if say := model.CallOf(ctx).Part; say != nil {
			say(0, word)
		}
		texts[0] = append(texts[0], word...)
	}
	return ctx.Err()
}

// draft is a partial result of twoWriters.
type draft struct {
	score, words, id string
	attempt          int
}

// twoWriters is a pipeline of which two scores are shown while they come, each word
// of them, with a stage between them that queues too.
func twoWriters(m *patient, journal *lang.Journal) lang.Pipeline {
	partial := &steps.Partial{Topic: "drafts", Interval: time.Millisecond}
	p := writerPipeline(steps.Score{As: "first", Async: true, Partial: partial}, &lang.Calling{
		Attempts: 1000, // of nine failures of ten that are chance, so that no event is given up
		Backoff:  lang.Backoff{Base: 5 * time.Millisecond, Max: 5 * time.Millisecond}, Breaker: lang.Breaker{Failures: 1000, Rate: 1},
	}, []lang.Field{{Name: "words", Type: "string"}})
	p.Models[0].Journal, p.Code.Models["writer"] = journal, m
	silent := steps.Score{Model: "writer", As: "silent", Inputs: []string{"text"}, Async: true, Batch: steps.Batch{Size: 1}}
	second := steps.Score{Model: "writer", As: "second", Inputs: []string{"more"}, Async: true, Partial: partial}
	p.Input.Partitions = 2
	p.Steps = []lang.Step{
		&steps.Let{List: []lang.Binding{{Name: "more", Expr: `text + "+"`}}}, p.Steps[0], &silent, &second,
		&steps.Emit{Topic: "out", Names: []string{"first.words", "second.words"}},
	}
	return p
}

func draftsOf(a answers.Answer) map[string][]draft {
	all := map[string][]draft{}
	for p, records := range a {
		for i := range records {
			if p.Topic != "drafts" {
				continue
			}
			_, value, _ := strings.Cut(string(records[i].Value), `,"`)
			score, words, _ := strings.Cut(strings.TrimSuffix(value, `"}`), `_words":"`)
			key := string(records[i].Key)
			attempt, _ := strconv.Atoi(header.Get(&records[i], header.Attempt))
			all[key] = append(all[key], draft{score, words, header.Get(&records[i], header.ID), attempt})
		}
	}
	return all
}

// TestAttemptsOfWordsAreCountedWhateverFails loses commits and partitions in the
// middle of what a model says, which fails itself. Each word is of an attempt that has all words before it,
// and attempts are counted from 1; an answer that nothing broke off goes on with the
// number it has.
func TestAttemptsOfWordsAreCountedWhateverFails(t *testing.T) {
	counts, again, goneOn := streamtest.Counts{}, 0, 0
	for seed := range seedsOf(*faultSeeds / 2) {
		synctest.Test(t, func(t *testing.T) {
			inner := memory.New(memory.Options{RebalanceTimeout: time.Second})
			faulty := streamtest.NewFaulty(inner, streamtest.FaultyOptions{Seed: seed, MaxDelay: 50 * time.Millisecond})
			var journal *lang.Journal
			if seed%2 == 1 {
				journal = &lang.Journal{By: "event"}
			}
			m := &patient{rng: rand.New(rand.NewPCG(seed, 1)), percent: int(seed / 4 % 2 * 40)}
			events := writerEvents("a", "b", "c")
			events[1].Partition.Index = 1
			answer, _ := runQueueing(t, inspected{faulty, inner}, twoWriters(m, journal), 1+int(seed/2%2), events)
			if out := answer.Values("out"); len(out) != 3 {
				t.Fatalf("seed %d: %q", seed, out)
			}
			for key, drafts := range draftsOf(answer) {
				before, ids := draft{}, map[string]bool{}
				for i, d := range drafts {
					goes := d.attempt == before.attempt
					switch {
					case goes && d.score == before.score && strings.HasPrefix(d.words, before.words) && !ids[d.id]:
					case goes && d.score == "second" && before.score == "first":
						goneOn++
					case d.attempt == before.attempt+1 && !ids[d.id]:
						again++
					default:
						t.Fatalf("seed %d, journal %v: draft %d of event %s does not follow from those before:\n%+v", seed, journal != nil, i, key, drafts)
					}
					before, ids[d.id] = d, true
				}
			}
			again -= 3 // that were begun
			counts.Add(faulty.Counts())
			if err := faulty.Close(); err != nil {
				t.Fatal(err)
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%v; %d answers were begun again, %d went on with the next score", counts, again, goneOn)
	if missing := counts.Missing(); seedsOf(*faultSeeds) >= 40 && (len(missing) > 0 || again < 20 || goneOn < 20) {
		t.Errorf("never injected: %v; begun again %d, went on %d", missing, again, goneOn)
	}
}

// An answer that is complete stands: what the next score says is of the same attempt.
func TestAttemptGoesOnWithTheNextScore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer, _ := runQueueing(t, memory.New(memory.Options{}), twoWriters(&patient{rng: rand.New(rand.NewPCG(1, 1))}, nil), 1, writerEvents("a"))
		var got []string
		for _, d := range draftsOf(answer)["k0"] {
			got = append(got, fmt.Sprint(d.score, " ", strings.Count(d.words, " "), " of ", d.attempt))
		}
		if want := "first 1 of 1, first 2 of 1, first 3 of 1, first 4 of 1, first 5 of 1, second 1 of 1, second 2 of 1, second 3 of 1, second 4 of 1, second 5 of 1"; strings.Join(got, ", ") != want {
			t.Errorf("%q\nwant %q", got, want)
		}
	})
}

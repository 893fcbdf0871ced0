package sequence_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/sequence"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	models "github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// speaker is a model that says what it is asked, a letter each millisecond.
type speaker struct{}

func (speaker) Info() models.Info {
	return models.Info{Kind: "speaker", Remote: true, Inputs: []models.Input{{Name: "text", Type: models.String}}, Outputs: []models.Output{{Name: "words", Size: 1, Type: models.String}}}
}

func (speaker) Check([]float64, [][]byte) error { return nil }

func (speaker) Predict(context.Context, models.Rows, []float32) error { return calling.ErrTexts }

func (speaker) Answer(ctx context.Context, rows models.Rows, _ []float32, texts [][]byte) error {
	for _, letter := range rows.Bytes[0] {
		time.Sleep(time.Millisecond)
		models.CallOf(ctx).Part(0, string(letter))
		texts[0] = append(texts[0], letter)
	}
	return ctx.Err()
}

// speaking is moderation with what a model says of an event, shown while it comes,
// and a record that is made once before it.
func speaking(t *testing.T) *pipeline.Runner {
	runner, err := builtin.New(lang.Pipeline{
		Name: "moderation", Replies: []string{"decisions"},
		Input: lang.Input{
			Topic: "events", Key: "room", Partitions: 3, Repartition: 2,
			Fields: []lang.Field{{Name: "room", Type: "string"}, {Name: "text", Type: "string"}},
		},
		Models: []lang.Model{{Name: "speaker", Go: "speaker", Version: 1, Outputs: []lang.Field{{Name: "words", Type: "string"}}, Call: &lang.Calling{}}},
		Steps: []lang.Step{
			&steps.Emit{Topic: "tokens", Names: []string{"text"}},
			&steps.Score{Model: "speaker", Inputs: []string{"text"}, Async: true, Partial: &steps.Partial{Topic: "tokens", Interval: time.Millisecond}},
			&steps.Emit{Topic: "decisions", Names: []string{"room", "speaker.words"}},
		},
		Code: lang.Code{Models: map[string]models.Model{"speaker": speaker{}}},
	}, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return runner
}

// inspected is a log with faults that tools may look into.
type inspected struct {
	stream.Log
	stream.Inspector
}

// TestPartialResultsPrecedeTheOneThatEndsTheirEvent has commits fail and partitions
// move, of pipeline and sequencers, while a model speaks. Of each event a client gets
// the words of one attempt after the other, then its result, and nothing behind it.
func TestPartialResultsPrecedeTheOneThatEndsTheirEvent(t *testing.T) {
	const events, text = 12, "abcdefghijkl"
	again, dropped := 0, uint64(0)
	for s := *seed; s < *seed+*seeds/3; s++ {
		synctest.Test(t, func(t *testing.T) {
			t.Logf("seed %d: -sequence.seed=%d -sequence.seeds=3", s, s)
			l := memory.New(memory.Options{RebalanceTimeout: 10 * time.Second})
			b := newBench(t, l, sequence.Limits{})
			via := streamtest.NewFaulty(l, streamtest.FaultyOptions{Seed: s})
			ctx, cancel := context.WithCancel(b.ctx())
			ended := make(chan error)
			runner := speaking(t)
			go func() { ended <- runner.Run(ctx, inspected{via, l}) }()
			stop, stopToo := b.start(via), b.start(via) // topics have several readers
			for i := range events {
				b.ok(l.Append(b.ctx(), wire.Submit(sequence.Inbox(name), &wire.Event{
					Tenant: "acme", Client: fmt.Sprint("c", i%2), ID: fmt.Sprint("e", i), Payload: fmt.Appendf(nil, `{"room":"r%d","text":%q}`, i%3, text),
				})))
			}
			for deadline := time.Now().Add(10 * time.Minute); b.terminals() < events && time.Now().Before(deadline); {
				time.Sleep(time.Second)
			}
			cancel()
			b.ok(<-ended)
			b.sequenced()
			stop()
			stopToo()
			for _, list := range b.results() {
				b.dense(list)
				again += b.spoken(list, text)
			}
			if n := b.terminals(); n != events {
				b.Fatalf("%d events ended, want %d", n, events)
			}
			dropped += b.metrics.Dropped.Load()
			b.ok(l.Close())
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d answers were begun again, %d parts came behind the whole", again, dropped)
	if *seeds >= 30 && (again == 0 || dropped == 0) {
		t.Error("one of them never happened")
	}
}

// spoken checks the results of clients in their order, and returns how many attempts
// were begun again.
func (b *bench) spoken(list []wire.Result, text string) (again int) {
	b.Helper()
	type heard struct {
		attempt int
		words   []byte
		ended   bool
	}
	events := map[string]*heard{}
	for _, r := range list {
		h := events[r.Event]
		if h == nil {
			h = &heard{}
			events[r.Event] = h
		}
		_, words, _ := bytes.Cut(r.Payload, []byte(`words":"`))
		words = bytes.TrimSuffix(words, []byte(`"}`))
		switch {
		case h.ended || !strings.HasPrefix(text, string(words)):
			b.Fatalf("event %s, that has ended %v, has %s", r.Event, h.ended, r.Payload)
		case r.Status == wire.StatusOK:
			h.ended = true
			if string(words) != text {
				b.Fatalf("event %s ends with %s", r.Event, r.Payload)
			}
		case r.Attempt == 0:
			if string(r.Payload) != fmt.Sprintf(`{"text":%q}`, text) {
				b.Fatalf("event %s: of no attempt is %s", r.Event, r.Payload)
			}
		case r.Attempt == h.attempt+1:
			if h.attempt > 0 {
				again++
			}
			h.attempt, h.words = r.Attempt, words
		case r.Attempt != h.attempt || len(words) <= len(h.words):
			b.Fatalf("event %s: %s of attempt %d comes after %q of attempt %d", r.Event, r.Payload, r.Attempt, h.words, h.attempt)
		default:
			h.words = words
		}
	}
	return again
}

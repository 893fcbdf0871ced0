package e2e_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lab/demo/moderation"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/reference"
	"github.com/afterbay/afterbay/stream"
)

// moderationFiles are those of examples/moderation: a pipeline with a text model
// that is verified when it is loaded.
func moderationFiles(t *testing.T) map[string][]byte {
	t.Helper()
	entries, err := moderation.Files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		if files[entry.Name()], err = moderation.Files.ReadFile(entry.Name()); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func generatePosts(seed uint64, n int) ([]reference.Event, moderation.Stats) {
	rate := max(n/1000, 1) // so that users post about once a minute
	g := moderation.NewGenerator(moderation.Options{Seed: seed, Users: max(n/20, 1), Rate: rate})
	events := make([]reference.Event, n)
	for i := range events {
		line, user := g.Append(nil)
		events[i] = reference.Event{Appended: 1_760_000_000_000_000 + int64(i)*1_000_000/int64(rate), Key: user, Value: line}
	}
	return events, g.Stats()
}

// TestSameLogSameAnswerWithTexts runs the moderation example in each way: scores
// of texts, and what later posts make of them, are the same bytes whatever posts
// of whatever members share a call.
func TestSameLogSameAnswerWithTexts(t *testing.T) {
	files := moderationFiles(t)
	events, stats := generatePosts(*answerSeed, *answerEvents/5)
	var first *answer
	for i, v := range variants("memory", "embedded", "kafka") {
		if i%3 > 0 { // of each engine, batch and number of members some
			continue
		}
		t.Run(v.String(), func(t *testing.T) {
			if first != nil && v.engine != "kafka" {
				t.Parallel() // they wait more than they compute
			}
			p := loadAnswer(t, answerFolder(t, files))
			if v.members > 1 { // they share calls
				p.Steps[1].(*steps.Score).Batch.Wait = time.Millisecond
			}
			got := byID(runPipeline(t, p, v, events))
			if first == nil {
				first = got
				checkModeration(t, got, stats)
				return
			}
			got.mustEqual(t, first)
		})
	}
}

// byID sorts the records of each partition. Decisions are keyed by post: those of
// posts of several partitions meet in one, in the order of their commits.
func byID(a *answer) *answer {
	for _, records := range a.outputs {
		slices.SortFunc(records, func(a, b stream.Record) int {
			return strings.Compare(header.Get(&a, "afterbay-id"), header.Get(&b, "afterbay-id"))
		})
	}
	return a
}

// checkModeration looks at the decisions as a whole.
func checkModeration(t *testing.T, got *answer, stats moderation.Stats) {
	t.Helper()
	actions, decided, dead := map[string]int{}, 0, 0
	for partition, records := range got.outputs {
		if strings.Contains(partition, ".dlq") {
			dead += len(records)
			continue
		}
		for _, r := range records {
			var decision struct {
				Post, Action string
				Risk         float64
			}
			if err := json.Unmarshal(r.Value, &decision); err != nil {
				t.Fatalf("%s: %v", r.Value, err)
			}
			if string(r.Key) != decision.Post || decision.Risk > 0.85 && decision.Action != "remove" {
				t.Fatalf("%s: %s", r.Key, r.Value)
			}
			actions[decision.Action]++
			decided++
		}
	}
	t.Logf("seed %d: %+v, %v, %d dead letters", *answerSeed, stats, actions, dead)
	if decided+dead != stats.Posts || dead < stats.Malformed || dead > stats.Malformed+stats.Late {
		t.Errorf("%d decisions and %d dead letters of %+v", decided, dead, stats)
	}
	if actions["remove"] < stats.Insults/3 || actions["review"] < stats.Insults/3 || actions["allow"] < stats.Posts*8/10 {
		t.Errorf("actions %v of %+v", actions, stats)
	}
}

func TestKilledProcessesLeaveTheSameAnswerOfTexts(t *testing.T) {
	t.Parallel() // it waits more than it computes
	events, _ := generatePosts(*answerSeed, *crashOf/3)
	files := moderationFiles(t)
	want := byID(runPipeline(t, loadAnswer(t, answerFolder(t, files)), variant{"memory", 256, 1, time.Millisecond}, events))
	byID(answerOfKilled(t, files, events, len(crashStages))).mustEqual(t, want)
}

// TestModelWithOneFlippedByteDoesNotRun flips one byte of each file that the
// moderation example's manifest names.
func TestModelWithOneFlippedByteDoesNotRun(t *testing.T) {
	for name, at := range map[string]string{"profanity.json": `"coef"`, "golden.csv": ",0.9"} {
		files := moderationFiles(t)
		data := bytes.Clone(files[name])
		data[bytes.Index(data, []byte(at))+len(at)+1] ^= 1
		files[name] = data
		if _, err := builtin.New(loadAnswer(t, answerFolder(t, files)), pipeline.Options{}); err == nil || !strings.Contains(err.Error(), "models.fast") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestModerationReadmeCommandsWork(t *testing.T) {
	t.Parallel()
	out := runScript(t, "moderation", block(t, "examples/moderation/README.md", "produce posts"), 4998) // all but a malformed post and a late one
	for _, want := range []string{"100 golden vectors passed", "listening on", "appended 5000 records", `"action":"allow"`, "the record ends too early", "before the watermark", "pipeline moderation: 5000 events"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

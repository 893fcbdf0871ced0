package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/log/memory"
	chunking "github.com/afterbay/afterbay/internal/models/text/chunk"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/stream"
)

const chunkPipeline = `pipeline: docs
input:
  topic: documents
  key: id
  partitions: 4
  fields: {id: string, ts: time, body: optional string}
  time: {field: ts, unit: rfc3339, lateness: 1m, late: include}
steps:
  - chunk: {name: doc, text: body ?? "", by: sentences, size: 16, overlap: 6}
  - each:
      in: doc.chunks
      as: chunk
      fields: {id: string, text: string, new: bool}
      when: chunk.new
      steps:
        - emit: {topic: out, key: chunk.id, value: {doc: id, text: chunk.text}}
  - each:
      in: doc.removed
      as: gone
      steps:
        - emit: {topic: out, name: gone, key: gone, delete: "true", value: {doc: id}}
`

// versionOf is a version of a document, as the test makes it.
type versionOf struct {
	id   string
	at   time.Time
	body string // "" is that it is deleted
}

// versions are versions of a few documents: out of order, later than the watermark too, with
// sentences that come again, and deletions. Behind them time moves on until keys are forgotten.
func versions(seed uint64) (list []versionOf) {
	random := rand.New(rand.NewPCG(seed, 51))
	begin := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)
	sentences := []string{"A boat floats.", "It has a hull of wood.", "The wind fills the sails, and it goes fast over the sea.", "Who steers it?", "漢字。"}
	for i := range 200 {
		v := versionOf{id: fmt.Sprint("d", random.IntN(8)), at: begin.Add(time.Duration(i-random.IntN(120)) * time.Second)}
		for range random.IntN(4) * random.IntN(4) {
			v.body += sentences[random.IntN(len(sentences))] + " "
		}
		list = append(list, v)
	}
	for i := range 40 {
		list = append(list, versionOf{fmt.Sprint("z", i), begin.Add(60 * 24 * time.Hour), "z"})
	}
	return list
}

func chunkEvents(list []versionOf) (events []stream.Record) {
	for _, v := range list {
		fields := map[string]string{"id": v.id, "ts": v.at.Format(time.RFC3339Nano)}
		if v.body != "" {
			fields["body"] = v.body
		}
		value, _ := json.Marshal(fields)
		events = append(events, stream.Record{Partition: stream.Partition{Topic: "documents", Index: stream.ByKey}, Key: []byte(v.id), Value: value})
	}
	return events
}

// wantChunks returns the chunks of the newest version of each document: "id: text", sorted.
func wantChunks(t *testing.T, list []versionOf) (want []string, living int) {
	t.Helper()
	newest := map[string]versionOf{}
	for _, v := range list {
		if !v.at.Before(newest[v.id].at) {
			newest[v.id] = v
		}
	}
	splitter := chunking.Splitter{By: chunking.Sentences, Size: 16, Overlap: 6, Max: 200}
	for _, v := range newest {
		chunks, err := splitter.Split(v.body)
		if err != nil {
			t.Fatal(err)
		}
		living += min(1, len(chunks))
		for _, c := range chunks {
			want = append(want, v.id+": "+c.Text)
		}
	}
	slices.Sort(want)
	return want, living
}

// foldedChunks returns what a table of the records would have: the newest of each key.
func foldedChunks(t *testing.T, records []stream.Record) (got []string) {
	t.Helper()
	rows := map[string]string{}
	for _, r := range records {
		if delete(rows, string(r.Key)); r.Value == nil {
			continue
		}
		var row struct{ Doc, Text string }
		if err := json.Unmarshal(r.Value, &row); err != nil {
			t.Fatal(err)
		}
		rows[string(r.Key)] = row.Doc + ": " + row.Text
	}
	for _, row := range rows {
		got = append(got, row)
	}
	slices.Sort(got)
	return got
}

func chunkRunner(t *testing.T, size int, interval time.Duration, options pipeline.Options) (*pipeline.Runner, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(file, []byte(chunkPipeline), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := config.Load(file, builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	p := loaded.Pipelines[0]
	p.Commit.Size, p.Commit.Interval = size, interval
	return builtin.New(p, options)
}

// TestTopicHasTheChunksOfTheNewestVersions runs random versions of documents on each engine, in
// other batches and with other members. The records are the same, byte for byte, and so is the
// state. They are the chunks of the newest version of each document.
func TestTopicHasTheChunksOfTheNewestVersions(t *testing.T) {
	for seed := range uint64(4) {
		list := versions(seed)
		want, living := wantChunks(t, list)
		var first *answer
		for _, v := range []variant{{"memory", 1, 1, time.Millisecond}, {"memory", 1000, 3, time.Second}, {"embedded", 7, 3, time.Millisecond}, {"kafka", 50, 2, 10 * time.Millisecond}} {
			runner, err := chunkRunner(t, v.batch, v.interval, pipeline.Options{Members: v.members, Keys: 3})
			if err != nil {
				t.Fatal(err)
			}
			log := openLog(t, v.engine, t.TempDir())
			if err := runner.CreateTopics(t.Context(), log); err != nil {
				t.Fatal(err)
			}
			if err := log.Append(t.Context(), chunkEvents(list)...); err != nil {
				t.Fatal(err)
			}
			runUntilIdle(t, runner, log)
			got := readAnswer(t, runner, log)
			byChunk(got)
			closeLog(t, log)
			if first == nil {
				first = got
				checkChunks(t, seed, got, want, living)
			}
			if d := got.difference(first); d != "" {
				t.Fatalf("seed %d, %v: %s", seed, v, d)
			}
		}
	}
}

// byChunk puts the records of a chunk together, in their order. Documents of several partitions
// meet in the topic in any order.
func byChunk(a *answer) {
	var all []stream.Record
	for i := range answerPartitions {
		name := fmt.Sprint("out/", i)
		all = append(all, a.outputs[name]...)
		delete(a.outputs, name)
	}
	slices.SortStableFunc(all, func(x, y stream.Record) int { return bytes.Compare(x.Key, y.Key) })
	a.outputs["out"] = all
}

func checkChunks(t *testing.T, seed uint64, got *answer, want []string, living int) {
	t.Helper()
	for partition, records := range got.outputs {
		if strings.HasPrefix(partition, "docs.dlq") && len(records) > 0 {
			t.Fatalf("seed %d: a dead letter: %s", seed, records[0].Value)
		}
	}
	if diff := cmp.Diff(want, foldedChunks(t, got.outputs["out"])); diff != "" {
		t.Fatalf("seed %d: (-want +got)\n%s", seed, diff)
	}
	kept := 0
	for _, entry := range got.state {
		kept += strings.Count(entry[:4], `"c`)
	}
	if kept != living {
		t.Errorf("seed %d: the state has %d documents, and %d have chunks", seed, kept, living)
	}
}

// TestChunksAreTheSameUnderFaults loses commits and moves partitions.
func TestChunksAreTheSameUnderFaults(t *testing.T) {
	answers.SameAnswer(t,
		func() stream.Log { return memory.New(memory.Options{RebalanceTimeout: time.Second}) },
		func() (answers.Runner, error) {
			return chunkRunner(t, 10, time.Millisecond, pipeline.Options{Members: 3, Keys: 3})
		}, chunkEvents(versions(99)), seedsOf(10))
}

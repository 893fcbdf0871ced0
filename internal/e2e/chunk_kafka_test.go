package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/servertest"
)

// sunkChunks is chunkPipeline with topics of its own, whose chunks go to Redis and PostgreSQL.
const sunkChunks = `pipeline: sunk-docs
input:
  topic: sunk-documents
  key: id
  partitions: 4
  fields: {id: string, ts: time, body: optional string}
  time: {field: ts, unit: rfc3339, lateness: 1m, late: include}
commit: {size: 10, interval: 20ms}
steps:
  - chunk: {name: doc, text: body ?? "", by: sentences, size: 16, overlap: 6}
  - each:
      in: doc.chunks
      as: chunk
      fields: {id: string, text: string, new: bool}
      when: chunk.new
      steps:
        - emit: {topic: sunk-chunks, key: chunk.id, value: {id: chunk.id, doc: id, text: chunk.text}}
  - each:
      in: doc.removed
      as: gone
      steps:
        - emit: {topic: sunk-chunks, name: gone, key: gone, delete: "true", value: {id: gone}}
sinks:
  - {from: sunk-chunks, name: cache, redis: {url: '${CHUNKS_REDIS}', prefix: 'chunk:', key: id}}
  - {from: sunk-chunks, name: rows, postgres: {url: '${CHUNKS_POSTGRES}', table: chunks, key: id, exactly_once: true}}
`

// chunkChild says what a worker process is to do, as kafkaChild does.
const chunkChild = "AFTERBAY_CHUNK_CHILD"

// runChunkChild runs the pipeline and its sinks until its orders end.
func runChunkChild(arguments string) error {
	var brokers, dir, name string
	if _, err := fmt.Sscan(arguments, &brokers, &dir, &name); err != nil {
		return err
	}
	ctx, order := takeOrders()
	runner, err := sunkRunner(dir, func(stage string) { obey(order, stage, 0) })
	if err != nil {
		return err
	}
	defer runner.Close()
	log, err := kafka.Open(ctx, kafka.Options{Brokers: strings.Split(brokers, ","), Dir: filepath.Join(dir, name), Stay: true})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return runner.Run(ctx, log) })
	group.Go(func() error { return runner.Deliver(ctx, log) })
	return errors.Join(group.Wait(), log.Close())
}

func sunkRunner(dir string, fault func(stage string)) (*pipeline.Runner, error) {
	file, err := config.Load(filepath.Join(dir, "p.yaml"), builtin.Kinds())
	if err != nil {
		return nil, err
	}
	return builtin.New(file.Pipelines[0], pipeline.Options{Logger: slog.New(slog.NewTextHandler(io.MultiWriter(os.Stdout, os.Stderr), nil)), Fault: fault})
}

// TestKilledChunkWorkersLeaveTheNewestChunksInSinks kills workers on a real Kafka with a step in flight. PostgreSQL and Redis
// have the chunks of the newest version of each document, and none of those that are gone.
func TestKilledChunkWorkersLeaveTheNewestChunksInSinks(t *testing.T) {
	cluster, redis, postgres := realKafka.Get(t), servertest.Redis(t), servertest.Postgres(t)
	t.Setenv("CHUNKS_REDIS", redis.URL)
	t.Setenv("CHUNKS_POSTGRES", postgres.URL)
	dir, list := t.TempDir(), versions(*answerSeed)
	if err := os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(sunkChunks), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := kafka.Open(t.Context(), kafka.Options{Brokers: cluster.Addresses()})
	if err != nil {
		t.Fatal(err)
	}
	defer closeLog(t, log)
	runner, err := sunkRunner(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), crashPatience)
	defer cancel()
	events := chunkEvents(list)
	for i := range events {
		events[i].Partition.Topic = "sunk-documents"
	}
	parts := slices.Collect(slices.Chunk(events, (len(events)+2)/3))
	for i, stage := range []string{"write", "sync", ""} {
		w := startWorker(t, chunkChild, cluster.Addresses(), dir, "one", true, 0)
		w.patiently = func() (context.Context, context.CancelFunc) { return context.WithCancel(ctx) }
		if stage != "" {
			w.ending = true
			if _, err := fmt.Fprintln(w.orders, "killed", stage, 0, 3); err != nil {
				t.Fatal(err)
			}
		}
		if err := log.Append(t.Context(), parts[i]...); err != nil {
			t.Fatal(err)
		}
		if stage != "" {
			w.until(t, "killed at "+stage)
			<-w.ended
			continue
		}
		if err := errors.Join(runner.WaitIdle(ctx, log), runner.WaitDelivered(ctx, log)); err != nil {
			t.Fatal(err)
		}
		w.end(t)
	}
	checkSunkChunks(t, list, redis, postgres)
}

func checkSunkChunks(t *testing.T, list []versionOf, redis, postgres *servertest.Server) {
	t.Helper()
	want, _ := wantChunks(t, list)
	rows, err := postgres.Postgres(t).Query(t.Context(), `SELECT doc || ': ' || text FROM chunks`)
	if err != nil {
		t.Fatal(err)
	}
	inRows, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	client := redis.Redis(t)
	keys, err := client.Do(t.Context(), client.B().Keys().Pattern("chunk:*").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	var inCache []string
	for _, key := range keys {
		row, err := client.Do(t.Context(), client.B().Hgetall().Key(key).Build()).AsStrMap()
		if err != nil {
			t.Fatal(err)
		}
		inCache = append(inCache, row["doc"]+": "+row["text"])
	}
	for name, got := range map[string][]string{"PostgreSQL": inRows, "Redis": inCache} {
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d: %s (-want +got)\n%s", *answerSeed, name, diff)
		}
	}
}

package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/check/dryrun"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/ops/dataset"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/internal/process"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// datasetCases are pipelines whose training rows are compared with the live ones.
func datasetCases(seed uint64, n int) map[string]orderedCase {
	cases := orderedCases(seed, n)
	trades := cases["as-of"]
	delete(cases, "timers") // dataset has no functions of Go
	delete(cases, "sessions")
	chain := cases["chain"] // the second has few cards, each in all partitions, and ties
	chain.text = strings.NewReplacer(
		"value: [id, card, merchant, amount, ts, f.*]", `value: {id: id, card: "substr(card, 0, 2)", merchant: merchant, amount: amount, ts: ts - ts % 2000}`,
		"input: {topic: between,", "input: {topic: between, partitions: 4,", "value: [id, f.*]", "value: [id, f.*, g.*]",
		"aggregates: [sum, count]}}", "aggregates: [sum, count]}, g: {value: amount, last: 3, aggregates: [mean]}}").Replace(chain.text)
	cases["chain"] = chain
	for _, match := range []string{"first", "each", "last"} {
		c := cases[match]
		c.text = strings.Replace(c.text, "value: {left: id, bid: bid, right: clk.id, price: clk.price}", "value: [id, bid, clk.id, clk.price]", 1)
		cases[match] = c
	}
	cases["as of arrival"] = orderedCase{records: trades.records, first: trades.first, text: strings.ReplaceAll(trades.text, "as_of: event, time: {field: ts, unit: ms}, ", "")}
	own := strings.ReplaceAll(trades.text, ", repartition: REPARTITION", "")
	placed := slices.Clone(trades.records)
	for i := range placed {
		placed[i].Partition.Index = stream.ByKey
	}
	for _, name := range []string{"windows", "by"} {
		c := cases[name]
		c.late = slices.Clone(c.records)
		c.records = slices.DeleteFunc(slices.Clone(c.records), func(r stream.Record) bool { return isClosing(&r) || r.Partition.Index == 3 })
		c.late = slices.DeleteFunc(c.late, func(r stream.Record) bool { return !isClosing(&r) && r.Partition.Index != 3 })
		cases[name+", forced"] = c
	}
	cases["own key"] = orderedCase{records: placed, first: trades.first, text: strings.ReplaceAll(strings.ReplaceAll(own, "as_of: event, time: {field: ts, unit: ms}, ", ""), ", idle: IDLE", "")}
	return cases
}

// TestDatasetsAreTheLiveRowsOnEveryEngine has pipelines run on engines, with other members and
// partitions of copies. The rows of a replay are theirs, field by field, and have one digest,
// whatever the parallelism, and if the copies are gone. So are those of a pipeline that has to force
// the events of a partition: then the copies decide the digest, and have to be there. Of a chain
// these are the rows of the second pipeline, of what the first one wrote.
func TestDatasetsAreTheLiveRowsOnEveryEngine(t *testing.T) {
	t.Parallel()
	engines := []string{"memory", "embedded", "kafka"}
	if *answerBroker > 0 {
		engines = append(engines, "kafka broker")
	}
	cases := datasetCases(*answerSeed, *orderedEvents/8)
	for n, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		t.Run(name, func(t *testing.T) {
			digest := ""
			for i, engine := range engines {
				if !*answerAll && i > 0 && i != 1+n%(len(engines)-1) {
					continue // each engine has some of the cases
				}
				s := orderedSettings{members: 1 + i%3, partitions: []int{4, 1, 7}[i%3], batch: []int{100, 1000, 50}[i%3], interval: time.Millisecond, idle: "100ms"}
				t.Run(engine, func(t *testing.T) { c.rows(t, engine, s, &digest) })
			}
		})
	}
}

// rows runs the pipeline on an engine, and compares its rows and their digest, which is the first
// one if there is none.
func (c orderedCase) rows(t *testing.T, engine string, s orderedSettings, digest *string) {
	t.Helper()
	dir, log := t.TempDir(), openLog(t, engine, t.TempDir())
	defer closeLog(t, log)
	o := startOrdered(t, log, c.text, s)
	if len(c.first) > 0 {
		if err := log.Append(t.Context(), slices.Clone(c.first)...); err != nil {
			t.Fatal(err)
		}
	}
	limited, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // an error then says what waits
	defer cancel()
	err := errors.Join(log.Append(t.Context(), slices.Clone(c.records)...), o.while(limited, func(ctx context.Context) error {
		return errors.Join(o.idle(ctx), log.Append(ctx, slices.Clone(c.late)...), o.idle(ctx))
	}))
	if err != nil {
		t.Fatalf("seed %d: %v", *answerSeed, err)
	}
	if len(c.late) > 0 || len(o.runners) > 1 { // of a chain, the partitions of the copies decide offsets of its topic
		*digest = ""
	}
	text := strings.NewReplacer("REPARTITION", fmt.Sprint(s.partitions), "IDLE", s.idle).Replace(c.text)
	if err := os.WriteFile(filepath.Join(dir, "p.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	last := o.runners[len(o.runners)-1]
	same := func(parallelism int, what string) {
		m := datasetOf(t, log, dir, last.Name(), parallelism)
		if *digest == "" {
			*digest = m.Rows.SHA256
		}
		if f := m.Events.Forced; (f != nil) != (len(c.late) > 0) || f != nil && (!f.Followed || f.Events < int64(len(c.late)/2)) {
			t.Errorf("seed %d: forced %+v, of %d events that came late", *answerSeed, f, len(c.late))
		}
		if m.Rows.SHA256 != *digest {
			t.Errorf("seed %d, parallelism %d%s: %s, want %s", *answerSeed, parallelism, what, m.Rows.SHA256, *digest)
		}
	}
	for _, parallelism := range []int{1, 4, 16} {
		same(parallelism, "")
	}
	differ, compared := differentRows(t, log, last.Outputs()[0], filepath.Join(dir, "rows.ndjson"))
	if differ > 0 || compared < len(c.records)/20 {
		t.Errorf("seed %d: %d of %d rows differ from the live ones", *answerSeed, differ, compared)
	}
	if len(last.Copies) > 0 && len(c.late) == 0 {
		if err := log.DeleteTopic(t.Context(), last.Plan.Topic); err != nil {
			t.Fatal(err)
		}
		same(2, ", without copies")
	}
	t.Logf("seed %d: %d of %d rows differ", *answerSeed, differ, compared)
}

// datasetOf writes the training rows of a pipeline from a log.
func datasetOf(t *testing.T, log stream.Log, dir, pipeline string, parallelism int) *dataset.Manifest {
	t.Helper()
	program := &dryrun.Program{Loader: &process.Loader{Kinds: builtin.Kinds(), Logger: slog.New(slog.DiscardHandler)}, Out: io.Discard, Err: io.Discard}
	o := dataset.Options{Out: filepath.Join(dir, "rows.ndjson"), RowsOptions: dryrun.RowsOptions{
		File: filepath.Join(dir, "p.yaml"), Pipeline: pipeline, FromLog: true, Parallelism: parallelism,
		Open: func() (inspect.Directory, func() error, error) {
			return inspect.NewLocal(log.(inspect.Log), nil, nil, nil), func() error { return nil }, nil
		},
	}}
	if err := dataset.Write(t.Context(), program, o); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(o.Out + ".manifest.json")
	m := &dataset.Manifest{}
	if err = errors.Join(err, json.Unmarshal(text, m)); err != nil {
		t.Fatal(err)
	}
	return m
}

// differentRows returns how many records of a topic are not among rows, field by field, and how
// many there are.
func differentRows(t *testing.T, log stream.Log, topic, file string) (differ, all int) {
	t.Helper()
	rows := map[string]map[string]json.RawMessage{} // by the id of the event
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		named, row := map[string]json.RawMessage{}, map[string]json.RawMessage{}
		if err := json.Unmarshal(lines.Bytes(), &named); err != nil {
			t.Fatal(err)
		}
		for name, value := range named {
			row[strings.ReplaceAll(name, ".", "_")] = value
		}
		rows[string(row["meta_id"])] = row
	}
	for _, r := range recordsIn(t, log, topic) {
		all++
		id, ok := header.ParseID(header.Get(&r, header.ID))
		name, err := json.Marshal(id.Event)
		fields := map[string]json.RawMessage{}
		if err = errors.Join(err, json.Unmarshal(r.Value, &fields)); err != nil || !ok {
			t.Fatal(err, header.Get(&r, header.ID))
		}
		row, same := rows[string(name)], true
		for field, value := range fields {
			same = same && bytes.Equal(row[field], value)
		}
		if !same {
			if differ++; differ < 4 {
				t.Logf("live %s, row %s", r.Value, row)
			}
		}
	}
	return differ, all
}

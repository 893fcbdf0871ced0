package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/models/remote"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

func TestRepeatedEventsAreFreshOnes(t *testing.T) {
	read := &sampled{}
	sample := strings.NewReader(`{"id": "x", "k": "a", "at": 5, "n": [1, {"b": null}]}` + "\n" + `{"k": "b", "at": 1}` + "\n")
	if _, err := ingest.Publish(t.Context(), read, sample, ingest.Options{Format: ingest.NDJSON}); err != nil {
		t.Fatal(err)
	}
	in := &lang.Input{Key: "k", Time: lang.EventTime{Field: "at", Unit: "ms"}, Dedupe: &lang.Dedupe{ID: "id"}}
	r := &repeated{key: in.Key, unit: in.Time.Unit}
	for _, e := range *read {
		r.events = append(r.events, membersOf(e, in))
	}
	begin := time.Now().UnixMilli()
	var all []byte
	for i, want := range []string{`"id":"0","k":"a","n":[1, {"b": null}]`, `"k":"b"`, `"id":"2","k":"a","n":[1, {"b": null}]`} {
		from := len(all)
		line, key := r.next(all)
		all = line
		event := string(all[from:])
		rest, ok := strings.CutPrefix(event, `{"at":`)
		digits, rest, _ := strings.Cut(rest, ",")
		at, err := strconv.ParseInt(digits, 10, 64)
		if !ok || err != nil || rest != want+"}" || string(key) != []string{"a", "b"}[i%2] || at < begin || at > time.Now().UnixMilli() {
			t.Errorf("event %d is %s of key %s, want %s", i, event, key, want)
		}
	}
}

func TestEventsAreMadeUpOfEveryType(t *testing.T) {
	const text = `pipeline: all
input:
  topic: in
  key: k
  time: {field: t, unit: rfc3339, late: dlq}
  fields: {k: string, b: bool, i: int, n: number, y: bytes, t: time, s: optional string}
  dedupe: {id: i}
steps:
  - emit: {topic: out, value: [k, b, i, n, t, s]}
`
	file, err := config.Parse("all.yaml", []byte(text), builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	in := &file.Pipelines[0].Input
	ofSeed := func(seed uint64) []byte {
		source, _, err := (&PlacementOptions{Seed: seed}).eventsFor(t.Context(), nil, in)
		if err != nil {
			t.Fatal(err)
		}
		s, events := source(), []byte(nil)
		for range 50 {
			events, _ = s.next(events)
			events = append(events, '\n')
		}
		return events
	}
	times := regexp.MustCompile(`"t":"[^"]*"`)
	a, same, other := times.ReplaceAll(ofSeed(1), nil), times.ReplaceAll(ofSeed(1), nil), times.ReplaceAll(ofSeed(2), nil)
	if !bytes.Equal(a, same) || bytes.Equal(a, other) {
		t.Error("a seed does not decide the load")
	}
	log := memory.New(memory.Options{})
	defer log.Close()
	r, err := pipeline.New(file.Pipelines[0], pipeline.Options{Members: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(ofSeed(3)) {
		if err := log.Append(t.Context(), ingest.NewRecord("in", "k", bytes.TrimSpace(line))); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, log) }()
	err = r.WaitIdle(t.Context(), log)
	stop()
	if err = errors.Join(err, <-done); err != nil {
		t.Fatal(err)
	}
	if c := r.Counts(); c.Events != 50 || c.Outputs != 50 || c.DeadLetters != 0 {
		t.Errorf("%d outputs and %d dead letters of %d events", c.Outputs, c.DeadLetters, c.Events)
	}
}

func TestArrivalsAreOfTheEventsOfATiming(t *testing.T) {
	a := &arrivals{}
	at := func(i int64) time.Time { return time.Unix(i, 0) }
	add := func(from, to int64) {
		for i := from; i < to; i++ {
			if err := a.consume(&stream.Record{Time: at(i)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	add(0, 5)
	for _, c := range []struct {
		first, next int64
		want        int
	}{
		{0, 2, 2}, {0, 2, 0}, {1, 4, 0}, {2, 6, 0} /* not read yet */, {3, 5, 2} /* after a gap */, {2, 3, 0}, {5, 6, 0},
	} {
		got := a.take(&observe.Timing{First: c.first, Next: c.next})
		if len(got) != c.want || c.want > 0 && !got[0].Equal(at(c.first)) {
			t.Errorf("%d to %d: %v", c.first, c.next, got)
		}
	}
	add(5, 8)
	if got := a.take(&observe.Timing{First: 5, Next: 8}); len(got) != 3 || !got[2].Equal(at(7)) {
		t.Errorf("%v", got)
	}
}

func TestPhasesOfAnEventAddUpToItsSum(t *testing.T) {
	const ms = time.Millisecond
	came, h := time.Unix(1, 0), phaseTimes{}
	p := observe.Timing{Begun: came.Add(2 * ms), Feature: 3 * ms, Model: 5 * ms, Emit: 7 * ms, Made: came.Add(17 * ms), Committed: came.Add(28 * ms)}
	h.add(&p, came)
	phases, sum := h.figures()
	total := time.Duration(0)
	for i, want := range []time.Duration{2 * ms, 3 * ms, 5 * ms, 7 * ms, 11 * ms} {
		total += phases[i].P99
		if phases[i].P50 != want || phases[i].P99 != want {
			t.Errorf("%+v, want %v", phases[i], want)
		}
	}
	if sum.P50 != total || sum.P99 != 28*ms {
		t.Errorf("%+v", sum)
	}
}

func TestEndpointIsCalledAsTheModelInside(t *testing.T) {
	policy := model.Policy{Size: 7, Wait: time.Millisecond, ByLength: true}
	if got := (&atEndpoint{Model: &remote.Model{}, policy: policy}).Info().Batch; got != policy {
		t.Errorf("%+v", got)
	}
}

func TestServersThatCannotStartAreReported(t *testing.T) {
	r := newPlacementReport(&PlacementOptions{}, &placed{Program: &Program{Err: io.Discard, Self: func(ctx context.Context, _ ...string) (*exec.Cmd, error) {
		return exec.CommandContext(ctx, "false"), nil
	}}, ctx: t.Context(), model: &lang.Model{Name: "m"}, path: "none.ubj"})
	if _, err := r.serve(); err == nil {
		t.Error("a server of no model runs")
	}
}

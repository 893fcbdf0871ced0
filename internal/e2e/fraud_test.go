package e2e_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/lab/demo/fraud"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// TestFraudExampleTellsFraudApart scores payments of a seed that the model was
// not trained on, and takes the area under the curve from the labels.
func TestFraudExampleTellsFraudApart(t *testing.T) {
	const seed = 77
	file, err := config.Load("examples/fraud/pipeline.yaml", builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	runner, err := builtin.New(file.Pipelines[0], pipeline.Options{Members: 2})
	if err != nil {
		t.Fatal(err)
	}
	log := memory.New(memory.Options{})
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	var events, labels bytes.Buffer
	stats, err := fraud.Generate(&events, fraud.Options{Seed: seed, Events: 200_000, Labels: &labels})
	if err != nil {
		t.Fatal(err)
	}
	var records []stream.Record
	for line := range bytes.Lines(events.Bytes()) {
		key, _ := decode.Key(line, "customer")
		records = append(records, stream.Record{Partition: stream.Partition{Topic: runner.Input(), Index: stream.ByKey}, Key: key, Value: bytes.TrimSpace(line)})
	}
	for chunk := range slices.Chunk(records, 5000) {
		if err := log.Append(t.Context(), chunk...); err != nil {
			t.Fatal(err)
		}
	}
	runUntilIdle(t, runner, log)
	area, actions, decided := rank(t, log, labels.Bytes())
	dead := 0
	for i := range int32(answerPartitions) {
		dead += len(readPartition(t, log, stream.Partition{Topic: "fraud.dlq", Index: i}))
	}
	t.Logf("seed %d: area under the curve %.4f, %v, %d dead letters", seed, area, actions, dead)
	if area < 0.9 || len(actions) != 3 {
		t.Errorf("area under the curve %.4f, actions %v", area, actions)
	}
	if dead != stats.Malformed.Total() || decided+dead != stats.Events {
		t.Errorf("%d decisions and %d dead letters of %d events with %d malformed", decided, dead, stats.Events, stats.Malformed.Total())
	}
}

// rank returns the area under the curve of the scores (Mann-Whitney, ties count
// a half), how often each action was taken, and the number of decisions.
func rank(t *testing.T, log stream.Log, labels []byte) (area float64, actions map[string]int, decided int) {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(labels)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	isFraud := map[string]bool{}
	for _, row := range rows[1:] {
		isFraud[row[0]] = row[1] == "1"
	}
	type scored struct {
		TX     string
		Score  float64 `json:"fraud_score"`
		Action string
	}
	var all []scored
	actions = map[string]int{}
	for i := range int32(answerPartitions) {
		for _, r := range readPartition(t, log, stream.Partition{Topic: "decisions", Index: i}) {
			var s scored
			if err := json.Unmarshal(r.Value, &s); err != nil {
				t.Fatal(err)
			}
			actions[s.Action]++
			all = append(all, s)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Score < all[j].Score })
	var below, bad, wins float64 // honest payments with a lower score
	for i := 0; i < len(all); {
		j, honest, frauds := i, 0.0, 0.0
		for ; j < len(all) && all[j].Score == all[i].Score; j++ {
			if isFraud[all[j].TX] {
				frauds++
			} else {
				honest++
			}
		}
		wins += frauds * (below + honest/2)
		below, bad, i = below+honest, bad+frauds, j
	}
	return wins / (below * bad), actions, len(all)
}

// TestFraudExampleSeesEachMove has payments of a customer in any order of countries:
// `moved` is 0 where the last ten are of one, and nowhere else.
func TestFraudExampleSeesEachMove(t *testing.T) {
	file, err := config.Load("examples/fraud/pipeline.yaml", builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	p := file.Pipelines[0]
	for i := range p.Steps {
		if e, ok := p.Steps[i].(*steps.Emit); ok && e.Topic == "decisions" {
			e.Names = []string{"moved"}
		}
	}
	runner, err := builtin.New(p, pipeline.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log := memory.New(memory.Options{})
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	codes := []string{"US", "GB", "DE", "FR", "BR", "IN", "PL", "NG", "XX"}
	countries := []string{"US", "DE", "GB", "US", "DE", "GB", "IN", "US", "IN"} // the mean of each few is the last one
	for len(countries) < 300 {
		country := codes[random.IntN(len(codes))]
		for range 1 + random.IntN(3)*random.IntN(10) {
			countries = append(countries, country)
		}
	}
	for i, country := range countries {
		event := fmt.Appendf(nil, `{"tx":"t%d","customer":"c","amount":12,"country":%q,"channel":"chip","ts":%d}`, i, country, epoch+i*60_000)
		if err := log.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: runner.Input(), Index: 0}, Key: []byte("c"), Time: time.UnixMilli(epoch).Add(6 * time.Hour), Value: event}); err != nil {
			t.Fatal(err)
		}
	}
	runUntilIdle(t, runner, log)
	out := readPartition(t, log, stream.Partition{Topic: "decisions", Index: 0})
	if len(out) != len(countries) {
		t.Fatalf("seed %d: %d decisions, want %d", seed, len(out), len(countries))
	}
	for i, r := range out {
		last := countries[max(0, i-9) : i+1]
		moved := slices.ContainsFunc(last, func(c string) bool { return c != last[0] })
		if still := string(r.Value) == `{"moved":0}`; still == moved {
			t.Errorf("seed %d: payments in %v: %s", seed, last, r.Value)
		}
	}
}

package reference

import (
	"bufio"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

var rowsFile = flag.String("rows", "", "write the rows that testdata/train.py takes to this file")

// names are the inputs of the model.
func names() []string {
	var out []string
	expand := func(feature string, windows, aggregates []string) {
		for _, w := range windows {
			for _, a := range aggregates {
				out = append(out, feature+"."+a+"_"+w)
			}
		}
	}
	expand("spend", []string{"60s", "300s", "3600s"}, []string{"count", "sum", "mean", "max"})
	expand("flow", []string{"60s", "1h"}, []string{"count", "sum", "mean", "max", "min"})
	return append(out, "amount", "gap", "past.mean", "hot.count_600s", "where")
}

// heuristic is what the model learns: it depends on past scores, so that an
// engine that feeds them back wrongly decides otherwise.
func heuristic(row []float32) float64 {
	at := map[string]float64{}
	for i, name := range names() {
		at[name] = float64(row[i])
	}
	z := -5.6 + 0.9*math.Log1p(math.Abs(at["amount"])/40) + 0.5*math.Log1p(at["spend.count_300s"]) +
		0.002*math.Min(at["flow.max_60s"], 400) + 3.5*at["past.mean"] + 0.4*math.Log1p(at["hot.count_600s"])
	if at["where"] == 4 {
		z += 2
	}
	if at["gap"] >= 0 && at["gap"] < 2 {
		z += 0.7
	}
	if at["flow.min_60s"] > 100 {
		z += 0.8
	}
	return 1 / (1 + math.Exp(-z))
}

// TestModelComesFromTheseRows writes the rows that fraud.json was trained on.
func TestModelComesFromTheseRows(t *testing.T) {
	if *rowsFile == "" {
		t.Skip("only with -rows")
	}
	file, err := os.Create(*rowsFile)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(file)
	fmt.Fprintln(w, strings.Join(names(), ",")+",label")
	rng := rand.New(rand.NewPCG(9, 9))
	score := func(row []float32) float64 {
		p := heuristic(row)
		label := 0
		if rng.Float64() < p {
			label = 1
		}
		for _, v := range row {
			fmt.Fprintf(w, "%.9g,", v)
		}
		fmt.Fprintln(w, label)
		return math.Min(1, math.Max(0, p+0.1*(rng.Float64()-0.5)))
	}
	if _, err := Run(place(Generate(7, 60_000), 4), 4, Options{Score: score}); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// place puts events into n partitions by key, as a log would.
func place(events []Event, n int) []Record {
	next := make([]int64, n)
	out := make([]Record, len(events))
	for i, e := range events {
		hash := uint32(2166136261)
		for _, c := range e.Key {
			hash = (hash ^ uint32(c)) * 16777619
		}
		p := int(hash % uint32(n))
		out[i] = Record{Partition: p, Offset: next[p], Appended: e.Appended, Key: e.Key, Value: e.Value}
		next[p]++
	}
	return out
}

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/state/journal"
	"github.com/afterbay/afterbay/stream"
)

// journalled makes a data directory in which a pipeline has two partitions with
// a journal, and another pipeline none.
func journalled(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	log, err := embedded.Open("data", embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := log.CreateTopic(t.Context(), stream.Topic{Name: "in", Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	for i := range int32(2) {
		if err := log.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: "in", Index: i}, Value: []byte("why?")}); err != nil {
			t.Fatal(err)
		}
	}
	for _, pipeline := range []string{"asks", "computes"} {
		member, err := log.Join(t.Context(), pipeline, "in")
		if err != nil {
			t.Fatal(err)
		}
		batch, err := member.Poll(t.Context(), 1)
		if err != nil || len(batch.Assigned) != 2 {
			t.Fatal(batch, err)
		}
		for _, assigned := range batch.Assigned {
			step := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{assigned.Partition: 1}}
			if pipeline == "asks" {
				step.Changes = answers(t, assigned)
			}
			if err := member.Commit(step).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := member.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// answers returns what a journal of three answers changes, for which five asked.
func answers(t *testing.T, assigned stream.Assigned) []stream.Change {
	t.Helper()
	j, err := journal.Open(assigned.Partition, assigned.State, journal.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	for i, model := range []string{"chat", "chat", "scan"} {
		r := journal.Request{Endpoint: model, Body: fmt.Append(nil, i)}
		if _, err := j.Record(r.Key(), journal.Answer{Model: model, Bytes: []byte("yes"), Units: 100}, 0); err != nil {
			t.Fatal(err)
		}
		if _, _, err := j.Ask(r.Key(), model, 1); err != nil {
			t.Fatal(err)
		}
	}
	changes := j.Changes()
	j.Committed() // that of the hits is counted in the next step
	return append(changes, j.Changes()...)
}

func TestJournalStatsSayWhatWasPaidAndSaved(t *testing.T) {
	journalled(t)
	want := `MODEL  CALLS  HITS  HIT SHARE  UNITS PAID  UNITS SAVED  MONEY PAID  MONEY SAVED
chat   4      4     50.0%      400         400          0.80        0.80
scan   2      2     50.0%      200         200          -           -
6 answers are kept, 0.0 MiB of state
`
	if diff := cmp.Diff(want, must(t, "", "journal", "stats", "asks", "--price", "chat=0.002")); diff != "" {
		t.Error(diff)
	}
	want = `{"answers":6,"bytes":786,"models":[` +
		`{"model":"chat","calls":4,"hits":4,"paid":400,"saved":400},` +
		`{"model":"scan","calls":2,"hits":2,"paid":200,"saved":200,"money_paid":300,"money_saved":300}]}` + "\n"
	if diff := cmp.Diff(want, must(t, "", "journal", "stats", "asks", "--json", "--price", "scan=1.5")); diff != "" {
		t.Error(diff)
	}
	for line, want := range map[string]string{
		"journal stats computes":                    `the journal of pipeline "computes" is empty`,
		"journal stats nobody":                      `unknown pipeline "nobody": there are asks, computes`,
		"journal stats asks --price chat=-1":        "--price chat=-1: use a number of 0 or more",
		"journal stats asks --price embed=1;chat=2": "--price embed=1: the journal has answers of chat, scan",
	} {
		if r := command(t, "", fields(line)...); r.code == exitOK || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: %+v", line, r)
		}
	}
}

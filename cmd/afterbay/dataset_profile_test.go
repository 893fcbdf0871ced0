package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/observe/profile"
)

// profiledPipeline scores payments of more than 10. %s are the fields of the model other than its
// outputs.
const profiledPipeline = `pipeline: payments
input: {topic: payments, key: card, fields: {card: string, amount: number, country: optional string}}
models:
  risk: {file: fast.json, version: 1, outputs: {score: number}%s}
steps:
  - features: {spend: {windows: [1h], aggregates: [count]}}
  - score: {model: risk, inputs: {%s}, when: amount > 10, fallback: {score: 0.0}}
  - emit: {topic: scored, value: [card, risk.score]}
`

// payments are 400 events of amounts from 0 to 199. Those below 100 are of DE, one is of XX, and the others have no country.
func payments() string {
	var text strings.Builder
	for i := range 400 {
		country := ""
		switch amount := i / 2; {
		case i == 399:
			country = `,"country":"XX"`
		case amount < 100:
			country = `,"country":"DE"`
		}
		fmt.Fprintf(&text, `{"card":"c%d","amount":%d%s}`+"\n", i%7, i/2, country)
	}
	return text.String()
}

// profiled is a folder with the pipeline, without its model, and events in a data directory.
func profiled(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	write(t, "p.yaml", fmt.Sprintf(profiledPipeline, "", `amount: amount / 2, "n": spend.count_1h, country: country`))
	must(t, payments(), "produce", "payments", "--partitions", "4", "--key", "card")
}

// profileOf writes the profile of the rows with so many workers.
func profileOf(t *testing.T, parallelism string) (text, stderr string) {
	t.Helper()
	r := command(t, "", "dataset", "p.yaml", "--from-data", "data", "--parallelism", parallelism, "--out", "rows.csv", "--profile", "risk-1.profile.json")
	if r.code != exitOK {
		t.Fatalf("%+v", r)
	}
	return read(t, "risk-1.profile.json"), r.stderr
}

func TestDatasetWritesTheProfileOfTheModelsFeatures(t *testing.T) {
	profiled(t)
	text, stderr := profileOf(t, "1")
	r, err := profile.DecodeReference([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if r.Model != "risk" || r.Rows != 378 || len(r.Features) != 3 {
		t.Errorf("%d features of %s over %d rows:\n%s", len(r.Features), r.Model, r.Rows, text)
	}
	if n, mean, _ := r.Features["amount"].Moments(); n != 378 || mean != 52.5 {
		t.Errorf("%d amounts / 2 above 10, with the mean %v; want 378 and 52.5", n, mean)
	}
	country := r.Features["country"]
	if diff := cmp.Diff([]string{"DE"}, country.Categories); diff != "" || country.Unseen() != 1 || country.Absent() != 199 || country.Counts()[0] != 178 {
		t.Errorf("%v: %d unseen, %d missing %s", country.Counts(), country.Unseen(), country.Absent(), diff)
	}
	for _, parallelism := range []string{"1", "3"} {
		if again, _ := profileOf(t, parallelism); again != text {
			t.Errorf("parallelism %s:\n%s\nbefore:\n%s", parallelism, again, text)
		}
	}
	line := "profile: {file: risk-1.profile.json, sha256: " + profile.Sum([]byte(text)) + "}"
	if !strings.Contains(stderr, line) || !strings.Contains(read(t, "rows.csv.manifest.json"), profile.Sum([]byte(text))) || !strings.Contains(read(t, "rows.csv.manifest.json"), r.Digest) {
		t.Errorf("%s\nlacks %s, or the manifest lacks a digest", stderr, line)
	}
}

func TestDatasetRefusesAProfile(t *testing.T) {
	profiled(t)
	write(t, "none.yaml", tiersPipeline)
	for args, want := range map[string]string{
		"p.yaml --profile p.yaml":                   "would replace p.yaml, which is read",
		"p.yaml --profile rows.csv":                 "is a file of --out too",
		"p.yaml --profile ./rows.csv.manifest.json": "is a file of --out too",
		"p.yaml --profile no/x.json":                "name a file that can be written with --profile",
		"none.yaml --topic payments --profile x":    "scores no events",
	} {
		r := command(t, "", append([]string{"dataset", "--from-data", "data", "--out", "rows.csv"}, strings.Fields(args)...)...)
		if r.code == exitOK || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: %+v, want %s", args, r, want)
		}
	}
	for _, name := range []string{"rows.csv", "x"} {
		if _, err := os.Stat(name); err == nil {
			t.Errorf("a failure left %s", name)
		}
	}
}

func TestLintComparesTheProfileWithTheModel(t *testing.T) {
	model := read(t, "../../docs/cookbook/models/fast.json")
	profiled(t)
	text, stderr := profileOf(t, "1")
	declared := ", " + regexp.MustCompile(`profile: {file.*}`).FindString(stderr)
	write(t, "fast.json", model)
	const inputs = `amount: amount / 2`
	write(t, "one.yaml", fmt.Sprintf(profiledPipeline, "", inputs))
	must(t, "", "dataset", "one.yaml", "--from-data", "data", "--out", "rows.csv", "--profile", "one.profile.json")
	one := read(t, "one.profile.json")
	right := ", profile: {file: one.profile.json, sha256: " + profile.Sum([]byte(one)) + "}"
	write(t, "right.yaml", fmt.Sprintf(profiledPipeline, right, inputs))
	must(t, "", "lint", "right.yaml")
	edited := strings.Replace(one, `"counts":[`, `"counts": [`, 1)
	write(t, "edited.profile.json", edited)
	for name, c := range map[string]struct{ profile, want, field string }{
		"missing": {strings.Replace(right, "one.", "no.", 1), "no such file", "models.risk.profile.file"},
		"digest":  {", profile: {file: one.profile.json, sha256: " + strings.Repeat("0", 64) + "}", "has sha256 " + profile.Sum([]byte(one)), "models.risk.profile.sha256"},
		"edited":  {", profile: {file: edited.profile.json, sha256: " + profile.Sum([]byte(edited)) + "}", "is no profile", "models.risk.profile.file"},
		"others":  {declared, "does not give the model these features of the profile: country, n", "models.risk.profile.file"},
	} {
		write(t, "p.yaml", fmt.Sprintf(profiledPipeline, c.profile, inputs))
		r := command(t, "", "lint", "p.yaml")
		if all := r.stdout + r.stderr; r.code != exitInvalid || !strings.Contains(all, c.want) || !strings.Contains(all, "p.yaml:4:") || !strings.Contains(all, c.field) {
			t.Errorf("%s: %+v, want %s at %s", name, r, c.want, c.field)
		}
	}
	write(t, "p.yaml", fmt.Sprintf(profiledPipeline, declared, inputs))
	if again, _ := profileOf(t, "1"); again == text {
		t.Error("a profile that does not fit is in the way of a new one")
	}
}

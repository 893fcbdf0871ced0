package main

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/http/serving"
	"github.com/afterbay/afterbay/internal/lab/bench"
	"github.com/afterbay/afterbay/internal/lab/demo"
	"github.com/afterbay/afterbay/internal/models"
	"github.com/afterbay/afterbay/model"
)

func TestPlacementOfStagesIsArithmetic(t *testing.T) {
	for stages, headroom := range map[string]string{"feature=8ms,model=22ms,emit=4ms": "16ms", "feature=8ms,model=35ms,emit=4ms": "3ms"} {
		out := must(t, "", "placement", "--phases", stages, "--budget", "50ms")
		if !strings.Contains(out, "headroom     "+headroom+" of 50ms\n") {
			t.Errorf("%s: %s", stages, out)
		}
		var found struct {
			Headroom float64 `json:"headroom_ms"`
			Sum      float64 `json:"sum_of_p99s_ms"`
		}
		if err := json.Unmarshal([]byte(must(t, "", "placement", "--phases", stages, "--budget", "50ms", "--json")), &found); err != nil {
			t.Fatal(err)
		}
		if want, _ := time.ParseDuration(headroom); found.Headroom != float64(want.Milliseconds()) || found.Sum != 50-found.Headroom {
			t.Errorf("%s: %+v", stages, found)
		}
	}
	if r := command(t, "", "placement", "--phases", "model=60ms", "--budget", "50ms"); r.code != exitFailure || !strings.Contains(r.stdout, "-10ms of 50ms") {
		t.Errorf("exit %d: %s%s", r.code, r.stdout, r.stderr)
	}
}

// placementFiles writes the fraud example, with a second pipeline without models.
func placementFiles(t *testing.T) string {
	t.Helper()
	e, err := demo.NewExample(filepath.Join(t.TempDir(), "example"), demo.FraudFiles())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(e.Pipeline())
	if err != nil {
		t.Fatal(err)
	}
	write(t, e.Pipeline(), string(text)+`---
pipeline: counts
input: {topic: decisions, key: customer, fields: {customer: string}}
steps:
  - features: {seen: {windows: [1h], aggregates: [count]}}
  - emit: {topic: counts, value: [customer, seen.count_1h]}
`)
	return e.Pipeline()
}

// placementJSON is what the command prints of a placement.
type placementJSON struct{ bench.PlacementJSON }

type placementFound struct {
	Load              string
	Inside, Endpoint  placementJSON
	Placement, Reason string
}

// placementOf runs the command with little load.
func placementOf(t *testing.T, args ...string) (found placementFound) {
	t.Helper()
	t.Setenv(asCommand, "1") // of the processes that the command starts
	args = append([]string{"placement", "--rate=400", "--duration=500ms", "--rounds=1", "--json"}, args...)
	if err := json.Unmarshal([]byte(must(t, "", args...)), &found); err != nil {
		t.Fatal(err)
	}
	return found
}

// keepsUp reports whether a pipeline decided what came, and about when it came: a
// machine that stands still for a second keeps it from that.
func (p *placementJSON) keepsUp() bool {
	return p.Unended == 0 && p.Measured > 50 && p.Measured < 350 // of the 200 that count, or so: the others came before
}

// placementWhere runs the command until something is so, a few times at most.
func placementWhere(t *testing.T, is func(*placementFound) bool, args ...string) (found placementFound) {
	t.Helper()
	for range 10 {
		if found = placementOf(t, args...); is(&found) {
			break
		}
		t.Logf("once more: %+v", found)
	}
	return found
}

func TestPlacementMeasuresBothPlacements(t *testing.T) {
	t.Setenv("AFTERBAY_TOKEN", "of the environment")
	found := placementWhere(t, func(f *placementFound) bool { return f.Inside.keepsUp() && f.Endpoint.keepsUp() }, placementFiles(t), "--budget", "1m")
	for name, p := range map[string]placementJSON{"inside": found.Inside, "endpoint": found.Endpoint} {
		bound := 0.0
		var names []string
		for _, h := range p.Phases {
			bound += h.P99
			names = append(names, h.Name)
		}
		if want := []string{"queue", "feature", "model", "emit", "commit"}; !slices.Equal(names, want) {
			t.Errorf("%s: phases %v", name, names)
		}
		if p.Sum.P50 == nil || *p.Sum.P50 > p.Sum.P99 || p.Sum.P99 <= 0 || p.Bound < bound-0.01 || p.Bound > bound+0.01 {
			t.Errorf("%s: sum %+v, bound %v of %v", name, p.Sum, p.Bound, bound)
		}
		if p.Events != 400 || p.Lost != 0 || !p.keepsUp() || p.Memory < 10e6 {
			t.Errorf("%s: %d events, %d lost, %d not decided, %d measured, %d bytes", name, p.Events, p.Lost, p.Unended, p.Measured, p.Memory)
		}
		if left := 60_000 - p.Bound; *p.Headroom < left-0.01 || *p.Headroom > left+0.01 || *p.HeadroomMeasured < 60_000-p.Sum.P99-0.01 {
			t.Errorf("%s: headroom %v, measured %v", name, *p.Headroom, *p.HeadroomMeasured)
		}
	}
	const model = 2
	if in, out := found.Inside.Phases[model], found.Endpoint.Phases[model]; *in.P50 >= *out.P50 {
		t.Errorf("a call takes %v ms inside and %v ms behind an endpoint", *in.P50, *out.P50)
	}
	if found.Endpoint.Endpoint < 10e6 || found.Inside.Endpoint != 0 {
		t.Errorf("the endpoint holds %d bytes", found.Endpoint.Endpoint)
	}
	if found.Placement != "embed" || !strings.Contains(found.Reason, "both are fast enough") {
		t.Errorf("%s: %s", found.Placement, found.Reason)
	}
}

// altered is a model that is late, and whose scores are off.
type altered struct {
	model.Model
	by   float32
	late time.Duration
}

func (m altered) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	time.Sleep(m.late) // real time: the pipeline is another process
	err := m.Model.Predict(ctx, rows, scores)
	for i := range scores {
		scores[i] += m.by
	}
	return err
}

// placementEndpoint serves models, and returns the flags that name the endpoint.
func placementEndpoint(t *testing.T, token string, models ...serving.Named) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	server, err := serving.Listen(models, serving.ServerOptions{Address: "127.0.0.1:0", Token: token})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return []string{"--endpoint", "grpc://" + server.Address(), "--token", token}
}

func TestPlacementAsksTheEndpointThatIsNamed(t *testing.T) {
	file := placementFiles(t)
	m, err := models.File(filepath.Join(filepath.Dir(file), demo.ModelName))
	if err != nil {
		t.Fatal(err)
	}
	endpoint := append([]string{file}, placementEndpoint(t, "secret", serving.Named{Name: "cards", Model: m},
		serving.Named{Name: "fraud", Model: altered{m, 0.25, 0}}, serving.Named{Name: "late", Model: altered{m, 0, 400 * time.Millisecond}})...)
	events := filepath.Join(t.TempDir(), "payments.csv")
	write(t, events, "tx,customer,amount,country,channel,device,ts\na,ann,12.5,US,chip,,1\nb,bob,3,GB,online,ios,2\n")
	found := placementOf(t, append(slices.Clone(endpoint), "--endpoint-model", "cards", "--events", events)...)
	if found.Placement == "" || found.Endpoint.Endpoint != 0 || found.Endpoint.Lost != 0 || !strings.Contains(found.Load, "the 2 events of "+events) {
		t.Errorf("%+v", found)
	}
	found = placementWhere(t, func(f *placementFound) bool { return f.Inside.Unended == 0 }, append(slices.Clone(endpoint), "--endpoint-model", "late")...)
	if found.Placement != "embed" || found.Endpoint.Unended == 0 || found.Inside.Unended != 0 || !strings.Contains(found.Reason, "behind the endpoint it falls behind") {
		t.Errorf("%+v", found)
	}
	flags := []string{"--rate=100", "--duration=200ms", "--rounds=1"}
	for name, c := range map[string]struct {
		args []string
		part string
	}{
		"other scores": {endpoint, "it has another model or version"},
		"other token":  {append(slices.Clone(endpoint[:3]), "--token", "guess"), "401"},
		"no model":     {append(slices.Clone(endpoint), "--endpoint-model", "none"), "none"},
	} {
		if r := placementFails(t, append(slices.Clone(flags), c.args...)...); r.code != exitFailure || !strings.Contains(r.stderr, c.part) {
			t.Errorf("%s: exit %d: %s", name, r.code, r.stderr)
		}
	}
}

// placementFails runs the command with what the processes that it starts say.
func placementFails(t *testing.T, args ...string) result {
	t.Helper()
	t.Setenv(asCommand, "1")
	return command(t, "", append([]string{"placement"}, args...)...)
}

func TestPlacementRefusesWhatItCannotMeasure(t *testing.T) {
	file := placementFiles(t)
	dir := filepath.Dir(file)
	two := filepath.Join(dir, "two.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, two, strings.Replace(string(text), "models:\n", "models:\n  other: {file: fraud.ubj, version: 1, outputs: {score: number}}\n", 1))
	write(t, filepath.Join(dir, "bad.ndjson"), "{\"tx\": 1}\n")
	write(t, filepath.Join(dir, "none.ndjson"), "\n")
	events := func(name string) []string {
		return []string{file, "--rate=100", "--duration=200ms", "--events", filepath.Join(dir, name)}
	}
	silent := httptest.NewServer(nil)
	defer silent.Close()
	for name, c := range map[string]struct {
		args []string
		code int
		part string
	}{
		"nothing":           {nil, exitUsage, "name a pipeline file"},
		"both":              {[]string{file, "--phases", "model=1ms"}, exitUsage, "does not measure"},
		"stage":             {[]string{"--phases", "modle=1ms"}, exitUsage, "there are queue, feature"},
		"rate":              {[]string{file, "--rate", "0"}, exitUsage, "--rate"},
		"standard input":    {[]string{file, "--events", "-"}, exitUsage, "name a file"},
		"no file":           {[]string{"none.yaml"}, exitInvalid, "none.yaml"},
		"two models":        {[]string{two}, exitUsage, "choose one of other, fraud by --model"},
		"no such model":     {[]string{two, "--model", "thrid"}, exitUsage, "choose one of other, fraud"},
		"pipeline":          {[]string{file, "--pipeline", "counts"}, exitUsage, "no pipeline counts with a model"},
		"no events":         {events("none.ndjson"), exitUsage, "has no events"},
		"all dead letters":  {events("bad.ndjson"), exitFailure, "became dead letters and 0 rows reached models, so the measurement is not valid: decode: "},
		"endpoint unspoken": {[]string{file, "--rate=100", "--duration=200ms", "--endpoint", silent.URL}, exitFailure, "metadata"},
	} {
		r := placementFails(t, c.args...)
		if r.code != c.code || !strings.Contains(r.stderr, c.part) {
			t.Errorf("%s: exit %d: %s", name, r.code, r.stderr)
		}
	}
}

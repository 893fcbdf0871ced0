package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/kafkatest"
	"github.com/afterbay/afterbay/internal/test/servertest"
)

// TestKafkaExampleWorksAsTyped runs the commands of examples/kafka/README.md on
// a real broker that they start, in a folder of the test, and compares the
// decisions with those of a data directory.
func TestKafkaExampleWorksAsTyped(t *testing.T) {
	t.Parallel()
	kafkatest.Need(t)
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"examples", "scripts"} {
		if err := os.Symlink(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	readme, err := os.ReadFile("examples/kafka/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	for _, m := range regexp.MustCompile("(?s)\n```sh\n(.*?)```\n").FindAllSubmatch(readme, -1) {
		script.Write(m[1])
	}
	port := servertest.FreePorts(t, 1)[0]
	const run = "run examples/fraud/pipeline.yaml"
	typed := strings.NewReplacer(
		"go build -o bin/", "go -C "+root+" build -o "+dir+"/bin/", "go -C examples run", "go -C "+root+"/examples run",
		"localhost:9092", fmt.Sprintf("localhost:%d", port), " --listen 127.0.0.1:7071", "", run, run+" --listen 127.0.0.1:0",
	).Replace(script.String())
	libs, err := filepath.Abs(os.Getenv("AFTERBAY_KAFKA"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute) // a decision that is lost is waited for
	defer cancel()
	command := func(text string) *exec.Cmd {
		c := exec.CommandContext(ctx, "bash", "-e", "-c", text)
		c.Dir, c.WaitDelay = dir, time.Second
		c.Env = append(os.Environ(), "AFTERBAY_KAFKA="+libs, "AFTERBAY_KAFKA_DIR="+filepath.Join(dir, "broker"), fmt.Sprintf("AFTERBAY_KAFKA_PORT=%d", port), "LC_ALL=C")
		return c
	}
	once := "mkdir alone; bin/afterbay produce transactions events.ndjson --partitions 4 --key customer --data alone\nbin/afterbay " + run + " --listen none --until-idle --data alone\n" +
		"bin/afterbay tail decisions --data alone > alone.ndjson\n"
	typed = strings.Replace(typed, "scripts/kafka stop\n", "bin/afterbay tail decisions > both.ndjson\nscripts/kafka stop\nunset AFTERBAY_ENGINE\n"+once, 1)
	defer func() { // where the commands ended on the way
		stop := exec.Command(dir+"/scripts/kafka", "stop", "--dir", dir+"/broker")
		_ = stop.Run()
	}()
	out, err := command(typed).CombinedOutput()
	if err != nil {
		logs, _ := exec.CommandContext(t.Context(), "tail", "-n", "20", dir+"/one.log", dir+"/two.log").CombinedOutput()
		t.Fatalf("%v\n%s\n%s\n%s", err, typed, out, logs)
	}
	for _, want := range []string{"\n0 faults, ", "pipeline fraud: 0 events", "appended 100000 records", "\n99947\n", "GROUP  TOPIC         PARTITION  COMMITTED  NEXT", "kafka: "} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if n := len(regexp.MustCompile(`(?m)^fraud  transactions .* 0        0s$`).FindAll(out, -1)); n != 4 {
		t.Errorf("%d partitions are done\n%s", n, out)
	}
	both, alone := sorted(t, dir+"/both.ndjson"), sorted(t, dir+"/alone.ndjson")
	if both != alone || strings.Count(alone, "\n") != 99947 {
		t.Errorf("%d decisions of two workers, %d of one process", strings.Count(both, "\n"), strings.Count(alone, "\n"))
	}
}

// sorted returns the lines of a file in order: tail shows partitions in turns.
func sorted(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// TestKubernetesValuesAgree reads the values of the chart beside the pipeline that
// they run: KEDA and Kubernetes find wrong names only when it is too late.
// tools/chart renders the chart with them.
func TestKubernetesValuesAgree(t *testing.T) {
	text, err := os.ReadFile("examples/kafka/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Log      struct{ Kind, URL, Secret string }
		Pipeline struct {
			KEDA struct {
				Enabled          bool
				Min              int    `yaml:"minReplicas"`
				Max              int    `yaml:"maxReplicas"`
				Brokers          string `yaml:"bootstrapServers"`
				Group            string `yaml:"consumerGroup"`
				Topic, SASL, TLS string
				Lag              int `yaml:"lagThreshold"`
			} `yaml:"keda"`
		}
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("examples/fraud/pipeline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file, err := config.Parse("pipeline.yaml", source, builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	fraud, scaled := file.Pipelines[0], values.Pipeline.KEDA
	if !scaled.Enabled || scaled.Group != fraud.Name || scaled.Topic != fraud.Input.Topic || scaled.Min < 1 || scaled.Max != int(fraud.Input.Partitions) {
		t.Errorf("%+v for the pipeline %s of %s, with %d partitions", scaled, fraud.Name, fraud.Input.Topic, fraud.Input.Partitions)
	}
	if scaled.Lag < 100000 || scaled.SASL != "scram_sha512" || scaled.TLS != "enable" {
		t.Errorf("%+v", scaled)
	}
	engine, err := url.Parse(values.Log.URL)
	if err != nil {
		t.Fatal(err)
	}
	if engine.Scheme != "kafka+tls" || engine.Host != scaled.Brokers || engine.Query().Get("sasl") != "scram-sha-512" || values.Log.Kind != "kafka" || values.Log.Secret == "" {
		t.Errorf("workers use %+v, KEDA %s", values.Log, scaled.Brokers)
	}
	readme, err := os.ReadFile("examples/kafka/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq("fraud-kafka fraud-http") {
		if !strings.Contains(string(text), ": "+name+"\n") || !strings.Contains(string(readme), "create secret generic "+name+" ") {
			t.Errorf("the Secret %s is not used, or not made", name)
		}
	}
}

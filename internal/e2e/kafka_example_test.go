package e2e_test

import (
	"bytes"
	"context"
	"fmt"
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

const manifests = "examples/kafka/kubernetes.yaml"

// TestKubernetesManifestsAreValid checks those of Kubernetes itself by its own
// schemas, strictly.
func TestKubernetesManifestsAreValid(t *testing.T) {
	python := os.Getenv("AFTERBAY_PYTHON")
	if python == "" || exec.CommandContext(t.Context(), python, "-c", "import kubernetes_validate").Run() != nil {
		const reason = "AFTERBAY_PYTHON names no interpreter that has kubernetes-validate (make deps installs it)"
		if os.Getenv("AFTERBAY_FULL") == "1" {
			t.Fatal("AFTERBAY_FULL=1 but " + reason)
		}
		t.Skip("NOT RUN: " + reason)
	}
	check := func(name string) ([]byte, error) {
		return exec.CommandContext(t.Context(), python, "-m", "kubernetes_validate", "--strict", name).CombinedOutput()
	}
	if out, err := check(manifests); err != nil || bytes.Count(out, []byte(" passed for ")) != 3 {
		t.Errorf("%v: %s", err, out)
	}
	text, err := os.ReadFile(manifests)
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{"volumeMounts:": "volumeMount:", "periodSeconds: 5": "periodSeconds: often"} {
		wrong := filepath.Join(t.TempDir(), "wrong.yaml")
		if err := os.WriteFile(wrong, []byte(strings.Replace(string(text), from, to, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := check(wrong); err == nil {
			t.Errorf("%q passes: %s", to, out)
		}
	}
}

// manifest is what is used of the kinds of KEDA, and of the others where they
// have to agree. It is read strictly for KEDA's: a word that is not here is a
// mistake.
type manifest struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Spec       struct {
		Target   struct{ Kind, Name string } `yaml:"scaleTargetRef"`
		Min      int                         `yaml:"minReplicaCount"`
		Max      int                         `yaml:"maxReplicaCount"`
		Polling  int                         `yaml:"pollingInterval"`
		Advanced struct {
			HPA struct {
				Behavior struct {
					Up   scaling `yaml:"scaleUp"`
					Down scaling `yaml:"scaleDown"`
				}
			} `yaml:"horizontalPodAutoscalerConfig"`
		}
		Triggers []struct {
			Type           string
			Metadata       map[string]string
			Authentication struct{ Name string } `yaml:"authenticationRef"`
		}
		Secrets []struct{ Parameter, Name, Key string } `yaml:"secretTargetRef"`
	}
}

type scaling struct {
	Window   int `yaml:"stabilizationWindowSeconds"`
	Policies []struct {
		Type   string
		Value  int
		Period int `yaml:"periodSeconds"`
	}
}

// TestKubernetesManifestsAgree reads the manifests beside the pipeline that they
// run: KEDA and Kubernetes find wrong names only when it is too late.
func TestKubernetesManifestsAgree(t *testing.T) {
	text, err := os.ReadFile(manifests)
	if err != nil {
		t.Fatal(err)
	}
	byKind := map[string]manifest{}
	var names []string
	var workers string // the text of the StatefulSet
	for part := range strings.SplitSeq(string(text), "\n---\n") {
		var m manifest
		var options []yaml.DecodeOption
		if strings.Contains(part, "apiVersion: keda.sh/v1alpha1\n") {
			options = append(options, yaml.DisallowUnknownField())
		}
		if err := yaml.NewDecoder(strings.NewReader(part), options...).Decode(&m); err != nil {
			t.Fatalf("%v in\n%s", err, part)
		}
		byKind[m.Kind] = m
		if names = append(names, m.Kind); m.Kind == "StatefulSet" {
			workers = part
		}
	}
	if want := []string{"Service", "StatefulSet", "PodDisruptionBudget", "TriggerAuthentication", "ScaledObject"}; !slices.Equal(names, want) {
		t.Fatalf("%q, want %q", names, want)
	}
	source, err := os.ReadFile("examples/fraud/pipeline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file, err := config.Parse("pipeline.yaml", source, builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	fraud, scaled := file.Pipelines[0], byKind["ScaledObject"].Spec
	if target := scaled.Target; target.Kind != "StatefulSet" || target.Name != byKind["StatefulSet"].Metadata.Name {
		t.Errorf("scales %v", target)
	}
	if scaled.Min < 1 || scaled.Max != int(fraud.Input.Partitions) || scaled.Advanced.HPA.Behavior.Down.Window < 300 {
		t.Errorf("%+v for %d partitions", scaled, fraud.Input.Partitions)
	}
	trigger := scaled.Triggers[0]
	if trigger.Type != "kafka" || trigger.Authentication.Name != byKind["TriggerAuthentication"].Metadata.Name {
		t.Errorf("%+v", trigger)
	}
	for name, want := range map[string]string{
		"consumerGroup": fraud.Name, "topic": fraud.Input.Topic, "offsetResetPolicy": "earliest", "sasl": "scram_sha512", "tls": "enable", "version": "2.5.0",
		"lagThreshold": "500000", "bootstrapServers": "kafka-bootstrap.kafka.svc:9093",
	} {
		if trigger.Metadata[name] != want {
			t.Errorf("%s is %q, want %q", name, trigger.Metadata[name], want)
		}
		delete(trigger.Metadata, name)
	}
	if len(trigger.Metadata) > 0 {
		t.Errorf("what is %v?", trigger.Metadata)
	}
	for _, s := range byKind["TriggerAuthentication"].Spec.Secrets {
		if !strings.Contains(workers, "name: "+s.Name+", key: "+s.Key) && !strings.Contains(workers, "key: "+s.Key) {
			t.Errorf("workers do not use %+v", s)
		}
	}
	for _, want := range []string{"kafka+tls://kafka-bootstrap.kafka.svc:9093?sasl=scram-sha-512&ca=/kafka/ca.crt", "path: /healthz", "path: /readyz", "--leave-group", "podManagementPolicy: Parallel", "name: AFTERBAY_KAFKA_PASSWORD", "name: AFTERBAY_TOKEN"} {
		if !strings.Contains(workers, want) {
			t.Errorf("the workers have no %q", want)
		}
	}
	if strings.Contains(workers, "\n  replicas:") {
		t.Error("replicas would fight with KEDA")
	}
}

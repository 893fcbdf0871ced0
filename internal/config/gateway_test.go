package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/spec"
)

const goodGateway = `# of a chat
gateway: chat
listen: 0.0.0.0:443
cert: chat.pem
key: /etc/chat.key
pipeline:
  input: messages
  outputs: [decisions]
  partials: [tokens]
  dead_letters: [moderation.dlq, answers.dlq]
  late: [late-messages]
  unreplied: expire
engine: {url: 'kafka+tls://broker:9093', ca: ca.pem}
keys: keys.yaml
cursor_key: ${CURSORS}
origins: ['https://chat.example.org', 'http://localhost:3000']
partitions: 32
epoch: 2
limits:
  connections: 50000
  pending: 20
  message: 16KiB
  address: {connections: 5000, rate: 1000, burst: 5000, keys: 1000}
  tenant: {connections: 500, rate: 200, burst: 1000}
  held: 8
  held_for: 5s
  window: 1h
  ids: 200000
heartbeat: {interval: 30s, timeout: 5s}
drain: 10s
`

func TestGatewaysAreReadAsTheyAreWritten(t *testing.T) {
	t.Setenv("CURSORS", keySecret)
	path := write(t, "gateway.yaml", goodGateway)
	g, err := LoadGateway(path, builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(path)
	want := &Gateway{
		Name: "chat", Listen: "0.0.0.0:443", Cert: filepath.Join(dir, "chat.pem"), Key: "/etc/chat.key",
		Pipeline: GatewayPipeline{Input: "messages", Outputs: []string{"decisions"}, Partials: []string{"tokens"}, DeadLetters: []string{"moderation.dlq", "answers.dlq"}, Late: []string{"late-messages"}, Unreplied: "expire"},
		Engine:   lang.Engine{URL: "kafka+tls://broker:9093", Kind: "kafka", Config: &kafka.Config{Settings: kafka.Settings{URL: "kafka+tls://broker:9093", CA: filepath.Join(dir, "ca.pem")}}},
		Keys:     filepath.Join(dir, "keys.yaml"), CursorKey: keySecret, Origins: []string{"https://chat.example.org", "http://localhost:3000"}, Partitions: 32, Epoch: 2,
		Limits: GatewayLimits{
			Connections: 50_000, Pending: 20, Message: 16 << 10, Held: 8, HeldFor: 5 * time.Second, Window: time.Hour, IDs: 200_000,
			Address: GatewayShare{Connections: 5000, Rate: 1000, Burst: 5000, Keys: 1000}, Tenant: GatewayShare{Connections: 500, Rate: 200, Burst: 1000},
		},
		Heartbeat: GatewayHeartbeat{Interval: 30 * time.Second, Timeout: 5 * time.Second}, Drain: 10 * time.Second,
	}
	if diff := cmp.Diff(want, g, cmpopts.IgnoreUnexported(Gateway{})); diff != "" {
		t.Error(diff)
	}
	var topics []string
	for path, topic := range g.Topics() {
		topics = append(topics, path+" "+topic)
	}
	if diff := cmp.Diff([]string{"pipeline.input messages", "pipeline.outputs[0] decisions", "pipeline.partials[0] tokens", "pipeline.dead_letters[0] moderation.dlq", "pipeline.dead_letters[1] answers.dlq", "pipeline.late[0] late-messages"}, topics); diff != "" {
		t.Error(diff)
	}
}

// TestBadGatewaysAreExplained compares what is said about each bad file with the text
// beside it.
func TestBadGatewaysAreExplained(t *testing.T) {
	paths, err := filepath.Glob("testdata/gateway/*.yaml")
	if err != nil || len(paths) < 20 {
		t.Fatalf("found %d bad files (%v), want 20 at least", len(paths), err)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		t.Run(strings.TrimSuffix(name, ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			g, err := parseGateway(name, data, set(map[string]string{"CURSOR_KEY": keySecret}), builtin.Kinds(), "")
			var found spec.Errors
			if !errors.As(err, &found) || strings.Contains(err.Error(), keySecret) {
				t.Fatalf("%+v, %v, want Errors without the secret", g, err)
			}
			checkErrors(t, name, string(data), found)
			checkGolden(t, path, err)
		})
	}
}

func TestGatewayFilesAreKnownByTheirFirstWord(t *testing.T) {
	for text, want := range map[string]bool{
		goodGateway: true, "gateway : [": true, "\uFEFFgateway: chat\n": true, "{gateway: chat, pipeline: {}}": true, "listen: x\ngateway: chat\n": true,
		"pipeline: chat\n": false, "keys: [{id: gateway}]\n": false, "pipeline: x\nsteps:\n  gateway: 1\n": false, "gateways: x": false, "": false,
	} {
		if got := IsGateway(write(t, "file.yaml", text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if IsGateway("nowhere.yaml") {
		t.Error("a file that is not there")
	}
}

// TestSecretsOfCursorsAreLongEnough also says where one is named that is not.
func TestSecretsOfCursorsAreLongEnough(t *testing.T) {
	t.Setenv("CURSORS", "guess me")
	file := strings.Replace(goodGateway, "cursor_key: ${CURSORS}", "cursor_key_file: FILE", 1)
	secret := filepath.Join(t.TempDir(), "secret")
	for text, want := range map[string]string{
		goodGateway: "gateway.yaml:15:13: cursor_key: the secret has 8 bytes, fewer than 32",
		strings.Replace(file, "FILE", "absent", 1): "gateway.yaml:15:18: cursor_key_file: open ",
		strings.Replace(file, "FILE", secret, 1):   "",
	} {
		if err := os.WriteFile(secret, []byte("\n "+keySecret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		g, err := LoadGateway(write(t, "gateway.yaml", text), builtin.Kinds())
		if err != nil {
			t.Fatal(err)
		}
		got, err := g.Secret()
		switch {
		case want == "" && (err != nil || string(got) != keySecret):
			t.Errorf("%q, %v", got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "guess me")):
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Every word of a gateway file says what it means and has an example that is valid,
// also by the schema, and every field has a word.
func TestEveryWordOfGatewaysIsExplained(t *testing.T) {
	said, set := readComments(t, gatewayStructs...), map[string]bool{}
	schema := validator{said.gatewaySchema()["$defs"].(object)}
	said.sections(spec.MappingOf(fieldsOfGateway(builtin.Kinds())).Shape, func(s spec.Section) {
		for _, w := range s.Words {
			if w.Shape.Get != nil {
				structure, field := fieldOf(w.Shape.Get)
				set[structure+"."+field.Name] = true
			}
			if w.Help == "" || w.Example == "" || !w.Required && w.Or == "" && w.Absent == "" {
				t.Errorf("%s: %s lacks its meaning, example or what holds without it: %+v", s.Path, w.Name, w)
			}
			n, r := exampleNode(t, w)
			if why := schema.check(said.docs().Schema(w.Shape), spec.Instance(n), w.Name); why != "" {
				t.Errorf("%s: the schema refuses the example of %s: %s", s.Path, w.Name, why)
			}
			if w.Try(r, n, w.Name); len(r.Errors) > 0 {
				t.Errorf("%s: the example of %s is refused: %v", s.Path, w.Name, r.Errors)
			}
		}
	})
	for _, structure := range []any{Gateway{}, GatewayPipeline{}, GatewayLimits{}, GatewayShare{}, GatewayHeartbeat{}} {
		of := reflect.TypeOf(structure)
		for i := range of.NumField() {
			if f := of.Field(i); f.IsExported() && f.Name != "Engine" && !set[structOf(of)+"."+f.Name] {
				t.Errorf("no word sets %s.%s", of.Name(), f.Name)
			}
		}
	}
}

// TestHowToShowsGatewaysThatAreRight opens the files of docs/howto/gateway.md.
func TestHowToShowsGatewaysThatAreRight(t *testing.T) {
	t.Setenv("CURSOR_KEY", keySecret)
	page, err := os.ReadFile("../../docs/howto/gateway.md")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, block := range regexp.MustCompile("(?ms)^```yaml[^\n]*\n(.*?)^```").FindAllStringSubmatch(string(page), -1) {
		if !strings.Contains(block[1], "gateway: ") {
			continue
		}
		files++
		if _, err := LoadGateway(write(t, "gateway.yaml", block[1]), builtin.Kinds()); err != nil {
			t.Error(err)
		}
	}
	if files == 0 {
		t.Error("there is none")
	}
}

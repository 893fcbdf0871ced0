package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/process"
)

// engineFile is a pipeline file with words of its own.
func engineFile(name, words string) string {
	return "pipeline: " + name + "\ninput: {topic: " + name + "-in, partitions: 1, key: k, fields: {k: string}}\n" + words + "steps:\n  - emit: {topic: " + name + "-out, value: [k]}\n"
}

// TestFlagComesBeforeEnvironmentBeforeFile sees which brokers a pipeline runs on
// where each of the three names others.
func TestFlagComesBeforeEnvironmentBeforeFile(t *testing.T) {
	t.Chdir(t.TempDir())
	byFlag, byEnvironment, byFile := fakeEngine(t), fakeEngine(t), fakeEngine(t)
	t.Setenv("BROKERS", strings.TrimPrefix(byFile, "kafka://"))
	write(t, "p.yaml", engineFile("p", "engine: kafka://${BROKERS}\n"))
	write(t, "plain.yaml", engineFile("p", ""))
	for _, c := range []struct{ environment, line, want string }{
		{"", "p.yaml", byFile},
		{byEnvironment, "p.yaml", byEnvironment},
		{byEnvironment, "p.yaml --engine " + byFlag, byFlag},
		{byEnvironment, "plain.yaml --engine p.yaml", byFile},
		{byEnvironment, "p.yaml --engine embedded", "data directory data"},
		{"embedded", "p.yaml", "data directory data"},
		{"p.yaml", "plain.yaml", byFile},
	} {
		t.Setenv("AFTERBAY_ENGINE", c.environment)
		if got := must(t, "", fields("run --listen none --until-idle --parallelism 1 "+c.line)...); !strings.Contains(got, c.want+",") && !strings.Contains(got, c.want+"\n") {
			t.Errorf("AFTERBAY_ENGINE=%s %s: %s, want %s", c.environment, c.line, got, c.want)
		}
	}
}

// TestCommandsTakeTheEngineOfTheirPipeline runs what takes a pipeline file
// without a word about brokers.
func TestCommandsTakeTheEngineOfTheirPipeline(t *testing.T) {
	t.Chdir(t.TempDir())
	engine := fakeEngine(t)
	write(t, "p.yaml", strings.Replace(engineFile("p", "engine: "+engine+"\n"), "steps:\n", "steps:\n  - features:\n      seen: {windows: [1h], aggregates: [count]}\n", 1))
	must(t, numbered(10), "produce", "p-in", "--partitions", "1", "--key", "k", "--engine", "p.yaml")
	must(t, "", "run", "p.yaml", "--listen", "none", "--until-idle")
	for line, want := range map[string]string{
		"tail p-out --engine p.yaml --limit 1":             `"k":"key 0"`,
		"explain p:p-in/0@0:p-out p.yaml":                  "replay gives the same output: yes",
		"state get p key_0 --file p.yaml":                  "seen.count_1h",
		"doctor p.yaml":                                    "topic p.changelog.p-in",
		"doctor --engine p.yaml":                           "topic p.changelog.p-in",
		"lint p.yaml":                                      "pipeline p is valid",
		"lag p --engine p.yaml":                            "p-in",
		"run p.yaml --listen none --until-idle":            "pipeline p: 0 events",
		"explain p:p-in/0@0:p-out --engine " + engine + "": "until they were durable",
	} {
		if got := must(t, "", fields(line)...); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q", line, got, want)
		}
	}
	p, end := background(t, "run", "p.yaml", "--listen", "127.0.0.1:0")
	p.wait(t, "afterbay tail p-out --follow --engine 'p.yaml'")
	if code := end(); code != exitOK {
		t.Errorf("exit %d: %s", code, p)
	}
}

// TestEngineOfAFileThatIsNotRight sees place, field and next step.
func TestEngineOfAFileThatIsNotRight(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "no.pem", "x")
	for words, want := range map[string]string{
		"engine: http://a:1\n":                                                      `p.yaml:3:9: engine.url: "http" is not an engine: use kafka://`,
		"engine: kafka://a\n":                                                       `p.yaml:3:9: engine.url: broker "a" is not HOST:PORT: write it as in`,
		"engine: kafka://a:1?rack=b\n":                                              "p.yaml:3:9: engine.url: settings behind the URL: write each as a field",
		"engine: {url: kafka://a:1, ca: no.pem}\n":                                  "p.yaml:3:32: engine.ca: certificates need an encrypted connection",
		"engine: {url: kafka://a:1, user: u}\n":                                     "p.yaml:3:34: engine.user: it has no effect here: it is of sasl",
		"engine: {url: embedded, rack: r}\n":                                        "p.yaml:3:15: engine.url: ",
		"engine: {url: kafka://a:1, sasl: plain, user: u, password: x}\n":           "p.yaml:3:60: engine.password: a secret has no place in the file",
		"engine: {url: kafka://a:1, sasl: plain, user: u, password: '${ABSENT}'}\n": "p.yaml:3:61: engine.password: the environment variable ABSENT is not set",
		"engine: {url: 'kafka+tls://a:1', cert: c.pem}\n":                           "p.yaml:3:40: engine.cert: a certificate without its key: name",
	} {
		write(t, "p.yaml", engineFile("p", words))
		for _, line := range []string{"lint p.yaml", "run p.yaml --listen none"} {
			if r := command(t, "", fields(line)...); r.code != exitInvalid || !strings.Contains(r.stderr, want) || strings.Contains(r.stderr, "password: x") {
				t.Errorf("%s of %s: exit %d: %s, want %q", line, words, r.code, r.stderr, want)
			}
		}
	}
	for words, want := range map[string]string{ // what only who connects can tell
		"engine: {url: 'kafka+tls://a:1', ca: no.pem}\n":              "p.yaml:3:38: engine.ca: no.pem holds no certificate in PEM: name the file",
		"engine: {url: kafka://a:1, sasl: plain, user: u}\n":          "p.yaml:3:34: engine.sasl: plain without a password: export AFTERBAY_KAFKA_PASSWORD",
		"engine: {url: kafka://a:1, sasl: oauthbearer}\n":             "engine.sasl: oauthbearer without a token: export AFTERBAY_KAFKA_TOKEN",
		"engine: {url: kafka://a:1, sasl: plain, password_file: f}\n": "engine.user: plain without a user",
	} {
		write(t, "p.yaml", engineFile("p", words))
		must(t, "", "lint", "p.yaml")
		if r := command(t, "", "run", "p.yaml", "--listen", "none"); r.code != exitInvalid || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: exit %d: %s, want %q", words, r.code, r.stderr, want)
		}
	}
	write(t, "p.yaml", engineFile("p", "engine: kafka://a:1\n")+"---\n"+engineFile("q", "engine: kafka://b:1\n"))
	write(t, "q.yaml", engineFile("r", "engine: kafka://b:1\n"))
	for _, line := range []string{"lint p.yaml", "run p.yaml --listen none", "lint q.yaml p.yaml"} {
		if r := command(t, "", fields(line)...); r.code != exitInvalid || !strings.Contains(r.stderr, "engine: the process has one engine, and this one differs") {
			t.Errorf("%s: exit %d: %s", line, r.code, r.stderr)
		}
	}
	write(t, "p.yaml", engineFile("p", ""))
	for line, want := range map[string]string{
		"tail p-out --engine p.yaml":   "names no engine: add `engine: kafka://HOST:PORT` to it",
		"tail p-out --engine not.yaml": "no such file",
		"doctor p.yaml":                "p.yaml names no brokers",
	} {
		if r := command(t, "", fields(line)...); r.code == exitOK || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: exit %d: %s, want %q", line, r.code, r.stderr, want)
		}
	}
}

// TestSecretsComeFromWhereTheyAreNamedFirst sees a flag's file before the
// environment, and the environment before what a pipeline file names.
func TestSecretsComeFromWhereTheyAreNamedFirst(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "secret", "of the file\n")
	t.Setenv("SECRET", "of the variable")
	of := func(engine string) (o kafka.Options) {
		t.Helper()
		flags := engineFlags{}
		var pipelines []process.Pipeline
		if strings.HasPrefix(engine, "kafka://") {
			flags.Engine = engine
		} else {
			write(t, "p.yaml", engineFile("p", "engine:\n  url: kafka://a:1\n"+engine))
			loaded, err := (&app{ctx: t.Context()}).load([]string{"p.yaml"}, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			pipelines = loaded
		}
		e, err := flags.resolve(pipelines)
		if err != nil {
			t.Fatal(err)
		}
		o, found := e.Config.(*kafka.Config).Options(kafka.Environment{Get: e.Env, Last: e.Place == nil})
		if len(found) > 0 {
			t.Fatal(found)
		}
		return o
	}
	plain := map[string][2]string{ // user and password, without and with the environment's
		"kafka://a:1?sasl=plain&user=me&password_file=secret":  {"me of the file", "me of the file"},
		"  sasl: plain\n  user: me\n  password_file: secret\n": {"me of the file", "env of the environment"},
		"  sasl: plain\n  user: me\n  password: ${SECRET}\n":   {"me of the variable", "env of the environment"},
		"kafka://a:1?sasl=plain&user=me":                       {"", "me of the environment"},
		"  sasl: scram-sha-256\n":                              {"", "env of the environment"},
	}
	tokens := map[string][2]string{
		"kafka://a:1?sasl=oauthbearer&token_file=secret": {"of the file", "of the file"},
		"  sasl: oauthbearer\n  token_file: secret\n":    {"of the file", "of the environment"},
		"  sasl: oauthbearer\n  token: ${SECRET}\n":      {"of the variable", "of the environment"},
		"  sasl: oauthbearer\n":                          {"", "of the environment"},
	}
	for i := range 2 {
		if i == 1 {
			t.Setenv(kafka.EnvUser, "env")
			t.Setenv(kafka.EnvPassword, "of the environment")
			t.Setenv(kafka.EnvToken, "of the environment")
		}
		for engine, want := range plain {
			if want[i] == "" {
				continue
			}
			if o := of(engine); o.SASL.User+" "+o.SASL.Password != want[i] {
				t.Errorf("%s: %s %s, want %s", engine, o.SASL.User, o.SASL.Password, want[i])
			}
		}
		for engine, want := range tokens {
			if want[i] == "" {
				continue
			}
			if got, err := of(engine).SASL.Token(t.Context()); err != nil || got != want[i] {
				t.Errorf("%s: %s, %v, want %s", engine, got, err, want[i])
			}
		}
	}
	if _, err := os.Stat(filepath.Join("data")); err == nil {
		t.Error("a data directory was made")
	}
}

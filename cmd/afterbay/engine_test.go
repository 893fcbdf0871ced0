package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/test/kafkatest"
)

// broker is the real one of the tests that need one.
var broker = kafkatest.Shared{Options: kafkatest.Options{Secure: true, Settings: []string{"add.partitions.to.txn.retry.backoff.ms=1", "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000", "log.retention.check.interval.ms=500", "log.initial.task.delay.ms=100",
	"listener.name.sasl.oauthbearer.connections.max.reauth.ms=3000"}}}

// fakeEngine starts a broker in this process, and returns its URL.
func fakeEngine(t testing.TB, more ...kfake.Opt) string {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return "kafka://" + strings.Join(cluster.ListenAddrs(), ",")
}

// engineOptions returns the options of a URL.
func engineOptions(url string, env func(string) string) (kafka.Options, error) {
	flags := engineFlags{url}
	e, err := flags.resolve(nil)
	if err != nil || !e.Shared() {
		return kafka.Options{}, err
	}
	e.Env = env
	o, found := e.Config.(*kafka.Config).Options(kafka.Environment{Get: e.Env, Last: e.Place == nil})
	return o, errors.Join(e.Wrong(found), o.Validate())
}

func TestEngineURLs(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		write(t, path, text)
		return path
	}
	secretFile, noPEM := file("secret", "p w\n"), file("no.pem", "x")
	env := map[string]string{kafka.EnvPassword: "from env"}
	for _, c := range []struct{ url, want string }{
		{"kafka://a:9092,b:9093/", ""},
		{"kafka://[::1]:9092?rack=r1&client_id=c&group_protocol=consumer&replication_factor=3", ""},
		{"kafka+tls://a:9092", ""},
		{"kafka://a:1?sasl=plain&user=u", ""},
		{"kafka://a:1?sasl=SCRAM-SHA-512&user=u&password_file=" + secretFile, ""},
		{"kafka+tls://a:1?sasl=oauthbearer&token_file=" + secretFile, ""},
		{"http://a:1", "use kafka://HOST:PORT"},
		{"kafka:a:1", "use kafka://HOST:PORT"},
		{"kafka://", "HOST:PORT and nothing else"},
		{"kafka://a:1/topic", "HOST:PORT and nothing else"},
		{"kafka://a", `broker "a" is not HOST:PORT`},
		{"kafka://a:1,", `broker "" is not HOST:PORT`},
		{"kafka://a:0", "is not HOST:PORT"},
		{"kafka://u:secret@a:1", "the URL has a user or a password"},
		{"kafka://a:1?password=x", "setting password: unknown setting: there are ca, cert,"},
		{"kafka://a:1?token=x", "setting token: unknown setting"},
		{"kafka://a:1?rack=a&rack=b", "setting rack: "},
		{"kafka://a:1?rack=", "is not one value"},
		{"kafka://a:1?%zz", "settings cannot be read"},
		{"kafka://a:1?group_protocol=848", "use classic"},
		{"kafka://a:1?replication_factor=0", "a number from 1"},
		{"kafka://a:1?replication_factor=40000", "a number from 1"},
		{"embedded", ""},
		{"embedded://a", "embedded, which has no settings"},
		{"kafka://a:1?ca=" + noPEM, "write kafka+tls:// in the URL"},
		{"kafka+tls://a:1?ca=" + noPEM, "holds no certificate"},
		{"kafka+tls://a:1?ca=/not/there", "no such file"},
		{"kafka+tls://a:1?cert=" + noPEM, "a certificate without its key"},
		{"kafka+tls://a:1?key=" + noPEM, "a key without its certificate"},
		{"kafka+tls://a:1?cert=" + noPEM + "&key=" + noPEM, "of a certificate and of its key"},
		{"kafka://a:1?user=u", "setting user: it has no effect here: it is of sasl"},
		{"kafka://a:1?sasl=plain", "plain without a user"},
		{"kafka://a:1?sasl=ntlm&user=u", "unknown SASL mechanism"},
		{"kafka://a:1?sasl=plain&user=u&password_file=/not/there", "no such file"},
		{"kafka://a:1?sasl=plain&user=u&token_file=" + secretFile, "setting token_file: it has no effect here"},
		{"kafka://a:1?sasl=oauthbearer", "oauthbearer without a token: export AFTERBAY_KAFKA_TOKEN"},
		{"kafka://a:1?sasl=oauthbearer&token_url=https://idp/token&user=u&scope=s", ""},
		{"kafka://a:1?sasl=oauthbearer&token_url=https://idp/token", "without a user"},
		{"kafka://a:1?sasl=oauthbearer&token_url=idp&user=u", "it is not the URL of a token server"},
		{"kafka://a:1?sasl=oauthbearer&token_url=https://u:secret@idp&user=u", "it is not the URL of a token server"},
		{"kafka://a:1?sasl=oauthbearer&scope=s&token_file=" + secretFile, "setting scope: it has no effect here"},
		{"kafka://a:1?sasl=oauthbearer&token_url=https://idp/token&user=u&token_file=" + secretFile, "setting token_file: it has no effect here"},
		{"kafka://a:1?sasl=oauthbearer&user=u&token_file=" + secretFile, "setting user: it has no effect here"},
	} {
		_, err := engineOptions(c.url, func(name string) string { return env[name] })
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.url, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret@") {
			t.Errorf("%s: the password is in the error: %v", c.url, err)
		}
	}
	o, err := engineOptions("kafka://a:1,b:2?sasl=scram-sha-256&user=u&password_file="+secretFile, os.Getenv)
	if err != nil || o.SASL.Password != "p w" || o.SASL.Mechanism != "SCRAM-SHA-256" || !slices.Equal(o.Brokers, []string{"a:1", "b:2"}) {
		t.Errorf("%+v, %v", o.SASL, err)
	}
}

// appendTimes are what a state has of the times of appends.
var appendTimes = regexp.MustCompile(`"value":"[^"]*"|newest event .*`)

// TestPipelinesRunOnKafka sees the same outputs there as from a data directory,
// partition by partition, by every command that opens a log.
func TestPipelinesRunOnKafka(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "counts.yaml", countsPipeline)
	write(t, "events.ndjson", numbered(3000))
	results := map[string]string{}
	for _, engine := range []string{"", fakeEngine(t)} {
		t.Setenv("AFTERBAY_ENGINE", engine)
		for range 2 {
			must(t, "", "produce", "in", "events.ndjson", "--partitions", "3", "--key", "k")
		}
		must(t, "", "run", "counts.yaml", "--listen", "none", "--until-idle")
		for _, line := range []string{"tail out", "tail mid --partition 1", "topics", "lag", "state dump counts", "state get counts key_3", "explain counts:in/1@0:mid counts.yaml"} {
			got := must(t, "", fields(line)...)
			switch {
			case line == "topics" || line == "lag" || strings.HasPrefix(line, "explain"): // offsets have gaps, times differ
				if got == "" || line == "topics" && strings.Contains(got, "changelog") {
					t.Errorf("%s: %q", line, got)
				}
			case engine == "":
				results[line] = got
			default:
				if got == "" || appendTimes.ReplaceAllString(got, "") != appendTimes.ReplaceAllString(results[line], "") {
					t.Errorf("%s:\n%.600s\non Kafka, embedded\n%.600s", line, got, results[line])
				}
			}
		}
	}
	if _, err := os.Stat("data/kafka/SLOT"); err != nil {
		t.Error(err)
	}
}

// TestDeliveriesOfAFile runs pipelines of each delivery in one process, on Kafka and
// on a data directory.
func TestDeliveriesOfAFile(t *testing.T) {
	t.Chdir(t.TempDir())
	engine := fakeEngine(t)
	var file strings.Builder
	modes := []string{"exactly-once", "at-least-once", "at-most-once"}
	for _, mode := range modes {
		fmt.Fprintf(&file, "---\npipeline: %s\ndelivery: %s\ninput: {topic: in, partitions: 1, key: k, fields: {k: string}}\nsteps:\n  - emit: {topic: out-%s, value: [k]}\n", mode, mode, mode)
	}
	write(t, "p.yaml", file.String())
	for _, url := range []string{engine, ""} {
		t.Setenv("AFTERBAY_ENGINE", url)
		must(t, numbered(10), "produce", "in", "--partitions", "1", "--key", "k")
		must(t, "", "run", "p.yaml", "--listen", "none", "--until-idle", "--parallelism", "1")
		for _, mode := range modes {
			if got := strings.Count(must(t, "", "tail", "out-"+mode), "\n"); got != 10 {
				t.Errorf("%q, %s: %d outputs", url, mode, got)
			}
		}
	}
	// What is written beside the transactions leaves no marker behind it.
	for topic, markers := range map[string]bool{"out-exactly-once": true, "out-at-least-once": false, "out-at-most-once": false} {
		if got := endOf(t, engine, topic) > 10; got != markers {
			t.Errorf("%s has markers: %v", topic, got)
		}
	}
}

// endOf returns the end of partition 0 of a topic, markers included.
func endOf(t *testing.T, engine, topic string) int64 {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.TrimPrefix(engine, "kafka://")))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0)
	return end.Offset
}

// TestEngineThatIsNotRight sees exit codes and what to do.
func TestEngineThatIsNotRight(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "counts.yaml", countsPipeline)
	engine := fakeEngine(t)
	guarded := fakeEngine(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "right"))
	t.Setenv(kafka.EnvPassword, "wrong")
	held, endHeld := background(t, "run", "counts.yaml", "--listen", "none", "--engine", engine, "--data", "held")
	for _, c := range []struct {
		line string
		code int
		want string
	}{
		{"topics --engine kafka://nowhere", exitUsage, "--engine: broker \"nowhere\" is not HOST:PORT"},
		{"topics --engine kafka://127.0.0.1:1", exitEngine, "reach 127.0.0.1:1: "},
		{"topics --engine kafka://127.0.0.1:1", exitEngine, "check that a broker listens there"},
		{"run counts.yaml --listen none --engine kafka://127.0.0.1:1", exitEngine, "check that a broker listens there"},
		{"topics --engine " + guarded + "?sasl=plain&user=u", exitEngine, "that TLS and SASL match its listener"},
		{"run counts.yaml --listen none --data held --engine " + engine, exitLocked, "give this process another folder with --data"},
		{"tail nothing --engine " + engine, exitFailure, "unknown topic"},
	} {
		held.wait(t, "log kafka://")
		if r := command(t, "", fields(c.line)...); r.code != c.code || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s: exit %d: %s, want %d and %q", c.line, r.code, r.stderr, c.code, c.want)
		}
	}
	t.Setenv(kafka.EnvPassword, "right")
	must(t, "", "topics", "--engine", guarded+"?sasl=plain&user=u")
	if code := endHeld(); code != exitOK {
		t.Errorf("exit %d: %s", code, held)
	}
}

// TestOutputTooLargeForKafkaIsADeadLetter keeps its process going.
func TestOutputTooLargeForKafkaIsADeadLetter(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "p.yaml", `pipeline: p
input: {topic: in, partitions: 1, key: k, fields: {k: string, text: string}}
steps:
  - emit: {topic: out, value: {k: k, text: 'text + text + text'}}
`)
	t.Setenv("AFTERBAY_ENGINE", fakeEngine(t))
	var events strings.Builder
	for i, size := range []int{10, 290_000, 310_000, 10} { // thrice of the third is below 1 MiB and above what Kafka takes
		fmt.Fprintf(&events, "{\"k\":\"%d\",\"text\":\"%s\"}\n", i, strings.Repeat("x", size))
	}
	must(t, events.String(), "produce", "in", "--partitions", "1", "--key", "k")
	out := must(t, "", "run", "p.yaml", "--listen", "none", "--until-idle", "--parallelism", "1")
	if !strings.Contains(out, "pipeline p: 4 events, 2 outputs, 2 dead letters") {
		t.Error(out)
	}
}

// realEngine returns the URL of a real broker, which tests share: their topics
// have names of their own.
func realEngine(t *testing.T) string { return "kafka://" + broker.Get(t).Brokers[0].Address }

// TestSecureBrokersCheckWhoAsks connects by TLS and every mechanism, and sees
// what is said where they refuse.
func TestSecureBrokersCheckWhoAsks(t *testing.T) {
	cluster := broker.Get(t)
	t.Chdir(t.TempDir())
	write(t, "secured.yaml", "pipeline: secured\ninput: {topic: secured-in, partitions: 1, key: k, fields: {k: string}}\nsteps:\n  - emit: {topic: secured-out, value: [k]}\n")
	write(t, "password", "admin-secret\n")
	write(t, "worker", "worker-secret\n")
	tls := "kafka+tls://" + cluster.Brokers[0].TLS + "?ca=" + cluster.CertificateFile()
	plainText := "kafka://" + cluster.Brokers[0].SASL
	t.Setenv(kafka.EnvPassword, "wrong")
	for _, c := range []struct {
		line string
		code int
		want string
	}{
		{"topics --engine " + tls + "&user=admin&sasl=plain&password_file=password", exitOK, "TOPIC"},
		{"topics --engine " + tls + "&user=admin&sasl=scram-sha-512&password_file=password", exitOK, "TOPIC"},
		{"topics --engine " + plainText + "?user=admin&sasl=scram-sha-256&password_file=password", exitOK, "TOPIC"},
		{"topics --engine " + tls + "&user=admin&sasl=scram-sha-256", exitEngine, "SASL_AUTHENTICATION_FAILED"},
		{"topics --engine " + tls + "&user=admin&sasl=plain", exitEngine, "check that mechanism, user and password or token match those of the brokers"},
		{"topics --engine " + tls, exitEngine, "SASL"},
		{"topics --engine kafka+tls://" + cluster.Brokers[0].TLS, exitEngine, "certificate"},
		{"topics --engine kafka://" + cluster.Brokers[0].TLS, exitEngine, "that TLS and SASL match its listener"},
		{"run secured.yaml --listen none --until-idle --engine " + tls + "&user=worker&sasl=plain&password_file=worker", exitFailure, "allow the principal to"},
		{"run secured.yaml --listen none --until-idle --engine " + tls + "&user=admin&sasl=plain&password_file=password", exitOK, "pipeline secured: 0 events"},
		{"run secured.yaml --listen none --until-idle --data other --engine " + tls + "&user=worker&sasl=plain&password_file=worker", exitFailure, "allow the principal to"},
	} {
		if r := command(t, "", strings.Fields(c.line)...); r.code != c.code || !strings.Contains(r.stdout+r.stderr, c.want) {
			t.Errorf("%s: exit %d: %s%s, want %d and %q", c.line, r.code, r.stdout, r.stderr, c.code, c.want)
		}
	}
}

// TestProcessesShareKafkaAndOneIsKilled compares two processes, one of which is
// killed under load, with one that runs through on a data directory.
func TestProcessesShareKafkaAndOneIsKilled(t *testing.T) {
	engine := realEngine(t)
	t.Chdir(t.TempDir())
	pipelines := strings.NewReplacer("topic: in", "topic: shared-in", "topic: mid", "topic: shared-mid", "topic: out", "topic: shared-out", "pipeline: ", "pipeline: shared-").Replace(countsPipeline)
	write(t, "counts.yaml", pipelines)
	write(t, "events.ndjson", numbered(40_000))
	must(t, "", "produce", "shared-in", "events.ndjson", "--partitions", "3", "--key", "k")
	must(t, "", "run", "counts.yaml", "--listen", "none", "--until-idle")
	want := must(t, "", "tail", "shared-out")

	t.Setenv("AFTERBAY_ENGINE", engine)
	victim, out := killable(t, "run", "counts.yaml", "--listen", "none", "--parallelism", "1", "--data", "a")
	out.wait(t, "log kafka://")
	heir, endHeir := background(t, "run", "counts.yaml", "--listen", "127.0.0.1:0", "--parallelism", "1", "--data", "b", "--leave-group")
	heir.wait(t, "afterbay tail shared-mid --follow")
	follow, endFollow := background(t, "tail", "shared-out", "--follow")
	must(t, "", "produce", "shared-in", "events.ndjson")
	follow.wait(t, `{"k":"key 0","twice":4000}`) // much is still to come
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	for i := range 7 {
		follow.wait(t, fmt.Sprintf(`{"k":"key %d","twice":%d}`, i, 2*((40_000-i+6)/7)))
	}
	endFollow()
	if got := must(t, "", "tail", "shared-out"); got != want {
		t.Errorf("%d lines, %d without a kill on a data directory", strings.Count(got, "\n"), strings.Count(want, "\n"))
	}
	if code := endHeir(); code != exitOK {
		t.Errorf("exit %d: %s", code, heir)
	}
	if got := must(t, "", "run", "counts.yaml", "--listen", "none", "--until-idle", "--data", "a"); !strings.Contains(got, "pipeline shared-counts: 0 events") {
		t.Error(got)
	}
}

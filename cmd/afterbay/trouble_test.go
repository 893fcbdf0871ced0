package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/test/kafkatest"
)

// trouble is a pipeline on a real broker that something is wrong with. Its name
// is that of the test, so that each has topics of its own.
type trouble struct {
	*testing.T
	broker *kafkatest.Broker
	admin  *kadm.Client
	name   string
}

// TestTroubleOnKafka shows what the table "Faults" of
// docs/reference/kafka.md says, by the command and on a real broker.
func TestTroubleOnKafka(t *testing.T) {
	if apart(t) {
		return
	}
	cluster := broker.Get(t)
	for name, show := range map[string]func(*trouble){
		"down":        (*trouble).brokerGoesAway,
		"rights":      (*trouble).rightsAreMissing,
		"partitions":  (*trouble).partitionsAreAdded,
		"identity":    (*trouble).identityIsUsedTwice,
		"large":       (*trouble).topicTakesLess,
		"huge":        (*trouble).outputIsTooLarge,
		"deleted":     (*trouble).changelogIsDeleted,
		"gone":        (*trouble).changelogGoesAway,
		"forgotten":   (*trouble).offsetsAreForgotten,
		"old":         (*trouble).timesAreRefused,
		"input":       (*trouble).inputGoesAway,
		"uncreatable": (*trouble).topicCannotBeMade,
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			t.Setenv("AFTERBAY_ENGINE", "kafka://"+cluster.Brokers[0].Address)
			write(t, "p.yaml", strings.ReplaceAll(troubledPipeline, "NAME", "trouble-"+name))
			// A client of each test, for the broker has gone away in one of them, and
			// connections of before are closed.
			client, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addresses()...))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			show(&trouble{t, cluster.Brokers[0], kadm.NewClient(client), "trouble-" + name})
		})
	}
}

const troubledPipeline = `pipeline: NAME
input:
  topic: NAME-in
  partitions: 1
  key: k
  time: {field: at, unit: ms}
  fields: {k: string, at: int, text: optional string}
steps:
  - features: {seen: {windows: [24h], aggregates: [count]}}
  - emit: {topic: NAME-out, value: {k: k, n: seen.count_24h, text: 'text ?? ""'}}
`

// produce appends n events.
func (p *trouble) produce(n int, more string) {
	p.Helper()
	must(p.T, strings.Repeat(fmt.Sprintf("{\"k\":\"a\",\"at\":%d%s}\n", time.Now().UnixMilli(), more), n), "produce", p.name+"-in", "--partitions", "1", "--key", "k")
}

func (p *trouble) run(more ...string) result {
	p.Helper()
	return command(p.T, "", append([]string{"run", "p.yaml", "--listen", "none", "--until-idle", "--leave-group", "--parallelism", "1"}, more...)...)
}

// works runs the pipeline to the end of its input, and wants so many outputs in
// all, whose counts are without a gap.
func (p *trouble) works(outputs int) {
	p.Helper()
	if r := p.run(); r.code != exitOK {
		p.Fatalf("exit %d: %s", r.code, r.stderr)
	}
	p.outputs(outputs)
}

func (p *trouble) outputs(n int) {
	p.Helper()
	got := must(p.T, "", "tail", p.name+"-out", "--engine", "kafka://"+p.broker.Address) // a right of readers alone
	for i := 1; i <= n; i++ {
		if !strings.Contains(got, fmt.Sprintf(`"n":%d,`, i)) {
			p.Errorf("no output %d", i)
		}
	}
	if lines := strings.Count(got, "\n"); lines != n {
		p.Errorf("%d outputs, want %d", lines, n)
	}
}

// fails wants a run to end with an exit code, and a message that has these parts.
func (p *trouble) fails(r result, code int, want ...string) {
	p.Helper()
	for _, part := range want {
		if !strings.Contains(r.stderr, part) {
			p.Errorf("no %q in %s", part, r.stderr)
		}
	}
	if r.code != code {
		p.Errorf("exit %d, want %d: %s", r.code, code, r.stderr)
	}
}

func (p *trouble) ok(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *trouble) brokerGoesAway() {
	p.produce(50, "")
	out, end := background(p.T, "run", "p.yaml", "--listen", "127.0.0.1:0")
	out.wait(p.T, "in another terminal")
	follow, _ := background(p.T, "tail", p.name+"-out", "--follow")
	follow.wait(p.T, `"n":50,`)
	killed := time.Now()
	p.ok(p.broker.Kill())
	out.wait(p.T, "waiting for the brokers")
	p.ok(p.broker.Start(p.Context()))
	away := time.Since(killed) // each of two lines, of the broker and of the seed, is said every 30 s
	if n, most := strings.Count(out.String(), "unable to open connection"), 2+2*int(away/(30*time.Second)); n > most {
		p.Errorf("%d lines say the same within %v, want %d at most", n, away, most)
	}
	p.produce(50, "")
	p.Cleanup(func() {
		if p.Failed() {
			p.Log(out)
		}
	})
	follow.wait(p.T, `"n":100,`)
	if code := end(); code != exitOK {
		p.Errorf("exit %d: %s", code, out)
	}
	p.outputs(100)
}

// rightsAreMissing does what doctor says until it finds no fault, and then needs
// nothing else.
func (p *trouble) rightsAreMissing() {
	engine := "kafka://" + p.broker.SASL + "?sasl=scram-sha-512&user=worker"
	p.Setenv("AFTERBAY_ENGINE", engine)
	p.Setenv(kafka.EnvPassword, "worker-secret")
	p.fails(p.run(), exitFailure, "allow the principal to Read, Write, Create and Describe the topics")
	var granted []*kadm.ACLBuilder
	p.Cleanup(func() { // other tests want none
		for _, acl := range granted {
			p.revoke(acl)
		}
	})
	for round := 0; ; round++ {
		changes := p.changes(engine)
		if len(changes) == 0 {
			break
		}
		if round == 5 {
			p.Fatalf("still to be changed: %q", changes)
		}
		for _, change := range changes {
			acl := p.grant(change)
			granted = append(granted, acl)
		}
	}
	p.produceFile()
	p.works(3)
	for about, message := range map[string]string{"--group " + p.name: "allow the principal to Read the groups", "--transactional-id afterbay-" + p.name: "Write and Describe transactional ids"} {
		at := slices.IndexFunc(granted, func(acl *kadm.ACLBuilder) bool { return strings.Contains(grants[acl], about) })
		if at < 0 {
			p.Fatalf("nothing was granted of %s", about)
		}
		p.revoke(granted[at])
		r := p.run()
		for deadline := time.Now().Add(time.Minute); r.code == exitOK && time.Now().Before(deadline); r = p.run() { // brokers hear of it a little later
		}
		p.fails(r, exitFailure, message)
		p.grant(grants[granted[at]])
	}
	p.works(3)
}

// produceFile appends by a producer, which needs rights of its own.
func (p *trouble) produceFile() {
	write(p.T, "events.ndjson", strings.Repeat(fmt.Sprintf("{\"k\":\"a\",\"at\":%d}\n", time.Now().UnixMilli()), 3))
	must(p.T, "", "produce", p.name+"-in", "events.ndjson", "--partitions", "1", "--key", "k")
}

// changes returns the commands of kafka-acls.sh that doctor says are needed.
func (p *trouble) changes(engine string) (changes []string) {
	p.Helper()
	r := command(p.T, "", "doctor", "--json", "--engine", engine, "p.yaml")
	var report struct{ Findings []kafka.Finding }
	p.ok(json.Unmarshal([]byte(r.stdout), &report))
	for _, f := range report.Findings {
		if f.Level != kafka.Sound && strings.HasPrefix(f.Change, "kafka-acls.sh ") {
			command, _, _ := strings.Cut(f.Change, ", or make it")
			changes = append(changes, command)
		}
	}
	return changes
}

// grants are what ACLs were made of.
var grants = map[*kadm.ACLBuilder]string{}

// grant does what a command of kafka-acls.sh would do.
func (p *trouble) grant(command string) *kadm.ACLBuilder {
	p.Helper()
	acl := kadm.NewACLs()
	acl.ResourcePatternType(kadm.ACLPatternLiteral)
	var operations []kadm.ACLOperation
	words := strings.Fields(command)
	if strings.HasSuffix(command, " --cluster") {
		acl.Clusters()
	}
	for i := 0; i+1 < len(words); i++ {
		value := words[i+1]
		switch words[i] {
		case "--allow-principal":
			acl.Allow(value).AllowHosts()
		case "--operation":
			operation := map[string]kadm.ACLOperation{"Read": kadm.OpRead, "Write": kadm.OpWrite, "Describe": kadm.OpDescribe, "Create": kadm.OpCreate, "DescribeConfigs": kadm.OpDescribeConfigs}[value]
			operations = append(operations, operation)
		case "--topic":
			acl.Topics(value)
		case "--group":
			acl.Groups(value)
		case "--transactional-id":
			acl.TransactionalIDs(value)
		case "--resource-pattern-type":
			acl.ResourcePatternType(kadm.ACLPatternPrefixed)
		}
	}
	results, err := p.admin.CreateACLs(p.Context(), acl.Operations(operations...))
	p.ok(err)
	for _, result := range results {
		p.ok(result.Err)
	}
	grants[acl] = command
	p.heard(func(ctx context.Context) bool { return p.described(ctx, acl) == len(results) })
	return acl
}

func (p *trouble) revoke(acl *kadm.ACLBuilder) {
	p.Helper()
	_, err := p.admin.DeleteACLs(context.Background(), acl)
	p.ok(err)
	p.heard(func(ctx context.Context) bool { return p.described(ctx, acl) == 0 })
}

// described returns how many of the rights the broker knows.
func (p *trouble) described(ctx context.Context, acl *kadm.ACLBuilder) (known int) {
	p.Helper()
	results, err := p.admin.DescribeACLs(ctx, acl)
	p.ok(err)
	for _, r := range results {
		p.ok(r.Err)
		known += min(len(r.Described), 1)
	}
	return known
}

// heard waits until the broker knows a change: the controller answers the request for
// it, and the broker learns of it a little later.
func (p *trouble) heard(is func(ctx context.Context) bool) {
	p.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for tick := time.NewTicker(10 * time.Millisecond); !is(ctx); <-tick.C {
	}
}

// grow gives a topic a second partition.
func (p *trouble) grow(topic string) {
	p.Helper()
	r, err := p.admin.UpdatePartitions(p.Context(), 2, topic)
	p.ok(errors.Join(err, r.Error()))
	p.heard(func(ctx context.Context) bool { return len(p.partitions(ctx, topic)) == 2 })
}

// remove deletes a topic.
func (p *trouble) remove(topic string) {
	p.Helper()
	_, err := p.admin.DeleteTopic(p.Context(), topic)
	p.ok(err)
	p.heard(func(ctx context.Context) bool { return len(p.partitions(ctx, topic)) == 0 })
}

func (p *trouble) partitions(ctx context.Context, topic string) kadm.PartitionDetails {
	p.Helper()
	topics, err := p.admin.ListTopics(ctx, topic)
	p.ok(err)
	return topics[topic].Partitions
}

func (p *trouble) partitionsAreAdded() {
	p.produce(3, "")
	p.works(3)
	p.grow(p.name + "-in")
	moves := []string{"has 2 partitions, and the state beside it 1", "use another pipeline name"}
	p.fails(p.run(), exitFailure, moves...)
	text, err := os.ReadFile("p.yaml")
	p.ok(err)
	write(p.T, "p.yaml", strings.Replace(string(text), "partitions: 1", "partitions: 2", 1))
	p.fails(p.run(), exitFailure, moves...)
	for _, topic := range []string{p.name + "-out", p.name + ".dlq"} {
		p.grow(topic)
	}
	p.fails(p.run(), exitFailure, moves...)
}

// identityIsUsedTwice starts a process on a copy of another's folder: the newer
// one goes on.
func (p *trouble) identityIsUsedTwice() {
	p.produce(3, "")
	older, endOlder := background(p.T, "run", "p.yaml", "--listen", "127.0.0.1:0", "--data", "one")
	older.wait(p.T, "in another terminal")
	follow, _ := background(p.T, "tail", p.name+"-out", "--follow")
	follow.wait(p.T, `"n":3,`)
	p.ok(os.CopyFS("two", os.DirFS("one")))
	newer, endNewer := background(p.T, "run", "p.yaml", "--listen", "127.0.0.1:0", "--data", "two")
	older.wait(p.T, "give each process its own folder")
	if code := endOlder(); code != exitFailure || !strings.Contains(older.String(), "another process has the same identity") {
		p.Errorf("exit %d: %s", code, older)
	}
	p.produce(3, "")
	follow.wait(p.T, `"n":6,`)
	if code := endNewer(); code != exitOK {
		p.Errorf("exit %d: %s", code, newer)
	}
	p.outputs(6)
}

// make makes a topic as a user would, with settings.
func (p *trouble) make(topic string, settings ...string) {
	p.Helper()
	configs := map[string]*string{}
	for pair := range slices.Chunk(settings, 2) {
		configs[pair[0]] = &pair[1]
	}
	_, err := p.admin.CreateTopic(p.Context(), 1, 1, configs, topic)
	p.ok(err)
}

// topicTakesLess does what the message says, and loses nothing.
func (p *trouble) topicTakesLess() {
	p.make(p.name+"-out", "max.message.bytes", "20000", "retention.ms", "-1")
	p.produce(2, `,"text":"`+strings.Repeat("x", 30_000)+`"`)
	r := p.run()
	p.fails(r, exitFailure, `topic "`+p.name+`-out"`, "raise max.message.bytes of the topic (see afterbay doctor)")
	r = command(p.T, "", "doctor", "--engine", os.Getenv("AFTERBAY_ENGINE"), "p.yaml")
	change := "--entity-name " + p.name + "-out --add-config max.message.bytes="
	_, value, found := strings.Cut(r.stdout, change)
	if !found {
		p.Fatalf("no %q in %s", change, r.stdout)
	}
	p.set("max.message.bytes", strings.Fields(value)[0])
	p.works(2)
}

func (p *trouble) set(name, value string) {
	p.Helper()
	r, err := p.admin.AlterTopicConfigs(p.Context(), []kadm.AlterConfig{{Name: name, Value: &value}}, p.name+"-out")
	p.ok(err)
	for _, one := range r {
		p.ok(one.Err)
	}
	p.heard(func(ctx context.Context) bool {
		all, err := p.admin.DescribeTopicConfigs(ctx, p.name+"-out")
		p.ok(err)
		return slices.ContainsFunc(all[0].Configs, func(c kadm.Config) bool { return c.Key == name && c.MaybeValue() == value })
	})
}

func (p *trouble) outputIsTooLarge() {
	p.make(p.name+"-in", "max.message.bytes", "2000000")
	client, err := kgo.NewClient(kgo.SeedBrokers(p.broker.Address), kgo.ProducerBatchMaxBytes(2_000_000))
	p.ok(err)
	defer client.Close()
	for _, size := range []int{10, 1_000_000, 10} { // of another program
		value := fmt.Sprintf(`{"k":"a","at":%d,"text":"%s"}`, time.Now().UnixMilli(), strings.Repeat("x", size))
		p.ok(client.ProduceSync(p.Context(), &kgo.Record{Topic: p.name + "-in", Key: []byte("a"), Value: []byte(value)}).FirstErr())
	}
	r := p.run()
	if r.code != exitOK || !strings.Contains(r.stdout, "3 events, 2 outputs, 1 dead letters") {
		p.Errorf("exit %d: %s%s", r.code, r.stdout, r.stderr)
	}
	if dead := must(p.T, "", "tail", p.name+".dlq", "--headers"); len(dead) > 1_300_000 || !strings.Contains(dead, "output of 1000") {
		p.Errorf("a dead letter of %d bytes: %.300s", len(dead), dead)
	}
}

func (p *trouble) changelog() string { return p.name + ".changelog." + p.name + "-in" }

// changelogIsDeleted does what the message says: the state is computed anew.
func (p *trouble) changelogIsDeleted() {
	p.produce(3, "")
	p.works(3)
	p.remove(p.changelog())
	r := p.run()
	p.fails(r, exitFailure, p.changelog(), "it was deleted", "use another pipeline name")
	p.tool(r.stderr, regexp.MustCompile(`\((kafka-consumer-groups.sh .*?)\)`))
	p.produce(1, "")
	if r := p.run(); r.code != exitOK || !strings.Contains(r.stdout, "4 events, 4 outputs") {
		p.Errorf("exit %d: %s%s", r.code, r.stdout, r.stderr)
	}
}

// tool runs the command in a message, with Kafka's own program.
func (p *trouble) tool(message string, command *regexp.Regexp) {
	p.Helper()
	m := command.FindStringSubmatch(message)
	if m == nil {
		p.Fatalf("no command in %s", message)
	}
	bin := p.TempDir()
	script := "#!/bin/sh\nexec java -Xmx128m -XX:TieredStopAtLevel=1 -cp '" + os.Getenv("AFTERBAY_KAFKA") + "/*' org.apache.kafka.tools.consumer.group.ConsumerGroupCommand \"$@\"\n"
	p.ok(os.WriteFile(filepath.Join(bin, "kafka-consumer-groups.sh"), []byte(script), 0o755))
	c := exec.CommandContext(p.Context(), "bash", "-e", "-c", m[1])
	c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	if out, err := c.CombinedOutput(); err != nil || strings.Contains(string(out), "Error") {
		p.Fatalf("%s: %v: %s", m[1], err, out)
	}
}

func (p *trouble) changelogGoesAway() {
	p.produce(3, "")
	out, end := background(p.T, "run", "p.yaml", "--listen", "127.0.0.1:0")
	out.wait(p.T, "in another terminal")
	follow, _ := background(p.T, "tail", p.name+"-out", "--follow")
	follow.wait(p.T, `"n":3,`)
	p.remove(p.changelog())
	p.produce(1, "")
	out.wait(p.T, "afterbay: pipeline")
	if code := end(); code != exitFailure || !strings.Contains(out.String(), "gone") {
		p.Errorf("exit %d: %s", code, out)
	}
}

// offsetsAreForgotten sets them again by the command of the message.
func (p *trouble) offsetsAreForgotten() {
	p.produce(3, "")
	p.works(3)
	_, err := p.admin.DeleteGroup(p.Context(), p.name)
	p.ok(err)
	r := p.run()
	p.fails(r, exitFailure, "offsets.retention.minutes", "use another pipeline name")
	p.fails(command(p.T, "", "doctor", "--engine", os.Getenv("AFTERBAY_ENGINE"), "p.yaml"), exitFailure)
	p.tool(r.stderr, regexp.MustCompile(`\((printf .*? --execute)`))
	p.produce(3, "")
	p.works(6)
}

// timesAreRefused by a topic that a user made; the warning comes before.
func (p *trouble) timesAreRefused() {
	p.make(p.name+"-out", "message.timestamp.before.max.ms", "60000", "retention.ms", "-1")
	must(p.T, `{"k":"a","at":1767258000000}`+"\n", "produce", p.name+"-in", "--partitions", "1", "--key", "k")
	p.fails(p.run(), exitFailure, "a topic does not suit outputs", `topic "`+p.name+`-out"`, "INVALID_TIMESTAMP", "set message.timestamp.before.max.ms")
	p.set("message.timestamp.before.max.ms", "9223372036854775807")
	p.works(1)
}

func (p *trouble) inputGoesAway() {
	p.produce(3, "")
	out, end := background(p.T, "run", "p.yaml", "--listen", "127.0.0.1:0")
	out.wait(p.T, "in another terminal")
	follow, _ := background(p.T, "tail", p.name+"-out", "--follow")
	follow.wait(p.T, `"n":3,`)
	p.remove(p.name + "-in")
	out.wait(p.T, "afterbay: pipeline")
	if code := end(); code != exitFailure || !strings.Contains(out.String(), "start again with another pipeline name") {
		p.Errorf("exit %d: %s", code, out)
	}
	p.fails(p.run(), exitFailure, "when the topic was deleted")
}

// topicCannotBeMade where there are fewer brokers than copies are asked for.
func (p *trouble) topicCannotBeMade() {
	p.fails(p.run("--engine", os.Getenv("AFTERBAY_ENGINE")+"?replication_factor=3"), exitFailure, "replication")
}

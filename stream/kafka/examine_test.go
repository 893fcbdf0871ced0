package kafka

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/internal/kafkatest"
	"github.com/afterbay/afterbay/stream"
)

func examine(t *testing.T, o Options, plan Plan) []Finding {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	findings, err := Examine(ctx, o, plan)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.About == "" || f.Found == "" || f.Level != Sound && f.Means == "" || f.Level == Fault && f.Change == "" {
			t.Errorf("%+v does not say enough", f)
		}
	}
	return findings
}

// wantFinding wants a finding of a level about what, that has these words.
func wantFinding(t *testing.T, findings []Finding, level Level, about string, words ...string) {
	t.Helper()
	var others []string
next:
	for _, f := range findings {
		text := string(f.Level) + " " + f.About + ": " + f.Found + "; " + f.Means + "; " + f.Change
		others = append(others, text)
		if f.Level != level || f.About != about {
			continue
		}
		for _, word := range words {
			if !strings.Contains(text, word) {
				continue next
			}
		}
		return
	}
	t.Errorf("no %s about %s with %q among\n%s", level, about, words, strings.Join(others, "\n"))
}

// wantNoFault wants pipelines to run.
func wantNoFault(t *testing.T, findings []Finding) {
	t.Helper()
	for _, f := range findings {
		if f.Level == Fault {
			t.Errorf("%+v", f)
		}
	}
}

// ran leaves what a pipeline leaves: group g reads in, and writes out.
func ran(t *testing.T, o Options) {
	t.Helper()
	l := openAt(t, o).(*Log)
	defer closeLog(t, l)
	for _, name := range []string{"in", "out"} {
		if err := l.CreateTopic(t.Context(), stream.Topic{Name: name, Partitions: 2, Key: "id"}); err != nil {
			t.Fatal(err)
		}
	}
	s, a := mustOwn(t, l)
	step := stream.Step{Offsets: map[stream.Partition]stream.Offset{a.Partition: 0}, Outputs: []stream.Record{{Partition: stream.Partition{Topic: "out"}, Value: []byte("v")}}}
	if err := s.Commit(step).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

var examined = Plan{Reads: []Reading{{"g", "in"}}, Writes: []string{"out"}}

// alter sets a configuration of a topic.
func alter(t *testing.T, o Options, topic, name, value string) {
	t.Helper()
	l := openAt(t, o).(*Log)
	defer closeLog(t, l)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = name, &value
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(t.Context(), l.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.Resources[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestExamineFindsNoFaultWherePipelinesRan(t *testing.T) {
	o := conforming(fake(t))
	wantNoFault(t, examine(t, o, examined)) // before the first start
	ran(t, o)
	for _, plan := range []Plan{examined, {}} {
		findings := examine(t, o, plan)
		wantNoFault(t, findings)
		wantFinding(t, findings, Sound, "topic afterbay-g-in-changelog", "cleanup.policy=compact")
		wantFinding(t, findings, Sound, "topic afterbay-g-in-changelog", "2 partitions, as topic in")
		wantFinding(t, findings, Sound, "group g")
		wantFinding(t, findings, Sound, "transactional id afterbay-g-*")
	}
}

func TestExamineFindsWhatHurtsState(t *testing.T) {
	o := conforming(fake(t))
	ran(t, o)
	l := openAt(t, o).(*Log)
	defer closeLog(t, l)
	if _, err := l.ensureTopic(t.Context(), changelogOf("g", stream.Partition{Topic: "out"}).Topic, 3, "cleanup.policy", "delete"); err != nil {
		t.Fatal(err)
	}
	alter(t, o, "afterbay-g-in-changelog", "delete.retention.ms", "60000")
	alter(t, o, "afterbay-g-in-changelog", "max.message.bytes", "1000")
	alter(t, o, "out", "message.timestamp.type", "LogAppendTime")
	alter(t, o, "in", "cleanup.policy", "compact")
	alter(t, o, "out", "min.insync.replicas", "2")
	findings := examine(t, o, Plan{Reads: []Reading{{"g", "in"}, {"g", "out"}}, Writes: []string{"out", "new"}})
	changelog := "topic afterbay-g-in-changelog"
	wantFinding(t, findings, Fault, changelog, "delete.retention.ms=60000", "deleted keys come back", "--entity-name afterbay-g-in-changelog", "delete.retention.ms=86400000")
	wantFinding(t, findings, Fault, changelog, "max.message.bytes=1000", "max.message.bytes=916384")
	wantFinding(t, findings, Fault, "topic afterbay-g-out-changelog", "cleanup.policy=delete", "cleanup.policy=compact")
	wantFinding(t, findings, Fault, "topic afterbay-g-out-changelog", "3 partitions, and topic out has 2")
	wantFinding(t, findings, Warning, "topic out", "LogAppendTime", "CreateTime")
	wantFinding(t, findings, Warning, "topic in", "cleanup.policy=compact")
	wantFinding(t, findings, Fault, "topic out", "1 replica, min.insync.replicas=2", "min.insync.replicas=1")
	wantFinding(t, findings, Sound, "topic new", "it is made when a pipeline starts")
}

func TestExamineFindsSettingsThatRefuse(t *testing.T) {
	o := conforming(fake(t, kfake.BrokerConfigs(map[string]string{"transaction.max.timeout.ms": "1000", "message.max.bytes": "1000"})))
	findings := examine(t, o, examined)
	wantFinding(t, findings, Fault, "broker 0", "transaction.max.timeout.ms=1000", "=2000")
	wantFinding(t, findings, Fault, "broker 0", "message.max.bytes=1000", "=916384", "--entity-type brokers")
}

func TestExamineSaysWhoIsNotReached(t *testing.T) {
	o := conforming([]string{"127.0.0.1:1"})
	wantFinding(t, examine(t, o, examined), Fault, "broker 127.0.0.1:1", "connection refused", "advertised.listeners")
	o.Brokers = append(o.Brokers, fake(t)...)
	findings := examine(t, o, examined)
	wantFinding(t, findings, Fault, "broker 127.0.0.1:1")
	wantFinding(t, findings, Sound, "topic in")

	o = conforming(fake(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "admin", "secret")))
	o.SASL = SASL{Mechanism: "PLAIN", User: "admin", Password: "wrong"}
	findings = examine(t, o, examined)
	wantFinding(t, findings, Fault, "broker "+o.Brokers[0], "user and password")
	if len(findings) != 1 {
		t.Errorf("%+v after nobody was reached", findings)
	}
}

// Kafka's own topics are made when they are needed, by settings that may not
// allow it.
func TestExamineFindsTopicsOfKafkaThatCannotBeMade(t *testing.T) {
	for _, c := range []struct {
		brokers       int
		factor, least string
		level         Level
		words         string
	}{
		{1, "3", "2", Fault, "cannot be made"},
		{3, "1", "1", Warning, "=3 and transaction.state.log.min.isr=2"},
		{3, "3", "2", Sound, "3 replicas"},
		{1, "1", "2", Fault, "2 of them in sync"},
		{1, "1", "1", Sound, "1 replica"},
	} {
		e := &examination{
			topics: map[string]*kmsg.MetadataResponseTopic{}, brokers: make([]kmsg.MetadataResponseBroker, c.brokers),
			broker: map[string]string{"transaction.state.log.replication.factor": c.factor, "transaction.state.log.min.isr": c.least},
		}
		e.own(t.Context(), transactionsTopic, "transaction.state.log.replication.factor", "transaction.state.log.min.isr")
		wantFinding(t, e.findings, c.level, "topic "+transactionsTopic, c.words)
	}
}

// TestExamineOnABroker looks at settings that are bad on purpose, as an admin
// and as one who may do nothing.
func TestExamineOnABroker(t *testing.T) {
	cluster := kafkatest.Start(t, kafkatest.Options{Secure: true, Settings: []string{
		"transaction.max.timeout.ms=1000", "group.min.session.timeout.ms=10000", "message.max.bytes=100000", "offsets.retention.minutes=60",
		"unclean.leader.election.enable=true", "transaction.abort.timed.out.transaction.cleanup.interval.ms=10000", "group.initial.rebalance.delay.ms=3000",
	}})
	bad := conforming(cluster.Addresses())
	findings := examine(t, bad, examined)
	for _, words := range []string{"transaction.max.timeout.ms=1000", "group.min.session.timeout.ms=10000", "message.max.bytes=100000"} {
		wantFinding(t, findings, Fault, "broker 1", words)
	}
	for _, words := range []string{"offsets.retention.minutes=60", "unclean.leader.election.enable=true", "transaction.abort.timed.out.transaction.cleanup.interval.ms=10000", "add.partitions.to.txn.retry.backoff.ms=20"} {
		wantFinding(t, findings, Warning, "broker 1", words)
	}
	wantFinding(t, findings, Note, "broker 1", "group.initial.rebalance.delay.ms=3000")
	wantFinding(t, findings, Sound, "cluster", "transaction.version=2")
	wantFinding(t, findings, Sound, "cluster", "group.version=1")
	wantFinding(t, findings, Sound, "broker 1", "Kafka v4.")
	wantFinding(t, findings, Sound, "topic "+offsetsTopic, "made when it is needed")
	wantFinding(t, findings, Note, "group g", "not tried")
	l := openAt(t, bad).(*Log)
	topics, err := l.topics.ask(t.Context())
	closeLog(t, l)
	if err != nil || len(topics) > 0 {
		t.Fatalf("examining made %v, %v", topics, err)
	}

	good := bad // what pipelines ask for fits the settings
	good.SessionTimeout, good.TransactionTimeout, good.MaxRecordBytes = 10*time.Second, time.Second, 50_000
	ran(t, good)
	findings = examine(t, good, Plan{})
	wantNoFault(t, findings)
	wantFinding(t, findings, Sound, "group g")
	wantFinding(t, findings, Sound, "transactional id afterbay-g-*")

	worker := good
	worker.Brokers = []string{cluster.Brokers[0].SASL}
	worker.SASL = SASL{Mechanism: "SCRAM-SHA-256", User: "worker", Password: "worker-secret"}
	findings = examine(t, worker, examined)
	wantFinding(t, findings, Note, "broker 1", "CLUSTER_AUTHORIZATION_FAILED", "--operation DescribeConfigs --cluster")
	wantFinding(t, findings, Fault, "topic out", "Write", "kafka-acls.sh", "User:worker --operation Write --operation Describe --topic out")
	wantFinding(t, findings, Fault, "topic afterbay-g-in-changelog", "not allowed: Read, Write, Describe")
	wantFinding(t, findings, Fault, "group g", "not allowed", "--operation Read --group g")
	wantFinding(t, findings, Fault, "transactional id afterbay-g-*", "--resource-pattern-type prefixed --transactional-id afterbay-g-")

	worker.SASL.Password = "wrong"
	wantFinding(t, examine(t, worker, examined), Fault, "broker "+worker.Brokers[0], "SASL_AUTHENTICATION_FAILED")
	worker.SASL = SASL{}
	wantFinding(t, examine(t, worker, examined), Fault, "broker "+worker.Brokers[0], "TLS or SASL")
}

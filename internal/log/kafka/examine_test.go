package kafka

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/internal/test/kafkatest"
	"github.com/afterbay/afterbay/stream"
)

func examine(t *testing.T, o Options, plan Plan) []Finding {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
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
	step := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{a.Partition: 0}, Outputs: []stream.Record{{Partition: stream.Partition{Topic: "out"}, Value: []byte("v")}}}
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
		wantFinding(t, findings, Sound, "topic g.changelog.in", "cleanup.policy=compact")
		wantFinding(t, findings, Sound, "topic g.changelog.in", "2 partitions, as topic in")
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
	alter(t, o, "g.changelog.in", "delete.retention.ms", "60000")
	alter(t, o, "g.changelog.in", "max.message.bytes", "1000")
	alter(t, o, "out", "message.timestamp.type", "LogAppendTime")
	alter(t, o, "in", "cleanup.policy", "compact")
	alter(t, o, "out", "min.insync.replicas", "2")
	findings := examine(t, o, Plan{Reads: []Reading{{"g", "in"}, {"g", "out"}}, Writes: []string{"out", "new"}})
	changelog := "topic g.changelog.in"
	wantFinding(t, findings, Fault, changelog, "delete.retention.ms=60000", "deleted keys would come back", "--entity-name g.changelog.in", "delete.retention.ms=86400000")
	wantFinding(t, findings, Fault, changelog, "max.message.bytes=1000", "max.message.bytes=916384")
	wantFinding(t, findings, Fault, "topic g.changelog.out", "cleanup.policy=delete", "cleanup.policy=compact")
	wantFinding(t, findings, Fault, "topic g.changelog.out", "3 partitions, and topic out has 2")
	wantFinding(t, findings, Warning, "topic out", "LogAppendTime", "CreateTime")
	wantFinding(t, findings, Warning, "topic in", "cleanup.policy=compact")
	wantFinding(t, findings, Fault, "topic out", "1 replica, min.insync.replicas=2", "min.insync.replicas=1")
	wantFinding(t, findings, Sound, "topic new", "a pipeline creates it when it starts")
}

// Outputs have the times of their events, which brokers may hold against them.
func TestExamineFindsSettingsThatLoseOutputs(t *testing.T) {
	o := conforming(fake(t))
	ran(t, o)
	wantNothing(t, examine(t, o, examined), "topic out", Warning)
	for _, c := range []struct{ name, value, want string }{
		{"retention.ms", "3600000", "--entity-name out --add-config retention.ms=-1"},
		{"message.timestamp.before.max.ms", "60000", "message.timestamp.before.max.ms=9223372036854775807"},
		{"message.timestamp.after.max.ms", "60000", "message.timestamp.after.max.ms=9223372036854775807"},
	} {
		alter(t, o, "out", c.name, c.value)
		wantFinding(t, examine(t, o, examined), Warning, "topic out", c.name+"="+c.value, c.want)
	}
	alter(t, o, "in", "retention.ms", "3600000") // the age of an input is that of its append
	wantNothing(t, examine(t, o, examined), "topic in", Warning)
	var told shown
	o.Logger = slog.New(slog.NewTextHandler(&told, nil))
	l := openAt(t, o).(*Log)
	defer closeLog(t, l)
	l.WarnOfTimes(t.Context(), "out", "not there")
	if got := told.String(); strings.Count(got, "a topic does not suit outputs") != 3 || !strings.Contains(got, "retention.ms=-1") {
		t.Error(got)
	}
	alter(t, o, "out", "message.timestamp.type", "LogAppendTime") // then ages count from it
	findings := examine(t, o, examined)
	wantFinding(t, findings, Warning, "topic out", "LogAppendTime")
	for _, f := range findings {
		if f.About == "topic out" && strings.Contains(f.Found, "retention.ms") {
			t.Errorf("%+v", f)
		}
	}
	if got := timeTraps(map[string]string{"retention.ms": "1", "cleanup.policy": "compact"}); got != nil {
		t.Error(got)
	}
}

// wantNothing wants no finding of a level about what.
func wantNothing(t *testing.T, findings []Finding, about string, level Level) {
	t.Helper()
	for _, f := range findings {
		if f.About == about && f.Level == level {
			t.Errorf("%+v", f)
		}
	}
}

// forget makes the brokers forget what group g committed.
func forget(t *testing.T, o Options) {
	t.Helper()
	l := openAt(t, o).(*Log)
	defer closeLog(t, l)
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{"g"}
	resp, err := req.RequestWith(t.Context(), l.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.Groups[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Offsets that differ from the state are found before a pipeline refuses them.
func TestExamineFindsOffsetsThatAreNotThoseOfTheState(t *testing.T) {
	o := conforming(fake(t))
	l := openAt(t, o).(*Log)
	defer closeLog(t, l)
	if err := l.CreateTopic(t.Context(), stream.Topic{Name: "in", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if err := l.Append(t.Context(), stream.Record{Partition: in}); err != nil {
			t.Fatal(err)
		}
	}
	s, _ := mustOwn(t, l)
	for i := range stream.Offset(20) {
		commit(t, s, i+1, "a", []byte("1"))
	}
	const about = "group g in topic in"
	wantFinding(t, examine(t, o, examined), Sound, about)
	for range 100 { // the position is far from the end, as behind a transaction that was aborted
		aborted := &kgo.Record{Topic: changelogOf("g", in).Topic, Key: []byte("vb"), Value: []byte("1")}
		if err := l.client.ProduceSync(t.Context(), aborted).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	wantFinding(t, examine(t, o, examined), Sound, about)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	findings := examine(t, o, examined)
	wantFinding(t, findings, Sound, about)
	wantFinding(t, findings, Note, "group g", "it has no members", "forget its offsets")
	forget(t, o)
	wantFinding(t, examine(t, o, examined), Fault, about, "partition [0]", `printf 'in,0,20\n' > offsets.csv; kafka-consumer-groups.sh --bootstrap-server `+o.Brokers[0]+` --group 'g' --reset-offsets --from-file offsets.csv --execute`)
	_, _, err := own(t, l)
	wantAdvice(t, err, "offsets.retention.minutes", `printf 'in,0,20\n'`, "use another pipeline name")

	setOffset(t, o, 20)
	wantFinding(t, examine(t, o, examined), Sound, about)
	s, a := mustOwn(t, l)
	wantValue(t, a.State, "a", []byte("1"))
	if a.Next != 20 {
		t.Errorf("next is %d", a.Next)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	setOffset(t, o, 3)
	wantFinding(t, examine(t, o, examined), Fault, about, "in,0,20")
	_, _, err = own(t, l)
	wantAdvice(t, err, "committed offset 3", "has offset 20", "in,0,20")

	removeTopic(t, l, changelogOf("g", in).Topic)
	if topics, err := l.topics.ask(t.Context(), changelogOf("g", in).Topic); err != nil || len(topics) > 0 {
		t.Fatal(topics, err)
	}
	if _, err := l.ensureTopic(t.Context(), changelogOf("g", in).Topic, 1, "cleanup.policy", "compact"); err != nil {
		t.Fatal(err)
	}
	wantFinding(t, examine(t, o, examined), Fault, about, "deleted", "--group 'g' --delete-offsets --topic in")
}

// setOffset sets what group g committed, as Kafka's own command does.
func setOffset(t *testing.T, o Options, offset int64) {
	t.Helper()
	l := openAt(t, o).(*Log)
	defer closeLog(t, l)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = "g"
	topic := kmsg.NewOffsetCommitRequestTopic()
	info, err := l.topics.get(t.Context(), "in")
	if err != nil {
		t.Fatal(err)
	}
	topic.Topic, topic.TopicID = info.name, info.id
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset = offset
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(t.Context(), l.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// An output that a topic refuses for its time ends the pipeline with what to do.
func TestOutputRefusedForItsTimeSaysWhatToChange(t *testing.T) {
	o := onBroker(t)
	ran(t, o)
	alter(t, o, "out", "message.timestamp.before.max.ms", "60000")
	l := openAt(t, o).(*Log)
	defer closeLog(t, l)
	s, a := mustOwn(t, l)
	step := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{a.Partition: 0}, Outputs: []stream.Record{{Partition: stream.Partition{Topic: "out"}, Value: []byte("v"), Time: time.Unix(1, 0)}}}
	wantAdvice(t, s.Commit(step).Wait(t.Context()), `topic "out"`, "INVALID_TIMESTAMP", "message.timestamp.before.max.ms")
}

func TestExamineFindsQuotas(t *testing.T) {
	o := conforming(fake(t))
	l := openAt(t, o).(*Log)
	defer closeLog(t, l)
	wantFinding(t, examine(t, o, examined), Sound, "quotas")
	req := kmsg.NewPtrAlterClientQuotasRequest()
	for _, name := range []*string{kmsg.StringPtr("afterbay"), kmsg.StringPtr("another"), nil} {
		entry := kmsg.NewAlterClientQuotasRequestEntry()
		entity := kmsg.NewAlterClientQuotasRequestEntryEntity()
		entity.Type, entity.Name = "client-id", name
		entry.Entity = append(entry.Entity, entity)
		op := kmsg.NewAlterClientQuotasRequestEntryOp()
		op.Key, op.Value = "producer_byte_rate", 1000
		entry.Ops = append(entry.Ops, op)
		req.Entries = append(req.Entries, entry)
	}
	if _, err := req.RequestWith(t.Context(), l.client); err != nil {
		t.Fatal(err)
	}
	findings := examine(t, o, examined)
	wantFinding(t, findings, Warning, "quotas", "producer_byte_rate of client-id afterbay is 1000", "--entity-type clients --entity-name afterbay --delete-config producer_byte_rate")
	wantFinding(t, findings, Warning, "quotas", "every client-id", "--entity-type clients --entity-default")
	for _, f := range findings {
		if strings.Contains(f.Found, "another") {
			t.Errorf("%+v", f)
		}
	}
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
		{1, "3", "2", Fault, "cannot be created"},
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
		"unclean.leader.election.enable=true", "auto.create.topics.enable=true", "transaction.abort.timed.out.transaction.cleanup.interval.ms=10000", "group.initial.rebalance.delay.ms=3000",
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
	wantFinding(t, findings, Note, "broker 1", "auto.create.topics.enable=true", "auto.create.topics.enable=false")
	wantFinding(t, findings, Sound, "cluster", "transaction.version=2")
	wantFinding(t, findings, Sound, "cluster", "group.version=1")
	wantFinding(t, findings, Sound, "broker 1", "Kafka v4.")
	wantFinding(t, findings, Sound, "topic "+offsetsTopic, "made when it is needed")
	wantFinding(t, findings, Note, "group g", "not checked")
	l := openAt(t, bad).(*Log)
	topics, err := l.topics.ask(t.Context())
	closeLog(t, l)
	if err != nil || len(topics) > 0 {
		t.Fatalf("examining made %v, %v", topics, err)
	}

	good := bad // what pipelines ask for fits the settings
	good.Timeouts.Session, good.Timeouts.Transaction, good.MaxRecordBytes = 10*time.Second, time.Second, 50_000
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
	wantFinding(t, findings, Fault, "topic g.changelog.in", "not allowed: Read, Write, Describe")
	wantFinding(t, findings, Fault, "group g", "not allowed", "--operation Read --operation Describe --group g")
	wantFinding(t, findings, Note, "group afterbay-producer-*", "pipelines run", "--resource-pattern-type prefixed --group afterbay-producer-")
	wantFinding(t, findings, Note, "transactional id afterbay-producer-*", "afterbay produce", "prefixed --transactional-id afterbay-producer-")
	wantFinding(t, findings, Note, "topic "+producersTopic, "not allowed: Describe, Read")
	wantFinding(t, findings, Note, "quotas", "cannot be read")
	wantFinding(t, findings, Fault, "transactional id afterbay-g-*", "--resource-pattern-type prefixed --transactional-id afterbay-g-")

	worker.SASL.Password = "wrong"
	wantFinding(t, examine(t, worker, examined), Fault, "broker "+worker.Brokers[0], "SASL_AUTHENTICATION_FAILED")
	worker.SASL = SASL{}
	wantFinding(t, examine(t, worker, examined), Fault, "broker "+worker.Brokers[0], "TLS or SASL")
}

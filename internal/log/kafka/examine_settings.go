package kafka

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// setting is a broker setting and the condition under which it is a problem.
type setting struct {
	name    string
	wrong   func(e *examination, value int64) bool
	level   Level
	means   string
	want    func(e *examination) int64
	dynamic bool // a command can change it without a restart
}

func milliseconds(d time.Duration) int64 { return d.Milliseconds() }

// brokerSettings lists the settings that decide whether pipelines run, and how long outputs wait,
// normally and after a crash.
var brokerSettings = []setting{
	{
		name: "add.partitions.to.txn.retry.backoff.ms", level: Warning,
		wrong: func(_ *examination, v int64) bool { return v > 5 },
		want:  func(*examination) int64 { return 1 },
		means: "the first record of each transaction waits this long if the previous transaction is not complete: this is most of the time of a small transaction. Commit intervals below it gain nothing",
	}, {
		name: "transaction.abort.timed.out.transaction.cleanup.interval.ms", level: Warning,
		wrong: func(_ *examination, v int64) bool { return v > 1000 },
		want:  func(*examination) int64 { return 1000 },
		means: "a broker ends the transaction of a killed process up to this long after its timeout; until then consumers do not read past it, and its partitions wait",
	}, {
		name: "transaction.max.timeout.ms", level: Fault,
		wrong: func(e *examination, v int64) bool { return v < milliseconds(e.log.opts.Timeouts.Transaction) },
		want:  func(e *examination) int64 { return milliseconds(e.log.opts.Timeouts.Transaction) },
		means: "the engine requests a longer transaction timeout, so no transaction begins",
	}, {
		name: "group.min.session.timeout.ms", level: Fault,
		wrong: func(e *examination, v int64) bool {
			return !e.log.opts.ServerGroups && v > milliseconds(e.log.opts.Timeouts.Session)
		},
		want:  func(e *examination) int64 { return milliseconds(e.log.opts.Timeouts.Session) },
		means: "the engine requests a shorter session timeout, so no member can join a group",
	}, {
		name: "group.max.session.timeout.ms", level: Fault,
		wrong: func(e *examination, v int64) bool {
			return !e.log.opts.ServerGroups && v < milliseconds(e.log.opts.Timeouts.Session)
		},
		want:  func(e *examination) int64 { return milliseconds(e.log.opts.Timeouts.Session) },
		means: "the engine requests a longer session timeout, so no member can join a group",
	}, {
		name: "group.consumer.session.timeout.ms", level: Warning, dynamic: true,
		wrong: func(e *examination, v int64) bool { return e.log.opts.ServerGroups && v > 10_000 },
		want:  func(*examination) int64 { return 6000 },
		means: "if the brokers assign partitions: how long the partitions of a killed process wait for another process",
	}, {
		name: "group.initial.rebalance.delay.ms", level: Note,
		wrong: func(_ *examination, v int64) bool { return v > 0 },
		want:  func(*examination) int64 { return 0 },
		means: "an empty group waits this long for more members, so a pipeline starts that much later",
	}, {
		name: "message.max.bytes", level: Fault, dynamic: true,
		wrong: func(e *examination, v int64) bool { return v < e.batchBytes() },
		want:  func(e *examination) int64 { return e.batchBytes() },
		means: "a pipeline may write larger batches to topics without their own limit: the brokers then refuse the step at each attempt",
	}, {
		name: "offsets.retention.minutes", level: Warning,
		wrong: func(_ *examination, v int64) bool { return v < 24*60 },
		want:  func(*examination) int64 { return 7 * 24 * 60 },
		means: "if a pipeline is stopped for longer, the brokers forget its offsets but not its state: it does not start until the offsets are set again",
	},
}

const uncleanMeans = "a replica that lacks records may lead a partition: committed outputs and state are lost"

// batchBytes returns the size of the largest batch that the options allow.
func (e *examination) batchBytes() int64 {
	return int64(e.log.opts.MaxRecordBytes + batchOverhead)
}

// settings reads and checks the settings of each broker.
func (e *examination) settings(ctx context.Context) bool {
	type reading struct {
		value int64
		ids   []int32
	}
	readings := map[string][]reading{}
	for i := range e.brokers {
		id := e.brokers[i].NodeID
		configs, err := e.log.describeConfigs(ctx, kmsg.ConfigResourceTypeBroker, fmt.Sprint(id), int(id))
		if err != nil {
			e.find(Note, e.named([]int32{id}), fmt.Sprintf("its settings cannot be read: %v", err), "they are not checked", e.allow("--operation DescribeConfigs --cluster"))
			continue
		}
		if e.broker == nil {
			e.broker = configs
		}
		if configs["unclean.leader.election.enable"] == "true" {
			e.find(Warning, e.named([]int32{id}), "unclean.leader.election.enable=true", uncleanMeans, e.alterBroker("unclean.leader.election.enable=false"))
		}
		if configs["auto.create.topics.enable"] == "true" {
			e.find(Note, e.named([]int32{id}), "auto.create.topics.enable=true", "a client that uses a topic before its pipeline starts creates it with the brokers' partition count and retention, and the pipeline refuses that partition count", "write auto.create.topics.enable=false into server.properties of each broker, and restart them one after the other; or start pipelines first")
		}
		for _, s := range brokerSettings {
			v, err := strconv.ParseInt(configs[s.name], 10, 64)
			if err != nil {
				continue // a broker of a version without this setting
			}
			at := slices.IndexFunc(readings[s.name], func(r reading) bool { return r.value == v })
			if at < 0 {
				at = len(readings[s.name])
				readings[s.name] = append(readings[s.name], reading{value: v})
			}
			readings[s.name][at].ids = append(readings[s.name][at].ids, id)
		}
	}
	for _, s := range brokerSettings {
		for _, r := range readings[s.name] {
			e.judge(s, r.value, e.named(r.ids))
		}
	}
	return true
}

func (e *examination) judge(s setting, value int64, about string) {
	found := fmt.Sprintf("%s=%d", s.name, value)
	if !s.wrong(e, value) {
		e.sound(about, "%s", found)
		return
	}
	pair := fmt.Sprintf("%s=%d", s.name, s.want(e))
	change := "write " + pair + " into server.properties of each broker, and restart them one after the other"
	if s.dynamic {
		change = e.alterBroker(pair)
	}
	e.find(s.level, about, found, s.means, change)
}

func (e *examination) alterBroker(pair string) string {
	return fmt.Sprintf("kafka-configs.sh --bootstrap-server %s --alter --entity-type brokers --entity-default --add-config %s", e.server, pair)
}

// allow returns the command that gives the user a right.
func (e *examination) allow(what string) string {
	user := "NAME"
	if e.log.opts.SASL.User != "" {
		user = e.log.opts.SASL.User
	}
	return fmt.Sprintf("kafka-acls.sh --bootstrap-server %s --add --allow-principal User:%s %s", e.server, user, what)
}

package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Level is the severity of a Finding.
type Level string

// The levels, from best to worst.
const (
	Sound   Level = "ok"      // no problem
	Note    Level = "note"    // useful to know; not a problem
	Warning Level = "warning" // it works, but slower or less safe than possible
	Fault   Level = "fault"   // pipelines do not run, or lose data
)

// Finding is one result of Examine.
type Finding struct {
	Level  Level  `json:"level"`
	About  string `json:"about"`            // the broker, topic, group or id
	Found  string `json:"found"`            // the observation
	Means  string `json:"means,omitempty"`  // the consequence; empty if there is no problem
	Change string `json:"change,omitempty"` // what to do, if possible as a command
}

// Plan lists the topics and groups that pipelines use. The zero value stands for all topics and
// groups that the brokers hold for Afterbay.
type Plan struct {
	Reads  []Reading
	Writes []string // topics
}

// Reading is a group and a topic that it reads.
type Reading struct{ Group, Topic string }

func (p *Plan) empty() bool { return len(p.Reads)+len(p.Writes) == 0 }

// topics returns the topics that the plan reads and writes, sorted.
func (p *Plan) topics() []string {
	topics := slices.Clone(p.Writes)
	for _, r := range p.Reads {
		topics = append(topics, r.Topic)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// Examine checks whether pipelines can run on the brokers, and how well. It checks connections,
// broker versions, settings, topics and the rights of the user. It changes nothing. An error means
// that the options are invalid; all other problems are findings.
func Examine(ctx context.Context, o Options, plan Plan) ([]Finding, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	e := &examination{log: newLog(o), plan: plan, topics: map[string]*kmsg.MetadataResponseTopic{}, configs: map[string]map[string]string{}}
	l := e.log
	defer l.cancel()
	var err error
	// The user wants to see the first failure, so retries are limited.
	l.client, err = l.newClient(kgo.DialTimeout(examineTimeout), kgo.RequestRetries(1), kgo.RetryTimeout(examineTimeout), kgo.WithLogger(nil))
	if err != nil {
		return nil, fmt.Errorf("examine kafka: %w", err)
	}
	defer l.client.Close()
	e.server = strings.Join(o.Brokers, ",")
	for _, step := range []func(context.Context) bool{e.seeds, e.cluster, e.versions, e.settings, e.quotas, e.examineTopics, e.offsets, e.rights} {
		if !step(ctx) {
			break
		}
	}
	return e.findings, ctx.Err()
}

// examineTimeout is how long Examine waits for an answer of a broker.
const examineTimeout = 5 * time.Second

// examination is a running Examine.
type examination struct {
	log      *Log
	plan     Plan
	server   string // server address for commands
	findings []Finding

	brokers []kmsg.MetadataResponseBroker
	topics  map[string]*kmsg.MetadataResponseTopic
	configs map[string]map[string]string // by topic; nil if the user may not see them
	broker  map[string]string            // settings of one broker; nil if the user may not see them
}

func (e *examination) find(level Level, about, found, means, change string) {
	e.findings = append(e.findings, Finding{level, about, found, means, change})
}

func (e *examination) sound(about, format string, args ...any) {
	e.find(Sound, about, fmt.Sprintf(format, args...), "", "")
}

// seeds connects to each address in the options.
func (e *examination) seeds(ctx context.Context) bool {
	reached := false
	for i, seed := range e.log.client.SeedBrokers() {
		about := "broker " + e.log.opts.Brokers[i]
		if _, err := seed.Request(ctx, askVersions()); err != nil {
			e.unreachable(about, err)
			continue
		}
		reached = true
		e.sound(about, "it answers")
	}
	return reached
}

func askVersions() *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "afterbay", "1"
	return req
}

// unreachable reports why a broker does not answer.
func (e *examination) unreachable(about string, err error) {
	var dns *net.DNSError
	var eof *kgo.ErrFirstReadEOF
	found := fmt.Sprintf("it does not answer: %v", err)
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		e.find(Fault, about, found, "it rejects the user, the password or the SASL mechanism", "check that SASL mechanism, user and password match the listener: kafka-configs.sh --bootstrap-server "+e.server+" --describe --entity-type users")
	case errors.As(err, &dns):
		e.find(Fault, about, found, "its host name cannot be resolved on this machine", "use another address, or add the host name to DNS")
	case errors.As(err, &eof), errors.Is(err, io.EOF):
		e.find(Fault, about, found, "it closed the connection at once: the listener may require TLS or SASL, or another user and password", "set TLS and SASL as in listeners and listener.security.protocol.map of the broker")
	case strings.Contains(err.Error(), "tls: "), strings.Contains(err.Error(), "x509: "):
		e.find(Fault, about, found, "the TLS handshake failed", "connect without TLS if the listener is PLAINTEXT; otherwise trust the authority that signed the broker's certificate")
	default:
		e.find(Fault, about, found, "no broker listens there, or a firewall blocks the connection", "start the broker, and check that this machine can reach its advertised.listeners")
	}
}

// cluster reads the metadata of all brokers and topics. It connects to each broker at its
// advertised address.
func (e *examination) cluster(ctx context.Context) bool {
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	if !e.plan.empty() { // otherwise nil: all topics that the user may see
		for _, name := range append(e.plan.topics(), append(e.plan.changelogs(), offsetsTopic, transactionsTopic, keysTopic, producersTopic)...) {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = kmsg.StringPtr(name)
			req.Topics = append(req.Topics, t)
		}
	}
	resp, err := req.RequestWith(ctx, e.log.client)
	if err != nil {
		e.unreachable("cluster", err)
		return false
	}
	for i := range resp.Topics {
		if name := resp.Topics[i].Topic; name != nil {
			e.topics[*name] = &resp.Topics[i]
		}
	}
	e.brokers = resp.Brokers
	slices.SortFunc(e.brokers, func(a, b kmsg.MetadataResponseBroker) int { return int(a.NodeID - b.NodeID) })
	if e.plan.empty() {
		e.plan = planOf(e.topics)
	}
	return true
}

// versions asks each broker for its version.
func (e *examination) versions(ctx context.Context) bool {
	byVersion := map[string][]int32{}
	var newest *kmsg.ApiVersionsResponse
	for i := range e.brokers {
		b := &e.brokers[i]
		answer, err := e.log.client.Broker(int(b.NodeID)).Request(ctx, askVersions())
		if err != nil {
			e.unreachable(fmt.Sprintf("broker %d, %s:%d", b.NodeID, b.Host, b.Port), err)
			continue
		}
		resp := answer.(*kmsg.ApiVersionsResponse)
		newest = resp
		versions := kversion.FromApiVersionsResponse(resp)
		name := versions.VersionGuess()
		byVersion[name] = append(byVersion[name], b.NodeID)
		if v, _ := versions.LookupMaxKeyVersion(int16(kmsg.TxnOffsetCommit)); v < 3 {
			e.find(Fault, fmt.Sprintf("broker %d", b.NodeID), "Kafka "+name, "before 2.5, the brokers cannot fence offset commits by member", "upgrade it to 2.5 or later")
		}
	}
	for name, ids := range byVersion {
		e.sound(e.named(ids), "Kafka %s", name)
	}
	if len(byVersion) > 1 {
		e.find(Note, "cluster", "brokers of several versions", "features that one broker lacks are not used", "end the upgrade")
	}
	if newest != nil {
		e.features(newest)
	}
	return true
}

// features checks the finalized features of the cluster.
func (e *examination) features(resp *kmsg.ApiVersionsResponse) {
	levels := map[string]int16{}
	for _, f := range resp.FinalizedFeatures {
		levels[f.Name] = f.MaxVersionLevel
	}
	upgrade := func(feature string) string {
		return fmt.Sprintf("kafka-features.sh --bootstrap-server %s upgrade --feature %s", e.server, feature)
	}
	if v := levels["transaction.version"]; v < 2 {
		e.find(Warning, "cluster", fmt.Sprintf("feature transaction.version=%d", v), "a late record of an ended transaction can become part of the next one (KIP-890)", upgrade("transaction.version=2")+" (Kafka 4.0 and later)")
	} else {
		e.sound("cluster", "feature transaction.version=%d", v)
	}
	switch v := levels["group.version"]; {
	case v >= 1:
		e.sound("cluster", "feature group.version=%d", v)
	case e.log.opts.ServerGroups:
		e.find(Fault, "cluster", fmt.Sprintf("feature group.version=%d", v), "the brokers do not assign partitions (KIP-848), but the options require it", upgrade("group.version=1")+" (Kafka 4.0 and later), or use classic groups")
	default:
		e.find(Note, "cluster", fmt.Sprintf("feature group.version=%d", v), "groups are classic, as the options require; the brokers could not assign partitions (KIP-848)", "")
	}
}

// named returns a text that names the brokers: all of them, or a list.
func (e *examination) named(ids []int32) string {
	if len(ids) == len(e.brokers) && len(ids) > 1 {
		return "all brokers"
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = fmt.Sprint(id)
	}
	if len(ids) == 1 {
		return "broker " + names[0]
	}
	return "brokers " + strings.Join(names, ", ")
}

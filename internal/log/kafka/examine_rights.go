package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// rights checks what the user of the options may do. For topics the brokers return the allowed
// operations. For groups and transactional ids it sends requests for a member and a transaction
// that do not exist. Such a request fails even if it is allowed, with another error.
func (e *examination) rights(ctx context.Context) bool {
	if e.plan.empty() {
		return true
	}
	needs := map[string][]kmsg.ACLOperation{}
	for _, r := range e.plan.Reads {
		needs[r.Topic] = append(needs[r.Topic], kmsg.ACLOperationDescribe, kmsg.ACLOperationRead)
		needs[r.changelog()] = append(needs[r.changelog()], kmsg.ACLOperationDescribe, kmsg.ACLOperationRead, kmsg.ACLOperationWrite)
	}
	for _, name := range e.plan.Writes {
		needs[name] = append(needs[name], kmsg.ACLOperationDescribe, kmsg.ACLOperationWrite)
	}
	needs[keysTopic] = []kmsg.ACLOperation{kmsg.ACLOperationDescribe, kmsg.ACLOperationRead, kmsg.ACLOperationWrite}
	if _, ok := e.has(keysTopic); !ok && !e.hidden(keysTopic) {
		e.missing(ctx, keysTopic, 1)
	}
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		slices.Sort(needs[name])
		e.topicRights(name, slices.Compact(needs[name]))
	}
	groups := map[string]bool{}
	for _, r := range e.plan.Reads {
		groups[r.Group] = true
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		e.groupRights(ctx, group)
		e.transactionRights(ctx, "afterbay-"+safeName(group)+"-", "no step can be committed")
	}
	e.producerRights(ctx)
	return true
}

// producerRights checks what appends need: write access to the inputs, and for AppendOnce a
// transactional id and a group per producer.
func (e *examination) producerRights(ctx context.Context) {
	before := len(e.findings)
	for _, r := range e.plan.Reads {
		if !slices.Contains(e.plan.Writes, r.Topic) {
			e.topicRights(r.Topic, []kmsg.ACLOperation{kmsg.ACLOperationDescribe, kmsg.ACLOperationWrite})
		}
	}
	if _, ok := e.has(producersTopic); !ok && !e.hidden(producersTopic) {
		e.missing(ctx, producersTopic, 1)
	}
	e.topicRights(producersTopic, []kmsg.ACLOperation{kmsg.ACLOperationDescribe, kmsg.ACLOperationRead})
	e.tryGroup(ctx, "group "+producerPrefix+"*", producerPrefix+"doctor", "--operation Read --operation Describe --resource-pattern-type prefixed --group "+producerPrefix)
	e.transactionRights(ctx, producerPrefix, "")
	for i := before; i < len(e.findings); i++ {
		if f := &e.findings[i]; f.Level == Fault {
			f.Level, f.Means = Note, "pipelines run; this user cannot use afterbay produce and POST, or only without a file and Idempotency-Key"
		}
	}
}

func (e *examination) topicRights(name string, needs []kmsg.ACLOperation) {
	t := e.topics[name]
	if t == nil {
		return
	}
	var missing []string
	for _, op := range needs {
		if e.hidden(name) || t.ErrorCode == 0 && t.AuthorizedOperations >= 0 && t.AuthorizedOperations&(1<<op) == 0 {
			missing = append(missing, operationNames[op])
		}
	}
	about := "topic " + name
	if len(missing) == 0 {
		if t.ErrorCode == 0 && t.AuthorizedOperations >= 0 {
			e.sound(about, "all required rights are granted")
		}
		return
	}
	e.find(Fault, about, "not allowed: "+strings.Join(missing, ", "), "the pipeline does not start, or stops at its first step", e.allow("--operation "+strings.Join(missing, " --operation ")+" --topic "+name))
}

var operationNames = map[kmsg.ACLOperation]string{
	kmsg.ACLOperationDescribe: "Describe", kmsg.ACLOperationRead: "Read", kmsg.ACLOperationWrite: "Write",
}

func (e *examination) groupRights(ctx context.Context, group string) {
	e.tryGroup(ctx, "group "+group, group, "--operation Read --operation Describe --group "+group)
}

// tryGroup sends a heartbeat of a member that does not exist. It sends none if Kafka has no groups
// yet, since the request would create their topic.
func (e *examination) tryGroup(ctx context.Context, about, group, allow string) {
	if !e.made(offsetsTopic, offsetsFactor) {
		e.find(Note, about, "its rights were not checked", "no group was ever created, and a check would create topic "+offsetsTopic, "run the check again after a pipeline has run")
		return
	}
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID = group, "afterbay-doctor"
	resp, err := req.RequestWith(ctx, e.log.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	e.tried(about, err, kerr.GroupAuthorizationFailed, "no member can join it", allow)
}

// transactionRights tries to abort a transaction that does not exist.
func (e *examination) transactionRights(ctx context.Context, prefix, means string) {
	about := "transactional id " + prefix + "*"
	if !e.made(transactionsTopic, transactionsFactor) {
		e.find(Note, about, "its rights were not checked", "no transaction ever began, and a check would create topic "+transactionsTopic, "run the check again after a pipeline has run")
		return
	}
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID = prefix+"doctor", 1<<62
	resp, err := req.RequestWith(ctx, e.log.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	e.tried(about, err, kerr.TransactionalIDAuthorizationFailed, means, "--operation Write --operation Describe --resource-pattern-type prefixed --transactional-id "+prefix)
}

// made reports whether one of Kafka's own topics exists or may exist, so that a request does not
// create it. Brokers without the setting do not have such topics.
func (e *examination) made(name, setting string) bool {
	_, ok := e.has(name)
	return ok || e.hidden(name) || e.broker != nil && e.broker[setting] == ""
}

// tried reports the result of a request that must fail. Any error other than refused means that the
// request is allowed.
func (e *examination) tried(about string, err, refused error, means, allow string) {
	var answer *kerr.Error
	switch {
	case errors.Is(err, refused):
		e.find(Fault, about, "not allowed", means, e.allow(allow))
	case err != nil && !errors.As(err, &answer):
		e.find(Warning, about, fmt.Sprintf("its rights cannot be checked: %v", err), "it is unknown whether the user may use it", "examine again")
	default:
		e.sound(about, "all required rights are granted")
	}
}

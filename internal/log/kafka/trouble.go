package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// ErrLocked means that another process, or another Log of this process, uses the folder
// Options.Dir.
var ErrLocked = errors.New("the folder is in use by another process")

// advice says how to fix broker errors that remain until the user acts.
var advice = map[*kerr.Error]string{
	kerr.TopicAuthorizationFailed:           "allow the principal to Read, Write, Create and Describe the topics of the pipeline, and those that start with afterbay- and __afterbay-",
	kerr.GroupAuthorizationFailed:           "allow the principal to Read the groups named as the pipelines, and Describe them",
	kerr.TransactionalIDAuthorizationFailed: "allow the principal to Write and Describe transactional ids that start with afterbay-",
	kerr.ClusterAuthorizationFailed:         "allow the principal to Create topics, or create them before",
	kerr.SaslAuthenticationFailed:           "check that mechanism, user and password or token match those of the brokers",
	kerr.UnsupportedSaslMechanism:           "choose a mechanism that the brokers have in sasl.enabled.mechanisms",
	kerr.IllegalSaslState:                   "name a SASL mechanism and a user: the brokers require authentication",
	kerr.FencedInstanceID:                   "another process has the same identity: its state folder was copied, or reused while this process did not run. End one of the two, and give each process its own folder",
	kerr.InvalidReplicationFactor:           "set Replication to as many brokers as there are, or less",
	kerr.PolicyViolation:                    "create the topic as the brokers' policy wants it",
	kerr.TopicDeletionDisabled:              "set delete.topic.enable=true on the brokers, or keep the topic",
	kerr.InvalidTimestamp:                   "an output has the time of its event: set message.timestamp.before.max.ms and message.timestamp.after.max.ms of the topic to 9223372036854775807, as in topics that the engine creates",
	kerr.InvalidSessionTimeout:              "set Timeouts.Session within group.min.session.timeout.ms and group.max.session.timeout.ms of the brokers",
	kerr.InvalidTransactionTimeout:          "set Timeouts.Transaction below transaction.max.timeout.ms of the brokers",
	kerr.GroupMaxSizeReached:                "run fewer members, or raise group.max.size of the brokers",
	kerr.InconsistentGroupProtocol:          "end the other members of the group first: all of them use the same group protocol",
	kerr.UnsupportedVersion:                 "use brokers of Kafka 2.5 or later; groups assigned by the brokers need 4.0",
}

// advised is an error that remains until the user follows the advice. Retries are useless.
type advised struct {
	error
	next string
}

// Error returns the error and the advice.
func (a *advised) Error() string { return strings.TrimSuffix(a.error.Error(), ".") + ": " + a.next }

// Unwrap returns the error without the advice.
func (a *advised) Unwrap() error { return a.error }

// refuse returns an advised error.
func refuse(next, format string, args ...any) error {
	return &advised{fmt.Errorf(format, args...), next}
}

// advise adds the known advice to a broker error.
func advise(err error) error {
	var answer *kerr.Error
	if lasting(err) || !errors.As(err, &answer) {
		return err
	}
	if next, ok := advice[answer]; ok {
		return &advised{err, next}
	}
	return err
}

// lasting reports whether err is an advised error or a stream.PartitionsError.
func lasting(err error) bool {
	_, outgrown := errors.AsType[*stream.PartitionsError](err)
	var a *advised
	return errors.As(err, &a) || outgrown
}

// passing reports whether a retry after err may succeed: brokers are down or temporarily not ready.
func passing(err error) bool {
	var answer *kerr.Error
	switch {
	case err == nil, lasting(err), errors.Is(err, stream.ErrClosed), errors.Is(err, stream.ErrUnknownTopic):
		return false
	case errors.As(err, &answer):
		return answer.Retriable
	}
	return true
}

// await logs that the brokers do not answer, and waits before the next try.
func (l *Log) await(ctx context.Context, tries int, what string, err error) error {
	if tries%30 == 1 { // about every half minute
		l.opts.Logger.Warn("kafka: waiting for the brokers", "brokers", l.opts.Brokers, "to", what, "reason", err)
	}
	return l.wait(ctx, backOff(tries))
}

// OnGroupManageError is a callback of the client for a lost group. The client calls it after it
// reported the partitions as lost, and before it joins again. When a broker goes away, the client
// repeats its request to join, and the broker may answer the older request last. So a member may
// lose its name to its own request, and then joins again.
func (s *member) OnGroupManageError(err error) {
	if errors.Is(err, kerr.UnreleasedInstanceID) {
		s.held.Store(true)
	}
	again := errors.Is(err, kerr.FencedInstanceID) && !s.commits.taken(s.life.ctx)
	if err = advise(err); again || !lasting(err) {
		s.end(stream.ErrFenced)
		return
	}
	err = fmt.Errorf("be a member of group %q: %w", s.group, err)
	s.end(err)
	s.life.explain(err)
}

// failed classifies the error of a commit. An error that a new member would also get ends the task.
// For other errors the outcome is unknown, and a new member finds out.
func (c *committer) failed(ctx context.Context, err error) error {
	err = advise(err)
	var answer *kerr.Error
	switch {
	case errors.Is(err, stream.ErrTooLarge), lasting(err):
		return fmt.Errorf("commit: %w", err)
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID):
		return fmt.Errorf("commit: %w", refuse("the step was not committed; create the missing topics again: afterbay run does so when it starts", "a topic that the step writes, or its changelog, is gone: %w", err))
	case errors.As(err, &answer) && !answer.Retriable && c.replaced(ctx):
		return fmt.Errorf("commit: %w", advise(kerr.FencedInstanceID))
	}
	return fmt.Errorf("commit: the outcome is unknown: %w: %w", stream.ErrFenced, err)
}

// replaced reports whether another process joined under this member's static name. Without this
// check, two processes with one identity would fence each other in turns without end. It is not
// another process if the client joined again; the member has ended then.
func (c *committer) replaced(ctx context.Context) bool {
	if c.instance == "" || c.log.opts.ServerGroups {
		return false
	}
	asking, cancel := context.WithTimeout(ctx, c.log.opts.Timeouts.Session)
	defer cancel()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.InstanceID = c.group, &c.instance
	req.MemberID, req.Generation = c.client.GroupMetadata()
	resp, err := req.RequestWith(asking, c.client)
	return err == nil && errors.Is(kerr.ErrorForCode(resp.ErrorCode), kerr.FencedInstanceID) && c.life.dead() == nil && c.taken(ctx)
}

// taken reports whether another process has the id of this member's transactions. A process that
// joins under the member's name also takes the id, perhaps a moment later. A running commit may
// raise the epoch meanwhile. So taken asks the brokers after the rebalance timeout.
//
// Brokers before Kafka 3.0 cannot answer; taken then returns true. If the coordinator is not
// available, for example after a broker crash, the owner is unknown and the member joins again.
func (c *committer) taken(ctx context.Context) bool {
	rebalance := c.log.opts.Timeouts.Rebalance
	_ = c.log.wait(ctx, rebalance)
	ctx, cancel := context.WithTimeout(ctx, coordinatorPatience*rebalance)
	defer cancel()
	for tries := 1; ; tries++ {
		of, err := transactionOf(ctx, c.log.client, c.id)
		switch {
		case err == nil:
			return !aborted(of) && c.differs(ctx, of)
		case !passing(err):
			return true
		case c.log.wait(ctx, backOff(tries)) != nil:
			return false
		}
	}
}

// aborted reports whether the last event of a transactional id is the abort of its transaction. The
// coordinator aborts after the transaction's timeout and raises the epoch. A process that takes the
// id moves on to another state at once.
func aborted(of kmsg.DescribeTransactionsResponseTransactionState) bool {
	return of.State == "PrepareAbort" || of.State == "CompleteAbort" || of.State == "PrepareEpochFence"
}

// differs reports whether a transactional id belongs to another producer than this member's.
func (c *committer) differs(ctx context.Context, of kmsg.DescribeTransactionsResponseTransactionState) bool {
	producer, epoch, err := c.client.ProducerID(ctx)
	return err != nil || of.ProducerID != producer || of.ProducerEpoch != epoch
}

// transactionOf returns the coordinator's description of a transactional id.
func transactionOf(ctx context.Context, client *kgo.Client, id string) (of kmsg.DescribeTransactionsResponseTransactionState, err error) {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{id}
	described, err := req.RequestWith(ctx, client)
	if err == nil && len(described.TransactionStates) != 1 {
		err = fmt.Errorf("%d answers", len(described.TransactionStates))
	}
	if err == nil {
		of = described.TransactionStates[0]
		err = kerr.ErrorForCode(of.ErrorCode)
	}
	if err != nil {
		return of, fmt.Errorf("describe transaction %q: %w", id, err)
	}
	return of, nil
}

// reach sends a request to the brokers, so that connection errors are known at once. A record would
// be retried without end.
func (l *Log) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachMax)
	defer cancel()
	err := l.client.Ping(ctx)
	if err == nil {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v", reachMax)
	}
	if err = advise(err); lasting(err) {
		return fmt.Errorf("reach %s: %w", strings.Join(l.opts.Brokers, ", "), err)
	}
	return refuse("check that a broker listens there, and that TLS and SASL match its listener", "reach %s: %w", strings.Join(l.opts.Brokers, ", "), err)
}

const reachMax = 10 * time.Second

// heldBy reports whether err means that the lock of a folder is held.
func heldBy(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || err != nil && strings.Contains(err.Error(), "lock held by current process")
}

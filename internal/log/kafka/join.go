package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// Join implements stream.Log.
func (l *Log) Join(ctx context.Context, group string, topics ...string) (stream.Member, error) {
	topics = slices.Compact(slices.Sorted(slices.Values(topics)))
	for tries := 1; ; tries++ {
		s, err := l.join(ctx, group, topics, tries == 1)
		if err == nil {
			return s, nil
		}
		if err = l.failure(ctx, err); passing(err) && ctx.Err() == nil {
			err = l.await(ctx, tries, "join "+group, err)
		}
		if err != nil {
			return nil, fmt.Errorf("join %q: %w", group, err)
		}
	}
}

// join creates a member. With quick it joins the group while it ends the transaction that an
// earlier process left. That usually takes milliseconds. If it takes longer than the transaction
// timeout, join fails, so that other members get the partitions meanwhile. Join then calls it again
// without quick.
func (l *Log) join(ctx context.Context, group string, topics []string, quick bool) (*member, error) {
	counts, err := l.prepare(ctx, group, topics)
	if err != nil {
		return nil, err
	}
	s := &member{
		log: l, group: group, topics: topics, wake: make(chan struct{}, 1), alone: make(chan struct{}),
		life: newLifetime(), shares: newShares(group, l.opts.BufferRecords), standbys: newStandbys(l, group),
		overseer: &overseer{log: l, group: group, topics: topics, counts: counts},
	}
	if err := l.register(s); err != nil {
		return nil, err
	}
	if s.commits, err = newCommitter(l, s.life, group, s.id, s.instance); err == nil {
		_, err = l.newClient(s.clientOptions()...) // OnNewClient stores the client
	}
	if err == nil {
		err = s.enlist()
	}
	if err != nil {
		if s.client != nil {
			s.client.Close()
		}
		s.commits.close()
		s.life.cancel()
		l.unregister(s)
		return nil, err
	}
	s.life.begin(s.read)
	s.life.begin(func() { s.standbys.run(s.life.ctx) })
	s.run(func() error { return s.overseer.run(s.life.ctx, s.client.ForceRebalance) })
	if quick {
		s.client.AddConsumeTopics(topics...)
	}
	if err := s.begin(ctx, quick); err != nil {
		err = cmp.Or(s.life.dead(), err) // the group may have rejected the member meanwhile
		s.end(stream.ErrClosed)
		<-s.life.over
		return nil, l.failure(ctx, fmt.Errorf("begin with transactional id %q: %w", s.id, err))
	}
	if !quick {
		s.client.AddConsumeTopics(topics...)
	}
	return s, nil
}

// prepare creates or checks the changelogs of a group. It returns the number of partitions of each
// topic.
func (l *Log) prepare(ctx context.Context, group string, topics []string) (counts map[string]int32, err error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	names := slices.Clone(topics)
	for _, topic := range topics {
		names = append(names, changelogOf(group, stream.Partition{Topic: topic}).Topic)
	}
	if _, err := l.topics.ask(ctx, names...); err != nil {
		return nil, err
	}
	counts = map[string]int32{}
	for _, topic := range topics {
		t, err := l.topics.recent(ctx, topic)
		if err != nil {
			return nil, err
		}
		if err := l.ensureChangelog(ctx, group, t); err != nil {
			return nil, err
		}
		counts[topic] = int32(len(t.leaders))
	}
	return counts, nil
}

// begin ends a transaction that remained after a crash. Such a transaction hides offsets, and the
// client would ask for them again only after a second.
func (s *member) begin(ctx context.Context, quick bool) error {
	within := ctx
	if quick {
		short, cancel := context.WithTimeout(ctx, s.log.opts.Timeouts.Transaction)
		defer cancel()
		within = short
	}
	_, _, err := s.client.ProducerID(within)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return errors.New("the transaction that it left is not ended yet") // whatever the last answer said
	}
	if err == nil {
		close(s.alone)
	}
	return err
}

// ensureChangelog creates or checks the changelog of a group and a topic.
func (l *Log) ensureChangelog(ctx context.Context, group string, t topicInfo) error {
	name := changelogOf(group, stream.Partition{Topic: t.name}).Topic
	if len(name) > 249 {
		return refuse("shorten the name of the pipeline", "the changelog of topic %q would be %q, and names of topics have 249 characters", t.name, name)
	}
	changelog, err := l.ensureTopic(ctx, name, int32(len(t.leaders)),
		"cleanup.policy", "compact", "delete.retention.ms", fmt.Sprint(deleteRetention.Milliseconds()), "segment.bytes", fmt.Sprint(64<<20))
	if err != nil {
		return fmt.Errorf("changelog %q: %w", name, err)
	}
	if n := len(changelog.leaders); n != len(t.leaders) {
		return &stream.PartitionsError{Topic: t.name, Partitions: int32(len(t.leaders)), State: int32(n)}
	}
	return nil
}

// register gives a member the first free slot of its group in this process. The slot and the
// identity of the process name the member and its transactions. So a restarted process ends the
// transactions that it left.
func (l *Log) register(s *member) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return stream.ErrClosed
	}
	taken := l.slots[s.group]
	if taken == nil {
		taken = map[int]bool{}
		l.slots[s.group] = taken
	}
	for taken[s.slot] {
		s.slot++
	}
	taken[s.slot] = true
	name := fmt.Sprintf("%s-%d", l.store.id, s.slot)
	s.id = "afterbay-" + safeName(s.group) + "-" + name
	if l.opts.Dir != "" {
		s.instance = "afterbay-" + name
	}
	return nil
}

// enlist adds the member to those that Close of the log ends. The member must have its clients.
func (s *member) enlist() error {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if s.log.closed {
		return stream.ErrClosed
	}
	s.log.members[s] = true
	return nil
}

func (l *Log) unregister(s *member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.members, s)
	delete(l.slots[s.group], s.slot)
}

func (s *member) clientOptions() []kgo.Opt {
	o := &s.log.opts
	// If the members assign the partitions, OnGroupManageError follows right after lost and knows
	// the reason. A member that learns of it earlier would join again under the name that another
	// process took over. It would then fence that process in turn.
	lost := func(context.Context, *kgo.Client, map[string][]int32) {
		if o.ServerGroups {
			s.end(stream.ErrFenced)
		}
	}
	opts := []kgo.Opt{
		kgo.WithPools(newRecordPool(4 * o.BufferRecords)),
		kgo.ProducerLinger(gather),
		kgo.TransactionalID(s.id),
		kgo.TransactionTimeout(o.Timeouts.Transaction),
		kgo.ConsumerGroup(s.group),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(o.Timeouts.Session),
		kgo.HeartbeatInterval(o.Timeouts.Heartbeat),
		kgo.RebalanceTimeout(o.Timeouts.Rebalance + o.Timeouts.Session),
		kgo.OnPartitionsAssigned(s.onAssigned),
		kgo.OnPartitionsRevoked(s.onRevoked),
		kgo.OnPartitionsLost(lost),
		kgo.AdjustFetchOffsetsFn(s.onOffsets),
		kgo.WithHooks(s),
	}
	if s.instance != "" {
		opts = append(opts, kgo.InstanceID(s.instance))
	}
	if o.ServerGroups { // the library derives the server-side assignor from the balancer
		opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.CooperativeStickyBalancer()))
	} else {
		opts = append(opts, kgo.Balancers(&balancer{resuming{kgo.CooperativeStickyBalancer()}, s}))
	}
	return opts
}

// Close implements stream.Member.
func (s *member) Close() error {
	s.end(stream.ErrClosed)
	<-s.life.over
	return nil
}

// end ends the member; the first reason counts.
func (s *member) end(reason error) {
	if !s.life.end(reason) {
		return
	}
	s.shares.close()
	go s.leave()
}

// leave leaves the group and releases all resources.
func (s *member) leave() {
	s.life.work.Wait()
	patience, cancel := context.WithTimeout(context.Background(), s.log.opts.Timeouts.Transaction)
	defer cancel()
	// Otherwise the broker aborts it after the transaction timeout.
	_ = s.client.EndTransaction(patience, kgo.TryAbort)
	id, _ := s.client.GroupMetadata()
	_ = s.client.LeaveGroupContext(patience) // as part of Close it would wait for brokers that are down
	switch o := &s.log.opts; {
	case s.instance == "":
	case o.ServerGroups:
		s.leaveServerGroup(patience, id)
	case !o.Stay:
		s.leaveStatic(patience, id)
	}
	s.client.CloseAllowingRebalance()
	s.commits.close()
	if s.held.Load() { // otherwise the next member asks at once
		_ = s.log.wait(context.Background(), heldWait)
	}
	s.log.unregister(s)
	close(s.life.over)
}

const heldWait = time.Second

// leaveStatic removes a static member from its group. The client does not do this.
func (s *member) leaveStatic(ctx context.Context, id string) {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = s.group
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID, m.InstanceID = id, &s.instance
	req.Members = append(req.Members, m)
	_, _ = req.RequestWith(ctx, s.client)
}

// leaveServerGroup tells the brokers that a static member ends, temporarily or for good. Otherwise
// they let no other member use its name until its session times out. The client sends this request
// without the name, and Kafka rejects it.
func (s *member) leaveServerGroup(ctx context.Context, id string) {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.InstanceID, req.MemberEpoch = s.group, id, &s.instance, -1
	if s.log.opts.Stay {
		req.MemberEpoch = -2
	}
	_, _ = req.RequestWith(ctx, s.client)
}

package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/stream"
)

// churn is a group whose members come and go.
type churn struct {
	*testing.T
	rng     *rand.Rand
	options Options
	dirs    []string
	members []*churner // nil where there is none
	states  map[stream.Partition][]map[string]string
	owners  map[stream.Partition]stream.Member // that took over last
	steps   []churnStep
	taken   int
	refused int // commits, and taking over, of members that were removed and did not hear of it
}

// churnStep is a commit, or a take over.
type churnStep struct {
	at     time.Time
	by     string // whom
	beside stream.Partition
	did    string
	keys   map[string]bool // that it changed
	err    error
}

type churner struct {
	log    *Log
	cord   *cord
	member stream.Member
	owned  map[stream.Partition]bool
}

// name names a member as the broker knows its transactions.
func (m *churner) name() string { return m.member.(*member).id }

func (c *churn) start(i int) {
	m := &churner{cord: &cord{}, owned: map[stream.Partition]bool{}}
	o := c.options
	o.Dir, o.dial = c.dirs[i], m.cord.dial
	m.log = openAt(c.T, o).(*Log)
	c.members[i] = m
}

// end closes a process, or kills it first.
func (c *churn) end(i int, kill bool) {
	m := c.members[i]
	if kill {
		m.cord.pull()
	}
	closeLog(c.T, m.log)
	c.members[i] = nil
}

// turn is one of a member's loop. A member that was fenced begins anew.
func (c *churn) turn(m *churner) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), 5*time.Millisecond)
	defer cancel()
	if m.member == nil {
		m.member = mustJoin(c.T, m.log)
	}
	batch, err := m.member.Poll(ctx, 1)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
	}
	for _, p := range batch.Revoked {
		delete(m.owned, p)
	}
	for _, a := range batch.Assigned {
		if err == nil {
			err = c.takeOver(m, a)
		}
	}
	for p := range m.owned {
		if err == nil {
			err = c.commit(m, p)
		}
	}
	if err == nil {
		return
	}
	if !errors.Is(err, stream.ErrFenced) {
		c.Fatal(err)
	}
	if err := m.member.Close(); err != nil {
		c.Fatal(err)
	}
	m.member, m.owned = nil, map[stream.Partition]bool{}
}

// commit changes the state beside p, which one whose partition another took over
// cannot.
func (c *churn) commit(m *churner, p stream.Partition) error {
	c.Helper()
	before := c.states[p][0]
	after, err := change(c.Context(), c.rng, m.member, p, before)
	step := churnStep{time.Now(), m.name(), p, "changed", map[string]bool{}, err}
	for _, key := range differing(before, after) {
		step.keys[key] = true
	}
	c.steps = append(c.steps, step)
	switch {
	case c.owners[p] != m.member:
		if c.refused++; err == nil {
			c.Fatalf("%s committed beside %v, which another took over%s", m.name(), p, c.story(m.log, p, func(string) bool { return true }))
		}
	case err == nil:
		c.states[p] = []map[string]string{after}
	default: // nobody knows
		c.states[p] = append(c.states[p], after)
	}
	return err
}

// takeOver compares a state that was taken over with what was committed. Who was
// removed from the group before it heard of that may be given what another
// changed since: it commits nothing, not even that it is there.
func (c *churn) takeOver(m *churner, a stream.Assigned) error {
	c.Helper()
	p := a.Partition
	err := m.member.Commit(stream.Transaction{Offsets: map[stream.Partition]stream.Offset{p: 0}}).Wait(c.Context())
	c.steps = append(c.steps, churnStep{time.Now(), m.name(), p, "took over", nil, err})
	if err != nil {
		c.refused++
		return err
	}
	m.owned[p], c.owners[p] = true, m.member
	c.taken++
	got := entries(c.T, a.State)
	for _, state := range c.states[p] {
		if maps.Equal(got, state) {
			c.states[p] = []map[string]string{state}
			return nil
		}
	}
	text := ""
	for i, state := range c.states[p] {
		text += fmt.Sprintf("\nof what may have been committed (%d of %d):", i+1, len(c.states[p]))
		for _, key := range differing(state, got) {
			text += fmt.Sprintf("\n%s is %.20q (%d bytes), want %.20q (%d bytes)", key, got[key], len(got[key]), state[key], len(state[key]))
		}
	}
	wrong := differing(c.states[p][0], got)
	c.Fatalf("%s took over a wrong state beside %v%s%s", m.name(), p, text, c.story(m.log, p, func(key string) bool { return slices.Contains(wrong, key) }))
	return nil
}

// story tells what became of some keys beside p: by the steps of the test, and by
// the changelog, with what was aborted.
func (c *churn) story(l *Log, p stream.Partition, of func(key string) bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nthe steps:")
	for i, s := range c.steps {
		if keys := slices.DeleteFunc(slices.Sorted(maps.Keys(s.keys)), func(key string) bool { return !of(key) }); s.beside == p && (s.keys == nil || len(keys) > 0) {
			fmt.Fprintf(&b, "\n%d %s %s %s %v: %v", i, s.at.Format("05.000"), s.by, s.did, keys, s.err)
		}
	}
	changelog := changelogOf("g", p)
	client, err := l.newClient(kgo.FetchIsolationLevel(kgo.ReadUncommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{changelog.Topic: {changelog.Index: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return err.Error()
	}
	defer client.Close()
	end, err := l.reads.listOffset(c.Context(), changelog, latest)
	fmt.Fprintf(&b, "\nthe changelog up to %d (%v):", end, err)
	ctx, cancel := context.WithTimeout(c.Context(), 10*time.Second)
	defer cancel()
	for next := int64(0); next < end && ctx.Err() == nil; {
		for it := client.PollFetches(ctx).RecordIter(); !it.Done(); {
			r := it.Next()
			next = r.Offset + 1
			if r.Attrs.IsControl() || of(strings.TrimPrefix(string(r.Key), string(kindValue))) {
				fmt.Fprintf(&b, "\n%d %s producer %d epoch %d: %q, %d bytes, control %v", r.Offset, r.Timestamp.Format("05.000"), r.ProducerID, r.ProducerEpoch, r.Key, len(r.Value), r.Attrs.IsControl())
			}
		}
	}
	return b.String()
}

// period lets a process come, go or be killed, and another stand still soon after
// or not: it hears late that the group is to share out anew, and that it was
// removed.
func (c *churn) period() {
	c.Helper()
	var still *churner
	if c.rng.IntN(2) == 0 {
		still = c.members[c.rng.IntN(len(c.members))]
	}
	others := func(m *churner) bool { return m != nil && m != still }
	switch i := c.rng.IntN(len(c.members)); {
	case c.members[i] == nil:
		c.start(i)
	case others(c.members[i]) && slices.ContainsFunc(c.members, func(m *churner) bool { return others(m) && m != c.members[i] }):
		c.end(i, c.rng.IntN(2) == 0)
	}
	c.turns(time.Duration(c.rng.IntN(100))*time.Millisecond, nil)
	if still != nil {
		defer still.cord.hold()()
	}
	c.turns(500*time.Millisecond, still)
}

// turns lets all members but one take turns for a while.
func (c *churn) turns(while time.Duration, still *churner) {
	c.Helper()
	for began := time.Now(); time.Since(began) < while; {
		for _, m := range c.members {
			if m != nil && m != still {
				c.turn(m)
			}
		}
	}
}

// Processes come, go, stand still and are killed while partitions move
// and their copies are in the making. Every state that is taken over is that of what was committed.
func TestStatesAreRightWhileMembersComeAndGo(t *testing.T) {
	_, o := fakeCluster(t)
	o.Standbys, o.MaxRecordBytes, o.BufferBytes, o.Stay = 1, 1000, 3000, true
	c := &churn{T: t, rng: newRand(t), options: o, members: make([]*churner, 3), states: map[stream.Partition][]map[string]string{}, owners: map[stream.Partition]stream.Member{}}
	for range c.members {
		c.dirs = append(c.dirs, t.TempDir())
	}
	c.start(0)
	if err := c.members[0].log.CreateTopic(t.Context(), stream.Topic{Name: "in", Partitions: 4}); err != nil {
		t.Fatal(err)
	}
	for i := range int32(4) {
		c.states[stream.Partition{Topic: "in", Index: i}] = []map[string]string{{}}
	}
	for range 12 {
		c.period()
	}
	for i, m := range c.members {
		if m != nil {
			c.end(i, false)
		}
	}
	t.Logf("%d states were taken over, and %d members refused that others had replaced", c.taken, c.refused)
}

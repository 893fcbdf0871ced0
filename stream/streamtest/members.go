package streamtest

import (
	"fmt"

	"github.com/afterbay/afterbay/stream"
)

var memberCases = []testCase{
	{"OneMemberOwnsEveryPartition", oneMemberOwnsAll},
	{"PartitionsAreSharedEvenlyAndNeverTwice", sharedEvenly},
	{"RevokedPartitionStaysUntilTheNextPoll", revokedStays},
	{"AssignedStateIsCaughtUp", assignedIsCaughtUp},
	{"NewAssignmentIsNotPaused", newAssignmentIsNotPaused},
	{"FencedMemberCannotCommit", fencedMemberCannotCommit},
	{"FencedMemberCannotPoll", fencedMemberCannotPoll},
	{"IdleMemberKeepsWhatNobodyWaitsFor", idleMemberKeeps},
	{"LeavingMemberLeavesItsPartitions", leavingMember},
}

func oneMemberOwnsAll(h *harness) {
	ps := h.topic("in", 5)
	m := h.join("g", "in")
	m.own(5)
	for _, p := range ps {
		if a := m.owned[p]; a.Next != 0 || a.State == nil {
			h.Fatalf("%v: %+v", p, a)
		}
	}
}

// untilEven polls the members until they share n partitions evenly. It also checks that no
// partition ever has two owners.
func (h *harness) untilEven(n int, members ...*member) {
	h.Helper()
	even := func() bool {
		total := 0
		owner := map[stream.Partition]int{}
		fair := true
		for i, m := range members {
			for p := range m.owned {
				if other, owned := owner[p]; owned {
					h.Fatalf("members %d and %d own %v", other, i, p)
				}
				owner[p] = i
			}
			total += len(m.owned)
			fair = fair && len(m.revoked) == 0 && len(m.owned) >= n/len(members) && len(m.owned) <= (n+len(members)-1)/len(members)
		}
		return total == n && fair
	}
	for !even() {
		if h.ctx.Err() != nil {
			h.Fatalf("%d members never shared %d partitions evenly", len(members), n)
		}
		for _, m := range members {
			m.poll()
			even()
		}
	}
}

func sharedEvenly(h *harness) {
	const n = 7
	h.topic("in", n)
	one := h.join("g", "in")
	h.untilEven(n, one)
	two := h.join("g", "in")
	h.untilEven(n, one, two)
	three, four := h.join("g", "in"), h.join("g", "in")
	h.untilEven(n, one, two, three, four)
	h.ok(one.Close())
	h.untilEven(n, two, three, four)
	h.ok(three.Close())
	h.ok(four.Close())
	h.untilEven(n, two)
}

// split joins two members of g that own one partition of in each.
func (h *harness) split() (one, two *member) {
	h.Helper()
	one = h.join("g", "in")
	one.own(2)
	two = h.join("g", "in")
	h.untilEven(2, one, two)
	return one, two
}

func revokedStays(h *harness) {
	ins, out := h.topic("in", 2), h.topic("out", 1)[0]
	for _, p := range ins {
		h.append(p, "a")
	}
	one := h.join("g", "in")
	one.receive(2)
	two := h.join("g", "in")
	h.until("revocation", func() bool { return len(one.revoked) == 1 }, one)
	p := one.revoked[0]
	two.poll()
	if len(two.owned) > 0 {
		panic(stalled("a partition had a second owner before the next Poll of its first"))
	}
	one.commit(step(p, 1, records(out, "kept"), "a=1"))
	view := one.owned[p].State
	if value, err := view.Get([]byte("a")); err != nil || string(value) != "1" {
		h.Fatalf("the state of a revoked partition: %q, %v; want 1", value, err)
	}
	two.poll()
	h.untilEven(2, one, two)
	a, owned := two.owned[p]
	if !owned || a.Next != 1 || h.dump(a.State, "") != "a=1" {
		h.Fatalf("%v was assigned (%v) from %d, want from 1 with the records that were committed after it was revoked", p, owned, a.Next)
	}
	two.commit(step(p, 1, records(out, "heir"), "a=2"))
	one.refused(step(p, 1, records(out, "zombie"), "a=3"), stream.ErrFenced)
	h.wantRecords(out, "kept", "heir")
	h.wantState("g", p, "a=2")
}

func assignedIsCaughtUp(h *harness) {
	ins, out := h.topic("in", 2), h.topic("out", 1)[0]
	const rounds = 6
	for _, p := range ins {
		h.append(p, numbers(rounds)...)
	}
	committed := map[stream.Partition]stream.Offset{}
	current := h.join("g", "in")
	current.own(2)
	for round := range stream.Offset(rounds) {
		for _, p := range ins {
			a := current.owned[p]
			want := fmt.Sprintf("round=%d", round)
			if round == 0 {
				want = ""
			}
			if got := h.dump(a.State, ""); a.Next != committed[p] || got != want {
				h.Fatalf("round %d: %v was assigned from %d with %q, want from %d with %q", round, p, a.Next, got, committed[p], want)
			}
			committed[p] = round + 1
		}
		// The case does not wait for this commit: the next owner of the partitions must see it.
		s := step(ins[0], round+1, records(out, fmt.Sprint(round)), fmt.Sprintf("round=%d", round+1))
		s.Offsets[ins[1]] = round + 1
		s.Changes = append(s.Changes, stream.Change{Partition: ins[1], Key: s.Changes[0].Key, Value: s.Changes[0].Value})
		pending := current.Commit(s)
		heir := h.join("g", "in")
		h.untilEven(2, current, heir)
		h.ok(pending.Wait(h.ctx))
		h.ok(current.Close())
		heir.own(2)
		current = heir
	}
	h.wantRecords(out, numbers(rounds)...)
}

func newAssignmentIsNotPaused(h *harness) {
	ps := h.topic("in", 2)
	one := h.join("g", "in")
	one.own(2)
	one.Pause(ps...)
	for _, p := range ps {
		h.append(p, "a")
	}
	two := h.join("g", "in")
	h.untilEven(2, one, two)
	var kept, moved stream.Partition
	for _, p := range ps {
		if _, owned := one.owned[p]; owned {
			kept = p
		} else {
			moved = p
		}
	}
	h.ok(two.Close())
	one.own(2)
	one.receive(1)
	if r := one.records[0]; r.Partition != moved {
		h.Fatalf("polled %v, which was kept and is paused", r.Partition)
	}
	one.Resume(kept)
	one.receive(2)
}

// zombie returns a member that stopped polling when an heir joined, after the heir has taken all
// partitions.
func (h *harness) zombie() (zombie, heir *member, ins []stream.Partition, out stream.Partition) {
	ins, out = h.topic("in", 2), h.topic("out", 1)[0]
	for _, p := range ins {
		h.append(p, "a", "b")
	}
	zombie = h.join("g", "in")
	zombie.receive(4)
	zombie.commit(step(ins[0], 1, records(out, "before"), "a=before"))
	heir = h.join("g", "in")
	heir.own(2)
	return zombie, heir, ins, out
}

func fencedMemberCannotCommit(h *harness) {
	zombie, heir, ins, out := h.zombie()
	late := step(ins[0], 2, records(out, "zombie"), "a=zombie", "zombie=1")
	late.Offsets[ins[1]] = 2
	zombie.refused(late, stream.ErrFenced)
	h.wantRecords(out, "before")
	heir.receive(3) // all records after the committed offsets
	heir.commit(step(ins[0], 2, records(out, "heir"), "a=heir"))
	h.wantError("the zombie's next commit", zombie.Commit(late).Wait(h.ctx), stream.ErrFenced)
	heir.commit(step(ins[1], 1, records(out, "again")))
	h.wantRecords(out, "before", "heir", "again")
	h.wantState("g", ins[0], "a=heir")
	h.wantCommitted("g", ins[0], 2)
	h.wantCommitted("g", ins[1], 1)
}

func fencedMemberCannotPoll(h *harness) {
	zombie, heir, ins, _ := h.zombie()
	_, err := zombie.Poll(h.ctx, 10)
	h.wantError("poll", err, stream.ErrFenced)
	h.ok(zombie.Close())
	again := h.join("g", "in") // as a fenced member should
	h.untilEven(2, heir, again)
	for _, p := range ins {
		owner := heir
		if _, owned := again.owned[p]; owned {
			owner = again
		}
		owner.commit(step(p, 2, nil, "a=1"))
	}
}

// A log must not fence a slow member if no other member waits for its partitions, however long
// others wait for records.
func idleMemberKeeps(h *harness) {
	h.topic("in", 2)
	idle, busy := h.split()
	zombie := h.join("clock", "in")
	zombie.own(2)
	heir := h.join("clock", "in")
	h.until("a rebalance timeout", func() bool { return len(heir.owned) == 2 }, busy, heir)
	for p := range idle.owned {
		if err := idle.Commit(step(p, 0, nil, "a=1")).Wait(h.ctx); err != nil {
			h.Fatalf("the commit of a member without a waiter: %v", err)
		}
	}
}

func leavingMember(h *harness) {
	ps := h.topic("in", 2)
	one, two := h.split()
	for p := range one.owned {
		h.append(p, "a", "b")
	}
	one.receive(2)
	left := one.records[0].Partition
	one.commit(step(left, 1, nil, "a=1"))
	h.ok(one.Close())
	two.own(2)
	two.receive(1)
	if r := two.records[0]; r.Partition != left || r.Offset != 1 || h.dump(two.owned[left].State, "") != "a=1" {
		h.Fatalf("polled %v at %d of %v", r.Partition, r.Offset, ps)
	}
}

package streamtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/stream"
)

var commitCases = []testCase{
	{"CommitIsWhole", commitIsWhole},
	{"NothingIsVisibleBeforeCommit", nothingBeforeCommit},
	{"FailedCommitChangesNothingAndKillsTheMember", failedCommit},
	{"PartitionNotOwnedCannotBeCommitted", partitionNotOwned},
	{"OutputsKeepTheirOrder", outputsKeepOrder},
	{"StepMayLeaveOffsetsWhereTheyAre", unchangedOffsets},
	{"CommitsHappenInOrder", commitsInOrder},
	{"CancelledWaitLetsTheCommitGoOn", cancelledWait},
	{"CommitDoesNotModifyTheStep", stepIsNotModified},
	{"GroupsAreIndependent", groupsAreIndependent},
	{"GroupsLists", groupsLists},
}

// wholeStep returns a transaction with two partitions, two output topics and state of both.
func wholeStep(ins, outs []stream.Partition) stream.Transaction {
	return stream.Transaction{
		Outputs: append(records(outs[0], "x", "y"), records(outs[1], "z")...),
		Changes: []stream.Change{
			{Partition: ins[0], Key: []byte("a"), Value: []byte("1")},
			{Partition: ins[1], Key: []byte("a"), Value: []byte("2")},
		},
		Offsets: map[stream.Partition]stream.Offset{ins[0]: 1, ins[1]: 2},
	}
}

func (h *harness) wantWhole(ins, outs []stream.Partition) {
	h.Helper()
	h.wantRecords(outs[0], "x", "y")
	h.wantRecords(outs[1], "z")
	h.wantState("g", ins[0], "a=1")
	h.wantState("g", ins[1], "a=2")
	h.wantCommitted("g", ins[0], 1)
	h.wantCommitted("g", ins[1], 2)
}

func (h *harness) wantNothing(ins, outs []stream.Partition) {
	h.Helper()
	for _, p := range outs {
		h.wantRecords(p)
	}
	for _, p := range ins {
		h.wantState("g", p, "")
		h.wantCommitted("g", p, 0)
	}
}

func commitIsWhole(h *harness) {
	ins, outs := h.topic("in", 2), h.topic("out", 2)
	h.append(ins[0], "a", "b")
	h.append(ins[1], "c", "d")
	m := h.join("g", "in")
	m.receive(4)
	m.commit(wholeStep(ins, outs))
	h.wantWhole(ins, outs)
	h.ok(m.Close())
	heir := h.join("g", "in")
	heir.own(2)
	heir.receive(1)
	if got := values(heir.records); got != "b" {
		h.Fatalf("polled %s, want b", got)
	}
	for i, p := range ins {
		if a := heir.owned[p]; a.Next != stream.Offset(i+1) || h.dump(a.State, "") != fmt.Sprint("a=", i+1) {
			h.Fatalf("%v was assigned from %d with state %q", p, a.Next, h.dump(a.State, ""))
		}
	}
}

func nothingBeforeCommit(h *harness) {
	ins, outs := h.topic("in", 2), h.topic("out", 2)
	h.append(ins[0], "a")
	h.append(ins[1], "b")
	m := h.join("g", "in")
	m.own(2)
	m.receive(2) // reading commits nothing
	h.wantNothing(ins, outs)
	m.poll()
	h.wantNothing(ins, outs)
	m.commit(wholeStep(ins, outs))
	h.wantWhole(ins, outs)
}

func failedCommit(h *harness) {
	ins, outs := h.topic("in", 2), h.topic("out", 2)
	h.append(ins[0], "a")
	h.append(ins[1], "b", "c")
	m := h.join("g", "in")
	m.receive(3)
	bad := wholeStep(ins, outs)
	bad.Offsets[outs[0]] = 0 // not owned
	m.refused(bad, stream.ErrFenced)
	h.wantNothing(ins, outs)
	h.wantError("the same step", m.Commit(wholeStep(ins, outs)).Wait(h.ctx), stream.ErrFenced)
	h.wantNothing(ins, outs)
	h.ok(m.Close())
	heir := h.join("g", "in")
	heir.receive(3) // nothing was committed, so it starts at 0
	heir.commit(wholeStep(ins, outs))
	h.wantWhole(ins, outs)
}

func partitionNotOwned(h *harness) {
	ins, outs := h.topic("in", 2), h.topic("out", 2)
	for _, foreign := range []stream.Partition{{Topic: "out"}, {Topic: "in", Index: 9}, {Topic: "none"}} {
		m := h.join("g", "in")
		m.own(2)
		bad := wholeStep(ins, outs)
		bad.Offsets[foreign] = 1
		bad.Changes = append(bad.Changes, stream.Change{Partition: foreign, Key: []byte("a"), Value: []byte("3")})
		m.refused(bad, stream.ErrFenced)
		h.ok(m.Close())
		h.wantNothing(ins, outs)
	}
	m := h.join("g", "in") // owns no partition before its first Poll
	m.refused(wholeStep(ins, outs), stream.ErrFenced)
	h.wantNothing(ins, outs)
}

func outputsKeepOrder(h *harness) {
	in := h.topic("in", 1)[0]
	outs := h.topic("out", 3)
	m := h.join("g", "in")
	m.own(1)
	var outputs []stream.Record
	for i, v := range numbers(300) {
		outputs = append(outputs, record(outs[i%3], v))
	}
	m.commit(step(in, 0, outputs))
	for i, p := range outs {
		var want []string
		for n := i; n < 300; n += 3 {
			want = append(want, fmt.Sprint(n))
		}
		h.wantRecords(p, want...)
	}
}

func unchangedOffsets(h *harness) {
	in, out := h.inOut()
	h.append(in, "a", "b")
	m := h.join("g", "in")
	m.receive(2)
	m.commit(step(in, 0, nil, "journal=1")) // before the first commit
	h.wantState("g", in, "journal=1")
	m.commit(step(in, 1, records(out, "first")))
	m.commit(step(in, 1, records(out, "again"), "journal=2"))
	m.commit(step(in, 1, nil))
	h.wantRecords(out, "first", "again")
	h.wantState("g", in, "journal=2")
	h.wantCommitted("g", in, 1)
}

func commitsInOrder(h *harness) {
	in, out := h.inOut()
	const n = 50
	h.append(in, numbers(n)...)
	m := h.join("g", "in")
	m.receive(n)
	var pending *stream.Pending
	for i, v := range numbers(n) {
		next := step(in, stream.Offset(i+1), records(out, v), "last="+v)
		if pending != nil {
			h.ok(pending.Wait(h.ctx))
			if pending.At().IsZero() {
				h.Fatal("a commit was decided at no time")
			}
		}
		pending = m.Commit(next)
	}
	h.ok(pending.Wait(h.ctx))
	h.wantRecords(out, numbers(n)...)
	h.wantState("g", in, fmt.Sprint("last=", n-1))
	h.wantCommitted("g", in, n)
}

func cancelledWait(h *harness) {
	in, out := h.inOut()
	m := h.join("g", "in")
	m.own(1)
	cancelled, cancel := context.WithCancel(h.ctx)
	cancel()
	pending := m.Commit(step(in, 0, records(out, "v")))
	if err := pending.Wait(cancelled); err != nil && !errors.Is(err, context.Canceled) {
		h.Fatalf("wait: %v", err)
	}
	h.ok(pending.Wait(h.ctx))
	h.ok(pending.Wait(cancelled)) // the outcome is known
	h.wantRecords(out, "v")
}

func stepIsNotModified(h *harness) {
	in, _ := h.inOut()
	h.topic("other", 7)
	m := h.join("g", "in")
	m.own(1)
	s := step(in, 0, records(stream.Partition{Topic: "other", Index: stream.ByKey}, "v"), "a=1")
	before := fmt.Sprintf("%#v", s)
	m.commit(s)
	if after := fmt.Sprintf("%#v", s); after != before {
		h.Fatalf("the step was %s and is %s", before, after)
	}
}

func groupsAreIndependent(h *harness) {
	in, out := h.inOut()
	h.append(in, "a", "b")
	one, two := h.join("one", "in"), h.join("two", "in")
	one.receive(2)
	one.commit(step(in, 2, records(out, "one"), "a=1", "b=1"))
	two.receive(2)
	if got := h.dump(two.owned[in].State, ""); got != "" {
		h.Fatalf("group two sees %q", got)
	}
	two.commit(step(in, 1, records(out, "two"), "a=2"))
	h.wantState("one", in, "a=1 b=1")
	h.wantState("two", in, "a=2")
	h.wantCommitted("one", in, 2)
	h.wantCommitted("two", in, 1)
	h.wantRecords(out, "one", "two")
}

func groupsLists(h *harness) {
	in, _ := h.inOut()
	h.wantState("asked", in, "")
	h.wantCommitted("asked", in, 0)
	for _, name := range []string{"b", "c", "a"} {
		m := h.join(name, "in")
		m.own(1)
		if name != "c" {
			m.commit(step(in, 0, nil, "a=1"))
		}
		h.ok(m.Close())
	}
	if got, err := h.inspect.Groups(h.ctx); err != nil || !slices.Equal(got, []string{"a", "b"}) {
		h.Fatalf("groups %v, %v; want those that committed: a, b", got, err)
	}
}

var stateCases = []testCase{
	{"ViewShowsCommittedState", viewShowsCommitted},
	{"ChangesApplyInOrder", changesInOrder},
	{"NilValueDeletesAndEmptyDoesNot", nilDeletes},
	{"GetReturnsCopies", getReturnsCopies},
	{"ScanIsByPrefixInKeyOrder", scanOrder},
	{"ScanIsOfOneMoment", scanIsolation},
}

func viewShowsCommitted(h *harness) {
	in, _ := h.inOut()
	m := h.join("g", "in")
	m.own(1)
	view := m.owned[in].State
	want := func(want string) {
		h.Helper()
		value, err := view.Get([]byte("a"))
		if err != nil || string(value) != want || (value == nil) != (want == "") {
			h.Fatalf("a is %q, %v; want %q", value, err, want)
		}
	}
	want("")
	m.commit(step(in, 0, nil, "a=1"))
	want("1")
	pending := m.Commit(step(in, 0, nil, "a=2"))
	h.ok(pending.Wait(h.ctx))
	want("2")
	m.commit(step(in, 0, nil, "a"))
	want("")
}

func changesInOrder(h *harness) {
	in, _ := h.inOut()
	m := h.join("g", "in")
	m.own(1)
	m.commit(step(in, 0, nil, "a=1", "a=2", "b=1", "b", "c", "c=3"))
	h.wantState("g", in, "a=2 c=3")
	m.commit(step(in, 0, nil, "a", "a=4", "c=5", "c", "never"))
	h.wantState("g", in, "a=4")
}

func nilDeletes(h *harness) {
	in, _ := h.inOut()
	m := h.join("g", "in")
	m.own(1)
	view := m.owned[in].State
	m.commit(step(in, 0, nil, "empty=", "gone=1"))
	m.commit(step(in, 0, nil, "gone"))
	if value, err := view.Get([]byte("empty")); err != nil || value == nil || len(value) != 0 {
		h.Fatalf("the empty value is %#v, %v", value, err)
	}
	if value, err := view.Get([]byte("gone")); err != nil || value != nil {
		h.Fatalf("the deleted value is %#v, %v", value, err)
	}
	h.wantState("g", in, "empty=")
	m.commit(stream.Transaction{
		Changes: []stream.Change{{Partition: in, Key: []byte{}, Value: []byte("of the empty key")}},
		Offsets: map[stream.Partition]stream.Offset{in: 0},
	})
	h.wantState("g", in, "=of the empty key empty=")
}

func getReturnsCopies(h *harness) {
	in, _ := h.inOut()
	m := h.join("g", "in")
	m.own(1)
	m.commit(step(in, 0, nil, "a=1", "b=2"))
	view := m.owned[in].State
	value, err := view.Get([]byte("a"))
	h.ok(err)
	value[0] = 'x'
	for e, err := range view.Scan(nil) {
		h.ok(err)
		e.Key[0], e.Value[0] = 'x', 'x'
	}
	if got := h.dump(view, ""); got != "a=1 b=2" {
		h.Fatalf("state is %q", got)
	}
	h.wantState("g", in, "a=1 b=2")
}

func scanOrder(h *harness) {
	in, _ := h.inOut()
	m := h.join("g", "in")
	m.own(1)
	view := m.owned[in].State
	m.commit(step(in, 0, nil, "b=3", "a/2=2", "a\xff=4", "a/10=1", "a\xff\xff=5", "b/=6", "=0"))
	for prefix, want := range map[string]string{
		"":         "=0 a/10=1 a/2=2 a\xff=4 a\xff\xff=5 b=3 b/=6",
		"a":        "a/10=1 a/2=2 a\xff=4 a\xff\xff=5",
		"a/":       "a/10=1 a/2=2",
		"a\xff":    "a\xff=4 a\xff\xff=5",
		"b":        "b=3 b/=6",
		"c":        "",
		"\xff\xff": "",
	} {
		if got := h.dump(view, prefix); got != want {
			h.Errorf("scan of %q: %q, want %q", prefix, got, want)
		}
	}
	for e := range view.Scan([]byte("a")) {
		if string(e.Key) != "a/10" {
			h.Errorf("first entry is %q", e.Key)
		}
		break // may end early
	}
}

func scanIsolation(h *harness) {
	in, _ := h.inOut()
	m := h.join("g", "in")
	m.own(1)
	m.commit(step(in, 0, nil, "a=1", "b=1", "c=1"))
	var got []string
	for e, err := range m.owned[in].State.Scan(nil) {
		h.ok(err)
		if len(got) == 0 { // commits while the scan stands at its first entry
			m.commit(step(in, 0, nil, "a=2", "b", "c=2", "d=2"))
		}
		got = append(got, string(e.Key)+"="+string(e.Value))
	}
	if got := strings.Join(got, " "); got != "a=1 b=1 c=1" {
		h.Fatalf("scan yielded %q, want the records that were committed when it began", got)
	}
	h.wantState("g", in, "a=2 c=2 d=2")
}

package streamtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/afterbay/afterbay/stream"
)

var tailCases = []testCase{
	{"TailStartsAnywhere", tailStartsAnywhere},
	{"TailWaitsForMore", tailWaits},
	{"TailEndsWithTheContextsError", tailEndsWithContext},
	{"TailSeesCommittedRecordsOnly", tailSeesCommitted},
	{"TailBelowFirstOffsetIsTrimmed", tailBelowFirst},
	{"TailsAreIndependent", tailsAreIndependent},
}

func tailStartsAnywhere(h *harness) {
	in, _ := h.inOut()
	all := numbers(10)
	h.append(in, all...)
	for from := range all {
		if got := values(h.tail(in, stream.Offset(from), 10-from)); got != values(records(in, all[from:]...)) {
			h.Fatalf("tail from %d: %s", from, got)
		}
	}
}

func tailWaits(h *harness) {
	in, _ := h.inOut()
	const n = 50
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() {
		for _, v := range numbers(n) {
			if err := h.Append(h.ctx, record(in, v)); err != nil {
				h.Error(err)
			}
		}
	})
	if got := values(h.tail(in, 0, n)); got != values(records(in, numbers(n)...)) {
		h.Fatalf("tail: %s", got)
	}
	wait.Go(func() {
		if err := h.Append(h.ctx, records(in, numbers(5)...)...); err != nil {
			h.Error(err)
		}
	})
	h.tail(in, n+3, 2) // from after the end
}

func tailEndsWithContext(h *harness) {
	in, _ := h.inOut()
	h.append(in, "a", "b")
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	seen := 0
	var last error
	for _, err := range h.Tail(ctx, in, 0) {
		if last != nil {
			h.Fatal("tail went on after an error")
		}
		if last = err; err == nil {
			if seen++; seen == 2 {
				var wait sync.WaitGroup
				defer wait.Wait()
				wait.Go(cancel) // while the tail waits, or before
			}
		}
	}
	if seen != 2 {
		h.Fatalf("tail yielded %d records, want 2", seen)
	}
	h.wantError("tail", last, context.Canceled)
	last = nil
	for _, err := range h.Tail(ctx, in, 2) {
		last = err
	}
	h.wantError("tail of a context that was done", last, context.Canceled)
}

func tailSeesCommitted(h *harness) {
	in, out := h.inOut()
	other := h.topic("other", 1)[0]
	m := h.join("g", "in")
	m.own(1)
	bad := step(in, 1, records(out, "never"), "a=1")
	bad.Offsets[other] = 0 // not owned
	m.refused(bad, stream.ErrFenced)
	h.append(out, "marker")
	h.wantRecords(out, "marker")
}

func tailBelowFirst(h *harness) {
	in, _ := h.inOut()
	h.append(in, "a")
	yielded := 0
	for _, err := range h.Tail(h.ctx, in, -1) {
		yielded++
		h.wantError("tail", err, stream.ErrTrimmed)
	}
	if yielded != 1 {
		h.Fatalf("tail yielded %d times", yielded)
	}
}

func tailsAreIndependent(h *harness) {
	ps := h.topic("in", 2)
	const n = 100
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			next := 0
			for r, err := range h.Tail(h.ctx, ps[i%2], 0) {
				if err != nil || string(r.Value) != fmt.Sprint(next) {
					h.Errorf("tail %d: %q, %v; want %d", i, r.Value, err, next)
					return
				}
				if next++; next == n {
					return
				}
			}
		})
	}
	for _, v := range numbers(n) {
		h.append(ps[0], v)
		h.append(ps[1], v)
	}
	wait.Wait()
}

var pollCases = []testCase{
	{"PollReturnsRecordsOnceInOrder", pollReturnsOnce},
	{"PollWaitsForRecords", pollWaits},
	{"PollKeepsItsLimit", pollKeepsLimit},
	{"PollTakesTurnsAmongPartitions", pollTakesTurns},
	{"PollReadsAllTopicsOfTheGroup", pollReadsTopics},
	{"PolledBytesStayValid", polledBytesStay},
	{"CancelledPollDoesNotHarmTheMember", cancelledPoll},
	{"WakeEndsThePollUnderWayOrTheNext", wakeEndsPoll},
	{"DecidedCommitEndsPoll", decidedCommitEndsPoll},
	{"PausedPartitionsReturnNothingUntilResume", pauseAndResume},
	{"PauseIgnoresWhatIsNotOwned", pauseIgnores},
}

func pollReturnsOnce(h *harness) {
	in, _ := h.inOut()
	h.append(in, "0", "1", "2")
	m := h.join("g", "in")
	m.receive(3)
	m.commit(step(in, 1, nil)) // 1 and 2 are not committed
	h.append(in, "3", "4")
	m.receive(5)
	m.commit(step(in, 5, nil))
	h.append(in, "5")
	m.receive(6)
	if got := values(m.records); got != "0 1 2 3 4 5" {
		h.Fatalf("polled %s", got)
	}
}

func pollWaits(h *harness) {
	in, _ := h.inOut()
	m := h.join("g", "in")
	m.own(1)
	var wait sync.WaitGroup
	defer wait.Wait()
	wait.Go(func() {
		if err := h.Append(h.ctx, record(in, "late")); err != nil {
			h.Error(err)
		}
	})
	for len(m.records) == 0 {
		_, err := m.pollUntil(h.ctx, 10)
		h.ok(err)
	}
}

func pollKeepsLimit(h *harness) {
	ps := h.topic("in", 3)
	for _, p := range ps {
		h.append(p, numbers(20)...)
	}
	m := h.join("g", "in")
	for len(m.records) < 60 {
		_, err := m.pollUntil(h.ctx, 7) // checks the limit
		h.ok(err)
	}
}

func pollTakesTurns(h *harness) {
	ps := h.topic("in", 4)
	m := h.join("g", "in")
	m.own(4)
	m.Pause(ps...) // until there are records of each
	for _, p := range ps {
		h.append(p, numbers(100)...)
	}
	m.Resume(ps...)
	read := func(p stream.Partition) int { return int(m.next[p]) }
	before := map[stream.Partition]int{} // records read of the furthest partition when the first record of this one came
	for {
		_, err := m.pollUntil(h.ctx, 10)
		h.ok(err)
		most := 0
		for _, p := range ps {
			most = max(most, read(p))
		}
		for _, p := range ps {
			if _, known := before[p]; !known && read(p) > 0 {
				before[p] = most
			}
		}
		if most < 100 {
			continue
		}
		for _, p := range ps {
			if h.remote && (read(p) == 0 || before[p] > 50) {
				panic(stalled(fmt.Sprintf("no records of %v were at hand", p)))
			}
			if read(p) < 25 && !h.remote || read(p) < (100-before[p])/4 {
				h.Fatalf("a partition was read to its end when %v was read to %d", p, read(p))
			}
		}
		return
	}
}

func pollReadsTopics(h *harness) {
	a, b, c := h.topic("a", 1)[0], h.topic("b", 2)[1], h.topic("c", 1)[0]
	for _, p := range []stream.Partition{a, b, c} {
		h.append(p, p.Topic)
	}
	m := h.join("g", "b", "a", "b")
	m.own(3)
	m.receive(2)
	got := []string{string(m.records[0].Value), string(m.records[1].Value)}
	if slices.Sort(got); !slices.Equal(got, []string{"a", "b"}) {
		h.Fatalf("polled %v", got)
	}
}

func polledBytesStay(h *harness) {
	in, _ := h.inOut()
	m := h.join("g", "in")
	const n = 300
	for _, v := range numbers(n) {
		h.append(in, v)
		m.poll()
	}
	m.receive(n)
	if got := values(m.records); got != values(records(in, numbers(n)...)) {
		h.Fatalf("polled %s", got)
	}
}

func cancelledPoll(h *harness) {
	in, _ := h.inOut()
	m := h.join("g", "in")
	m.own(1)
	ctx, cancel := context.WithCancel(h.ctx)
	cancel()
	for {
		if _, err := m.pollUntil(ctx, 10); err != nil {
			h.wantError("poll", err, context.Canceled)
			break
		}
	}
	h.append(in, numbers(20)...)
	for range 30 { // each returns records or an error, and no record is lost
		if _, err := m.pollUntil(ctx, 1); err != nil {
			h.wantError("poll", err, context.Canceled)
		}
	}
	m.receive(20)
	m.commit(step(in, 20, nil))
}

func wakeEndsPoll(h *harness) {
	h.inOut()
	m := h.join("g", "in")
	m.own(1)
	poll := func() {
		h.Helper()
		if batch, err := m.pollUntil(h.ctx, 10); err != nil || len(batch.Records) > 0 {
			h.Fatalf("poll returned %v, %v", batch, err)
		}
	}
	m.Wake()
	poll()
	var wait sync.WaitGroup
	for range 100 {
		wait.Go(m.Wake)
		poll()
		wait.Wait()
	}
	for range 3 { // several calls before a Poll count as one or more
		m.Wake()
	}
	poll()
}

func decidedCommitEndsPoll(h *harness) {
	in, out := h.inOut()
	h.append(in, numbers(20)...)
	m := h.join("g", "in")
	m.receive(20)
	for i := range stream.Offset(20) {
		pending := m.Commit(step(in, i+1, records(out, "v")))
		for done := false; !done; { // whether the commit is decided before the Poll or during it
			_, err := m.pollUntil(h.ctx, 10)
			h.ok(err)
			done = isDone(pending)
		}
		h.ok(pending.Wait(h.ctx))
	}
}

func pauseAndResume(h *harness) {
	ps := h.topic("in", 2)
	m := h.join("g", "in")
	m.own(2)
	m.Pause(ps[0])
	h.append(ps[0], "paused")
	for i, v := range numbers(10) {
		h.append(ps[1], v)
		m.receive(i + 1)
	}
	if got := values(m.records); got != values(records(ps[1], numbers(10)...)) {
		h.Fatalf("polled %s", got)
	}
	m.commit(stream.Transaction{Offsets: map[stream.Partition]stream.Offset{ps[0]: 0, ps[1]: 10}}) // a paused partition is still owned
	m.Pause(ps...)
	h.append(ps[1], "paused")
	m.Wake()
	if batch := m.poll(); len(batch.Records) > 0 {
		h.Fatalf("polled %v", batch)
	}
	m.Resume(ps...)
	m.receive(12)
}

func pauseIgnores(h *harness) {
	in, out := h.inOut()
	m := h.join("g", "in")
	m.Pause(in, out, stream.Partition{Topic: "none"}) // no partition is owned before the first Poll
	h.append(in, "a")
	m.receive(1)
	m.Resume(out)
	h.append(in, "b")
	m.receive(2)
}

var closeCases = []testCase{
	{"CloseEndsMembersAndTails", closeEndsMembers},
	{"MemberCloseDoesNotCommit", memberCloseDoesNotCommit},
}

func closeEndsMembers(h *harness) {
	in, _ := h.inOut()
	m, idle := h.join("g", "in"), h.join("other", "in")
	m.own(1)
	idle.own(1)
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			if _, err := m.Poll(h.ctx, 10); err != nil {
				if !errors.Is(err, stream.ErrClosed) {
					h.Errorf("poll: %v, want %v", err, stream.ErrClosed)
				}
				return
			}
		}
	})
	wait.Go(func() {
		for _, err := range h.Tail(h.ctx, in, 0) {
			if !errors.Is(err, stream.ErrClosed) {
				h.Errorf("tail: %v, want %v", err, stream.ErrClosed)
			}
		}
	})
	h.close()
	wait.Wait()
	_, err := idle.Poll(h.ctx, 10)
	h.wantError("poll", err, stream.ErrClosed)
	h.wantError("commit", idle.Commit(step(in, 0, nil)).Wait(h.ctx), stream.ErrClosed)
	h.wantError("append", h.Append(h.ctx, record(in, "a")), stream.ErrClosed)
	_, err = h.Join(h.ctx, "g", "in")
	h.wantError("join", err, stream.ErrClosed)
	h.ok(idle.Close())
}

func memberCloseDoesNotCommit(h *harness) {
	in, _ := h.inOut()
	h.append(in, "a", "b")
	m := h.join("g", "in")
	m.receive(2)
	m.commit(step(in, 1, nil, "a=1"))
	h.ok(m.Close())
	_, err := m.Poll(h.ctx, 10)
	h.wantError("poll", err, stream.ErrClosed)
	h.wantError("commit", m.Commit(step(in, 2, nil)).Wait(h.ctx), stream.ErrClosed)
	h.wantCommitted("g", in, 1)
	next := h.join("g", "in")
	next.receive(1)
	if got := values(next.records); got != "b" {
		h.Fatalf("polled %s, want b", got)
	}
}

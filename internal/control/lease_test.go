package control_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/afterbay/afterbay/internal/control"
)

func TestWorkerHoldsTenTokensForFiveSeconds(t *testing.T) {
	l := must(control.NewLeases[int](control.LeaseOptions{}))
	lease := l.Grant(dawn, "a")
	if diff := cmp.Diff(control.Lease{Fence: 1, Unused: 10, Expires: dawn.Add(5 * time.Second)}, lease); diff != "" {
		t.Fatal(diff)
	}
	if got := l.Grant(dawn, "a"); got.Unused != 10 || got.Fence != 1 {
		t.Errorf("granted again: %+v", got)
	}
	if got := l.Grant(dawn, "b"); got.Unused != 6 || got.Fence != 2 {
		t.Errorf("another worker: %+v, of 16 tokens", got)
	}
	if got := l.Grant(dawn, "c"); got != (control.Lease{}) {
		t.Errorf("a third worker: %+v", got)
	}
	if at, ok := l.Next(); !ok || !at.Equal(dawn.Add(5*time.Second)) {
		t.Errorf("the next lapses at %v, %v", at, ok)
	}
	if got := l.Expire(dawn.Add(5*time.Second - 1)); got != nil {
		t.Errorf("lapsed early: %+v", got)
	}
	if got := l.Expire(dawn.Add(5 * time.Second)); len(got) != 2 || got[0].Worker != "a" || got[1].Worker != "b" || got[0].Events != nil {
		t.Errorf("lapsed: %+v", got)
	}
	if _, ok := l.Next(); ok {
		t.Error("a lease is left")
	}
}

func TestAnswerOfAnExpiredWorkerIsRefusedAndItsEventsGoAgain(t *testing.T) {
	l := must(control.NewLeases[string](control.LeaseOptions{}))
	l.Grant(dawn, "a")
	first, _ := l.Send(dawn, "a", "x")
	second, _ := l.Send(dawn, "a", "y")
	now := dawn.Add(5 * time.Second)
	if _, ok := l.Send(now, "a", "z"); ok {
		t.Error("an event goes to a worker that is due to lapse")
	}
	if got := l.Grant(now, "a"); got.Fence != 0 {
		t.Errorf("a lease that is due to lapse is granted tokens: %+v", got)
	}
	want := []control.Lapsed[string]{{Worker: "a", Fence: 1, Events: []string{"x", "y"}}}
	if diff := cmp.Diff(want, l.Expire(now)); diff != "" {
		t.Fatal(diff)
	}
	if got := l.Grant(now, "a"); got.Fence != 2 {
		t.Errorf("%+v", got)
	}
	again, _ := l.Send(now, "a", "x")
	for _, late := range []control.Token{first, second, {Fence: 1, Number: again.Number}, {Fence: 2, Number: first.Number}, {}} {
		if _, ok := l.Done(now, late); ok || l.Progress(now, late) {
			t.Errorf("%+v is taken", late)
		}
	}
	if event, ok := l.Done(now, again); !ok || event != "x" {
		t.Errorf("%q, %v", event, ok)
	}
	if _, ok := l.Done(now, again); ok {
		t.Error("a second answer is taken")
	}
	if got := l.Stats(); got.Refused != 6 || got.Lapsed != 1 || got.Expired != 10 || got.Consumed != 1 {
		t.Errorf("%+v", got)
	}
}

func TestProgressKeepsALease(t *testing.T) {
	l := must(control.NewLeases[int](control.LeaseOptions{}))
	l.Grant(dawn, "a")
	now := dawn.Add(4 * time.Second)
	slow, _ := l.Send(now, "a", 1) // the first event: the worker owed nothing before
	if at, _ := l.Next(); !at.Equal(now.Add(5 * time.Second)) {
		t.Errorf("lapses %v after dawn", at.Sub(dawn))
	}
	quick, _ := l.Send(now.Add(time.Second), "a", 2) // no progress
	if at, _ := l.Next(); !at.Equal(now.Add(5 * time.Second)) {
		t.Errorf("lapses %v after dawn", at.Sub(dawn))
	}
	now = now.Add(4 * time.Second)
	l.Done(now, quick)
	if at, _ := l.Next(); !at.Equal(now.Add(5 * time.Second)) {
		t.Errorf("an answer: lapses %v after dawn", at.Sub(dawn))
	}
	now = now.Add(4 * time.Second)
	if !l.Progress(now, slow) {
		t.Error("progress is refused")
	}
	if got := l.Expire(now.Add(5*time.Second - 1)); got != nil {
		t.Errorf("%+v", got)
	}
	if got := l.Expire(now.Add(5 * time.Second)); len(got) != 1 || !slices.Equal(got[0].Events, []int{1}) {
		t.Errorf("%+v", got)
	}
}

// dispatching does to leases what a dispatcher can, in any order, with answers
// that come late, twice, or never.
type dispatching struct {
	options control.LeaseOptions
	leases  *control.Leases[int]
	now     time.Time
	total   int
	sent    []control.Token // ever
	event   map[control.Token]int
	holds   map[control.Token]string // by worker, until done or lapsed
	newest  uint64
	events  int
	refused uint64
}

func (d *dispatching) worker(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "worker")
}

func (d *dispatching) token(t *rapid.T) (token control.Token, held bool) {
	if len(d.sent) == 0 {
		t.Skip()
	}
	token = rapid.SampledFrom(d.sent).Draw(t, "token")
	_, held = d.holds[token]
	return token, held
}

func (d *dispatching) grant(t *rapid.T) {
	w, held := d.worker(t), 0
	for _, of := range d.holds {
		if of == w {
			held++
		}
	}
	free := d.leases.Stats().Free
	lease := d.leases.Grant(d.now, w)
	if lease.Fence > d.newest+1 || lease.Unused+held > d.options.Each || d.leases.Stats().Free < min(free, 0) {
		t.Fatalf("%+v", lease)
	}
	d.newest = max(d.newest, lease.Fence)
}

func (d *dispatching) send(t *rapid.T) {
	w := d.worker(t)
	d.events++
	if token, ok := d.leases.Send(d.now, w, d.events); ok {
		if _, twice := d.event[token]; twice || token.Fence > d.newest {
			t.Fatalf("%+v", token)
		}
		d.sent = append(d.sent, token)
		d.event[token], d.holds[token] = d.events, w
	}
}

func (d *dispatching) done(t *rapid.T) {
	token, held := d.token(t)
	got, ok := d.leases.Done(d.now, token)
	if ok != held || ok && got != d.event[token] {
		t.Fatalf("%+v: %d, %v; held %v", token, got, ok, held)
	}
	if delete(d.holds, token); !ok {
		d.refused++
	}
}

func (d *dispatching) expire(t *rapid.T) {
	at, some := d.leases.Next()
	lapsed := d.leases.Expire(d.now)
	if (len(lapsed) > 0) != (some && !d.now.Before(at)) {
		t.Fatalf("%+v lapsed; the next was due %v, %v", lapsed, at.Sub(d.now), some)
	}
	for i, end := range lapsed {
		if i > 0 && end.Fence <= lapsed[i-1].Fence {
			t.Fatalf("lease %d after %d", end.Fence, lapsed[i-1].Fence)
		}
		var want []int
		for _, token := range d.sent {
			if _, held := d.holds[token]; held && token.Fence == end.Fence {
				want = append(want, d.event[token])
				delete(d.holds, token)
			}
		}
		if !slices.Equal(end.Events, want) {
			t.Fatalf("%v go again, want %v", end.Events, want)
		}
	}
}

func TestTokensAreConserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := control.LeaseOptions{Tokens: rapid.IntRange(1, 30).Draw(t, "tokens"), Each: rapid.IntRange(1, 12).Draw(t, "each")}
		l := must(control.NewLeases[int](o))
		d := &dispatching{options: o, leases: l, now: dawn, total: o.Tokens, event: make(map[control.Token]int), holds: make(map[control.Token]string)}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				s := l.Stats()
				if s.Free+s.Unused+s.Sent != d.total || s.Tokens != d.total || s.Sent != len(d.holds) || s.Refused != d.refused {
					t.Fatalf("%+v, %d tokens, %d held, %d refused", s, d.total, len(d.holds), d.refused)
				}
				if s.Granted != s.Returned+s.Consumed+s.Expired+uint64(s.Unused+s.Sent) {
					t.Fatalf("%+v", s)
				}
			},
			"wait": func(t *rapid.T) {
				d.now = d.now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
			},
			"progress": func(t *rapid.T) {
				if token, held := d.token(t); l.Progress(d.now, token) != held {
					t.Fatalf("%+v, held %v", token, held)
				}
			},
			"return": func(t *rapid.T) { l.Return(d.worker(t)) },
			"resize": func(t *rapid.T) {
				d.total = rapid.IntRange(0, 30).Draw(t, "tokens")
				l.Resize(d.total)
			},
			"grant": d.grant, "send": d.send, "done": d.done, "expire": d.expire,
		})
	})
}

func TestFewerTokensAreKeptAsTheyComeBack(t *testing.T) {
	l := must(control.NewLeases[int](control.LeaseOptions{Tokens: 8}))
	l.Grant(dawn, "a")
	var tokens []control.Token
	for i := range 8 {
		token, _ := l.Send(dawn, "a", i)
		tokens = append(tokens, token)
	}
	l.Resize(2)
	for i, token := range tokens[:7] {
		if got := l.Grant(dawn, "b"); (got.Unused > 0) != (i >= 7) {
			t.Fatalf("%+v with %d of 2 out", got, 8-i)
		}
		l.Done(dawn, token)
	}
	if got := l.Grant(dawn, "b"); got.Unused != 1 {
		t.Errorf("%+v with 1 of 2 out", got)
	}
}

func TestUnusedTokensGoBack(t *testing.T) {
	l := must(control.NewLeases[int](control.LeaseOptions{Tokens: 10}))
	l.Grant(dawn, "a")
	token, _ := l.Send(dawn, "a", 1)
	l.Return("a")
	l.Return("nobody")
	if got := l.Grant(dawn, "b"); got.Unused != 9 {
		t.Errorf("%+v", got)
	}
	if _, ok := l.Send(dawn, "a", 2); ok {
		t.Error("a token that was returned is spent")
	}
	if event, ok := l.Done(dawn, token); !ok || event != 1 {
		t.Errorf("the event that it held: %d, %v", event, ok)
	}
	if _, ok := l.Next(); !ok {
		t.Error("the lease of b is gone")
	}
}

func ExampleLeases() {
	leases, err := control.NewLeases[string](control.LeaseOptions{})
	if err != nil {
		panic(err)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	leases.Grant(now, "worker 1")
	token, _ := leases.Send(now, "worker 1", "event 17")

	now = now.Add(5 * time.Second) // nothing is heard of it
	for _, lapsed := range leases.Expire(now) {
		fmt.Println(lapsed.Worker, "lost", lapsed.Events)
	}
	_, ok := leases.Done(now, token)
	fmt.Println("its answer is taken:", ok)
	// Output:
	// worker 1 lost [event 17]
	// its answer is taken: false
}

func TestLeasesLapseInTheOrderOfTheirFences(t *testing.T) {
	l := must(control.NewLeases[int](control.LeaseOptions{Each: 1}))
	for worker := range 16 {
		l.Grant(dawn, fmt.Sprint(worker))
	}
	for i, lapsed := range l.Expire(dawn.Add(time.Minute)) {
		if lapsed.Fence != uint64(i+1) {
			t.Errorf("lease %d lapses at place %d", lapsed.Fence, i+1)
		}
	}
}

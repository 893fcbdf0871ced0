package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// patience is how long something is waited for: a busy machine takes long.
const patience = 5 * time.Minute

// until polls the condition, with whom waiting for it meanwhile.
func until(t *testing.T, what string, met func() bool, polling ...stream.Member) {
	t.Helper()
	for deadline := time.Now().Add(patience); !met(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long until %s", what)
		}
		if len(polling) == 0 {
			<-timeLimit(t, 5*time.Millisecond).Done()
		}
		for _, s := range polling {
			if _, err := s.Poll(timeLimit(t, 5*time.Millisecond), 1); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
	}
}

// warmed reports whether n copies of the log lack nothing.
func warmed(l *Log, n int) func() bool {
	return func() bool {
		list := l.Standbys()
		return len(list) == n && list[0].Behind == 0
	}
}

func mustJoin(t *testing.T, l *Log) stream.Member {
	t.Helper()
	s, err := l.Join(t.Context(), "g", "in")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// restoreStarts notes where the reading of changelogs by owners begins, by
// partition, while it is on.
type restoreStarts struct {
	mu    sync.Mutex
	on    bool
	first map[int32]int64
}

func watchRestores(cluster *kfake.Cluster) *restoreStarts {
	r := &restoreStarts{first: map[int32]int64{}}
	cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		f := req.(*kmsg.FetchRequest)
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.on || f.MaxWaitMillis != int32(fetchWait/time.Millisecond) {
			return nil, nil, false
		}
		for _, topic := range f.Topics {
			for _, p := range topic.Partitions {
				if _, ok := r.first[p.Partition]; !ok {
					r.first[p.Partition] = p.FetchOffset
				}
			}
		}
		return nil, nil, false
	})
	return r
}

// change commits random changes beside p, values small and in parts and none, and
// returns what the state is then, also where the commit fails.
func change(ctx context.Context, rng *rand.Rand, s stream.Member, p stream.Partition, state map[string]string) (map[string]string, error) {
	after := maps.Clone(state)
	step := stream.Transaction{Offsets: map[stream.Partition]stream.Offset{p: 0}}
	for range 1 + rng.IntN(4) {
		key := fmt.Sprint("key", rng.IntN(60))
		value := bytes.Repeat([]byte{byte('a' + rng.IntN(26))}, 1+rng.IntN(30)*rng.IntN(120))
		if after[key] = string(value); rng.IntN(4) == 0 {
			value = nil
			delete(after, key)
		}
		step.Changes = append(step.Changes, stream.Change{Partition: p, Key: []byte(key), Value: value})
	}
	return after, s.Commit(step).Wait(ctx)
}

// differing returns the keys that have another value in b than in a.
func differing(a, b map[string]string) []string {
	keys := map[string]bool{}
	for key, value := range a {
		if other, ok := b[key]; !ok || other != value {
			keys[key] = true
		}
	}
	for key := range b {
		if _, ok := a[key]; !ok {
			keys[key] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// entries returns a whole state.
func entries(t *testing.T, view stream.View) map[string]string {
	t.Helper()
	all := map[string]string{}
	for e, err := range view.Scan(nil) {
		if err != nil {
			t.Fatal(err)
		}
		all[string(e.Key)] = string(e.Value)
	}
	return all
}

// A process is killed. The one that kept its state warm has its partition, not
// one that was there before, with the state of an uncrashed run, for the reading
// of what came last.
func TestStandbyTakesOver(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	cluster, o := fakeCluster(t)
	o.MaxRecordBytes, o.BufferBytes = 1000, 3000
	o.Timeouts.Session, o.Timeouts.Transaction = 3*time.Second, 10*time.Second // nobody else is to be lost where the machine is busy
	restores := watchRestores(cluster)
	kill := &cord{}
	dying := o
	dying.dial, dying.Standbys = kill.dial, 1
	s, _ := mustOwn(t, open(t, dying))
	state := map[string]string{}
	commits := func(n int) {
		t.Helper()
		for range n {
			var err error
			if state, err = change(t.Context(), rng, s, in, state); err != nil {
				t.Fatal(err)
			}
		}
	}
	commits(200)
	var idle []stream.Member
	for range 2 {
		idle = append(idle, mustJoin(t, open(t, o)))
	}
	o.Standbys = 1
	warm := open(t, o)
	heir := mustJoin(t, warm)
	all := append(idle, heir)
	until(t, "there is a warm copy", warmed(warm, 1), append(all, s)...)
	commits(20)
	copied, err := warm.store.local("g", in)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the copy has most", func() bool { return copied.usable() > 400 }, append(all, s)...)
	had := copied.usable()
	restores.mu.Lock()
	restores.on = true
	restores.mu.Unlock()
	kill.pull()
	until(t, "somebody owns the partition", func() bool { return owned(heir) || owned(idle[0]) || owned(idle[1]) }, all...)
	if !owned(heir) {
		t.Fatal("a process without a copy took over")
	}
	restores.mu.Lock()
	defer restores.mu.Unlock()
	if first, ok := restores.first[0]; ok && first < had {
		t.Errorf("the changelog was read from %d on, and the copy had all before %d", first, had)
	}
	if got := entries(t, copied.space); !maps.Equal(got, state) {
		t.Errorf("the state has other values of %v", differing(state, got))
	}
	if len(warm.Standbys()) > 0 {
		t.Errorf("%+v of a partition that it owns", warm.Standbys())
	}
}

// owned reports whether Poll gave the member a partition.
func owned(s stream.Member) bool {
	m := s.(*member).shares
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.all, func(sh *share) bool { return sh.given && !sh.revoked })
}

// What is not committed is in no copy, and neither is what was aborted.
func TestStandbyHasNothingUncommitted(t *testing.T) {
	_, o := fakeCluster(t)
	o = patient(o)
	o.Standbys = 1
	s, _ := mustOwn(t, open(t, o))
	commit(t, s, 0, "a", []byte("1"))
	warm := open(t, o)
	idle := mustJoin(t, warm)
	until(t, "the copy is warm", warmed(warm, 1), s, idle)
	late, err := warm.newClient(kgo.TransactionalID("late"))
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	copied, err := warm.store.local("g", in)
	if err != nil {
		t.Fatal(err)
	}
	changelog := changelogOf("g", in)
	for _, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		if err := late.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			r := &kgo.Record{Topic: changelog.Topic, Partition: changelog.Index, Key: []byte("va"), Value: []byte("2")}
			if err := late.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		until(t, "the standby sees that there is more", func() bool {
			list := warm.Standbys()
			return len(list) == 1 && list[0].Behind == 3
		}, s, idle)
		wantValue(t, copied.space, "a", []byte("1"))
		if err := late.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
		until(t, "the copy is warm", warmed(warm, 1), s, idle)
	}
	wantValue(t, copied.space, "a", []byte("2"))
	if err := idle.Close(); err != nil {
		t.Fatal(err)
	}
	idle = mustJoin(t, warm) // another member goes on with the copy
	until(t, "the copy is warm", warmed(warm, 1), s, idle)
}

// Who is told to stand by for what it still owns leaves it alone.
func TestStandbyLeavesTheOwnersStateAlone(t *testing.T) {
	o := conforming(fake(t))
	l := open(t, o)
	s, a := mustOwn(t, l)
	m := s.(*member)
	m.standbys.set(duty{"in": {0}})
	for i := range 50 {
		key := fmt.Sprint(i)
		commit(t, s, 0, key, []byte("1"))
		wantValue(t, a.State, key, []byte("1"))
		<-timeLimit(t, 5*time.Millisecond).Done()
	}
	if len(l.Standbys()) > 0 {
		t.Errorf("%+v of what it owns", l.Standbys())
	}
	copied, err := l.store.local("g", in)
	if err != nil {
		t.Fatal(err)
	}
	if copied.others(m.shares.all[0]) {
		t.Error("the owner may not change its state")
	}
}

// holdStandbys makes the fetches of standbys hang while it is on.
func holdStandbys(cluster *kfake.Cluster) *atomic.Bool {
	var hold atomic.Bool
	cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if r := req.(*kmsg.FetchRequest); hold.Load() && r.MaxWaitMillis == 0 {
			cluster.SleepControl(func() {
				for hold.Load() {
					runtime.Gosched()
				}
			})
		}
		return nil, nil, false
	})
	return &hold
}

// behind joins a log whose standby is warm, and holds it up while what does.
func behind(t *testing.T, o Options, hold *atomic.Bool, s stream.Member, what func(*Log)) (*Log, *local) {
	t.Helper()
	l := open(t, o)
	idle := mustJoin(t, l)
	until(t, "the copy is warm", warmed(l, 1), s, idle)
	copied, err := l.store.local("g", in)
	if err != nil {
		t.Fatal(err)
	}
	hold.Store(true)
	what(l)
	hold.Store(false)
	return l, copied
}

// wantStored checks a value in the copy of in.
func wantStored(t *testing.T, l *Log, key, want string) {
	t.Helper()
	copied, err := l.store.local("g", in)
	if err != nil {
		t.Fatal(err)
	}
	wantValue(t, copied.space, key, []byte(want))
}

// A changelog that let go of what a copy needs next, or that was made anew, makes
// the copy begin anew.
func TestStandbyOfAnotherChangelogBeginsAnew(t *testing.T) {
	for _, how := range []string{"trimmed", "made anew"} {
		t.Run(how, func(t *testing.T) {
			cluster, o := fakeCluster(t)
			hold := holdStandbys(cluster)
			o = patient(o)
			o.Standbys = 1
			l := open(t, o)
			s, _ := mustOwn(t, l)
			commit(t, s, 0, "old", []byte("1"))
			changelog := changelogOf("g", in)
			warm, copied := behind(t, o, hold, s, func(*Log) {
				if how == "made anew" {
					deleteTopic(t, l, changelog.Topic)
					if err := cluster.CreateTopic(changelog.Topic, 1, nil); err != nil {
						t.Fatal(err)
					}
				} else {
					for range 5 {
						commit(t, s, 0, "more", []byte("1"))
					}
					end, err := l.reads.listOffset(t.Context(), changelog, latest)
					if err != nil {
						t.Fatal(err)
					}
					deleteBefore(t, l, changelog, end)
				}
				for range 9 { // an offset that the copy had before
					r := &kgo.Record{Topic: changelog.Topic, Partition: changelog.Index, Key: []byte("vlater"), Value: []byte("2")}
					if _, err := l.topics.refresh(t.Context(), changelog.Topic); err != nil {
						t.Fatal(err)
					}
					client, err := l.newClient()
					if err != nil {
						t.Fatal(err)
					}
					if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
						t.Fatal(err)
					}
					client.Close()
				}
			})
			until(t, "the copy began anew", func() bool {
				value, err := copied.space.Get([]byte("later"))
				return err == nil && value != nil && warmed(warm, 1)()
			})
			wantValue(t, copied.space, "old", nil)
		})
	}
}

func deleteTopic(t *testing.T, l *Log, name string) {
	t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = kmsg.StringPtr(name)
	req.Topics, req.TopicNames = append(req.Topics, topic), append(req.TopicNames, name)
	resp, err := req.RequestWith(t.Context(), l.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func deleteBefore(t *testing.T, l *Log, p stream.Partition, offset int64) {
	t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic = p.Topic
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Partition, part.Offset = p.Index, offset
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(t.Context(), l.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A standby that heard nothing for so long that compaction may have forgotten
// deletions begins anew.
func TestStandbyOlderThanTombstonesBeginsAnew(t *testing.T) {
	for _, age := range []time.Duration{time.Hour, 700 * time.Millisecond} {
		t.Run(age.String(), func(t *testing.T) {
			cluster, o := fakeCluster(t)
			forgets := map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "0", "min.cleanable.dirty.ratio": "0"}
			if err := cluster.CreateTopic(changelogOf("g", in).Topic, 1, forgets); err != nil {
				t.Fatal(err)
			}
			hold := holdStandbys(cluster)
			o = patient(o)
			o.Standbys = 1
			s, _ := mustOwn(t, open(t, o))
			for _, key := range []string{"first", "deleted", "left"} {
				commit(t, s, 0, key, []byte("1"))
			}
			o.State.RebuildAfter = age
			warm, copied := behind(t, o, hold, s, func(l *Log) {
				commit(t, s, 0, "deleted", nil)
				commit(t, s, 0, "left", []byte("2"))
				commit(t, s, 0, "other", []byte("2"))
				for range 3 {
					cluster.Compact()
				}
				if age < time.Hour {
					<-timeLimit(t, age).Done()
				}
				if err := l.store.purge(); err != nil { // it is the standby's to empty
					t.Fatal(err)
				}
				wantStored(t, l, "left", "1")
			})
			until(t, "the copy is warm", func() bool {
				value, err := copied.space.Get([]byte("other"))
				return err == nil && value != nil && warmed(warm, 1)()
			})
			wantValue(t, copied.space, "left", []byte("2"))
			// The first shows that the danger is real.
			wantValue(t, copied.space, "deleted", map[time.Duration][]byte{time.Hour: []byte("1")}[age])
		})
	}
}

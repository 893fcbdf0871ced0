package sinks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// shelf is an Archive that takes a while, refuses ids that end with "x" and, before
// or after it kept an object, fails as a test says.
type shelf struct {
	*bench
	inspector stream.Inspector // nil is the bench's log
	takes     time.Duration
	form      string
	fails     func(o sink.Object, call int) (before, after error) // nil never

	mu      sync.Mutex // guards what follows
	calls   int
	objects map[string][]string // ids, by group, partition, offsets and form
}

func (s *shelf) Form(before []byte) []byte {
	return append(append(bytes.Clone(before), s.form...), ';')
}

func (s *shelf) Keep(ctx context.Context, o sink.Object, records iter.Seq2[stream.Record, error], refuse sink.Refuse) (int, error) {
	s.mu.Lock()
	s.calls++
	call := s.calls
	s.mu.Unlock()
	s.decided(o)
	var before, after error
	if s.fails != nil {
		before, after = s.fails(o, call)
	}
	select {
	case <-time.After(max(s.takes, 1)): // as service.Deliver
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if before != nil {
		return 0, before
	}
	var ids []string
	for r, err := range records {
		if err != nil {
			return 0, err
		}
		if r.Offset < o.From || r.Offset >= o.To || r.Partition != o.Partition {
			s.Errorf("%v has the record %v@%d", o, r.Partition, r.Offset)
		}
		id := header.Get(&r, header.ID)
		if strings.HasSuffix(id, "x") {
			if err := refuse(&r, errors.New("it ends with x")); err != nil {
				return 0, err
			}
			continue
		}
		ids = append(ids, id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects == nil {
		s.objects = map[string][]string{}
	}
	name := fmt.Sprintf("%s %v %s", o.Group, o, o.Form)
	if there, ok := s.objects[name]; ok && !slices.Equal(there, ids) {
		return 0, fmt.Errorf("%s is another object", name)
	}
	s.objects[name] = ids
	return len(ids), after
}

// decided checks that it is committed that the object is made.
func (s *shelf) decided(o sink.Object) {
	var log stream.Inspector = s.log
	if s.inspector != nil {
		log = s.inspector
	}
	view, err := log.State(s.Context(), o.Group, o.Partition)
	if err != nil {
		s.Error(err)
		return
	}
	data, err := view.Get([]byte{statekey.Object})
	if want := fmt.Sprintf(`"from":%d,"to":%d`, o.From, o.To); err != nil || !strings.Contains(string(data), want) {
		s.Errorf("%v is made, and what is committed is %s, %v", o, data, err)
	}
}

// ids returns those of all objects.
func (s *shelf) ids() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ids := range s.objects {
		list = append(list, ids...)
	}
	slices.Sort(list)
	return list
}

func (s *shelf) names() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, ids := range s.objects {
		list = append(list, fmt.Sprint(name, " ", len(ids)))
	}
	slices.Sort(list)
	return list
}

func TestObjectsEndByRowsBytesAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{bench: newBench(t), takes: 30 * time.Millisecond, form: "a"}
		for i := range 25 {
			s.write(0, "k", fmt.Sprint("e", i), time.Now())
		}
		metrics, stop := s.startTo(sink.Service{Whole: s}, s.log, sinks.Options{Objects: sink.Bounds{Rows: 10, Bytes: 1000, Wait: time.Minute}})
		time.Sleep(59 * time.Second)
		want := []string{"fraud.freezes freezes/0@0-10 a; 10", "fraud.freezes freezes/0@10-20 a;a; 10"}
		if diff := cmp.Diff(want, s.names()); diff != "" {
			t.Errorf("before the time is over (-want +got):\n%s", diff)
		}
		if n := metrics.Waiting.Load(); n != 5 {
			t.Errorf("%d records wait", n)
		}
		s.wait(5 * time.Second)
		for range 3 {
			s.write(1, "k", strings.Repeat("e", 400), time.Now())
		}
		s.wait(90 * time.Second)
		stop()
		want = append(want, "fraud.freezes freezes/0@20-25 a;a;a; 5", "fraud.freezes freezes/1@0-2 a; 2", "fraud.freezes freezes/1@2-3 a;a; 1")
		if diff := cmp.Diff(want, s.names()); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
		if n := metrics.Delivered.Load(); n != 28 || metrics.Waiting.Load() != 0 || metrics.Calling.Load() != 0 {
			t.Errorf("%d delivered, %d wait, %d calls", n, metrics.Waiting.Load(), metrics.Calling.Load())
		}
	})
}

// TestObjectIsMadeAsItWasDecidedWhateverTheOptionsAreThen stops a process whose
// object could not be kept, and starts one with other bounds and another form.
func TestObjectIsMadeAsItWasDecidedWhateverTheOptionsAreThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{bench: newBench(t), form: "a", fails: func(sink.Object, int) (error, error) { return errors.New("away"), nil }}
		for i := range 8 {
			s.write(0, "k", fmt.Sprint("e", i), time.Now())
		}
		metrics, stop := s.startTo(sink.Service{Whole: s}, s.log, sinks.Options{Objects: sink.Bounds{Rows: 5}})
		time.Sleep(time.Minute)
		stop()
		if metrics.Failures.Load() < 5 || metrics.Delivered.Load() > 0 {
			t.Errorf("%d failures", metrics.Failures.Load())
		}
		s.form, s.fails = "b", nil
		_, stop = s.startTo(sink.Service{Whole: s}, s.log, sinks.Options{Objects: sink.Bounds{Rows: 3}})
		s.wait(time.Minute)
		stop()
		if diff := cmp.Diff([]string{"fraud.freezes freezes/0@0-5 a; 5", "fraud.freezes freezes/0@5-8 a;b; 3"}, s.names()); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
	})
}

func TestObjectsDoNotWaitForMoreWhereNobodyElseDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{bench: newBench(t)}
		for i := range 8 {
			s.write(0, "k", fmt.Sprint("e", i), time.Now())
		}
		begun, hurry := time.Now(), false
		_, stop := s.startTo(sink.Service{Whole: s}, s.log, sinks.Options{Hurry: func() bool { return hurry }})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		hurry = true
		s.wait(time.Minute)
		stop()
		if took := time.Since(begun); took > 15*time.Second || len(s.names()) != 1 {
			t.Errorf("%v after %v", s.names(), took)
		}
	})
}

// TestRecordsThatCannotBeKeptAreOneDeadLetterEach has more of them than are held
// in memory, in objects whose making fails afterwards.
func TestRecordsThatCannotBeKeptAreOneDeadLetterEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{bench: newBench(t)}
		failed := map[string]bool{}
		s.fails = func(o sink.Object, _ int) (before, after error) {
			if s.mu.Lock(); !failed[o.String()] {
				failed[o.String()], after = true, errors.New("a lost answer")
			}
			s.mu.Unlock()
			return nil, after
		}
		const records = 3000
		want := 0
		for i := range records {
			id := fmt.Sprint("e", i)
			if i%2 == 1 {
				id += "x"
				want++
			}
			s.write(0, "k", id, time.Now())
		}
		metrics, stop := s.startTo(sink.Service{Whole: s}, s.log, sinks.Options{Objects: sink.Bounds{Rows: records}})
		s.wait(10 * time.Minute)
		stop()
		letters := map[string]int{}
		for _, r := range s.dead() {
			letters[header.Get(&r, header.Event)]++
			if reason := header.Get(&r, header.Error); reason != "refused: it ends with x" {
				t.Errorf("the reason is %q", reason)
			}
		}
		for id, n := range letters {
			if n != 1 || !strings.HasSuffix(id, "x") {
				t.Errorf("%d dead letters of %s", n, id)
			}
		}
		if len(letters) != want || len(s.ids()) != records-want || len(s.names()) < 2 {
			t.Errorf("%d dead letters, want %d; %d records kept; %v", len(letters), want, len(s.ids()), s.names())
		}
		if metrics.Refused.Load() < uint64(want) {
			t.Errorf("%d refused", metrics.Refused.Load())
		}
	})
}

// TestDeadLettersOfPartitionsThatFillAStepLeaveOthersForTheNext has two partitions
// write more dead letters at once than a step has room for.
func TestDeadLettersOfPartitionsThatFillAStepLeaveOthersForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{bench: newBench(t)}
		const records = 300
		for i := range 2 * records {
			s.write(int32(i%2), "k", fmt.Sprint("e", i, strings.Repeat("-", 6000), "x"), time.Now())
		}
		_, stop := s.startTo(sink.Service{Whole: s}, s.log, sinks.Options{Objects: sink.Bounds{Rows: records}})
		s.wait(time.Minute)
		stop()
		letters := map[string]int{}
		for _, r := range s.dead() {
			letters[header.Get(&r, header.Event)]++
		}
		if len(letters) != 2*records || len(s.dead()) != 2*records {
			t.Errorf("%d dead letters of %d records, want %d", len(s.dead()), len(letters), 2*records)
		}
	})
}

// TestFaultsOfTheLogMakeTheSameObjects keeps records of logs whose commits fail and
// whose partitions move, on a shelf that fails now and then: each is in one object,
// and no two objects have an offset in common.
func TestFaultsOfTheLogMakeTheSameObjects(t *testing.T) {
	counts := streamtest.Counts{}
	for seed := *faultsSeed; seed < *faultsSeed+*faultsSeeds; seed++ {
		synctest.Test(t, func(t *testing.T) { counts.Add(archiveFromFaulty(t, seed)) })
	}
	t.Log(counts)
}

func archiveFromFaulty(t *testing.T, seed uint64) streamtest.Counts {
	rng := rand.New(rand.NewPCG(seed, 8))
	s := &shelf{bench: newBench(t), takes: time.Duration(rng.IntN(300)) * time.Millisecond}
	const records = 600
	var want []string
	for i := range records {
		id := fmt.Sprint("e", i)
		switch {
		case seed%2 == 1 && i%2 == 0: // so many bytes that a step cannot have all
			id += strings.Repeat("-", 6000) + "x"
		case i%17 == 0:
			id += "x"
		default:
			want = append(want, id)
		}
		s.write(int32(rng.IntN(2)), "k", id, time.Now())
	}
	slices.Sort(want)
	s.fails = func(_ sink.Object, call int) (error, error) {
		switch call % 5 {
		case 1:
			return errors.New("away"), nil
		case 2:
			return nil, errors.New("a lost answer")
		}
		return nil, nil
	}
	faulty := streamtest.NewFaulty(s.log, streamtest.FaultyOptions{Seed: seed})
	_, stop := s.startTo(sink.Service{Whole: s}, faulty, sinks.Options{Objects: sink.Bounds{Rows: 1 + rng.IntN(600), Wait: time.Duration(1+rng.IntN(5)) * time.Second}})
	s.wait(2 * time.Hour)
	stop()
	if diff := cmp.Diff(want, s.ids()); diff != "" {
		t.Errorf("seed %d: records kept (-want +got):\n%s", seed, diff)
	}
	letters := map[string]int{}
	for _, r := range s.dead() {
		letters[header.Get(&r, header.Event)]++
	}
	for id, n := range letters {
		if n != 1 {
			t.Errorf("seed %d: %d dead letters of %s", seed, n, id)
		}
	}
	if len(letters) != records-len(want) {
		t.Errorf("seed %d: dead letters of %d records, want %d", seed, len(letters), records-len(want))
	}
	return faulty.Counts()
}

func TestBoundsThatCannotBeAreRefused(t *testing.T) {
	for what, b := range map[string]sink.Bounds{
		"rows": {Rows: -1}, "bytes": {Bytes: 2 << 30}, "wait": {Wait: time.Millisecond},
	} {
		_, err := sinks.New(nil, sink.Service{Whole: &shelf{}}, sinks.Options{Group: "g", Topic: "t", Objects: b}, &sinks.Metrics{})
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// trimmed is a log whose retention removed the first records of each partition.
type trimmed struct{ *memory.Log }

func (l trimmed) Offsets(ctx context.Context, p stream.Partition) (first, next stream.Offset, err error) {
	_, next, err = l.Log.Offsets(ctx, p)
	return min(5, next), next, err
}

func TestObjectsBeginBehindWhatRetentionRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{bench: newBench(t), form: "a"}
		for i := range 12 {
			s.write(0, "k", fmt.Sprint("e", i), time.Now())
		}
		_, stop := s.startTo(sink.Service{Whole: s}, trimmed{s.log}, sinks.Options{Objects: sink.Bounds{Rows: 4, Wait: time.Second}})
		s.wait(time.Minute)
		stop()
		if diff := cmp.Diff([]string{"fraud.freezes freezes/0@5-9 a; 4", "fraud.freezes freezes/0@9-12 a;a; 3"}, s.names()); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
	})
}

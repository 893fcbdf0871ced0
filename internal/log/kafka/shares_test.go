package kafka

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/stream"
)

// A restore may end after its share was released, and when the member has the partition
// again as another share: the first neither keeps the copy nor takes it from the second.
func TestRestoreOfAReleasedShareKeepsNoCopy(t *testing.T) {
	l := open(t, conforming(fake(t)))
	copied, err := l.store.local("g", in)
	if err != nil {
		t.Fatal(err)
	}
	s := newShares("g", 1)
	s.client, err = kgo.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	defer s.client.Close()
	take := func(sh *share) {
		t.Helper()
		if _, err := copied.take(sh, [16]byte{1}, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	ctx, first := s.restore(t.Context(), in, 0)
	s.release(first)
	take(first)
	s.restored(ctx, first, copied)
	if copied.others(nil) {
		t.Error("a share that was released has the copy")
	}
	ctx, first = s.restore(t.Context(), in, 0)
	take(first)
	s.release(first)
	again, second := s.restore(t.Context(), in, 0)
	take(second)
	s.restored(ctx, first, copied)
	s.restored(again, second, copied)
	if copied.others(second) || second.local != copied || first.local != nil {
		t.Error("the share that was released kept or took the copy")
	}
	s.close()
	if copied.others(nil) || s.share(in) != nil {
		t.Error("what is closed has the copy, or gets another share")
	}
}

// Of the reasons to end the first counts, unless a later one says more than that the
// member was fenced. Nothing begins after it.
func TestLifetimeEndsOnce(t *testing.T) {
	first, why := errors.New("first"), errors.New("why")
	for _, reason := range []error{first, stream.ErrFenced} {
		l := newLifetime()
		if l.dead() != nil || !l.end(reason) || l.end(why) || !errors.Is(l.dead(), reason) || l.ctx.Err() == nil {
			t.Errorf("it ended with %v, %v", l.dead(), l.ctx.Err())
		}
		if l.begin(func() { t.Error("work began") }) {
			t.Error("it said that work began")
		}
		l.work.Wait()
		l.explain(why)
		if want := map[error]error{first: first, stream.ErrFenced: why}[reason]; l.dead() != want {
			t.Errorf("the reason is %v, want %v", l.dead(), want)
		}
	}
}

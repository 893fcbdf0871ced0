package lookups

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/afterbay/afterbay/lookup"
)

// book is a source that knows keys whose number is even, refuses those with an x,
// and counts.
type book struct {
	mu    sync.Mutex
	calls [][]string
	now   int // calls under way
	most  int
	pause time.Duration
	err   error
}

func (b *book) Rows(ctx context.Context, keys []string) ([][]byte, error) {
	b.mu.Lock()
	b.calls = append(b.calls, slices.Clone(keys))
	b.now++
	b.most = max(b.most, b.now)
	call := len(b.calls)
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.now--
		b.mu.Unlock()
	}()
	if b.pause > 0 {
		select {
		case <-time.After(b.pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if b.err != nil {
		return nil, b.err
	}
	rows := make([][]byte, len(keys))
	for i, key := range keys {
		if strings.Contains(key, "x") {
			return nil, &lookup.Error{Refused: true, Err: fmt.Errorf("no such key")}
		}
		if (key[len(key)-1]-'0')%2 == 0 {
			rows[i] = fmt.Appendf(nil, `{"of":%q,"call":%d}`, key, call)
		}
	}
	return rows, nil
}

func TestKeysShareCallsAndEqualKeysAreAskedForOnce(t *testing.T) {
	b := &book{}
	f := New(b, Options{Size: 3, Calls: 1})
	found, err := f.Find(t.Context(), []string{"a0", "a1", "a0", "a2", "a3", "a4", "a1"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, one := range found {
		got = append(got, string(one.Row))
	}
	want := []string{`{"of":"a0","call":1}`, "", `{"of":"a0","call":1}`, `{"of":"a2","call":1}`, "", `{"of":"a4","call":2}`, ""}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	if len(b.calls) != 2 || len(b.calls[0]) != 3 || len(b.calls[1]) != 2 {
		t.Errorf("calls %q", b.calls)
	}
	if s := f.Stats(); s != (Stats{Keys: 7, Calls: 2}) {
		t.Errorf("%+v", s)
	}
}

func TestRowsAreKeptForAsLongAsTheyMayBe(t *testing.T) {
	b, now := &book{}, time.Unix(0, 0)
	f := New(b, Options{Keep: time.Minute, Now: func() time.Time { return now }})
	find := func() string {
		found, err := f.Find(t.Context(), []string{"a0", "a1"})
		if err != nil {
			t.Fatal(err)
		}
		return string(found[0].Row) + string(found[1].Row)
	}
	first := find()
	now = now.Add(time.Minute - 1)
	if again := find(); again != first || len(b.calls) != 1 {
		t.Errorf("%s, then %s with %d calls", first, again, len(b.calls))
	}
	now = now.Add(1)
	if later := find(); later == first || len(b.calls) != 2 {
		t.Errorf("%s after a minute, with %d calls", later, len(b.calls))
	}
	if s := f.Stats(); s.Kept != 2 || s.Keys != 6 {
		t.Errorf("%+v", s)
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	const seed = 3
	rng := rand.New(rand.NewPCG(seed, 0))
	b := &book{}
	f := New(b, Options{Keep: time.Hour, KeepBytes: 20_000, Size: 1})
	for i := range 5000 {
		key := fmt.Sprintf("often%d0", rng.IntN(5))
		if i%2 == 0 {
			key = fmt.Sprintf("once%d0", i)
		}
		if _, err := f.Find(t.Context(), []string{key}); err != nil {
			t.Fatal(err)
		}
		if n := f.Stats().Bytes; n > 20_000 {
			t.Fatalf("seed %d: %d bytes are kept", seed, n)
		}
	}
	if s := f.Stats(); s.Kept < 2400 {
		t.Errorf("seed %d: what is used often is not kept: %+v", seed, s)
	}
}

func TestRefusedKeyCostsItsNeighboursNothing(t *testing.T) {
	b := &book{}
	f := New(b, Options{Size: 64})
	keys := make([]string, 64)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%d0", i)
	}
	keys[37] = "x"
	found, err := f.Find(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	for i, one := range found {
		if (i == 37) != (one.Err != nil) || (i == 37) != (one.Row == nil) {
			t.Errorf("key %d: %s %v", i, one.Row, one.Err)
		}
	}
	if len(b.calls) > 13 {
		t.Errorf("%d calls", len(b.calls))
	}
}

func TestSourceThatIsDownIsNoKeysFault(t *testing.T) {
	down := &lookup.Error{Err: errors.New("connection refused")}
	b := &book{err: down}
	found, err := New(b, Options{Size: 2}).Find(t.Context(), []string{"a0", "a2", "a4"})
	if !errors.Is(err, down) {
		t.Error(err)
	}
	for _, one := range found {
		if one.Err != nil {
			t.Error("a key has the error of the source")
		}
	}
	if len(b.calls) > 2 {
		t.Errorf("%d calls: none is repeated by halves", len(b.calls))
	}
}

func TestCallsAreBoundedInNumberAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{pause: 300 * time.Millisecond}
		f := New(b, Options{Size: 1, Calls: 3, Timeout: time.Second})
		var keys []string
		for i := range 9 {
			keys = append(keys, fmt.Sprint("a", i))
		}
		start := time.Now()
		if _, err := f.Find(t.Context(), keys); err != nil || b.most != 3 || time.Since(start) != 900*time.Millisecond {
			t.Errorf("%v, %d calls at once, %v", err, b.most, time.Since(start))
		}
		b.pause = time.Hour
		start = time.Now()
		if _, err := f.Find(t.Context(), keys); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// alone is a source that is asked for one key a call.
type alone struct{ *book }

func (alone) Single() bool { return true }

func TestSourceOfSingleKeysIsAskedForManyAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{pause: time.Second}
		f := New(alone{b}, Options{Size: 50, Calls: 8, Timeout: 2 * time.Second})
		var keys []string
		for i := range f.AtOnce() {
			keys = append(keys, fmt.Sprint("a", i))
		}
		start := time.Now()
		if _, err := f.Find(t.Context(), keys); err != nil || len(keys) != 8 || len(b.calls) != 8 || time.Since(start) != time.Second {
			t.Errorf("%v, %d keys by %d calls in %v", err, len(keys), len(b.calls), time.Since(start))
		}
	})
}

func TestWrongOptionsAreRefused(t *testing.T) {
	err := Options{Size: -1, Keep: -time.Second}.Validate()
	if err == nil || !strings.Contains(err.Error(), "Size is -1") || !strings.Contains(err.Error(), "Keep is -") {
		t.Error(err)
	}
}

// checked is a source that is asked whether it answers.
type checked struct {
	*book
	down error
}

func (c checked) Check(context.Context) error { return c.down }

func TestLookupIsReadyByTheCheckOfItsSource(t *testing.T) {
	for source, want := range map[lookup.Source]error{&book{}: nil, checked{&book{}, nil}: nil, checked{&book{}, context.Canceled}: context.Canceled} {
		if err := NewModel(New(source, Options{}), "").Ready(t.Context()); !errors.Is(err, want) {
			t.Errorf("%T: %v, want %v", source, err, want)
		}
	}
}

package task

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

var (
	sources = []Source{{Topic: "clicks"}, {Topic: "logins"}}
	two     = []int32{2, 1} // partitions of them
)

func take(t *testing.T, s *watermarks, source, watermark string) int64 {
	t.Helper()
	h, err := s.read(source, watermark)
	if err != nil {
		t.Fatal(err)
	}
	return s.take(h)
}

func TestWatermarkIsTheLeastOfAllSourcesThatAreNotIdle(t *testing.T) {
	s := newWatermarks(sources, two)
	for _, c := range []struct {
		source, watermark string
		want              int64
	}{
		{"clicks/0@5", watermarkText(50), never},
		{"clicks/1", watermarkText(70), never},
		{"logins/0", watermarkText(60), 50},
		{"clicks/0@6", watermarkText(90), 60},
		{"logins/0", idleText, 70},
		{"clicks/0", idleText, 70},
		{"clicks/1", idleText, never},
		{"logins/0@9", watermarkText(40), 40},
	} {
		if got := take(t, s, c.source, c.watermark); got != c.want {
			t.Errorf("%s at %s: %d, want %d", c.source, c.watermark, got, c.want)
		}
	}
}

func TestWatermarksAreRestored(t *testing.T) {
	const seed = 11
	rng := rand.New(rand.NewPCG(seed, 0))
	s, stored := newWatermarks(sources, two), map[string][]byte{}
	for range 300 {
		position := []string{"clicks/0", "clicks/1", "logins/0"}[rng.IntN(3)]
		watermark := watermarkText(rng.Int64N(1e9))
		if rng.IntN(5) == 0 {
			watermark = idleText
		}
		want := take(t, s, position, watermark)
		s.changes(func(position string, data []byte) { stored[position] = data })
		again := newWatermarks(sources, two)
		for position, data := range stored {
			if err := again.load(position, data); err != nil {
				t.Fatal(err)
			}
		}
		if got := take(t, again, position, watermark); got != want {
			t.Fatalf("seed %d: %d after a restart, %d without", seed, got, want)
		}
	}
}

func TestRecordsOfOthersAreRefused(t *testing.T) {
	s := newWatermarks(sources, two)
	for _, c := range [][2]string{{"", ""}, {"clicks", watermarkText(1)}, {"clicks/2@1", watermarkText(1)}, {"clicks/-1@1", watermarkText(1)}, {"other/0@1", watermarkText(1)}, {"clicks/0@1", "idle"}, {"clicks/0@1", "noon"}, {"clicks/x@1", watermarkText(1)}} {
		if _, err := s.read(c[0], c[1]); err == nil {
			t.Errorf("source %q, watermark %q: no error", c[0], c[1])
		}
	}
	if err := s.load("clicks/0", []byte("short")); err == nil {
		t.Error("damaged state: no error")
	}
}

func TestWatermarksAreBroadcastEveryTenSeconds(t *testing.T) {
	const second = 1_000_000
	for _, c := range []struct {
		before, after int64
		want          bool
	}{
		{never, never, false}, {never, 0, true}, {0, 9 * second, false}, {0, 10 * second, true}, {9 * second, 11 * second, true},
		{-1, 0, true}, {-10 * second, -1, false}, {-11 * second, -10 * second, true}, {5, 5, false}, {math.MaxInt64 / 2, math.MaxInt64/2 + 11*second, true},
	} {
		if got := broadcasts(c.before, c.after); got != c.want {
			t.Errorf("%d to %d: %v", c.before, c.after, got)
		}
	}
}

func Example_watermarks() {
	s := newWatermarks(sources, []int32{1, 1})
	for _, from := range []string{"clicks/0@0", "logins/0@0"} {
		h, err := s.read(from, watermarkText(5_000_000))
		fmt.Println(s.take(h) != never, err)
	}
	// Output:
	// false <nil>
	// true <nil>
}

package join

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/internal/test/eventtime"
)

// BenchmarkJoin joins an impression and its click, with a commit every 1,000 events.
func BenchmarkJoin(b *testing.B) {
	for _, waiting := range []int{0, 100_000} {
		b.Run(fmt.Sprint("waiting=", waiting), func(b *testing.B) {
			w := newWorld(b, operator.Join{Within: time.Hour, Most: operator.JoinMax{Rows: 1 << 20, Bytes: 1 << 30, Matches: 9}})
			before := heap()
			for i := range waiting {
				w.add(eventtime.Event{Topic: "lefts", Offset: int64(i), Time: int64(i), ID: "waiting", Text: map[string]string{"key": fmt.Sprint("user", i), "on": fmt.Sprint("impression", i)}}, 0)
			}
			w.commit()
			w.commit()
			held := float64(heap() - before - w.stateBytes())
			b.ReportAllocs()
			i := int64(0)
			for b.Loop() {
				l := eventtime.Event{Topic: "lefts", Offset: i, Time: i * 1000, ID: "left", Text: map[string]string{"key": "user", "on": fmt.Sprint(i)}}
				r := l
				r.Topic, r.ID = "rights", "right"
				w.add(l, i*1000)
				w.add(r, i*1000)
				if i++; i%500 == 0 {
					w.commit()
					w.went = nil
				}
			}
			if waiting > 0 {
				b.ReportMetric(held/float64(waiting), "heapB/waiting")
			}
		})
	}
}

// BenchmarkHotKey joins lefts and rights of one key, of which so many wait for the watermark.
func BenchmarkHotKey(b *testing.B) {
	for _, waiting := range []int64{100, 10_000} {
		b.Run(fmt.Sprint("waiting=", waiting), func(b *testing.B) {
			w := newWorld(b, operator.Join{Within: time.Hour, Most: operator.JoinMax{Rows: 1 << 20, Bytes: 1 << 30, Matches: 1 << 20}})
			i := int64(0)
			next := func() {
				at := i * 1000
				l := eventtime.Event{Topic: "lefts", Offset: i, Time: at, ID: "left", Text: map[string]string{"key": "user", "on": "x"}}
				r := l
				r.Topic, r.ID, r.Time = "rights", "right", at+500
				for _, e := range []eventtime.Event{l, r} {
					if err := w.add(e, at-waiting*1000); err != nil {
						b.Fatal(err)
					}
				}
				if i++; i%500 == 0 {
					w.commit()
					w.went = nil
				}
			}
			for i < waiting {
				next()
			}
			b.ReportAllocs()
			for b.Loop() {
				next()
			}
		})
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// stateBytes is about what the state of the test takes.
func (w *world) stateBytes() (n int64) {
	for key, data := range w.state {
		n += int64(len(key)+len(data)) + 64
	}
	return n
}

package dedupe

import (
	"fmt"
	"runtime"
	"testing"
	"time"
	"unsafe"
)

// BenchmarkSeen remembers new ids in a set that is full, and reports the memory
// of each.
func BenchmarkSeen(b *testing.B) {
	for _, most := range []int{10_000, 1_000_000, 10_000_000} {
		set, before := New(Spec{Window: time.Hour, Max: most}), heap()
		id, fill := idOf(), time.Now()
		var longest time.Duration
		for n := range int64(most + most/10) {
			at := time.Now()
			set.Seen(id(n), n, n)
			longest = max(longest, time.Since(at))
		}
		per := float64(time.Since(fill).Nanoseconds()) / float64(most+most/10)
		memory := float64(heap()-before) / float64(most)
		n := int64(most) * 2
		b.Run(fmt.Sprintf("ids=%d/new", most), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				set.Seen(id(n), n, n)
				n++
			}
			b.ReportMetric(memory, "memoryB/id")
			b.ReportMetric(per, "fill-ns/id")
			b.ReportMetric(float64(longest.Microseconds()), "fill-longest-us")
		})
		b.Run(fmt.Sprintf("ids=%d/duplicate", most), func(b *testing.B) {
			b.ReportAllocs()
			k := int64(0)
			for b.Loop() {
				k = (k*6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) & (1<<62 - 1)
				if !set.Seen(id(n-1-k%int64(min(most, 10_000))), n, n) {
					b.Fatal("a duplicate is new")
				}
			}
		})
		runtime.KeepAlive(set)
	}
}

// BenchmarkChanges writes after every ten new ids.
func BenchmarkChanges(b *testing.B) {
	set, id, n, stored := New(Spec{Window: time.Hour, Max: 100_000}), idOf(), int64(0), 0
	b.ReportAllocs()
	for b.Loop() {
		for range 10 {
			set.Seen(id(n), n, n)
			n++
		}
		set.Changes(func(key, value []byte) { stored += len(key) + len(value) })
	}
	b.ReportMetric(float64(stored)/float64(b.N), "stateB/op")
}

// idOf returns a function that makes ids of 20 bytes, each valid until the next.
func idOf() func(n int64) string {
	var text [20]byte
	return func(n int64) string {
		for k := range text {
			text[k] = byte('0' + n%10)
			n /= 10
		}
		return unsafe.String(&text[0], len(text))
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

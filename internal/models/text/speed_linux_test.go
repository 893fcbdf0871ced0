package text

import (
	"syscall"
	"testing"
)

// processor returns the seconds of processor time that the process used.
func processor() float64 {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return float64(r.Utime.Sec+r.Stime.Sec) + float64(r.Utime.Usec+r.Stime.Usec)/1e6
}

// BenchmarkModeration scores texts of 110 characters with 15,442 terms and five
// calibrated classifiers.
func BenchmarkModeration(b *testing.B) {
	m, texts := moderation(b)
	texts = texts[:512]
	scores := make([]float64, len(texts))
	b.ReportAllocs()
	start := processor()
	for b.Loop() {
		if err := m.Score(texts, scores); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(texts))/(processor()-start), "texts/cpu-s")
}

func BenchmarkParse(b *testing.B) {
	data := []byte(readModeration(b).Model)
	start := processor()
	for b.Loop() {
		if _, err := Parse("moderation", data); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((processor()-start)/float64(b.N)*1000, "cpu-ms/op")
}

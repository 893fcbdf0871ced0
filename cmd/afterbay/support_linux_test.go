package main

import (
	"os"
	"syscall"
	"testing"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/models"
	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/model"
)

// ended returns the seconds of processor time of this process and of those that it
// started and that ended.
func ended() (sum float64) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		_ = syscall.Getrusage(who, &r)
		sum += float64(r.Utime.Sec+r.Stime.Sec) + float64(r.Utime.Usec+r.Stime.Usec)/1e6
	}
	return sum
}

// BenchmarkSupport scores rows with the models of examples/support: milliseconds of
// processors a row, with those of the processes that compute, but without their start.
func BenchmarkSupport(b *testing.B) {
	shot, err := os.ReadFile("../../internal/models/ocr/testdata/error.png")
	if err != nil {
		b.Fatal(err)
	}
	call := speech(b, "this is a customer", "my payment failed", "my order number is four three nine eight", "i want a refund", "thanks for your help")
	supportFolder(b)
	write(b, "worker.py", must(b, "", "model", "helper"))
	for _, each := range []struct {
		name string
		row  []byte
	}{
		{"minilm", []byte("my card was declined when I paid for order 10293, what can I do about it?")},
		{"ocr", shot}, {"voice", call}, {"asr", call},
	} {
		b.Run(each.name, func(b *testing.B) {
			manifest, err := config.LoadManifest(each.name+".yaml", fileKinds())
			if err != nil {
				b.Fatal(err)
			}
			manifest.Golden = ""
			rows := model.Rows{BytesWidth: 1, Bytes: [][]byte{each.row}}
			score := func(n int) float64 {
				before := ended()
				m, _, err := models.Verified(b.Context(), &manifest.Manifest, models.Opening{Kinds: fileKinds().Models})
				if err != nil {
					b.Fatal(err)
				}
				scores, texts := make([]float32, m.Info().Scores()), make([][]byte, m.Info().Texts())
				for range n + 3 { // the first are slow
					if err := calling.Ask(b.Context(), m, rows, scores, texts); err != nil {
						b.Fatal(err)
					}
				}
				models.Close(m)
				return ended() - before
			}
			start := score(0)
			b.ResetTimer()
			b.ReportMetric(1000*(score(b.N)-start)/float64(b.N), "cpu-ms/row")
		})
	}
}

package dataset_test

import "testing"

// BenchmarkDataset writes rows of 100,000 events; an operation is all of them.
func BenchmarkDataset(b *testing.B) {
	folder(b, generate(3, 100_000))
	for _, format := range []string{"csv", "parquet"} {
		b.Run(format, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				written(b, options("rows."+format))
			}
			b.ReportMetric(float64(b.N)*100_000/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

package fetch

import (
	"net/http"
	"testing"
)

// BenchmarkFetch brings contents of 1 MB by HTTP from this process, each another one,
// and reads them.
func BenchmarkFetch(b *testing.B) {
	const size = 1 << 20
	for name, dir := range map[string]string{"memory": "", "folder": b.TempDir()} {
		b.Run(name, func(b *testing.B) {
			content, n := make([]byte, size), 0
			to := serve(b, func(w http.ResponseWriter, _ *http.Request) {
				n++
				content[0], content[1], content[2] = byte(n), byte(n>>8), byte(n>>16)
				w.Write(content)
			})
			f, err := New(Options{Plain: true, Private: here, CacheDir: dir, CacheMax: 64 << 20})
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				c, err := f.Fetch(b.Context(), []string{to}, size)
				if err != nil {
					b.Fatal(err)
				}
				if got, err := f.Bytes(b.Context(), c, nil, false); err != nil || len(got) != size {
					b.Fatal(len(got), err)
				}
			}
		})
	}
}

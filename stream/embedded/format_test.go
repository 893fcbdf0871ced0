package embedded

import (
	"bytes"
	"compress/gzip"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var update = flag.Bool("update", false, "write the golden files again")

// TestReleasedFormatOpensForEver opens a log as format 1 wrote it, without its
// checkpoint. Its files are never written again once they were released.
func TestReleasedFormatOpensForEver(t *testing.T) {
	golden := filepath.Join("testdata", "format1")
	if *update {
		fs := vfs.NewMem()
		h := &history{log: newLog(t, crashOptions(fs)), rng: newRand(t)}
		h.run(t, 12)
		h.log.Close()
		for name, path := range map[string]string{"META": "data/META", "first.seg.gz": firstSegment} {
			b, err := readFile(fs, path)
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Ext(name) == ".gz" {
				var zipped bytes.Buffer
				w := gzip.NewWriter(&zipped)
				w.Write(b)
				w.Close()
				b = zipped.Bytes()
			}
			if err := os.WriteFile(filepath.Join(golden, name), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(golden, "dump.txt"), []byte(h.dumps[len(h.dumps)-1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(golden, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	zipped, err := gzip.NewReader(bytes.NewReader(read("first.seg.gz")))
	if err != nil {
		t.Fatal(err)
	}
	segment, err := io.ReadAll(zipped)
	if err != nil {
		t.Fatal(err)
	}
	fs := vfs.NewMem()
	fs.MkdirAll("data/log", 0o755)
	overwrite(t, fs, "data/META", read("META"))
	overwrite(t, fs, firstSegment, segment)
	l := mustOpen(t, crashOptions(fs))
	defer l.Close()
	if got, want := dump(t, l), string(read("dump.txt")); got != want {
		t.Fatalf("read:\n%s\nwant:\n%s", got, want)
	}
}

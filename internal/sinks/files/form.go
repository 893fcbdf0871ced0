package files

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/afterbay/afterbay/internal/event/tabular"
)

// form is the stored format of an object.
type form struct {
	Format   Format    `json:"format"`
	Compress string    `json:"compress,omitempty"`
	Versions []version `json:"versions,omitempty"` // versions of the pipeline, newest first
}

// version holds the columns that one version of the pipeline writes.
type version struct {
	Digest  string   `json:"digest,omitempty"`
	Columns []Column `json:"columns"`
}

// versionsMax is the number of remembered versions. Unwritten records of older versions get the
// columns of the newest.
const versionsMax = 8

// Form implements sink.Archive.
func (a *Archive) Form(before []byte) []byte {
	o := &a.options
	f := form{Format: o.Format, Compress: o.Compress}
	if o.Format == Parquet {
		columns := o.Columns
		if o.Deletes {
			columns = append(slices.Clone(columns), Column{Name: Deleted, Type: "optional bool"})
		}
		f.Versions = []version{{o.Digest, columns}}
		var old form
		if json.Unmarshal(before, &old) == nil { // otherwise the previous form is ignored
			for _, v := range old.Versions {
				if v.Digest != o.Digest && v.Digest != "" && len(f.Versions) < versionsMax {
					f.Versions = append(f.Versions, v)
				}
			}
		}
	}
	text, err := json.Marshal(f)
	if err != nil {
		panic(err) // names and numbers can always be encoded
	}
	return text
}

func readForm(text []byte) (f form, err error) {
	if err = json.Unmarshal(text, &f); err != nil {
		return f, fmt.Errorf("the stored form of an object cannot be read: %w", err)
	}
	if f.Format != NDJSON && (f.Format != Parquet || len(f.Versions) == 0) {
		return f, fmt.Errorf("the stored form of an object is %q, which this version cannot write: finish it with the version that began it", f.Format)
	}
	return f, nil
}

// version returns the index of the version with a digest; 0 if no version has it.
func (f *form) version(digest string) int {
	for i := range f.Versions {
		if f.Versions[i].Digest == digest {
			return i
		}
	}
	return 0
}

func (f *form) ending() string {
	switch {
	case f.Format == Parquet:
		return ".parquet"
	case f.Compress == "gzip":
		return ".ndjson.gz"
	case f.Compress == "zstd":
		return ".ndjson.zst"
	}
	return ".ndjson"
}

// rows returns a writer for the records of a version.
func (f *form) rows(to io.Writer, version int) (rowWriter, error) {
	if f.Format == Parquet {
		t, err := newTyped(f.Versions[version].Columns)
		if err != nil {
			return nil, err
		}
		t.out, err = tabular.NewParquet(to, tabular.Codec(f.Compress), t.schema.Slots)
		return t, err
	}
	switch f.Compress {
	case "gzip":
		z := gzip.NewWriter(to) // writes no timestamp
		return newLines(z, z), nil
	case "zstd":
		z, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1)) // one goroutine, so that the bytes are always the same
		return newLines(z, z), err
	}
	return newLines(to, nil), nil
}

// summed is a writer that also computes a checksum.
type summed struct {
	hash.Hash
	to io.Writer
}

// Write implements io.Writer.
func (s *summed) Write(b []byte) (int, error) {
	n, err := s.to.Write(b)
	_, _ = s.Hash.Write(b[:n]) // never fails
	return n, err
}

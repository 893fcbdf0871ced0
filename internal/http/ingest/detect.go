package ingest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// detectBytes is how much of a source Detect examines.
const detectBytes = 64 << 10

// zstdMemoryMax limits the memory for decompression.
const zstdMemoryMax = 64 << 20

// Detect returns the decompressed text of a source, and its format. It recognises gzip and zstd by
// their first bytes. If format is not "", Detect returns that format. Otherwise the file name
// extension decides: .csv and .tsv are CSV. All other content must be NDJSON. If it is a binary
// file, a JSON array, JSON over several lines, or CSV, the error is a *LineError.
//
// Detect blocks until it has read the first line. The caller closes the source after the last read.
func Detect(source io.Reader, name string, format Format) (io.Reader, Format, error) {
	text, start, err := decompress(source, name)
	if err != nil {
		return nil, "", err
	}
	refuse := func(reason string) (io.Reader, Format, error) {
		return nil, "", &LineError{Name: name, Line: 1, Reason: reason}
	}
	if kind := binaryKind(start); kind != "" {
		return refuse("the file is " + kind + ": write its records as NDJSON, one JSON object a line, or as CSV")
	}
	if format != "" {
		return text, format, nil
	}
	ending := strings.ToLower(name)
	for _, packed := range []string{".gz", ".zst"} {
		ending = strings.TrimSuffix(ending, packed)
	}
	switch filepath.Ext(ending) {
	case ".csv", ".tsv":
		return text, CSV, nil
	}
	if reason := notNDJSON(start); reason != "" {
		return refuse(reason)
	}
	return text, NDJSON, nil
}

// decompress returns the text of a source and its start: the first line, up to detectBytes.
func decompress(source io.Reader, name string) (text *bufio.Reader, start []byte, err error) {
	text = bufio.NewReaderSize(source, detectBytes)
	if start, err = startOf(text, name); err != nil {
		return nil, nil, err
	}
	var unpacked io.Reader
	switch {
	case bytes.HasPrefix(start, []byte{0x1f, 0x8b}):
		unpacked, err = gzip.NewReader(text)
	case bytes.HasPrefix(start, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		unpacked, err = zstd.NewReader(text, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(zstdMemoryMax))
	default:
		return text, start, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("decompress %s: %w", name, err)
	}
	text = bufio.NewReaderSize(unpacked, detectBytes)
	start, err = startOf(text, name)
	return text, start, err
}

// startOf waits for the first line that is not blank, for the end, or for detectBytes.
func startOf(text *bufio.Reader, name string) ([]byte, error) {
	for n := 1; ; n = min(text.Buffered()+1, detectBytes) {
		start, err := text.Peek(n)
		start, _ = text.Peek(max(len(start), text.Buffered()))
		first := bytes.TrimLeft(bytes.TrimPrefix(start, []byte("\uFEFF")), " \t\r\n")
		if err == io.EOF || len(start) == detectBytes || bytes.IndexByte(first, '\n') >= 0 {
			return start, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
}

// binaryKind names the format of a file that does not contain lines of text, or returns "".
func binaryKind(start []byte) string {
	for _, kind := range []struct{ magic, name string }{
		{"PAR1", "Parquet"}, {"Obj\x01", "Avro"}, {"ORC", "ORC"}, {"ARROW1", "Arrow"}, {"PK\x03\x04", "a ZIP archive"},
		{"BZh", "compressed by bzip2"}, {"\xfd7zXZ\x00", "compressed by xz"}, {"\x04\x22\x4d\x18", "compressed by LZ4"},
		{"SQLite format 3\x00", "a SQLite database"}, {"\xff\xfe", "UTF-16"}, {"\xfe\xff", "UTF-16"},
	} {
		if bytes.HasPrefix(start, []byte(kind.magic)) {
			return kind.name
		}
	}
	if bytes.IndexByte(start, 0) >= 0 {
		return "binary"
	}
	return ""
}

// notNDJSON returns why the first line belongs to a format other than NDJSON, or "". A line of no
// known format is a record: the pipeline turns it into a dead letter.
func notNDJSON(start []byte) string {
	line, rest, _ := bytes.Cut(bytes.TrimLeft(bytes.TrimPrefix(start, []byte("\uFEFF")), " \t\r\n"), []byte("\n"))
	line = bytes.TrimSpace(line)
	const hint = ": NDJSON has one JSON object a line. Convert it: "
	switch {
	case len(line) == 0:
	case line[0] == '#' || aYAMLWord.Match(line):
		return "the file is YAML, as pipeline files are: name a file of events, NDJSON with one JSON object a line, or CSV with a header"
	case line[0] == '[' && (len(line) == 1 || bytes.HasPrefix(bytes.TrimLeft(line[1:], " "), []byte("{"))):
		return "the file is a JSON array" + hint + "jq -c '.[]'"
	case line[0] == '{' && len(rest) > 0 && !json.Valid(line) && opensMember(line):
		return "a JSON object goes over several lines" + hint + "jq -c ."
	case line[0] != '{' && line[0] != '[' && !json.Valid(line) && isHeader(line):
		return "the first line looks like the header of a CSV file: read it with --format csv; --format ndjson takes each line as a record"
	}
	return ""
}

// aYAMLWord matches a line of YAML: a key, alone or before a value.
var aYAMLWord = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*:( .*)?$`)

// opensMember reports whether a line ends where an object printed over several lines would break.
func opensMember(line []byte) bool {
	end := line[len(line)-1]
	return len(line) == 1 || end == ',' || end == '{' || end == '['
}

// isHeader reports whether a line has two or more names with the same separator.
func isHeader(line []byte) bool {
	for _, separator := range []byte{',', ';', '\t'} {
		if cells := bytes.Split(line, []byte{separator}); len(cells) > 1 {
			for _, cell := range cells {
				if !isColumn(bytes.Trim(cell, `" `)) {
					return false
				}
			}
			return true
		}
	}
	return false
}

func isColumn(name []byte) bool {
	if len(name) == 0 || len(name) > 100 || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	return bytes.IndexFunc(name, func(r rune) bool { return r < ' ' || strings.ContainsRune(`{}[]()<>"'=!?:`, r) }) < 0
}

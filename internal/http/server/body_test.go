package server_test

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/afterbay/afterbay/internal/http/server"
)

// compress returns text with a coding, written in two parts.
func compress(t testing.TB, coding string, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w interface {
		io.WriteCloser
		Flush() error
	}
	switch coding {
	case "":
		return text
	case server.Gzip:
		w = gzip.NewWriter(&out)
	case server.Deflate:
		w = zlib.NewWriter(&out)
	case server.Zstd:
		w, _ = zstd.NewWriter(&out, zstd.WithWindowSize(8<<20), zstd.WithEncoderConcurrency(1)) // the options are right
	}
	half := len(text) / 2
	for _, part := range [][]byte{text[:half], text[half:]} {
		if _, err := w.Write(part); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// ask sends a body to a handler of a server, without a connection.
func ask(t testing.TB, body []byte, coding string, declared bool, handle http.HandlerFunc) *httptest.ResponseRecorder {
	t.Helper()
	s := server.New(server.Options{Handler: handle})
	var in io.Reader = bytes.NewReader(body)
	if !declared {
		in = io.MultiReader(in)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", in)
	if coding != "" {
		r.Header.Set("Content-Encoding", coding)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if s.Memory().Used() != 0 {
		t.Errorf("%d bytes are not given back", s.Memory().Used())
	}
	return w
}

func whole(w http.ResponseWriter, r *http.Request) {
	text, err := server.ReadBody(r, 16<<20, server.Gzip, server.Zstd)
	answer(w, text, err)
}

func streamed(w http.ResponseWriter, r *http.Request) {
	coding, err := server.Coding(r, server.Gzip, server.Deflate, server.Zstd)
	if err != nil {
		answer(w, nil, err)
		return
	}
	body := server.NewBody(r, coding, 0)
	defer body.Close()
	n, err := io.Copy(io.Discard, body)
	answer(w, fmt.Append(nil, n), err)
}

func answer(w http.ResponseWriter, text []byte, err error) {
	if why, ok := server.AsRefusal(err); ok {
		why.Write(w)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(text)
}

func TestBodiesComeOutAsTheyWere(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, size := range []int{0, 1, 5, 100, 70_000, 3_000_000} {
		text := make([]byte, size)
		for i := range text {
			if i > 200_000 && i%7 > 0 {
				text[i] = text[i-190_000] // a match that lies far back
				continue
			}
			text[i] = "abcdefghijklmnopqrstuvwxyz\n"[random.IntN(27)]
		}
		for _, coding := range []string{"", server.Gzip, server.Zstd} {
			for _, declared := range []bool{true, false} {
				body := compress(t, coding, text)
				if w := ask(t, body, coding, declared, whole); w.Code != http.StatusOK || !bytes.Equal(w.Body.Bytes(), text) {
					t.Errorf("%d bytes, %q: %d with %d bytes %.100s", size, coding, w.Code, w.Body.Len(), w.Body)
				}
				if w := ask(t, body, coding, declared, streamed); w.Code != http.StatusOK || w.Body.String() != fmt.Sprint(size) {
					t.Errorf("a stream of %d bytes, %q: %d %.100s", size, coding, w.Code, w.Body)
				}
			}
		}
	}
	if w := ask(t, nil, server.Zstd, true, whole); w.Code != http.StatusOK || w.Body.Len() > 0 {
		t.Errorf("nothing at all: %d", w.Code)
	}
}

// TestZstdStreamsComeOutAsTheyWere has frames of all kinds: with a window or all content
// as their window, one or many, skippable ones, and matches that lie far back.
func TestZstdStreamsComeOutAsTheyWere(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	text := make([]byte, 4_000_000)
	for i := range text {
		text[i] = "abcdefghijklmnopqrstuvwxyz\n"[random.IntN(27)]
		if back := 1_900_000; i > back && i%5 > 0 {
			text[i] = text[i-back]
		}
	}
	encoder, _ := zstd.NewWriter(nil, zstd.WithWindowSize(8<<20)) // the options are right
	frames := func(sizes ...int) (body []byte, size int) {
		for _, n := range sizes {
			body = encoder.EncodeAll(text[size:size+n], body)
			size += n
		}
		return body, size
	}
	// A later frame of a stream may ask for a large window when enough has come for it.
	early := map[string]bool{"small, then large": true}
	skippable := []byte{0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3}
	for name, sizes := range map[string][]int{"one small": {200}, "one": {3_900_000}, "many small": {100, 300, 70_000}, "small, then large": {100, 2_000_000}, "growing": {150_000, 600_000, 3_000_000}} {
		body, size := frames(sizes...)
		for i, body := range [][]byte{body, append(bytes.Clone(skippable), body...)} {
			for _, declared := range []bool{true, false} {
				if w := ask(t, body, server.Zstd, declared, whole); w.Code != http.StatusOK || !bytes.Equal(w.Body.Bytes(), text[:size]) {
					t.Errorf("%s: %d with %d bytes %.100s", name, w.Code, w.Body.Len(), w.Body)
				}
			}
			w := ask(t, body, server.Zstd, false, streamed)
			if first := sizes[0] > 128<<10 && i == 1; (early[name] || first) && w.Code == http.StatusRequestEntityTooLarge {
				continue
			}
			if w.Code != http.StatusOK || w.Body.String() != fmt.Sprint(size) {
				t.Errorf("a stream of %s: %d %.100s", name, w.Code, w.Body)
			}
		}
	}
}

// TestStreamForgetsWhatItNeedsNoMore has a stream of zstd that is long.
func TestStreamForgetsWhatItNeedsNoMore(t *testing.T) {
	text := make([]byte, 4<<20)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range text {
		text[i] = byte(random.Uint32())
	}
	var need int64
	w := ask(t, compress(t, server.Zstd, text), server.Zstd, false, func(_ http.ResponseWriter, r *http.Request) {
		body := server.NewBody(r, server.Zstd, 0)
		defer body.Close()
		if n, err := io.CopyN(io.Discard, body, int64(len(text))); err != nil {
			t.Errorf("%v after %d bytes", err, n)
		}
		need = server.AccountOf(r.Context()).Need()
	})
	if most := int64(8<<20 + 512<<10); w.Code != http.StatusOK || need > most {
		t.Errorf("%d, %d bytes are charged, more than %d", w.Code, need, most)
	}
}

// TestWindowsOfSmallStreamsCostLittle has frames that ask for more than they need.
func TestWindowsOfSmallStreamsCostLittle(t *testing.T) {
	large := compress(t, server.Zstd, []byte(strings.Repeat("{}\n", 300)))
	alone := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0x80, 0, 1, 0, 0} // a single segment of 8 MiB, empty
	for name, body := range map[string][]byte{"window": large, "single segment": alone} {
		for _, declared := range []bool{true, false} {
			var w *httptest.ResponseRecorder
			if cost := allocated(func() { w = ask(t, body, server.Zstd, declared, streamed) }); cost > 1<<20 {
				t.Errorf("%s of %d bytes: %d, %d bytes were allocated", name, len(body), w.Code, cost)
			}
		}
	}
}

func TestOtherCodingsAreRefused(t *testing.T) {
	for _, coding := range []string{"br", "deflate", "gzip, gzip", "zstd, gzip", "GZIP2"} {
		if w := ask(t, []byte("{}"), coding, true, whole); w.Code != http.StatusUnsupportedMediaType {
			t.Errorf("%s: %d %s", coding, w.Code, w.Body)
		}
	}
	for _, coding := range []string{"gzip", "x-gzip", "zstd"} {
		if w := ask(t, []byte("{}"), coding, true, whole); w.Code != http.StatusBadRequest {
			t.Errorf("no %s: %d %s", coding, w.Code, w.Body)
		}
	}
}

// allocated returns the bytes that f allocates.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestBombsCostLittle sends bodies that decompress to a hundred times their size or more.
func TestBombsCostLittle(t *testing.T) {
	for _, coding := range []string{server.Gzip, server.Zstd} {
		for _, size := range []int{1 << 20, 16 << 20, 64 << 20} {
			body := compress(t, coding, []byte(strings.Repeat("{}\n", size/3)))
			for _, declared := range []bool{true, false} {
				var w *httptest.ResponseRecorder
				cost := allocated(func() { w = ask(t, body, coding, declared, whole) })
				if most := int64(1<<20 + 63*len(body)); w.Code != http.StatusRequestEntityTooLarge || cost > most {
					t.Errorf("%s, %d bytes of %d: %d, %d bytes were allocated, at most %d expected", coding, len(body), size, w.Code, cost, most)
				}
			}
			if w := ask(t, body, coding, true, streamed); w.Code != http.StatusBadRequest && w.Code != http.StatusRequestEntityTooLarge && size > 1<<20 {
				t.Errorf("a stream of %s, %d bytes of %d: %d %s", coding, len(body), size, w.Code, w.Body)
			}
		}
	}
}

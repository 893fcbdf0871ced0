package server_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/afterbay/afterbay/internal/http/server"
)

// places is how many rooms work at a time.
func places() int { return 2 * runtime.GOMAXPROCS(0) }

// noise returns so many bytes that no coding makes smaller.
func noise(n int) []byte {
	text := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(text)
	return text
}

// TestBodiesThatWaitForMemoryRest has streams of zstd wait for their windows while all
// memory is in use.
func TestBodiesThatWaitForMemoryRest(t *testing.T) {
	// A match lies 256 KiB back, and then one 1 MiB: each needs a larger window.
	match := noise(64 << 10)
	first := append(append(bytes.Clone(match), make([]byte, 256<<10)...), match[:32<<10]...)
	text := append(append(bytes.Clone(first), make([]byte, 1<<20)...), match[:32<<10]...)
	encoder, _ := zstd.NewWriter(nil, zstd.WithWindowSize(8<<20)) // the options are right
	body := encoder.EncodeAll(text, nil)
	synctest.Test(t, func(t *testing.T) {
		budget := server.NewBudget(0)
		used, done := make(chan struct{}), make(chan struct{})
		w := newWorld(t, server.Options{Memory: budget, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			room := server.RoomOf(r.Context())
			defer room.Rest()
			switch r.URL.Path {
			case "/use":
				_ = room.Reserve(budget.Bytes() - budget.Used())
				<-done
			case "/want": // before the streams
				_ = room.Reserve(budget.Bytes())
			case "/work":
				_ = room.Work()
			default:
				in := server.NewBody(r, server.Zstd, 0)
				defer in.Close()
				if _, err := io.CopyN(io.Discard, in, int64(len(first))); err != nil {
					t.Error(err)
				}
				<-used
				_, err := io.Copy(io.Discard, in)
				answer(w, nil, err)
			}
		})})
		get := func(path string) *client {
			return w.dial("192.0.2.1").send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		}
		var streams []*client
		for range 3 * places() {
			streams = append(streams, w.dial("192.0.2.1").send(fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body)))
		}
		user := get("/use")
		get("/want")
		began := time.Now()
		close(used)
		if status := get("/work").status(); status != http.StatusOK || time.Since(began) > 0 {
			t.Errorf("%d after %v", status, time.Since(began))
		}
		for _, c := range streams {
			_ = c.status() // that of memory which comes in time, or too late
		}
		if time.Since(began) != 2*time.Second {
			t.Errorf("the streams waited for %v", time.Since(began))
		}
		close(done)
		_ = user.status()
	})
}

// bySmallReads reads little at a time, while its room works.
func bySmallReads(w http.ResponseWriter, r *http.Request) {
	room := server.RoomOf(r.Context())
	defer room.Rest()
	body, err := room.OpenBody(r, 16<<20)
	if err == nil {
		err = room.Work()
	}
	for p := make([]byte, 4<<10); err == nil; {
		_, err = io.ReadFull(body, p)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	answer(w, nil, err)
}

// byWindows reads a stream of gzip as predictions do.
func byWindows(w http.ResponseWriter, r *http.Request) {
	body := server.NewBody(r, server.Gzip, 0)
	defer body.Close()
	_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, body, make([]byte, 64<<10))
	answer(w, nil, err)
}

// TestBodiesQueueSeldom has bodies that are there, so they queue only for what they read
// at once.
func TestBodiesQueueSeldom(t *testing.T) {
	text := noise(1 << 20)
	digits := []byte(hex.EncodeToString(text)) // half as large with a coding
	for name, c := range map[string]struct {
		coding string
		handle http.HandlerFunc
		text   []byte
		most   int
	}{
		"gzip":                 {server.Gzip, whole, text, 24},
		"zstd":                 {server.Zstd, whole, text, 24},
		"gzip of a large text": {server.Gzip, whole, bytes.Repeat(digits, 3), 80},
		"stream of gzip":       {server.Gzip, byWindows, digits, 100}, // and for each Read
		"lines":                {"", bySmallReads, text, 24},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(compress(t, c.coding, c.text)))
				if c.coding != "" {
					r.Header.Set("Content-Encoding", c.coding)
				}
				w, turns := besideOthers(t, c.handle, r)
				t.Logf("%d turns", turns)
				if w.Code != http.StatusOK || turns > c.most {
					t.Errorf("%d, %d turns, at most %d expected: %.100s", w.Code, turns, c.most, w.Body)
				}
			})
		})
	}
}

// besideOthers serves a request beside rooms that work for 20 ms at a time, ten for each
// place, and returns how often it waited for all of them.
func besideOthers(t *testing.T, handle http.HandlerFunc, r *http.Request) (*httptest.ResponseRecorder, int) {
	const each = 20 * time.Millisecond
	done := make(chan struct{})
	s := server.New(server.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			handle(w, r)
			return
		}
		for room := server.RoomOf(r.Context()); ; {
			select {
			case <-done:
				return
			default:
			}
			_ = room.Work()
			time.Sleep(each)
			room.Rest()
		}
	})})
	var others sync.WaitGroup
	for range 10 * places() {
		others.Go(func() {
			s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		})
	}
	synctest.Wait()
	began, w := time.Now(), httptest.NewRecorder()
	s.ServeHTTP(w, r)
	turns := int(time.Since(began) / (10 * each))
	close(done)
	others.Wait()
	return w, turns
}

// TestPaceOfABodyIsByItsBytes has a body that is parsed to ten times its size come with
// 2 Mbit a second.
func TestPaceOfABodyIsByItsBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, server.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p, room := make([]byte, 64<<10), server.RoomOf(r.Context())
			for {
				n, err := io.ReadFull(r.Body, p)
				if err == io.EOF {
					return
				}
				if err = errors.Join(err, room.Take(int64(10*n))); err != nil {
					w.WriteHeader(http.StatusBadRequest)
					return
				}
			}
		})})
		w.uploadSlowly()
	})
}

// TestPlacesEndWithTheirRequests has handlers that panic while they work, and clients that
// leave while they wait.
func TestPlacesEndWithTheirRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		s := server.New(server.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			room := server.RoomOf(r.Context())
			if err := room.Work(); err != nil {
				http.Error(w, err.Error(), http.StatusTeapot)
				return
			}
			if strings.HasPrefix(r.URL.Path, "/panic") {
				panic(http.ErrAbortHandler)
			}
			<-hold
			room.Rest()
		})})
		serve := func(ctx context.Context, path string) int {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil))
			return w.Code
		}
		for range 3 * places() {
			func() {
				defer func() { _ = recover() }()
				serve(t.Context(), "/panic")
			}()
		}
		for range places() {
			go serve(t.Context(), "/")
		}
		synctest.Wait()
		ctx, leave := context.WithTimeout(t.Context(), time.Minute)
		defer leave()
		began := time.Now()
		if status := serve(ctx, "/"); status != http.StatusTeapot || time.Since(began) != time.Minute {
			t.Errorf("%d after %v", status, time.Since(began))
		}
		close(hold)
		synctest.Wait()
		if status := serve(t.Context(), "/"); status != http.StatusOK {
			t.Error(status)
		}
	})
}

func TestWithoutAServerThereIsAllMemory(t *testing.T) {
	room := server.RoomOf(t.Context())
	if err := errors.Join(room.Take(1<<40), room.Reserve(1<<40), room.Work()); err != nil || server.AccountOf(t.Context()).Need() != 0 {
		t.Error(err)
	}
	room.Give(1)
	room.Close()
}

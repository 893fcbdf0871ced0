package serving

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/model"
)

// split returns the records of a body, each as its line and text or fault.
func split(s splitter, body string, bytewise bool, most int) []string {
	w := newWindow(strings.NewReader(body), most)
	if bytewise {
		w.body = iotest.OneByteReader(w.body)
	}
	var records []string
	for {
		r, ok := s.next(w)
		switch {
		case ok && r.fault != "":
			records = append(records, fmt.Sprintf("%d!%s", r.line, r.fault))
			s.again(w, r)
		case ok:
			records = append(records, fmt.Sprintf("%d:%s", r.line, r.text))
		case w.eof:
			return records
		default:
			if err := w.fill(); err != nil {
				panic(err)
			}
		}
		if ok && r.fatal {
			return records
		}
	}
}

// TestSplittingDoesNotDependOnReads splits random bodies read byte by byte and at
// once.
func TestSplittingDoesNotDependOnReads(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pieces := []string{"a", "\"", ",", "\n", "\r\n", "{", "}", "[", "]", "\\", " ", "\xef\xbb\xbf", "\"\"", ",\"", "\",", strings.Repeat("x", 40)}
	for range 5_000 {
		var b strings.Builder
		for range random.IntN(30) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		for name, make := range map[string]func() splitter{
			"lines":    func() splitter { return &lines{} },
			"cells":    func() splitter { return &cellLines{} },
			"elements": func() splitter { return &elements{} },
		} {
			whole, bytewise := split(make(), b.String(), false, 1<<20), split(make(), b.String(), true, 1<<20)
			if strings.Join(whole, "\x00") != strings.Join(bytewise, "\x00") {
				t.Fatalf("%s of %q: at once %q, bytewise %q", name, b.String(), whole, bytewise)
			}
			split(make(), b.String(), true, 20) // ends
		}
	}
}

func TestStrayQuoteCostsOneLine(t *testing.T) {
	got := split(&cellLines{}, "1,2\n\"3,4\n5,6\n7,8\n", false, 1<<20)
	if want := []string{"1:1,2", "2!a quote is not closed", "3:5,6", "4:7,8"}; strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%q, want %q", got, want)
	}
	got = split(&cellLines{}, "\"a\nb\",2\n3,\"\"\"x\n\n\"\"\"\n", false, 1<<20)
	if want := []string{"1:\"a\nb\",2", "3:3,\"\"\"x\n\n\"\"\""}; strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestCellsAreThoseOfEncodingCSV writes random rows with encoding/csv, and reads them
// back.
func TestCellsAreThoseOfEncodingCSV(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pieces := []string{"a", "\"", ",", "\n", " ", "1.5", "\u00e9", "\"\""}
	var body strings.Builder
	out := csv.NewWriter(&body)
	var want []string
	for range 5000 {
		cells := make([]string, 1+random.IntN(4))
		for i := range cells {
			for range random.IntN(5) {
				cells[i] += pieces[random.IntN(len(pieces))]
			}
		}
		cells[0] += "x" // no row is blank
		want = append(want, strings.Join(cells, "\x00"))
		if err := out.Write(cells); err != nil {
			t.Fatal(err)
		}
	}
	out.Flush()
	w, s, c := newWindow(strings.NewReader(body.String()), 1<<20), &cellLines{}, &cells{}
	for i := 0; ; {
		r, ok := s.next(w)
		if !ok && w.eof {
			if i != len(want) {
				t.Errorf("%d rows, want %d", i, len(want))
			}
			return
		}
		if !ok {
			if err := w.fill(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if fault := c.split(r.text); fault != "" || r.fault != "" {
			t.Fatalf("row %d, %q: %s%s", i, r.text, fault, r.fault)
		}
		var got []string
		for _, one := range c.cells {
			got = append(got, string(one.text))
		}
		if strings.Join(got, "\x00") != want[i] {
			t.Fatalf("row %d: %q, want %q", i, got, want[i])
		}
		i++
	}
}

// gated is a model of one number whose calls wait for a gate.
type gated struct {
	gate  chan struct{}
	calls atomic.Int64
}

func (g *gated) Info() model.Info {
	return model.Info{Inputs: model.Numbers(1), Outputs: []model.Output{{Size: 1}}, Batch: model.Policy{Size: 100}}
}

func (g *gated) Check([]float64, [][]byte) error { return nil }

func (g *gated) Predict(_ context.Context, rows model.Rows, scores []float32) error {
	g.calls.Add(1)
	<-g.gate
	for i, v := range rows.Values {
		scores[i] = 2 * float32(v)
	}
	return nil
}

// TestRequestsShareCalls keeps all calls that run at once busy, and lets the requests
// that wait go in one.
func TestRequestsShareCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gated{gate: make(chan struct{})}
		m, err := newServed(Named{Name: "g", Model: g})
		if err != nil {
			t.Fatal(err)
		}
		atOnce := runtime.GOMAXPROCS(0)
		var group sync.WaitGroup
		for i := range atOnce + 20 {
			group.Go(func() {
				said, err := m.score(t.Context(), model.Rows{Width: 1, Values: []float64{float64(i)}, N: 1}, &server.Room{})
				if err != nil || said.Scores[0] != 2*float32(i) {
					t.Errorf("request %d: %v, %v", i, said, err)
				}
			})
			synctest.Wait()
		}
		close(g.gate)
		group.Wait()
		if n := g.calls.Load(); n != int64(atOnce)+1 {
			t.Errorf("%d calls", n)
		}
	})
}

func TestBacklogKeepsOrderThroughItsFile(t *testing.T) {
	pool := &spillPool{dir: t.TempDir(), each: 8 << 20, all: 8 << 20}
	b := newBacklog(pool)
	var want, got strings.Builder
	piece := []byte(strings.Repeat("x", 1000))
	for i := range 4000 {
		line := fmt.Appendf(nil, "%d %s\n", i, piece)
		want.Write(line)
		if err := b.put(line); err != nil {
			t.Fatal(err)
		}
		if i == 2000 { // some are read while there is a file
			for range 5 {
				p, err := b.take(nil, false)
				if err != nil {
					t.Fatal(err)
				}
				got.Write(p)
				b.advance(len(p), nil)
			}
		}
	}
	b.last([]byte("end\n"))
	for {
		p, err := b.take(nil, true)
		if err != nil {
			t.Fatal(err)
		}
		if p == nil {
			break
		}
		got.Write(p)
	}
	if got.String() != want.String()+"end\n" {
		t.Errorf("%d bytes came of %d, or in another order", got.Len(), want.Len())
	}
	b.close()
	if pool.used.Load() != 0 {
		t.Errorf("%d bytes of files are still counted", pool.used.Load())
	}
}

func TestFilesOfAllStreamsAreBounded(t *testing.T) {
	pool := &spillPool{dir: t.TempDir(), each: 8 << 20, all: 1 << 20}
	one, other := &spill{pool: pool}, &spill{pool: pool}
	if !one.put(make([]byte, 700<<10)) || other.put(make([]byte, 700<<10)) {
		t.Error("two files have more than all may have")
	}
	one.close()
	if !other.put(make([]byte, 700<<10)) {
		t.Error("what a file had is not given back")
	}
	other.close()
}

// TestNextMessageWaitsForTheAnswer reads messages as gRPC does, which holds all that it
// can read.
func TestNextMessageWaitsForTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(strings.Repeat("\x00\x00\x00\x00\x01x", 3)))
		r = framed(t.Context(), r, 10)
		var read atomic.Int32
		done := make(chan error, 1)
		go func() {
			message := make([]byte, 6)
			for {
				if _, err := io.ReadFull(r.Body, message); err != nil {
					done <- err
					return
				}
				read.Add(1)
			}
		}()
		for want := range int32(2) {
			if synctest.Wait(); read.Load() != want+1 {
				t.Errorf("%d messages were read, %d answered", read.Load(), want)
			}
			if want == 0 {
				answered(r.Context())
			}
		}
		_ = r.Body.Close() // as gRPC does at the end of a call
		if err := <-done; err == nil || errors.Is(err, io.EOF) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestNumbersOfTensorsAreCharged has the elements of a JSON array take 8 bytes each, also
// in the last slice that they outgrew.
func TestNumbersOfTensorsAreCharged(t *testing.T) {
	const n = 1000
	server.New(server.Options{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		in := tensor{name: "input", datatype: "FP32", shape: []int64{n}}
		if err := in.setJSON([]byte("["+strings.Repeat("1,", n-1)+"1]"), server.RoomOf(r.Context())); err != nil {
			t.Error(err)
		}
		if need := server.AccountOf(r.Context()).Need(); need < int64((8+4)*cap(in.numbers)) {
			t.Errorf("%d bytes are charged for a slice of %d numbers", need, cap(in.numbers))
		}
	})}).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil))
}

package serving_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/afterbay/afterbay/internal/http/serving"
	"github.com/afterbay/afterbay/model"
)

const streamPath = "/v1/models/sum:predict-stream"

// connect opens a connection and sends the head of a request.
func connect(t testing.TB, url, contentType, more string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\n%s\r\n", streamPath, contentType, more); err != nil {
		t.Fatal(err)
	}
	return conn
}

// answer reads the head of a response.
func answer(t testing.TB, conn net.Conn) *http.Response {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return response // whose body ends with the connection
}

func sendChunk(t testing.TB, conn net.Conn, text string) {
	t.Helper()
	if _, err := fmt.Fprintf(conn, "%x\r\n%s\r\n", len(text), text); err != nil {
		t.Fatal(err)
	}
}

// TestEachRecordIsAnsweredWhileTheBodyIsOpen plays ping-pong: a server that waits
// for the next record, or some time, before it flushes never answers.
func TestEachRecordIsAnsweredWhileTheBodyIsOpen(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{})
	for _, contentType := range []string{"text/csv; header=absent", "text/csv", ndjson} {
		conn := connect(t, url, contentType, "Transfer-Encoding: chunked\r\n")
		row := "1,2,3,4\n"
		switch contentType {
		case ndjson:
			row = "[1,2,3,4]\n"
		case "text/csv":
			sendChunk(t, conn, "a,b,c,d\n")
		}
		sendChunk(t, conn, row)
		lines := bufio.NewScanner(answer(t, conn).Body)
		for i := range 200 {
			if i > 0 {
				sendChunk(t, conn, row)
			}
			if want := fmt.Sprintf(`{"index":%d,"prediction":10}`, i); !lines.Scan() || lines.Text() != want {
				t.Fatalf("%s: %q, %v; want %s", contentType, lines.Text(), lines.Err(), want)
			}
		}
		sendChunk(t, conn, "")
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), `{"done":true,"records":200,"ok":200,`) {
			t.Errorf("%s: %q, %v", contentType, lines.Text(), lines.Err())
		}
	}
}

// patient is a model whose calls wait for more rows for as long as one may.
type patient struct{ sum }

func (m *patient) Info() model.Info {
	info := m.sum.Info()
	info.Batch = model.Policy{Size: 8, Wait: time.Hour}
	return info
}

func TestNothingIsWaitedForWhereNothingIsOnItsWay(t *testing.T) {
	url := start(t, []serving.Named{{Name: "sum", Model: &patient{}}}, serving.ServerOptions{})
	idle := connect(t, url, ndjson, "Transfer-Encoding: chunked\r\n") // has sent nothing
	answer(t, idle)
	wantLines(t, "a stream", stream(t, url+streamPath, ndjson, "[1,2,3,4]\n"), `{"index":0,"prediction":10}`, `{"done":true,"records":1,"ok":1,"errors":0,"model":"sum@1"}`)
	response, text := ask(t, http.MethodPost, url+"/v2/models/sum/infer", `{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]}`)
	if response.StatusCode != 200 {
		t.Errorf("%s: %s", response.Status, text)
	}
}

// slow is a model whose calls wait for the gate.
type slow struct {
	sum
	gate chan struct{}
}

func (m *slow) Info() model.Info {
	info := m.sum.Info()
	info.Batch.Size = 8
	return info
}

func (m *slow) Predict(ctx context.Context, rows model.Rows, scores []float32) error {
	<-m.gate
	return m.sum.Predict(ctx, rows, scores)
}

// TestAnswersOfASlowModelComeAsTheyAreComputed sends all rows at once.
func TestAnswersOfASlowModelComeAsTheyAreComputed(t *testing.T) {
	m := &slow{gate: make(chan struct{})}
	url := start(t, []serving.Named{{Name: "sum", Model: m}}, serving.ServerOptions{})
	body := strings.Repeat("1,2,3,4\n", 24)
	conn := connect(t, url, "text/csv; header=absent", fmt.Sprintf("Content-Length: %d\r\n", len(body)))
	if _, err := io.WriteString(conn, body); err != nil {
		t.Fatal(err)
	}
	m.gate <- struct{}{}
	lines := bufio.NewScanner(answer(t, conn).Body)
	for i := range 8 {
		if want := fmt.Sprintf(`{"index":%d,"prediction":10}`, i); !lines.Scan() || lines.Text() != want {
			t.Fatalf("%q, %v; want %s", lines.Text(), lines.Err(), want)
		}
	}
	close(m.gate)
	for lines.Scan() && !strings.Contains(lines.Text(), "done") {
	}
	if want := `{"done":true,"records":24,"ok":24,"errors":0,"model":"sum@1"}`; lines.Text() != want {
		t.Errorf("%s, want %s", lines.Text(), want)
	}
}

// TestNoInputIsLostToTheFirstAnswer holds where a server without full duplex throws
// 262,144 bytes of the body away when it flushes for the first time.
func TestNoInputIsLostToTheFirstAnswer(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{})
	const rows = 300_000
	body, client := io.Pipe()
	go func() {
		out := bufio.NewWriter(client)
		for i := range rows {
			fmt.Fprintf(out, "%d,0,0,0\n", i)
		}
		client.CloseWithError(out.Flush())
	}()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+streamPath, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "text/csv; header=absent")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	checkRows(t, response, rows)
}

// checkRows reads the answers to rows of which row i has the sum i.
func checkRows(t testing.TB, response *http.Response, rows int) {
	t.Helper()
	lines, n := bufio.NewScanner(response.Body), 0
	var want []byte
	for ; n < rows && lines.Scan(); n++ {
		want = append(strconv.AppendInt(append(want[:0], `{"index":`...), int64(n), 10), `,"prediction":`...)
		want = append(strconv.AppendFloat(want, float64(n), 'g', -1, 32), '}')
		if !bytes.Equal(lines.Bytes(), want) {
			t.Fatalf("row %d: %s, want %s", n, lines.Bytes(), want)
		}
	}
	if n != rows || !lines.Scan() || !strings.HasPrefix(lines.Text(), fmt.Sprintf(`{"done":true,"records":%d,"ok":%d,`, rows, rows)) {
		t.Fatalf("%d rows of %d, then %q, %v", n, rows, lines.Text(), lines.Err())
	}
	if lines.Scan() || lines.Err() != nil {
		t.Fatalf("after the end: %q, %v", lines.Text(), lines.Err())
	}
	if got := response.Trailer.Get("X-Afterbay-Records"); got != strconv.Itoa(rows) {
		t.Errorf("trailer X-Afterbay-Records is %q", got)
	}
}

// bodyOf returns rows of CSV, of which row i has the sum i.
func bodyOf(rows int) []byte {
	var body bytes.Buffer
	for i := range rows {
		fmt.Fprintf(&body, "%d,0,0,0\n", i)
	}
	return body.Bytes()
}

// TestClientThatReadsLastGetsEveryLine sends all before it reads anything, as most
// clients in Python do: a server that waits for it to read waits for ever.
func TestClientThatReadsLastGetsEveryLine(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{})
	const rows = 1_000_000
	body := bodyOf(rows)
	conn := connect(t, url, "text/csv; header=absent", fmt.Sprintf("Content-Length: %d\r\n", len(body)))
	if _, err := conn.Write(body); err != nil {
		t.Fatal(err)
	}
	checkRows(t, answer(t, conn), rows)
}

func TestClientThatNeverReadsIsToldSo(t *testing.T) {
	dir := t.TempDir()
	url := start(t, models(), serving.ServerOptions{Options: serving.Options{SpillBytesEach: 1 << 20, SpillDir: dir}})
	body := bodyOf(2_000_000)
	conn := connect(t, url, "text/csv; header=absent", fmt.Sprintf("Content-Length: %d\r\n", len(body)))
	if _, err := conn.Write(body); err != nil { // the rest is taken and forgotten
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer(t, conn).Body)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, `"fatal":{"code":"response_not_read"`) {
		t.Errorf("the last line is %s", last)
	}
	for i, line := range lines[:len(lines)-1] {
		if !strings.HasPrefix(line, fmt.Sprintf(`{"index":%d,`, i)) {
			t.Fatalf("line %d: %s", i, line)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
}

// TestSlowReaderIsWaitedFor holds a client back that reads less than it sends.
func TestSlowReaderIsWaitedFor(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{Options: serving.Options{SpillBytesEach: 256 << 10}})
	const rows = 150_000
	body := bodyOf(rows)
	conn := connect(t, url, "text/csv; header=absent", fmt.Sprintf("Content-Length: %d\r\n", len(body)))
	sent := make(chan error, 1)
	go func() {
		_, err := conn.Write(body)
		sent <- err
	}()
	response := answer(t, conn)
	response.Body = struct {
		io.Reader
		io.Closer
	}{&slowReader{response.Body}, response.Body}
	checkRows(t, response, rows)
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// slowReader reads little at a time, with pauses.
type slowReader struct{ io.Reader }

func (s *slowReader) Read(p []byte) (int, error) {
	time.Sleep(100 * time.Microsecond)
	return s.Reader.Read(p[:min(len(p), 4<<10)])
}

// TestStalledReaderHoldsLittleMemory measures what a stream holds whose client sends
// for ever and reads nothing.
func TestStalledReaderHoldsLittleMemory(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{Options: serving.Options{SpillBytesEach: 64 << 20}})
	body := bodyOf(3_000_000)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	conn := connect(t, url, "text/csv; header=absent", fmt.Sprintf("Content-Length: %d\r\n", len(body)))
	if _, err := conn.Write(body[:len(body)/2]); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 8<<20 {
		t.Errorf("%d bytes are held", held)
	}
}

func TestCompressedBodiesBothWays(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{})
	const rows = 20_000
	for _, coding := range []string{"gzip", "zstd"} {
		var packed bytes.Buffer
		var out io.WriteCloser = gzip.NewWriter(&packed)
		if coding == "zstd" {
			encoder, err := zstd.NewWriter(&packed)
			if err != nil {
				t.Fatal(err)
			}
			out = encoder
		}
		if _, err := out.Write(bodyOf(rows)); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+streamPath, &packed)
		if err != nil {
			t.Fatal(err)
		}
		for key, v := range map[string]string{"Content-Type": "text/csv; header=absent", "Content-Encoding": coding, "Accept-Encoding": coding} {
			r.Header.Set(key, v)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if got := response.Header.Get("Content-Encoding"); got != coding {
			t.Errorf("Content-Encoding is %q, want %q", got, coding)
		}
		raw := response.Body
		if coding == "gzip" {
			plain, err := gzip.NewReader(raw)
			if err != nil {
				t.Fatal(err)
			}
			response.Body = plain
		} else {
			plain, err := zstd.NewReader(raw)
			if err != nil {
				t.Fatal(err)
			}
			response.Body = plain.IOReadCloser()
		}
		checkRows(t, response, rows)
	}
}

// TestCompressedRecordIsAnsweredWhileTheBodyIsOpen needs both sides to flush.
func TestCompressedRecordIsAnsweredWhileTheBodyIsOpen(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{})
	body, client := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+streamPath, body)
	if err != nil {
		t.Fatal(err)
	}
	for key, v := range map[string]string{"Content-Type": ndjson, "Content-Encoding": "gzip", "Accept-Encoding": "gzip"} {
		r.Header.Set(key, v)
	}
	packer := gzip.NewWriter(client)
	go func() {
		_, _ = io.WriteString(packer, "[1,2,3,4]\n")
		_ = packer.Flush()
	}()
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	plain, err := gzip.NewReader(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(plain)
	if !lines.Scan() || lines.Text() != `{"index":0,"prediction":10}` {
		t.Errorf("%q, %v", lines.Text(), lines.Err())
	}
	_ = client.Close()
}

func TestBodyThatCannotBeDecompressedEndsTheStream(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{Options: serving.Options{RatioMax: 100}}) + streamPath
	var bomb bytes.Buffer
	out := gzip.NewWriter(&bomb)
	for range 40 {
		if _, err := out.Write(bytes.Repeat([]byte("\n"), 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{"no gzip": "[1,2,3,4]\n[1,2,3,4]\n", "cut": bomb.String()[:bomb.Len()/3], "a bomb": bomb.String()} {
		lines := stream(t, url, ndjson, body, "Content-Encoding", "gzip")
		if last := lines[len(lines)-1]; !strings.Contains(last, `"fatal":{"code":"bad_encoding"`) {
			t.Errorf("%s: %s", name, last)
		}
	}
}

func TestStreamsOverHTTP2AreDuplexToo(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{})
	transport := &http.Transport{Protocols: &http.Protocols{}, TLSClientConfig: &tls.Config{}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	body, client := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+streamPath, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "text/csv; header=absent")
	response, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for i := range 100 {
		if _, err := io.WriteString(client, "1,2,3,4\n"); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf(`{"index":%d,"prediction":10}`, i); !lines.Scan() || lines.Text() != want {
			t.Fatalf("%q, %v; want %s", lines.Text(), lines.Err(), want)
		}
	}
	_ = client.Close()
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), `{"done":true,"records":100,`) || response.ProtoMajor != 2 {
		t.Errorf("%q, %v, %s", lines.Text(), lines.Err(), response.Proto)
	}
}

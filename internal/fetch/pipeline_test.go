package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/sys/s3"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/internal/test/kafkatest"
	"github.com/afterbay/afterbay/internal/test/servertest"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
)

const file = `
pipeline: support
input:
  topic: contacts
  partitions: 2
  key: customer
  fields: {customer: string, n: int, url: optional string}
commit: {interval: 1ms}
content:
  root: '${ROOT}'
  http: true
  private: [127.0.0.0/8]
  buckets: [calls]
  s3: {endpoint: '${ENDPOINT}', region: us-east-1}
  cache: {max: '${CACHE}'}
models:
  ocr: {go: ocr, version: 1, outputs: {text: string}, call: {backoff: {base: 5ms, max: 20ms}, breaker: {probe: 20ms}}}
steps:
  - fetch:
      name: shot
      url: url
      max: 1KB
      call: {timeout: 2s, attempts: 4, backoff: {base: 1ms, max: 10ms}, breaker: {probe: 20ms}}
  - score: {model: ocr, inputs: [shot.bytes], batch: {size: 8}}
  - emit: {topic: artifacts, value: [customer, n, ocr.text, shot.sha256, shot.size, shot.type]}
`

// ocr reads images, which are texts here, unless it is down.
type ocr struct{ down, calls atomic.Int64 }

func (*ocr) Info() model.Info {
	return model.Info{Kind: "ocr", Digest: "1", Inputs: []model.Input{{Name: "image", Type: model.Bytes}}, Outputs: []model.Output{{Name: "text", Size: 1, Type: model.String}}}
}

func (*ocr) Check([]float64, [][]byte) error { return nil }

func (*ocr) Predict(context.Context, model.Rows, []float32) error { return calling.ErrTexts }

func (o *ocr) Answer(_ context.Context, rows model.Rows, _ []float32, texts [][]byte) error {
	if o.calls.Add(1); o.down.Load() > 0 {
		return context.DeadlineExceeded // it does not answer
	}
	for i := range rows.Bytes {
		texts[i] = []byte(strings.ToUpper(string(rows.Bytes[i])))
	}
	return nil
}

// store is a server of content that fails as its paths say.
type store struct {
	mu      sync.Mutex
	asked   map[string]int
	version string
	away    bool
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked[r.URL.Path]++
	times, version, away := s.asked[r.URL.Path], s.version, s.away
	s.mu.Unlock()
	way, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	content := "image " + name + version
	w.Header().Set("Content-Type", "image/test")
	switch {
	case away, way == "flapping" && times%3 != 0:
		w.WriteHeader(http.StatusServiceUnavailable)
	case way == "missing", way == "late" && times < 3:
		w.WriteHeader(http.StatusNotFound)
	case way == "half" && times < 3:
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		fmt.Fprint(w, content[:5])
	case way == "huge":
		w.Write(make([]byte, 5000))
	case way == "moved":
		http.Redirect(w, r, "/ok/"+name, http.StatusFound)
	case way == "inward":
		http.Redirect(w, r, "http://10.1.1.1/", http.StatusFound)
	default:
		fmt.Fprint(w, content)
	}
}

// world is where content is, and who reads it.
type world struct {
	store store
	ocr   ocr
	vars  map[string]string
	urls  []string // by way
}

func newWorld(t *testing.T, cache string) *world {
	t.Helper()
	w := &world{store: store{asked: map[string]int{}}}
	server, root, objects := httptest.NewServer(&w.store), t.TempDir(), servertest.S3(t)
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", objects.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", objects.SecretKey)
	w.vars = map[string]string{"ROOT": root, "ENDPOINT": objects.URL, "CACHE": cache}
	client, err := s3.New(s3.Options{Endpoint: objects.URL, Region: objects.Region, Client: &http.Client{}})
	if err != nil {
		t.Fatal(err)
	}
	put := func(key, content string) {
		response, err := client.Do(t.Context(), http.MethodPut, "calls", key, http.Header{"Content-Type": {"image/test"}}, []byte(content))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	put("", "")
	for i := range 10 {
		name := fmt.Sprint(i)
		put("in/"+name, "image "+name)
		if err := os.WriteFile(filepath.Join(root, name), []byte("image "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, way := range ways {
		w.urls = append(w.urls, strings.NewReplacer("HTTP", server.URL, "ROOT", root).Replace(way))
	}
	return w
}

// ways is where content is; what begins with dead is never had.
var ways = []string{"HTTP/ok/", "file://ROOT/", "s3://calls/in/", "HTTP/moved/", "HTTP/flapping/", "HTTP/half/", "HTTP/late/", "HTTP/missing/", "HTTP/huge/", "HTTP/inward/", "file://ROOT/none", "s3://calls/none/", "s3://other/", "file:///etc/passwd?", "null"}

const had = 7 // of ways

// open returns a runner of the file.
func (w *world) open(t *testing.T, text string) *pipeline.Runner {
	t.Helper()
	parsed, err := config.ParseWith("support.yaml", []byte(text), func(name string) (string, bool) {
		value, ok := w.vars[name]
		return value, ok
	}, builtin.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	p := parsed.Pipelines[0]
	p.Code.Models = map[string]model.Model{"ocr": &w.ocr}
	runner, err := builtin.New(p, pipeline.Options{Members: 2})
	if err != nil {
		t.Fatal(err)
	}
	return runner
}

func event(n int, url string) stream.Record {
	customer, said := fmt.Sprint("c", n%7), strconv.Quote(url)
	if strings.HasPrefix(url, "null") {
		said = "null"
	}
	return stream.Record{Partition: stream.Partition{Topic: "contacts", Index: stream.ByKey}, Key: []byte(customer), Value: fmt.Appendf(nil, `{"customer":%q,"n":%d,"url":%s}`, customer, n, said)}
}

// run has events fetched in all ways, and looks at what came of them.
func (w *world) run(t *testing.T, log stream.Log, number int) {
	t.Helper()
	var events []stream.Record
	var want []string
	for n := range number {
		way, name := n%len(ways), fmt.Sprint(n%10)
		events = append(events, event(n, w.urls[way]+name))
		if content := "image " + name; way < had {
			told := "image/test"
			if way == 1 {
				told = "text/plain"
			}
			want = append(want, fmt.Sprintf(`{"customer":"c%d","n":%d,"ocr_text":"%s","shot_sha256":"%s","shot_size":%d,"shot_type":"%s"}`, n%7, n, strings.ToUpper(content), sum(content), len(content), told))
		}
	}
	text := file
	if w.vars["CACHE"] == "20B" { // what is fetched again queues events of any model
		text = strings.Replace(file, ", call: {backoff: {base: 5ms, max: 20ms}, breaker: {probe: 20ms}}}\nsteps", "}\nsteps", 1)
	}
	runner := w.open(t, text)
	defer runner.Close()
	answer, err := answers.RunAll(t.Context(), log, runner, events)
	if err != nil {
		t.Fatal(err)
	}
	got := answer.Values("artifacts")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d outputs, want %d; the first are %q\nwant %q", len(got), len(want), got[:min(len(got), 3)], want[:3])
	}
	reasons := []string{"/missing/", "404 Not Found", "/huge/", "too large: more than the 1000 bytes", "/inward/", "10.1.1.1", "/none", "no such file", "s3://calls/none/", "NoSuchKey", "s3://other/", "content.buckets", "file:///etc/passwd", "is not a valid URL: use file:///FOLDER/NAME", "there is", "no URL"}
	dead := 0
	for p, records := range answer {
		if p.Topic != "support.dlq" {
			continue
		}
		dead += len(records)
		for i := range records {
			reason, told := header.Get(&records[i], header.Error), 0
			for k := 0; k < len(reasons); k += 2 {
				if strings.Contains(reason, reasons[k]) && strings.Contains(reason, reasons[k+1]) {
					told++
				}
			}
			if told != 1 || header.Get(&records[i], header.Stage) != "fetch" {
				t.Errorf("dead letter of stage %s: %s", header.Get(&records[i], header.Stage), reason)
			}
		}
	}
	if dead != number-len(want) {
		t.Errorf("%d dead letters, want %d", dead, number-len(want))
	}
	s := runner.Snapshot().Fetched
	if s == nil || s.Objects < uint64(len(want)) || s.Faults == 0 || s.Unfetched < uint64(dead) || s.Changed > 0 {
		t.Errorf("%+v", s)
	}
	for path, n := range w.store.asked { // one try for what is too large, four for what is missing
		events := (number + len(ways)*10 - 1) / (len(ways) * 10) * 10
		if strings.HasPrefix(path, "/missing/") && n > 4*events || strings.HasPrefix(path, "/huge/") && n > events {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}
}

func openEmbedded(t *testing.T) stream.Log {
	t.Helper()
	log, err := embedded.Open(t.TempDir(), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return log
}

func TestEventsCarryWhatTheirURLsNameIntoModels(t *testing.T) {
	for name, cache := range map[string]string{"kept": "1MB", "kept hardly": "20B"} {
		t.Run(name, func(t *testing.T) { newWorld(t, cache).run(t, openEmbedded(t), 280) })
	}
}

func TestContentIsFetchedOnKafka(t *testing.T) {
	cluster := kafkatest.Start(t, kafkatest.Options{})
	log, err := kafka.Open(t.Context(), kafka.Options{Brokers: cluster.Addresses()})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	newWorld(t, "1MB").run(t, log, 70)
}

// TestContentIsTheSameAfterARestart has events whose content is known wait for a
// model, while the process ends and with it what was kept. Some of the content is
// another one afterwards.
func TestContentIsTheSameAfterARestart(t *testing.T) {
	w, log := newWorld(t, "1MB"), openEmbedded(t)
	w.ocr.down.Store(1)
	text := strings.Replace(file, "breaker: {probe: 20ms}}}\nsteps", "breaker: {probe: 20ms, open: queue}}}\nsteps", 1)
	runner := w.open(t, text)
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		if err := log.Append(t.Context(), event(n, w.urls[n%2]+fmt.Sprint(n%10))); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx, log) }()
	for tick := time.Tick(10 * time.Millisecond); ; <-tick {
		if s := runner.Snapshot().Fetched; s.Objects == 20 && w.ocr.calls.Load() > 0 && runner.Counts().Enqueued >= 40 {
			break
		} else if ctx.Err() != nil {
			t.Fatalf("%+v %+v", s, runner.Counts())
		}
	}
	stop()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	runner.Close()
	w.store.mu.Lock()
	w.store.version = " changed"
	w.store.mu.Unlock()
	w.ocr.down.Store(0)
	again := w.open(t, text)
	defer again.Close()
	answer, err := answers.RunAll(t.Context(), log, again, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := answer.Values("artifacts"); len(got) != 10 || !strings.Contains(got[0], "IMAGE") {
		t.Errorf("%d outputs: %q", len(got), got[:min(len(got), 2)])
	}
	dead := 0
	for p, records := range answer {
		for i := range records {
			if p.Topic != "support.dlq" {
				continue
			}
			dead++
			reason := header.Get(&records[i], header.Error)
			if strings.Count(reason, "sha256:") != 2 && !strings.Contains(reason, "was larger when it was fetched again") || !strings.Contains(reason, "has changed") {
				t.Errorf("dead letter: %s", reason)
			}
		}
	}
	if s := again.Snapshot().Fetched; dead != 10 || s.Changed != 10 || s.Objects != 0 {
		t.Errorf("%d dead letters, %+v", dead, s)
	}
}

// TestHostThatIsAwayMakesNobodyADeadLetter has a host be away for longer than all
// attempts take.
func TestHostThatIsAwayMakesNobodyADeadLetter(t *testing.T) {
	w, log := newWorld(t, "1MB"), openEmbedded(t)
	w.store.away = true
	runner := w.open(t, file)
	defer runner.Close()
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx, log) }()
	for n := range 40 {
		if err := log.Append(ctx, event(n, w.urls[n%2]+fmt.Sprint(n%10))); err != nil {
			t.Fatal(err)
		}
	}
	for tick := time.Tick(10 * time.Millisecond); runner.Counts().Outputs < 20; <-tick { // files do not wait for the host
	}
	for tick := time.Tick(10 * time.Millisecond); runner.Counts().Retries < 200; <-tick {
	}
	if c := runner.Counts(); c.DeadLetters > 0 || c.Outputs != 20 {
		t.Errorf("%+v", c)
	}
	w.store.mu.Lock()
	w.store.away = false
	asked := 0
	for _, n := range w.store.asked {
		asked += n
	}
	w.store.mu.Unlock()
	if probes := int(time.Since(begun) / (20 * time.Millisecond)); asked > 100+probes {
		t.Errorf("a host that is away was asked %d times for 20 events", asked)
	}
	if err := runner.WaitIdle(ctx, log); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if c := runner.Counts(); c.DeadLetters > 0 || c.Outputs != 40 {
		t.Errorf("%+v", c)
	}
}

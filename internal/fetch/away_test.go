package fetch_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/sys/s3"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/internal/test/servertest"
	"github.com/afterbay/afterbay/stream"
)

const stored = `
pipeline: calls
input:
  topic: contacts
  partitions: 2
  key: customer
  fields: {customer: string, n: int, url: string}
commit: {interval: 1ms}
content:
  root: '${ROOT}'
  buckets: [calls]
  s3: {endpoint: '${ENDPOINT}', region: us-east-1}
models:
  ocr: {go: ocr, version: 1, outputs: {text: string}}
steps:
  - fetch:
      name: sound
      url: url
      max: 1MB
      call: {timeout: 10s, attempts: 3, backoff: {base: 1ms, max: 10ms}, breaker: {failures: 3, probe: 20ms}}
  - score: {model: ocr, inputs: [sound.bytes]}
  - emit: {topic: artifacts, value: [n, sound.sha256]}
`

// relay is the address of a store, whichever process is the store.
type relay struct {
	URL string
	to  atomic.Pointer[string] // host and port; nil is nobody
}

func newRelay(t *testing.T) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	r := &relay{URL: "http://" + listener.Addr().String()}
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go r.pass(from)
		}
	}()
	return r
}

func (r *relay) pass(from net.Conn) {
	defer from.Close()
	at := r.to.Load()
	if at == nil {
		return
	}
	to, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", *at)
	if err != nil {
		return
	}
	defer to.Close()
	var one sync.Once
	ended := make(chan struct{})
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			io.Copy(way[0], way[1])
			one.Do(func() { close(ended) })
		}()
	}
	<-ended
}

// sound is the content of an object: large enough for a kill to be in its midst.
func sound(n int) []byte { return []byte(strings.Repeat(fmt.Sprintf("sound %d, ", n), 50_000)) }

// serveCalls starts a store with so many objects, has the credentials in the
// environment be its own, and only then lets requests through to it.
func (r *relay) serveCalls(t *testing.T, number int) *servertest.S3Server {
	t.Helper()
	server := servertest.S3(t)
	t.Setenv("AWS_ACCESS_KEY_ID", server.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", server.SecretKey)
	client, err := s3.New(s3.Options{Endpoint: server.URL, Region: server.Region, Client: &http.Client{}})
	if err != nil {
		t.Fatal(err)
	}
	put := func(key string, content []byte) {
		response, err := client.Do(t.Context(), http.MethodPut, "calls", key, nil, content)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	put("", nil)
	for n := range number {
		put(fmt.Sprint(n), sound(n))
	}
	at := strings.TrimPrefix(server.URL, "http://")
	r.to.Store(&at)
	return server
}

// TestObjectStoreThatIsKilledLosesNothing kills a store in the midst of a running
// pipeline, and starts it again: events wait for it, without attempts of their own,
// and what is missing in it is a dead letter by its name.
func TestObjectStoreThatIsKilledLosesNothing(t *testing.T) {
	const objects, number = 20, 300
	r, log := newRelay(t), openEmbedded(t)
	w := &world{vars: map[string]string{"ROOT": t.TempDir(), "ENDPOINT": r.URL}}
	server := r.serveCalls(t, objects)
	runner := w.open(t, stored)
	defer runner.Close()
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx, log) }()
	appendCalls := func(from, to int) {
		for n := from; n < to; n++ {
			key := fmt.Sprint(n % objects)
			if n%50 == 49 {
				key = fmt.Sprint("none-", n)
			}
			if err := log.Append(ctx, event(n, "s3://calls/"+key)); err != nil {
				t.Fatal(err)
			}
		}
	}
	until := func(what string, is func(observe.Counts) bool) {
		t.Helper()
		for tick := time.Tick(5 * time.Millisecond); !is(runner.Counts()); <-tick {
			select {
			case err := <-ended:
				t.Fatalf("ended before %s: %v", what, err)
			default:
			}
		}
	}
	for kill := range 2 {
		from := kill * number / 2
		before := runner.Counts()
		appendCalls(from, from+number/4)
		until("outputs", func(c observe.Counts) bool { return c.Outputs > before.Outputs })
		server.Kill()
		appendCalls(from+number/4, from+number/2)
		away := runner.Counts()
		until("retries", func(c observe.Counts) bool { return c.Retries >= away.Retries+100 })
		r.to.Store(nil)
		server = r.serveCalls(t, objects)
		if err := runner.WaitIdle(ctx, log); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	<-ended
	checkCalls(t, log, runner, number, objects)
}

// checkCalls sees that each event has one output, of the content that its URL names,
// or one dead letter that names the object that is missing.
func checkCalls(t *testing.T, log stream.Log, runner *pipeline.Runner, number, objects int) {
	t.Helper()
	answer, err := answers.RunAll(t.Context(), log, runner, nil)
	if err != nil {
		t.Fatal(err)
	}
	var want, missing []string
	for n := range number {
		if n%50 == 49 {
			missing = append(missing, fmt.Sprintf("s3://calls/none-%d", n))
		} else {
			want = append(want, fmt.Sprintf(`{"n":%d,"sound_sha256":"%s"}`, n, sum(string(sound(n%objects)))))
		}
	}
	got := answer.Values("artifacts")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d outputs, want %d; the first are %q", len(got), len(want), got[:min(len(got), 3)])
	}
	for p, records := range answer {
		for i := range records {
			if p.Topic != "calls.dlq" {
				continue
			}
			reason := header.Get(&records[i], header.Error)
			at := slices.IndexFunc(missing, func(url string) bool { return strings.Contains(reason, url) && strings.Contains(reason, "NoSuchKey") })
			if at < 0 {
				t.Errorf("dead letter: %s", reason)
				continue
			}
			missing = slices.Delete(missing, at, at+1)
		}
	}
	if len(missing) > 0 {
		t.Errorf("no dead letters of %s", missing)
	}
}

// TestObjectStoreThatStaysAwayIsNamed gives up waiting for a store that does not
// come back: each event is a dead letter that names an object and why there is none.
func TestObjectStoreThatStaysAwayIsNamed(t *testing.T) {
	const number = 20
	log, server := openEmbedded(t), servertest.S3(t)
	t.Setenv("AWS_ACCESS_KEY_ID", server.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", server.SecretKey)
	w := &world{vars: map[string]string{"ROOT": t.TempDir(), "ENDPOINT": server.URL}}
	server.Kill()
	runner := w.open(t, strings.Replace(stored, "{timeout: 10s,", "{timeout: 10s, expire: 500ms,", 1))
	defer runner.Close()
	var events []stream.Record
	for n := range number {
		events = append(events, event(n, "s3://calls/0"))
	}
	answer, err := answers.RunAll(t.Context(), log, runner, events)
	if err != nil {
		t.Fatal(err)
	}
	dead := 0
	for p, records := range answer {
		for i := range records {
			if p.Topic != "calls.dlq" {
				continue
			}
			reason := header.Get(&records[i], header.Error)
			if dead++; !strings.Contains(reason, "s3://calls/0: ") || !strings.Contains(reason, "connection refused") || header.Get(&records[i], header.Stage) != "fetch" {
				t.Errorf("dead letter of stage %s: %s", header.Get(&records[i], header.Stage), reason)
			}
		}
	}
	if got := answer.Values("artifacts"); dead != number || len(got) > 0 {
		t.Errorf("%d dead letters of %d events, %d outputs", dead, number, len(got))
	}
}

package admin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

func newLog(t testing.TB) *memory.Log {
	t.Helper()
	log := memory.New(memory.Options{})
	t.Cleanup(func() { _ = log.Close() })
	for _, topic := range []stream.Topic{{Name: "in", Partitions: 3, Key: "k"}, {Name: "one", Partitions: 1}} {
		if err := log.CreateTopic(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
	}
	return log
}

// start runs a server until the test ends.
func start(t testing.TB, log inspect.Log, o admin.Options) (*admin.Server, string) {
	t.Helper()
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	server, err := admin.Listen(log, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return server, "http://" + server.Address()
}

func get(t testing.TB, url string, headers ...string) (int, string) {
	t.Helper()
	return request(t, http.MethodGet, url, "", headers...)
}

func request(t testing.TB, method, url, body string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, string(text)
}

func TestOtherAddressesNeedATokenOrSayInsecure(t *testing.T) {
	tests := []struct {
		options admin.Options
		want    string // of the error; "" is none
	}{
		{admin.Options{}, ""},
		{admin.Options{Address: "localhost:0"}, ""},
		{admin.Options{Address: "[::1]:0"}, ""},
		{admin.Options{Address: "127.8.9.10:0"}, ""},
		{admin.Options{Address: "0.0.0.0:0"}, "without a token"},
		{admin.Options{Address: ":0"}, "without a token"},
		{admin.Options{Address: "[::]:0"}, "without a token"},
		{admin.Options{Address: "example.com:80"}, "--token or AFTERBAY_TOKEN"},
		{admin.Options{Address: "localhost.example.com:80"}, "--insecure"},
		{admin.Options{Address: "0.0.0.0:0", Token: "x"}, ""},
		{admin.Options{Address: "0.0.0.0:0", Insecure: true}, ""},
		{admin.Options{Address: "here"}, "use host:port"},
	}
	for _, test := range tests {
		err := test.options.Validate()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.options, err, test.want)
		}
	}
}

func TestRequestsAreLetInByTokenOrFromThisMachine(t *testing.T) {
	log := newLog(t)
	open, openURL := start(t, log, admin.Options{})
	locked, lockedURL := start(t, log, admin.Options{Token: "secret"})
	_, anyURL := start(t, log, admin.Options{Insecure: true})
	bearer := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	tests := []struct {
		url     string
		headers []string
		status  int
	}{
		{openURL, nil, 200},
		{openURL, bearer("anything"), 200},
		{openURL, []string{"Host", "rebound.example.com"}, 403},
		{openURL, []string{"Host", "rebound.example.com:7070"}, 403},
		{openURL, []string{"Host", "localhost:1"}, 200},
		{openURL, append(bearer(open.Admin().Token), "Host", "rebound.example.com"), 200},
		{lockedURL, nil, 401},
		{lockedURL, bearer(""), 401},
		{lockedURL, bearer("secret2"), 401},
		{lockedURL, bearer("secre"), 401},
		{lockedURL, []string{"Authorization", "Basic secret"}, 401},
		{lockedURL, bearer(open.Admin().Token), 401},
		{lockedURL, bearer("secret"), 200},
		{lockedURL, bearer(locked.Admin().Token), 200},
		{anyURL, []string{"Host", "example.com"}, 200},
	}
	for _, test := range tests {
		for _, path := range []string{"/v1/topics", "/metrics", "/v1/status", "/v1/topics/in/records"} {
			if status, body := get(t, test.url+path, test.headers...); status != test.status {
				t.Errorf("%s %v: %d %s, want %d", path, test.headers, status, body, test.status)
			}
		}
		if status, _ := get(t, test.url+"/healthz", test.headers...); status != 200 {
			t.Errorf("health: %d", status)
		}
	}
	for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "http://evil.example.com"}} {
		if status, body := request(t, http.MethodPost, openURL+"/v1/topics/in", "{}", headers...); status != 403 {
			t.Errorf("a page's form %v: %d %s", headers, status, body)
		}
	}
	if status, body := get(t, openURL+"/v2/nothing"); status != 404 || !strings.Contains(body, "GET / lists") {
		t.Errorf("%d %s", status, body)
	}
	if status, body := get(t, openURL+"/"); status != 200 || !strings.Contains(body, `"/v1/topics/{topic}"`) {
		t.Errorf("%d %s", status, body)
	}
}

func TestReadyFollowsTheProcess(t *testing.T) {
	server, url := start(t, newLog(t), admin.Options{})
	for _, ready := range []bool{false, true, false} {
		server.Ready(ready)
		if status, _ := get(t, url+"/readyz"); (status == 200) != ready {
			t.Errorf("ready %t: %d", ready, status)
		}
	}
}

var odd = []stream.Record{
	{Partition: stream.Partition{Topic: "one"}, Key: []byte("a"), Value: []byte(`{"x": 1.50,  "y":"<&>"}`), Headers: []stream.Header{{Key: "h", Value: []byte("v")}, {Key: "h", Value: []byte("\xff")}, {Key: "", Value: []byte{}}}},
	{Partition: stream.Partition{Topic: "one"}, Value: []byte("not json")},
	{Partition: stream.Partition{Topic: "one"}, Key: []byte{}, Value: []byte("{\n}")},
	{Partition: stream.Partition{Topic: "one"}, Key: []byte("\xfe"), Value: []byte("\"\xff\"")},
	{Partition: stream.Partition{Topic: "one"}, Value: []byte(`{"base64":"AAAA"}`)},
	{Partition: stream.Partition{Topic: "one"}, Key: []byte("\u2028<\""), Value: []byte(` 5 `)},
	{Partition: stream.Partition{Topic: "one"}, Value: []byte{}},
	{Partition: stream.Partition{Topic: "one"}, Value: []byte("null")},
}

func collect(t testing.TB, d inspect.Directory, q inspect.Query) []stream.Record {
	t.Helper()
	var all []stream.Record
	for r, err := range d.Records(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

func TestClientSeesWhatTheLogHolds(t *testing.T) {
	log := newLog(t)
	if err := log.Append(t.Context(), odd...); err != nil {
		t.Fatal(err)
	}
	server, url := start(t, log, admin.Options{Token: "secret"})
	local, client := &inspect.Local{Log: log}, &admin.Client{URL: url, Token: server.Admin().Token}
	if err := client.CreateTopic(t.Context(), stream.Topic{Name: "made", Partitions: 2, Key: "id"}); err != nil {
		t.Fatal(err)
	}
	if err := client.CreateTopic(t.Context(), stream.Topic{Name: "made", Partitions: 3}); err == nil || !strings.Contains(err.Error(), "it has 2 partitions") {
		t.Error(err)
	}
	for i := range 3000 {
		value := fmt.Appendf(nil, `{"id":"k%d"}`, i)
		if _, err := client.AppendOnce(t.Context(), "p", int64(i/3+1), stream.Record{Partition: stream.Partition{Topic: "made"}, Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	for _, q := range []inspect.Query{
		{Topic: "one", Partition: inspect.AllPartitions}, {Topic: "one", From: 3}, {Topic: "one", From: -2},
		{Topic: "one", Limit: 2}, {Topic: "one", From: 100}, {Topic: "made", Partition: inspect.AllPartitions},
		{Topic: "made", Partition: 1, From: -5}, {Topic: "made", Partition: inspect.AllPartitions, Limit: 700},
		{Topic: "one", Limit: 8, Follow: true},
	} {
		want := collect(t, local, q)
		if diff := cmp.Diff(want, collect(t, client, q)); diff != "" {
			t.Errorf("%+v: %s", q, diff)
		}
		t.Logf("%+v: %d records", q, len(want))
	}
	if n := len(collect(t, client, inspect.Query{Topic: "made", Partition: inspect.AllPartitions})); n != 1000 {
		t.Errorf("%d records, want 1000: the others are repeated", n)
	}
	if diff := cmp.Diff(odd, collect(t, client, inspect.Query{Topic: "one"})); diff != "" {
		t.Error(diff)
	}
	want, err := local.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.List(t.Context())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestWrongQuestionsSayWhatThereIs(t *testing.T) {
	log := newLog(t)
	_, url := start(t, log, admin.Options{})
	for _, d := range []inspect.Directory{&inspect.Local{Log: log}, &admin.Client{URL: url}} {
		for q, want := range map[inspect.Query]string{
			{Topic: "gone"}:             "the topics are in, one",
			{Topic: "in", Partition: 3}: "it has the partitions 0 to 2",
		} {
			for _, err := range d.Records(t.Context(), q) {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%T %+v: %v", d, q, err)
				}
			}
		}
		for _, err := range d.Entries(t.Context(), "gone", nil) {
			if err == nil || !strings.Contains(err.Error(), `unknown pipeline "gone": no pipeline has committed`) {
				t.Errorf("%T: %v", d, err)
			}
		}
	}
	for _, query := range []string{"partition=x", "partition=4294967296", "offset=1.5", "limit=-", "follow=maybe"} {
		if status, body := get(t, url+"/v1/topics/in/records?"+query); status != 400 {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	if status, body := request(t, http.MethodPut, url+"/v1/topics/x", "{"); status != 400 {
		t.Errorf("%d %s", status, body)
	}
}

func TestFollowSeesRecordsAsTheyComeAndEndsWithTheServer(t *testing.T) {
	log := newLog(t)
	server, err := admin.Listen(log, admin.Options{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- server.Run(ctx) }()
	client := &admin.Client{URL: "http://" + server.Address()}
	seen := make(chan string)
	go func() {
		defer close(seen)
		for r, err := range client.Records(t.Context(), inspect.Query{Topic: "in", Partition: inspect.AllPartitions, Follow: true}) {
			if err != nil {
				t.Error(err)
				return
			}
			seen <- string(r.Key)
		}
	}()
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		if err := client.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: "in"}, Value: []byte(`{"k":"` + key + `"}`)}); err != nil {
			t.Fatal(err)
		}
		if got := <-seen; got != key {
			t.Errorf("saw %q, want %q", got, key)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if extra, more := <-seen; more {
		t.Error(extra)
	}
}

// pipeline copies the key of its events and counts them.
func pipeline() lang.Pipeline {
	return lang.Pipeline{
		Name:  "copy",
		Input: lang.Input{Topic: "in", Partitions: 3, Key: "k", Fields: []lang.Field{{Name: "k", Type: "string"}}},
		Steps: []lang.Step{
			&steps.Features{List: []steps.Feature{{Name: "seen", Windows: []string{"60s"}, Aggregates: []string{"count"}}}},
			&steps.Emit{Topic: "out", Names: []string{"k", "seen.count_60s"}},
		},
	}
}

func TestStateStatusAndMetricsOfAPipeline(t *testing.T) {
	log := newLog(t)
	var body strings.Builder
	for i := range 40 {
		fmt.Fprintf(&body, "{\"k\":\"key %d\"}\n", i)
	}
	body.WriteString("broken\n")
	if _, err := ingest.Publish(t.Context(), log, strings.NewReader(body.String()), ingest.Options{Topic: "in", Key: "k"}); err != nil {
		t.Fatal(err)
	}
	runner, err := builtin.New(pipeline(), running.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- runner.Run(ctx, log) }()
	if err := runner.WaitIdle(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	store := embedded.Stats{Frames: 42}
	_, url := start(t, log, admin.Options{Runners: []*running.Runner{runner}, Version: "test",
		Stats: func() embedded.Stats { return store }})

	local, client := &inspect.Local{Log: log}, &admin.Client{URL: url}
	dump := entries(t, local, nil)
	if diff := cmp.Diff(dump, entries(t, client, nil)); diff != "" || len(dump) < 40 {
		t.Error(len(dump), diff)
	}
	if !slices.IsSortedFunc(dump, func(a, b inspect.Entry) int { return int(a.Partition - b.Partition) }) {
		t.Error("not in the order of partitions")
	}
	key := "key 7"
	found := entries(t, client, &key)
	if len(found) == 0 || !slices.ContainsFunc(found, func(e inspect.Entry) bool { return e.Key == key }) {
		t.Errorf("state of %q: %+v", key, found)
	}
	for _, e := range found {
		if !strings.Contains(e.Key, key) || !slices.ContainsFunc(dump, func(d inspect.Entry) bool { return cmp.Equal(d, e) }) {
			t.Errorf("%+v", e)
		}
	}
	checkKinds(t, dump, local, client)
	if status, body := get(t, url+"/v1/state/copy?kind=el"); status != 400 {
		t.Errorf("%d %s", status, body)
	}
	checkLag(t, url, local, client)
	checkStatus(t, url)
	checkMetrics(t, url)
}

func entries(t testing.TB, d inspect.Directory, key *string) []inspect.Entry {
	t.Helper()
	var all []inspect.Entry
	for e, err := range d.Entries(t.Context(), "copy", key) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// checkKinds compares the entries of each kind with those among all.
func checkKinds(t *testing.T, all []inspect.Entry, directories ...inspect.Directory) {
	t.Helper()
	for _, d := range directories {
		n := 0
		for _, kind := range []byte{statekey.Generation, statekey.Watermark, 'e', 'l', statekey.Journal} {
			for e, err := range d.EntriesOf(t.Context(), "copy", kind) {
				if n++; err != nil || e.Kind != string(rune(kind)) || !slices.ContainsFunc(all, func(a inspect.Entry) bool { return cmp.Equal(a, e) }) {
					t.Errorf("%T: %+v of kind %c, %v", d, e, kind, err)
				}
			}
		}
		if n == 0 {
			t.Errorf("%T has no entry of any kind", d)
		}
	}
}

// checkLag asks a log, and the server that has it, how far an idle pipeline is
// behind.
func checkLag(t *testing.T, url string, local, client inspect.Directory) {
	t.Helper()
	var all [2][]observe.Lag
	for i, d := range []inspect.Directory{local, client} {
		var err error
		if all[i], err = d.Lag(t.Context(), "copy"); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Lag(t.Context(), "nobody"); !errors.Is(err, inspect.ErrUnknownPipeline) {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(all[0], all[1]); diff != "" || len(all[0]) != 3 || all[0][0].Records != 0 || all[0][0].Seconds != 0 {
		t.Errorf("%+v: %s", all, diff)
	}
	const want = `afterbay_lag_seconds{group="copy",partition="2",topic="in"} 0`
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) { // measured soon after the start
		if _, text := get(t, url+"/metrics"); strings.Contains(text, want) {
			return
		}
	}
	t.Errorf("metrics lack %s", want)
}

func checkStatus(t *testing.T, url string) {
	t.Helper()
	all, err := (&admin.Client{URL: url}).Status(t.Context())
	if err != nil || len(all.Pipelines) != 1 || all.Version != "test" {
		t.Fatalf("%+v, %v", all, err)
	}
	if p := all.Pipelines[0]; p.Times.Events != p.Counts.Events || p.Times.P99 < p.Times.P50 || p.Times.P50 <= 0 || p.Cases != nil || p.Journal != nil {
		t.Errorf("%+v", p)
	}
	_, text := get(t, url+"/v1/status")
	var status struct {
		Version   string
		PID       int
		Pipelines []struct {
			Name, Input string
			Lag         int64
			Counts      struct {
				Events      uint64
				DeadLetters uint64 `json:"dead_letters"`
			}
			Phases map[string]map[string]float64
		}
	}
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		t.Fatal(err)
	}
	p := status.Pipelines[0]
	if status.Version != "test" || status.PID != os.Getpid() || p.Name != "copy" || p.Lag != 0 ||
		p.Counts.Events != 41 || p.Counts.DeadLetters != 1 || len(p.Phases) != len(observe.PhasesOf(false)) {
		t.Error(text)
	}
}

func checkMetrics(t *testing.T, url string) {
	t.Helper()
	_, text := get(t, url+"/metrics")
	for _, want := range []string{
		`afterbay_events_total{pipeline="copy"} 41`, `afterbay_dead_letters_total{pipeline="copy"} 1`,
		`afterbay_phase_seconds_bucket{phase="commit",pipeline="copy",le="+Inf"} 41`,
		`afterbay_phase_seconds_count{phase="queue",pipeline="copy"} 41`, "afterbay_log_frames_total 42", "go_goroutines",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if problems, err := promlint.New(strings.NewReader(text)).Lint(); err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", problems, err)
	}
	_, text = get(t, url+"/metrics", "Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	families := map[string]*dto.MetricFamily{}
	for reader := bytes.NewReader([]byte(text)); reader.Len() > 0; {
		family := &dto.MetricFamily{}
		if err := protodelim.UnmarshalFrom(reader, family); err != nil {
			t.Fatal(err)
		}
		families[family.GetName()] = family
	}
	known := map[string]bool{}
	for _, i := range append(admin.Metrics(), server.Metrics()...) {
		known[i.Name+" "+strings.ToUpper(string(i.Type))+" "+i.Help] = true
	}
	for name, f := range families {
		if strings.HasPrefix(name, "afterbay_") && !known[name+" "+f.GetType().String()+" "+f.GetHelp()] {
			t.Errorf("%s is not in Metrics", name)
		}
	}
	phases := families["afterbay_phase_seconds"]
	if len(phases.GetMetric()) != len(observe.PhasesOf(false)) {
		t.Fatalf("%d phases", len(phases.GetMetric()))
	}
	for _, m := range phases.GetMetric() {
		checkNative(t, m.GetHistogram())
	}
}

// checkNative compares the native buckets with the count, and with the classic
// ones as far as the two can be compared.
func checkNative(t *testing.T, h *dto.Histogram) {
	t.Helper()
	total, current, delta := h.GetZeroCount(), int64(0), 0
	index := int32(0)
	for _, s := range h.GetPositiveSpan() {
		index += s.GetOffset()
		for range s.GetLength() {
			current += h.GetPositiveDelta()[delta]
			if current < 0 {
				t.Errorf("bucket of %d", current)
			}
			total += uint64(current)
			delta++
			index++
		}
	}
	if total != h.GetSampleCount() || total != 41 || delta != len(h.GetPositiveDelta()) {
		t.Errorf("native buckets hold %d of %d", total, h.GetSampleCount())
	}
	if last := math.Exp2(math.Ldexp(float64(index-1), -3)); last > 60 || index != 0 && last < 1e-9 {
		t.Errorf("largest bucket %g s", last)
	}
}

func TestAdminFileIsForItsOwner(t *testing.T) {
	dir := t.TempDir()
	if _, err := admin.ReadAdmin(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	server, _ := start(t, newLog(t), admin.Options{})
	if err := os.WriteFile(filepath.Join(dir, "ADMIN.tmp"), nil, 0o644); err != nil { // of a process that was killed
		t.Fatal(err)
	}
	if err := server.Admin().Write(dir); err != nil {
		t.Fatal(err)
	}
	about, err := os.Stat(filepath.Join(dir, "ADMIN"))
	if err != nil || about.Mode().Perm() != 0o600 {
		t.Error(about, err)
	}
	got, err := admin.ReadAdmin(dir)
	if err != nil || got != server.Admin() || got.PID != os.Getpid() || len(got.Token) < 20 {
		t.Errorf("%+v %v", got, err)
	}
	for range 2 {
		if err := got.Remove(dir); err != nil {
			t.Error(err)
		}
	}
	all, _ := start(t, newLog(t), admin.Options{Address: "0.0.0.0:0", Token: "x"})
	if !strings.HasPrefix(all.Admin().Address, "127.0.0.1:") {
		t.Errorf("all addresses are reached at %s", all.Admin().Address)
	}
}

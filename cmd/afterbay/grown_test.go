package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestTopicThatGrowsEndsItsReadersAlone gives topics that a process reads more
// partitions: the input of a pipeline, which another one writes, and the topic of a
// sink. The rest of the process goes on, also after a restart.
func TestTopicThatGrowsEndsItsReadersAlone(t *testing.T) { growing(t, fakeEngine(t)) }

func TestTopicThatGrowsEndsItsReadersAloneOnABroker(t *testing.T) { growing(t, realEngine(t)) }

func growing(t *testing.T, engine string) {
	t.Chdir(t.TempDir())
	t.Setenv("AFTERBAY_ENGINE", engine)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	t.Cleanup(service.Close)
	for _, p := range [][3]string{{"grows", "grows-in", "grows-out"}, {"stays", "stays-in", "grows-in"}, {"sinks", "sinks-in", "sinks-out"}} {
		text := "pipeline: " + p[0] + "\ninput: {topic: " + p[1] + ", partitions: 1, key: k, fields: {k: string}}\nsteps:\n  - features: {seen: {last: 10, value: 1, aggregates: [count]}}\n  - emit: {topic: " + p[2] + ", value: [k]}\n"
		if p[0] == "sinks" {
			text += "sinks:\n  - {from: sinks-out, name: hook, http: {url: " + service.URL + "}}\n"
		}
		write(t, p[0]+".yaml", text)
	}
	out, end := background(t, "run", "grows.yaml", "stays.yaml", "sinks.yaml", "--listen", "127.0.0.1:0")
	out.wait(t, "in another terminal")
	follow, stop := background(t, "tail", "grows-out", "--follow")
	sees := func(topic, key, from string) {
		t.Helper()
		must(t, fmt.Sprintf("{\"k\":%q}\n", key), "produce", topic, "--key", "k", "--data", "other")
		follow, stop := background(t, "tail", from, "--follow", "--data", "other")
		follow.wait(t, fmt.Sprintf("{\"k\":%q}", key))
		stop()
	}
	sees("stays-in", "a", "grows-in")
	follow.wait(t, `{"k":"a"}`)
	stop()
	sees("sinks-in", "a", "sinks-out")

	add(t, engine, "grows-in", "sinks-out", "stays.dlq")
	out.wait(t, "a pipeline ended, and the others continue")
	out.wait(t, "a sink ended, and the others continue")
	sees("stays-in", "b", "grows-in")
	sees("sinks-in", "b", "sinks-out")
	_, url, _ := strings.Cut(out.String(), "listening on ")
	url, _, _ = strings.Cut(url, ": POST")
	if status := must(t, "", "status", "--url", url); !strings.Contains(status, "grows-in\" has 2 partitions") || !strings.Contains(status, "sinks-out\" has 2 partitions") {
		t.Error(status)
	}
	for path, want := range map[string]string{
		"/healthz": "ok", "/readyz": "ok",
		"/metrics": `afterbay_pipeline_ended{pipeline="grows"} 1`, "/v1/status": `"ended":"pipeline \"grows\":`,
	} {
		if _, text := ask(t, http.MethodGet, url+path, "", ""); !strings.Contains(text, want) {
			t.Errorf("%s lacks %s: %s", path, want, text)
		}
	}
	wantMove(t, end(), out.String())

	// It starts again, and is done when those are done that run.
	must(t, `{"k":"c"}`+"\n", "produce", "stays-in", "--key", "k")
	r := command(t, "", "run", "grows.yaml", "stays.yaml", "sinks.yaml", "--listen", "none", "--until-idle")
	wantMove(t, r.code, r.stdout+r.stderr)
	if got := must(t, "", "tail", "grows-in"); strings.Count(got, "\n") != 3 {
		t.Errorf("after a restart: %s%s", got, r.stderr)
	}
	// Alone it does not start.
	r = command(t, "", "run", "grows.yaml", "--listen", "127.0.0.1:0")
	if wantMove(t, r.code, r.stderr); strings.Contains(r.stdout, "listening") {
		t.Error(r.stdout)
	}
	// It moves.
	text, err := os.ReadFile("grows.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write(t, "moved.yaml", strings.NewReplacer("pipeline: grows", "pipeline: moved", "partitions: 1", "repartition: 1").Replace(string(text)))
	must(t, "", "run", "moved.yaml", "--listen", "none", "--until-idle")
	if got := must(t, "", "tail", "grows-out"); strings.Count(got, `{"k":"c"}`) != 1 {
		t.Errorf("after the move: %s", got)
	}
}

// TestStartKnowsThePartitionsOfTheState has a topic that was made in advance, and all
// topics of a pipeline get more partitions.
func TestStartKnowsThePartitionsOfTheState(t *testing.T) {
	engine := fakeEngine(t)
	t.Chdir(t.TempDir())
	t.Setenv("AFTERBAY_ENGINE", engine)
	calls := make(chan string, 10)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		calls <- string(text)
	}))
	t.Cleanup(service.Close)
	text := "pipeline: p\ninput: {topic: p-in, partitions: 1, key: k, fields: {k: string}}\nsteps:\n  - emit: {topic: p-out, value: [k]}\nsinks:\n  - {from: p-out, name: hook, http: {url: " + service.URL + "}}\n"
	write(t, "p.yaml", text)
	write(t, "other.yaml", "pipeline: other\ninput: {topic: other-in, partitions: 1, key: k, fields: {k: string}}\nsteps:\n  - emit: {topic: other-out, value: [k]}\n")
	must(t, "", "run", "p.yaml", "--listen", "none", "--until-idle")
	add(t, engine, "p-out")
	must(t, `{"k":"a"}`+"\n", "produce", "p-in", "--key", "k")
	write(t, "p.yaml", strings.Replace(text, "name: hook", "name: again", 1))
	must(t, "", "run", "p.yaml", "--listen", "none", "--until-idle")
	if got := <-calls; !strings.Contains(got, `"k":"a"`) || len(calls) > 0 {
		t.Errorf("the sink of a new name got %s and %d more", got, len(calls))
	}
	add(t, engine, "p-in", "p.dlq")
	r := command(t, "", "run", "p.yaml", "other.yaml", "--listen", "none", "--until-idle")
	if r.code != exitFailure || !strings.Contains(r.stdout+r.stderr, "a pipeline ended, and the others continue") {
		t.Errorf("exit code %d: %s%s", r.code, r.stdout, r.stderr)
	}
}

func TestTopicThatGrowsEndsTheGatewayAlone(t *testing.T) {
	engine := fakeEngine(t)
	pipeline, token := gatewayFolder(t)
	t.Setenv("AFTERBAY_ENGINE", engine)
	out, end := background(t, "run", pipeline, "--gateway", "gateway.yaml", "--listen", "127.0.0.1:0")
	c := &conversation{TB: t, token: token, done: map[string]bool{}}
	c.connect(out)
	c.post(1, 1)
	add(t, engine, "decisions")
	out.wait(t, "the gateway ended, and the pipelines continue")
	c.end()
	must(t, `{"post":"p2","user":"ann","text":"hello","created":"2026-01-01T10:00:00Z"}`+"\n", "produce", "posts", "--key", "user", "--data", "other")
	follow, stop := background(t, "tail", "decisions", "--follow", "--data", "other")
	follow.wait(t, `"post":"p2"`)
	stop()
	wantGatewayEnded(t, out, end)
}

func wantGatewayEnded(t *testing.T, out *screen, end func() int) {
	t.Helper()
	_, url, _ := strings.Cut(out.String(), "listening on ")
	url, _, _ = strings.Cut(url, ": POST")
	for path, want := range map[string]string{"/readyz": "ok", "/metrics": "afterbay_gateway_ended 1", "/v1/status": `"ended":"`} {
		if _, text := ask(t, http.MethodGet, url+path, "", ""); !strings.Contains(text, want) {
			t.Errorf("%s lacks %s: %s", path, want, text)
		}
	}
	if status := must(t, "", "status", "--url", url); !strings.Contains(status, "gateway ") || !strings.Contains(status, " partitions, and the state beside it ") {
		t.Error(status)
	}
	if code := end(); code != exitFailure || strings.Contains(out.String(), "a pipeline ended") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// TestGatewayWhoseOwnTopicGrewEndsAloneAtTheStart starts a process after its inbox grew.
func TestGatewayWhoseOwnTopicGrewEndsAloneAtTheStart(t *testing.T) {
	engine := fakeEngine(t)
	pipeline, token := gatewayFolder(t)
	t.Setenv("AFTERBAY_ENGINE", engine)
	out, end := background(t, "run", pipeline, "--gateway", "gateway.yaml", "--listen", "none")
	c := &conversation{TB: t, token: token, done: map[string]bool{}}
	c.connect(out)
	c.post(1, 1)
	for len(c.done) == 0 {
		c.take(c.next())
	}
	_ = c.conn.NetConn().Close()
	if code := end(); code != exitOK {
		t.Fatal(code, out)
	}
	add(t, engine, "chat.results")
	out, end = background(t, "run", pipeline, "--gateway", "gateway.yaml", "--listen", "127.0.0.1:0")
	out.wait(t, "the gateway ended, and the pipelines continue")
	must(t, `{"post":"p2","user":"ann","text":"hello","created":"2026-01-01T10:00:00Z"}`+"\n", "produce", "posts", "--key", "user", "--data", "other")
	follow, stop := background(t, "tail", "decisions", "--follow", "--data", "other")
	follow.wait(t, `"post":"p2"`)
	stop()
	wantGatewayEnded(t, out, end)
}

func wantMove(t *testing.T, code int, text string) {
	t.Helper()
	if code != exitFailure || !strings.Contains(text, `topic "grows-in" has 2 partitions, and the state beside it 1`) || !strings.Contains(text, "use another pipeline name") || !strings.Contains(text, "repartition: N") {
		t.Errorf("exit code %d: %s", code, text)
	}
}

// add gives topics a second partition.
func add(t *testing.T, engine string, topics ...string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(strings.TrimPrefix(engine, "kafka://"), ",")...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	grown, err := kadm.NewClient(client).CreatePartitions(t.Context(), 1, topics...)
	if err != nil || grown.Error() != nil {
		t.Fatal(err, grown.Error())
	}
}

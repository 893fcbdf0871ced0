package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/afterbay/afterbay/internal/config"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/internal/test/servertest"
	"github.com/afterbay/afterbay/stream"
)

const file = `
pipeline: moderation
input:
  topic: posts
  partitions: 4
  key: user
  fields: {user: string, device: int, n: int}
commit: {interval: 1ms}
steps:
  - lookup:
      name: profile
      redis: {url: '${REDIS}', prefix: 'user:'}
      key: user
      fields: {trusted: bool}
      empty: {trusted: false}
      ordered: true
      call: CALL
  - lookup:
      name: device
      postgres: {url: '${POSTGRES}', query: "select id::text, jsonb_build_object('kind', kind) from devices where id = any($1::bigint[])"}
      key: device
      fields: {kind: string}
      call: CALL
  - let: {kind: 'device.kind ?? "unknown"'}
  - lookup:
      name: risk
      http: {url: '${RISKS}', headers: {X-Team: risk}}
      key: kind
      when: kind != "unknown"
      fields: {level: number}
      cache: {ttl: 1m}
      call: CALL
  - emit: {topic: seen, value: [user, n, profile.trusted, kind, risk.level]}
`

// call is tried again soon, so that the tests are.
const call = `{timeout: 5s, backoff: {base: 10ms, max: 50ms}, breaker: {probe: 20ms}}`

const users, devices, events = 50, 30, 600

// set gives so many users a row in Redis, of which odd ones are trusted.
func set(t testing.TB, redis *servertest.Server, users int) {
	t.Helper()
	client := redis.Redis(t)
	rows := client.B().Mset().KeyValue()
	for i := range users {
		rows = rows.KeyValue(fmt.Sprint("user:u", i), fmt.Sprintf(`{"trusted":%t}`, i%2 == 1))
	}
	if err := client.Do(t.Context(), rows.Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

// fill gives the servers rows: ten devices have a kind.
func fill(t *testing.T, redis, postgres *servertest.Server) {
	t.Helper()
	set(t, redis, users)
	to := postgres.Postgres(t)
	if _, err := to.Exec(t.Context(), `create table devices as select n id, 'kind ' || n % 3 kind from generate_series(0, 9) n`); err != nil {
		t.Fatal(err)
	}
}

// serveRisks answers many keys a call.
func serveRisks(t *testing.T, calls *atomic.Int64) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		var asked struct{ Keys []string }
		if json.NewDecoder(r.Body).Decode(&asked) != nil || r.Header.Get("X-Team") != "risk" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		rows := map[string]any{}
		for _, key := range asked.Keys {
			if kind := strings.TrimPrefix(key, "kind "); kind != "2" {
				rows[key] = json.RawMessage(fmt.Sprintf(`{"level": 0.%s5}`, kind))
			}
		}
		json.NewEncoder(w).Encode(rows)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// wanted is what is written for an event.
func wanted(i int) string {
	kind, level := "unknown", "null"
	if device := i * 11 % devices; device < 10 {
		kind = fmt.Sprint("kind ", device%3)
		level = map[int]string{0: "0.05", 1: "0.15", 2: "null"}[device%3]
	}
	return fmt.Sprintf(`{"user":"u%d","n":%d,"profile_trusted":%t,"kind":%q,"risk_level":%s}`, i%users, i, i%users%2 == 1, kind, level)
}

func TestRowsOfRealServersThatDieAndComeBack(t *testing.T) {
	redis, postgres := servertest.Redis(t), servertest.Postgres(t)
	fill(t, redis, postgres)
	for name, how := range map[string]string{"at once": call, "recorded": call + "\n      journal: true"} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			variables := map[string]string{"REDIS": redis.URL, "POSTGRES": postgres.URL, "RISKS": serveRisks(t, &calls)}
			parsed, err := config.ParseWith("moderation.yaml", []byte(strings.ReplaceAll(file, "CALL", how)), func(name string) (string, bool) {
				value, ok := variables[name]
				return value, ok
			}, builtin.Kinds())
			if err != nil {
				t.Fatal(err)
			}
			p := parsed.Pipelines[0]
			runner, err := builtin.New(p, pipeline.Options{Members: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer runner.Close()
			log, err := embedded.Open(t.TempDir(), embedded.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			ctx, stop := context.WithCancel(t.Context())
			if err := runner.CreateTopics(ctx, log); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- runner.Run(ctx, log) }()
			for part := range 6 {
				switch part {
				case 1:
					redis.Kill()
				case 2:
					if err := redis.Start(ctx); err != nil {
						t.Fatal(err)
					}
				case 3:
					postgres.Kill()
				case 4:
					if err := postgres.Start(ctx); err != nil {
						t.Fatal(err)
					}
				}
				appendEvents(t, log, part*events/6, (part+1)*events/6)
				if part%2 == 0 {
					if err := runner.WaitIdle(ctx, log); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := runner.WaitIdle(ctx, log); err != nil {
				t.Fatal(err)
			}
			stop()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			check(t, log, runner)
			if n := calls.Load(); name == "at once" && n > 60 {
				t.Errorf("%d calls for 3 rows that are kept", n)
			}
		})
	}
}

func appendEvents(t *testing.T, log stream.Log, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		user := fmt.Sprint("u", i%users)
		err := log.Append(t.Context(), stream.Record{
			Partition: stream.Partition{Topic: "posts", Index: stream.ByKey}, Key: []byte(user),
			Value: fmt.Appendf(nil, `{"user":%q,"device":%d,"n":%d}`, user, i*11%devices, i),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func check(t *testing.T, log stream.Log, runner *pipeline.Runner) {
	t.Helper()
	answer, err := answers.RunAll(t.Context(), log, runner, nil)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range events {
		want = append(want, wanted(i))
	}
	got := answer.Values("seen")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d outputs, want %d; the first are %q", len(got), len(want), got[:min(len(got), 5)])
	}
	if c := runner.Counts(); c.DeadLetters > 0 || c.Retries == 0 {
		t.Errorf("counts %+v", c)
	}
}

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/afterbay/afterbay/internal/test/servertest"
)

const lookupsPipeline = `pipeline: posts
input: {topic: posts, key: user, fields: {user: string, device: int}}
steps:
  - lookup:
      name: profile
      redis: {url: '${REDIS_URL}', prefix: 'user:'}
      key: user
      fields: {trusted: bool}
  - lookup:
      name: device
      postgres:
        url: '${DATABASE_URL}'
        query: 'select id::text, to_jsonb(devices) from devices where id = any($1::bigint[])'
      key: device
      fields: {kind: string}
  - lookup:
      name: risk
      http: {url: '${RISKS}/{key}'}
      key: user
      fields: {level: number}
  - emit: {topic: seen, value: [user, profile.trusted, device.kind, risk.level]}
`

// TestLintAsksWhereRowsAre names each lookup whose server has not what it needs, at
// its place in the file.
func TestLintAsksWhereRowsAre(t *testing.T) {
	redis, postgres := servertest.Redis(t), servertest.Postgres(t)
	var locked atomic.Bool
	locked.Store(true)
	risks := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if locked.Load() {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		fmt.Fprint(w, `{"level":0.5}`)
	}))
	defer risks.Close()
	t.Chdir(t.TempDir())
	t.Setenv("DATABASE_URL", postgres.URL)
	t.Setenv("REDIS_URL", strings.Replace(redis.URL, "told%20to", "shown%20to", 1))
	t.Setenv("RISKS", risks.URL)
	write(t, "posts.yaml", lookupsPipeline)
	must(t, "", "lint", "posts.yaml") // asks nobody
	r := command(t, "", "lint", "--connect", "--json", "posts.yaml")
	found := findingsOf(t, r)
	want := []printedFinding{
		{Line: 6, Column: 20, Path: "steps[0].lookup.redis.url", Message: "WRONGPASS", Hint: "correct user and password"},
		{Line: 13, Column: 16, Path: "steps[1].lookup.postgres.query", Message: `relation "devices" does not exist`, Hint: "create it"},
		{Line: 18, Column: 19, Path: "steps[2].lookup.http.url", Message: "403 Forbidden", Hint: "correct the token"},
	}
	if len(found) != len(want) || r.code != exitInvalid || strings.Contains(r.stdout+r.stderr, "nobody") {
		t.Fatalf("%+v", r)
	}
	for i, w := range want {
		f := found[i]
		if f.File != "posts.yaml" || f.Line != w.Line || f.Column != w.Column || f.Path != w.Path || !strings.Contains(f.Message, w.Message) || !strings.Contains(f.Hint, w.Hint) {
			t.Errorf("%+v, want %+v", f, w)
		}
	}
	conn, err := pgx.Connect(t.Context(), postgres.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), "create table devices (id bigint, kind text)"); err != nil {
		t.Fatal(err)
	}
	locked.Store(false)
	t.Setenv("REDIS_URL", redis.URL)
	if out := must(t, "", "lint", "--connect", "posts.yaml"); !strings.Contains(out, "is valid") {
		t.Error(out)
	}
}

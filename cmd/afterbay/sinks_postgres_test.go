package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/test/servertest"
)

const artifactsPipeline = `pipeline: support
input:
  topic: contacts
  partitions: 2
  key: customer
  fields: {id: string, customer: string, body: string, embed: 'number[3]', ts: int, revision: optional int}
constants: {first: 1}
steps:
  - emit: {topic: artifacts, id: id, value: [id, customer, body, embed, revision]}
sinks:
  - from: artifacts
    postgres: {url: '${DATABASE_URL}', table: artifacts, key: id, vector: {column: embed, index: hnsw}, exactly_once: true}
  - {from: artifacts, name: cache, redis: {url: '${REDIS_URL}', prefix: 'artifact:', key: id, as: json, ttl: 1h, version: '(revision ?? 0) + first'}}
`

func TestRowsOfAPipelineAreWrittenOnce(t *testing.T) {
	server, cache := servertest.Postgres(t), servertest.Redis(t)
	t.Chdir(t.TempDir())
	t.Setenv("DATABASE_URL", server.URL)
	t.Setenv("REDIS_URL", cache.URL)
	write(t, "support.yaml", artifactsPipeline)
	var events strings.Builder
	for i := range 300 {
		fmt.Fprintf(&events, "{\"id\":\"a%d\",\"customer\":\"c%d\",\"body\":\"%d\",\"embed\":[%d,0,1],\"ts\":1,\"revision\":%d}\n", i%100, i%100%7, i, i, i/100)
	}
	conn := server.Postgres(t)
	for _, c := range [][2]string{ // there is no table yet
		{"", "is valid"},
		{"CREATE TABLE artifacts (id text PRIMARY KEY, customer text, body integer, embed text)", `sinks[0]: table artifacts, column body: is integer, and string is written to it, which needs text: ALTER TABLE "artifacts" ALTER COLUMN "body" TYPE text`},
		{"DROP TABLE artifacts", "is valid"},
	} {
		if _, err := conn.Exec(t.Context(), c[0]); err != nil {
			t.Fatal(err)
		}
		if r := command(t, "", "lint", "--connect", "support.yaml"); !strings.Contains(r.stdout+r.stderr, c[1]) {
			t.Errorf("%s: %+v", c[0], r)
		}
	}
	must(t, events.String(), "produce", "contacts", "--partitions", "2", "--key", "customer")
	out := must(t, "", "run", "support.yaml", "--listen", "none", "--until-idle")
	for _, want := range []string{"sink artifacts: artifacts to postgres://127.0.0.1:", "/postgres table artifacts", "sink support.artifacts: 300 delivered, 0 repeated, 0 dead letters, 0 failed calls",
		"/0 keys artifact:<id>", "sink support.cache: 300 delivered, 0 repeated, 0 dead letters, 0 failed calls"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s, want %s", out, want)
		}
	}
	if strings.Contains(out, "told") {
		t.Error("a password is shown")
	}
	client := cache.Redis(t)
	for i := range 100 {
		text, err := client.Do(t.Context(), client.B().Get().Key(fmt.Sprint("artifact:a", i)).Build()).ToString()
		if want := fmt.Sprintf(`{"id":"a%d","customer":"c%d","body":"%d","embed":[%[3]d,0,1],`, i, i%7, 200+i); err != nil || !strings.HasPrefix(text, want) {
			t.Errorf("%s, want %s: %v", text, want, err)
		}
	}
	var rows, right, positions int
	if err := conn.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE body::int >= 200 AND id = 'a' || (body::int - 200) AND embed::text = '[' || body || ',0,1]'),
		(SELECT sum(next) FROM (SELECT max(next) AS next FROM afterbay_positions GROUP BY partition) p) FROM artifacts`).Scan(&rows, &right, &positions); err != nil {
		t.Fatal(err)
	}
	if rows != 100 || right != 100 || positions != 300 {
		t.Errorf("%d rows, %d right, %d positions", rows, right, positions)
	}
}

func TestSinksOfRowsThatCannotBeAreRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("DATABASE_URL", "postgres://localhost/x")
	t.Setenv("REDIS_URL", "redis://localhost:6379/0")
	for _, c := range [][3]string{
		{"key: id", "key: nobody", `the records of "artifacts" have no "nobody"`},
		{"key: id", "key: embed", `"embed" is of type number[3]: a key is a string or int`},
		{"{column: embed", "{column: body", `"body" is of type string: a vector is of one as number[384]`},
		{"{column: embed", "{column: vector", `nothing is written to a column "vector"`},
		{"exactly_once: true", "version: body", `support.yaml:12:114: sinks[0].postgres.version: this is of type string: a version is an int, number or time`},
		{"exactly_once: true", "version: 'revision + 1'", `sinks[0].postgres.version: revision may be absent: write a default: revision ?? ...`},
		{"exactly_once: true", "version: 'len(body) + revison'", `support.yaml:12:127: sinks[0].postgres.version: unknown name revison: did you mean revision?`},
		{"(revision ?? 0) + first", "revision", `sinks[1].redis.version: this may be absent: a version is always there: write a default: ... ?? 0`},
		{"(revision ?? 0) + first", "first + 1", `sinks[1].redis.version: this is the same for all records`},
		{"exactly_once: true", "columns: {body: text, customer: text}", `"body" and "customer" go to one column, text`},
		{"prefix: 'artifact:', key: id", "key: embed", `sinks[1].redis.key: "embed" is of type number[3]`},
		{"cache, redis", "cache, window: 1h, redis", "sinks[1].window: it has no effect for this kind of sink"},
		{"from: artifacts", "from: support.dlq", "are unknown: only records of an emit"},
		{"'${DATABASE_URL}'", "postgres://me:secret@host/x", "a password has no place in the file"},
	} {
		write(t, "support.yaml", strings.Replace(artifactsPipeline, c[0], c[1], 1))
		if r := command(t, "", "lint", "support.yaml"); r.code != exitInvalid || !strings.Contains(r.stdout+r.stderr, c[2]) {
			t.Errorf("%s: %+v", c[1], r)
		}
	}
	write(t, "support.yaml", strings.Replace(artifactsPipeline, "exactly_once: true", "columns: {body: text}", 1)) // the key goes to its own
	if r := command(t, "", "lint", "support.yaml"); r.code != exitInvalid || !strings.Contains(r.stderr, `nothing is written to a column "embed"`) {
		t.Errorf("%+v", r)
	}
}

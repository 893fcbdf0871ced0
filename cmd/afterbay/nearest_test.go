package main

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/afterbay/afterbay/internal/test/servertest"
)

const nearestPipeline = `pipeline: near
input: {topic: in, key: k, fields: {k: string, v: 'number[3]'}}
steps:
  - lookup:
      name: near
      vector: v
      postgres: {url: '${DATABASE_URL}', table: documents, column: embedding}
      fields: {body: string}
  - emit: {topic: out, value: [k, near.body]}
`

func TestLintLooksAtTheTableOfDocuments(t *testing.T) {
	if apart(t) {
		return
	}
	server := servertest.Postgres(t)
	t.Chdir(t.TempDir())
	t.Setenv("DATABASE_URL", server.URL)
	write(t, "near.yaml", nearestPipeline)
	conn, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, c := range [][2]string{
		{"create extension vector", "near.yaml:7:7: steps[0].lookup.postgres: PostgreSQL has no table documents: create it"},
		{"create table documents (text text, embedding vector(4))", "table documents has no column body: it has text, embedding"},
		{"alter table documents rename text to body", "column embedding of table documents is of vectors of 4 numbers, those of events have 3"},
		{"alter table documents alter embedding type vector(3)", "is valid"},
	} {
		if _, err := conn.Exec(t.Context(), c[0]); err != nil {
			t.Fatal(err)
		}
		r := command(t, "", "lint", "--connect", "near.yaml")
		if said := r.stdout + r.stderr; !strings.Contains(said, c[1]) || (r.code == 0) != (c[1] == "is valid") || strings.Contains(said, "told") {
			t.Errorf("%s: %+v", c[0], r)
		}
	}
	must(t, `{"k":"a","v":[1,2,3]}`, "produce", "in", "--partitions", "1", "--key", "k")
	if _, err := conn.Exec(t.Context(), `insert into documents values ('one', '[3,2,1]'), ('two', '[1,2,3]')`); err != nil {
		t.Fatal(err)
	}
	must(t, "", "run", "near.yaml", "--listen", "none", "--until-idle")
	if out := must(t, "", "tail", "out"); !strings.Contains(out, `"near_body":"two\n\none"`) {
		t.Error(out)
	}
}

package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/afterbay/afterbay/internal/lookups"
	"github.com/afterbay/afterbay/internal/lookups/postgres"
	"github.com/afterbay/afterbay/internal/models/calling"
	"github.com/afterbay/afterbay/internal/test/servertest"
	"github.com/afterbay/afterbay/lookup"
	"github.com/afterbay/afterbay/model"
)

func tell(t *testing.T, server *servertest.Server, statement string) {
	t.Helper()
	to, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close(context.Background())
	if _, err := to.PgConn().Exec(t.Context(), statement).ReadAll(); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, url, query string) *postgres.Source {
	t.Helper()
	s, err := postgres.New(t.Context(), postgres.Options{URL: url, Query: query})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

const (
	users   = `select name, to_jsonb(users) from users where name = any($1)`
	devices = `select id::text, jsonb_build_object('kind', kind) from devices where id = any($1::bigint[])`
)

func makeTables(t *testing.T, server *servertest.Server) {
	tell(t, server, `create table users (name text primary key, level int, since date);
		insert into users values ('ann', 3, '2026-01-02'), ('b''o"b', null, null);
		create table devices (id bigint primary key, kind text);
		insert into devices select n, 'kind ' || n from generate_series(1, 2000) n`)
}

func TestRowsAreWhatTheQueryFinds(t *testing.T) {
	server := servertest.Postgres(t)
	makeTables(t, server)
	s := open(t, server.URL, users)
	rows, err := s.Rows(t.Context(), []string{"nobody", "b'o\"b", "ann", ""})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range rows {
		got = append(got, string(row))
	}
	want := []string{"", `{"name": "b'o\"b", "level": null, "since": null}`, `{"name": "ann", "level": 3, "since": "2026-01-02"}`, ""}
	if !slices.Equal(got, want) || rows[0] != nil {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestKeyThatDoesNotFitIsRefusedAlone(t *testing.T) {
	server := servertest.Postgres(t)
	makeTables(t, server)
	f := lookups.New(open(t, server.URL, devices), lookups.Options{Timeout: time.Minute})
	found, err := f.Find(t.Context(), []string{"7", "seven", "2000", "99999999999999999999", "2001", "a\x00b"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{`{"kind": "kind 7"}`, "refused", `{"kind": "kind 2000"}`, "refused", "", "refused"} {
		if got := found[i]; want == "refused" != (calling.BlameOf(got.Err) == model.BlameRows && got.Err != nil) || want != "refused" && string(got.Row) != want {
			t.Errorf("key %d: %s %v, want %s", i, got.Row, got.Err, want)
		}
	}
}

func TestWhoseFaultAnErrorIs(t *testing.T) {
	server := servertest.Postgres(t)
	makeTables(t, server)
	tell(t, server, `create function raises() returns jsonb language plpgsql as $$ begin raise exception 'no'; end $$`)
	for query, want := range map[string]model.Blame{
		`select name, to_jsonb(users) from nothing where name = any($1)`: model.BlameWay,
		`select name, raises() from users where name = any($1)`:          model.BlameModel,
		`select name from users where name = any($1)`:                    model.BlameWay,
		`select name, level/0 from users where name = any($1)`:           model.BlameRows,
	} {
		if _, err := open(t, server.URL, query).Rows(t.Context(), []string{"ann"}); err == nil || calling.BlameOf(err) != want {
			t.Errorf("%s: %v, blame %v, want %v", query, err, calling.BlameOf(err), want)
		}
	}
}

func TestServerThatIsDownOrLateIsNoKeysFaultAndComesBack(t *testing.T) {
	server := servertest.Postgres(t)
	makeTables(t, server)
	s := open(t, server.URL, users)
	slow := open(t, server.URL, `select 'ann', to_jsonb(pg_sleep(60)) where $1::text[] is not null`)
	ask := func(s *postgres.Source, limit time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		_, err := s.Rows(ctx, []string{"ann"})
		return err
	}
	start := time.Now()
	if err := ask(slow, 100*time.Millisecond); err == nil || calling.BlameOf(err) != model.BlameWay || time.Since(start) > 20*time.Second {
		t.Errorf("late: %v after %v", err, time.Since(start))
	}
	if err := ask(s, time.Minute); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	for range 2 {
		if err := ask(s, time.Minute); err == nil || calling.BlameOf(err) != model.BlameWay {
			t.Errorf("down: %v", err)
		}
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := ask(s, time.Minute); err != nil {
		t.Errorf("after it came back: %v", err)
	}
}

func TestPasswordsAreNotShown(t *testing.T) {
	server := servertest.Postgres(t)
	for _, url := range []string{strings.Replace(server.URL, "told", "hush", 1), "postgres://u:hush@host:port/x", "mysql://u:hush@h/x"} {
		s, err := postgres.New(t.Context(), postgres.Options{URL: url, Query: users})
		if err == nil {
			_, err = s.Rows(t.Context(), []string{"ann"})
			s.Close()
		}
		if err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%v", err)
		}
	}
	if s, err := postgres.New(t.Context(), postgres.Options{URL: server.URL, Query: "select 1, '{}'"}); err == nil {
		s.Close()
		t.Error("a query without the keys")
	}
}

func TestCheckSaysWhatIsWrongWithTheQuery(t *testing.T) {
	server := servertest.Postgres(t)
	makeTables(t, server)
	tell(t, server, `create role reader login password 'told to nobody'; create table seen (name text)`)
	gone := servertest.Postgres(t)
	gone.Kill()
	reader := strings.Replace(server.URL, "postgres://postgres:", "postgres://reader:", 1)
	for _, c := range []struct{ url, query, option, said, hint string }{
		{url: server.URL, query: users},
		{url: server.URL, query: devices},
		{url: server.URL, query: "insert into seen select unnest($1::text[]) returning name, '{}'::jsonb"}, // which is not run
		{server.URL, strings.ReplaceAll(users, "from users", "from people"), "query", `relation "people" does not exist`, "create it"},
		{server.URL, strings.ReplaceAll(users, "where name", "where nam"), "query", `column "nam" does not exist`, `"users.name"`},
		{server.URL, strings.ReplaceAll(devices, "$1::bigint[]", "$1::text[]"), "query", "operator does not exist: bigint = text", "cast the keys"},
		{server.URL, "select from where $1", "query", "syntax error", "takes the keys as $1"},
		{server.URL, "select name, level, since from users where name = any($1)", "query", "returns 3 columns (name, level, since)", "key and row"},
		{server.URL, "select name, level from users where name = any($1)", "query", "second column, level, is of int4", "to_jsonb"},
		{server.URL, "select name, to_jsonb(users) from users where name = $1", "query", "", "takes the keys as $1"},
		{reader, users, "query", "permission denied for table users", "GRANT SELECT"},
		{strings.Replace(reader, "reader", "writer", 1), users, "url", "password authentication failed", "user and password"},
		{server.URL + "x", users, "url", `does not exist`, "database"},
		{gone.URL, users, "url", "connect", "start PostgreSQL there"},
	} {
		err := open(t, c.url, c.query).Check(t.Context())
		var m *lookup.Mistake
		if c.option == "" {
			if err != nil {
				t.Errorf("%s: %v", c.query, err)
			}
			continue
		}
		if !errors.As(err, &m) || m.Field != c.option || !strings.Contains(m.Error(), c.said) || !strings.Contains(m.Hint, c.hint) || strings.Contains(m.Error(), "told") {
			t.Errorf("%s: %+v", c.query, m)
		}
	}
}

func TestPasswordIsNotSentInPlainText(t *testing.T) {
	url, sent := servertest.WithoutTLS(t)
	source, err := postgres.New(t.Context(), postgres.Options{URL: url, Query: "select $1"})
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	if _, err := source.Rows(t.Context(), []string{"a"}); err == nil || !strings.Contains(err.Error(), "sslmode=disable") || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
	select {
	case text := <-sent:
		t.Errorf("a server without TLS got %q", text)
	default:
	}
}

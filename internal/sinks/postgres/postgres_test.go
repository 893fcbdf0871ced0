package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/sinks/postgres"
	"github.com/afterbay/afterbay/internal/sinks/row"
	"github.com/afterbay/afterbay/internal/test/servertest"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

func typed(text string) value.Type {
	t, err := value.ReadType(text)
	if err != nil {
		panic(err)
	}
	return t
}

// column is one whose field has its name.
func column(name, of string) postgres.Column {
	return postgres.Column{Name: name, Column: name, Type: typed(of)}
}

// artifacts are options of a table of id and body.
func artifacts(url string) postgres.Options {
	return postgres.Options{URL: url, Table: "artifacts", Key: "id", Columns: []postgres.Column{column("id", "string"), column("body", "string")}, Group: "support.artifacts"}
}

// version compiles one over fields, such as "at int".
func version(t *testing.T, source string, fields ...string) *row.Version {
	t.Helper()
	var list []row.Field
	for _, f := range fields {
		name, of, _ := strings.Cut(f, " ")
		list = append(list, row.Field{Name: name, Type: typed(of)})
	}
	v, err := row.Compile(source, list, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// base is a database of its own, and a connection to it.
type base struct {
	*testing.T
	url  string
	conn *pgx.Conn
}

func newBase(t *testing.T) *base {
	t.Helper()
	b := &base{T: t, url: server.Get(t).URL}
	b.connect()
	name := fmt.Sprintf("of%d", time.Now().UnixNano())
	b.exec("CREATE DATABASE " + name)
	b.url = strings.TrimSuffix(b.url, "postgres") + name
	b.connect()
	return b
}

func (b *base) connect() {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), b.url)
	b.ok(err)
	b.conn = conn
	b.Cleanup(func() { conn.Close(context.Background()) })
}

func (b *base) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *base) exec(sql string) {
	b.Helper()
	_, err := b.conn.Exec(b.Context(), sql)
	b.ok(err)
}

// rows returns what a query finds, each row as a text.
func (b *base) rows(sql string) []string {
	b.Helper()
	rows, err := b.conn.Query(b.Context(), sql)
	b.ok(err)
	list, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (string, error) {
		values, err := r.Values()
		return strings.TrimSuffix(fmt.Sprintln(values...), "\n"), err
	})
	b.ok(err)
	return list
}

// want checks what a query finds.
func (b *base) want(sql string, want ...string) {
	b.Helper()
	if diff := cmp.Diff(want, append([]string(nil), b.rows(sql)...)); diff != "" {
		b.Errorf("%s (-want +got):\n%s", sql, diff)
	}
}

func (b *base) open(o postgres.Options) *postgres.Sink {
	b.Helper()
	s, err := postgres.New(o)
	b.ok(err)
	b.Cleanup(s.Close)
	return s
}

func (b *base) claim(s *postgres.Sink, next stream.Offset) sink.Claim {
	b.Helper()
	c, err := s.Claim(b.Context(), topic, next)
	b.ok(err)
	return c
}

var topic = stream.Partition{Topic: "artifacts", Index: 1}

// record is one of an event of partition contacts/0, at the same offset.
func record(offset int64, generation int, value string) stream.Record {
	return from("contacts/0", offset, offset, generation, value)
}

// from is a record at an offset of an event at another one.
func from(source string, event, offset int64, generation int, value string) stream.Record {
	return stream.Record{Partition: topic, Offset: stream.Offset(offset), Value: []byte(value), Headers: []stream.Header{
		{Key: header.Position, Value: fmt.Appendf(nil, "%s@%d", source, event)},
		{Key: header.Pipeline, Value: fmt.Appendf(nil, "support sha256:00 %d", generation)},
	}}
}

func text(id, body string) string { return fmt.Sprintf(`{"id":%q,"body":%q}`, id, body) }

func (b *base) write(c sink.Claim, records ...stream.Record) sink.Outcome {
	b.Helper()
	o, err := c.Write(b.Context(), 0, records)
	b.ok(err)
	return o
}

func TestNewestRowOfAKeyStaysWhateverComesWhen(t *testing.T) {
	b := newBase(t)
	c := b.claim(b.open(artifacts(b.url)), 0)
	b.write(c, record(0, 1, text("a", "0")), record(1, 1, text("b", "1")), record(2, 1, text("a", "2")))
	all := "SELECT id, body, afterbay_source, afterbay_generation, afterbay_offset FROM artifacts ORDER BY id"
	b.want(all, "a 2 contacts/0 1 2", "b 1 contacts/0 1 1")
	if o := b.write(c, record(0, 1, text("a", "0")), record(1, 1, text("b", "1"))); o.Older != 2 || len(o.Refused) > 0 {
		t.Errorf("the same again: %+v", o)
	}
	b.want(all, "a 2 contacts/0 1 2", "b 1 contacts/0 1 1")
	b.write(c, record(0, 2, text("a", "again"))) // derived again
	b.write(c, record(9, 1, text("a", "9")))     // by the generation before
	b.write(c, record(3, 1, text("b", "3")))
	b.want(all, "a again contacts/0 2 0", "b 3 contacts/0 1 3")
	b.write(c, from("contacts/0", 5, 20, 2, text("a", "first of 5")), from("contacts/0", 5, 21, 2, text("a", "last of 5")))
	b.write(c, from("contacts/0", 5, 20, 2, text("a", "first of 5")))
	b.want(all, "a last of 5 contacts/0 2 5", "b 3 contacts/0 1 3")
}

func TestRowOfAnotherSourceIsRefusedUnlessThereIsAVersion(t *testing.T) {
	b := newBase(t)
	c := b.claim(b.open(artifacts(b.url)), 0)
	b.write(c, record(4, 1, text("a", "0")), record(5, 1, text("b", "0")))
	o := b.write(c, from("contacts/1", 9, 10, 1, text("a", "1")), record(6, 1, text("b", "2")), from("contacts/1", 10, 12, 1, text("a", "3")), from("contacts/1", 11, 13, 1, text("b", "4")), from("contacts/1", 12, 14, 1, text("c", "5")))
	var refused []int
	for _, r := range o.Refused {
		refused = append(refused, r.Index)
		if !strings.Contains(r.Err.Error(), "from another source than contacts/1") || !strings.Contains(r.Err.Error(), "`version`") {
			t.Error(r.Err)
		}
	}
	if diff := cmp.Diff([]int{0, 2, 3}, refused); diff != "" || o.Foreign != 3 || o.Older != 0 {
		t.Errorf("refused %v, %+v", refused, o)
	}
	b.want("SELECT id, body FROM artifacts ORDER BY id", "a 0", "b 2", "c 5")

	versioned := artifacts(b.url)
	versioned.Table, versioned.Version, versioned.Columns = "versioned", version(t, "at", "at int"), append(versioned.Columns, column("at", "int"))
	at := func(id, body string, at int) string { return fmt.Sprintf(`{"id":%q,"body":%q,"at":%d}`, id, body, at) }
	c = b.claim(b.open(versioned), 0)
	writes := []stream.Record{
		record(4, 1, at("a", "x", 7)), from("contacts/1", 2, 5, 1, at("a", "y", 9)), record(5, 1, at("a", "z", 8)),
		record(6, 1, at("b", "first", 3)), from("contacts/1", 3, 7, 1, at("b", "same time, and of a later source", 3)),
	}
	for _, order := range [][]int{{0, 1, 2, 3, 4}, {4, 2, 0, 3, 1}, {1, 4, 0, 2, 3}} {
		b.exec("DELETE FROM versioned")
		for _, i := range order {
			if o := b.write(c, writes[i]); len(o.Refused) > 0 {
				t.Errorf("%+v", o)
			}
		}
		b.want("SELECT id, body FROM versioned ORDER BY id", "a y", "b same time, and of a later source")
	}
	b.exec("DELETE FROM versioned")
	b.write(c, writes...)
	b.want("SELECT id, body FROM versioned ORDER BY id", "a y", "b same time, and of a later source")
}

// TestVersionIsComputedOfWhatIsNotWritten gives the table a version, which it has a
// column for.
func TestVersionIsComputedOfWhatIsNotWritten(t *testing.T) {
	b := newBase(t)
	o := artifacts(b.url)
	b.write(b.claim(b.open(o), 0), record(0, 1, text("a", "without a version")), record(1, 1, text("b", "without one")))
	o.Version = version(t, "(revision ?? 0) * 100 / scale", "id string", "revision optional int", "scale int", "other string")
	sink := b.open(o)
	_, err := sink.Claim(t.Context(), topic, 0)
	if want := `table artifacts, column afterbay_version: the column is missing, and number is written to it: ALTER TABLE "artifacts" ADD COLUMN "afterbay_version" double precision`; err == nil || err.Error() != want {
		t.Fatalf("%v, want %s", err, want)
	}
	b.exec(`ALTER TABLE "artifacts" ADD COLUMN "afterbay_version" double precision`)
	write := func(source string, offset int64, id, body, revision string, scale int) stream.Record {
		return from(source, offset, offset, 1, fmt.Sprintf(`{"id":%q,"body":%q%s,"scale":%d}`, id, body, revision, scale))
	}
	records := []stream.Record{
		write("contacts/1", 9, "a", "3/2", `,"revision":3`, 2), write("contacts/0", 4, "a", "8/6", `,"revision":8`, 6),
		write("contacts/1", 10, "a", "none", "", 1), write("contacts/0", 5, "a", "by zero", `,"revision":1`, 0),
	}
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}} {
		b.exec("UPDATE artifacts SET afterbay_version = NULL, body = 'before'")
		c, refused := b.claim(sink, 0), 0
		for _, i := range order {
			for _, r := range b.write(c, records[i]).Refused {
				if refused++; !strings.Contains(r.Err.Error(), "version: ") || !strings.Contains(r.Err.Error(), "division by zero") {
					t.Error(r.Err)
				}
			}
		}
		b.want("SELECT id, body, afterbay_version FROM artifacts ORDER BY id", "a 3/2 150", "b before <nil>")
		if refused != 1 {
			t.Errorf("%d records refused", refused)
		}
	}
	if out := b.write(b.claim(sink, 0), records...); len(out.Refused) != 1 || out.Foreign != 0 || out.Older != 1 {
		t.Errorf("all at once: %+v", out)
	}
}

func TestBadRowIsFoundAndTheOthersAreWritten(t *testing.T) {
	b := newBase(t)
	b.exec("CREATE TABLE artifacts (id text PRIMARY KEY, body varchar(5) CHECK (body <> 'evil'), afterbay_source text, afterbay_generation bigint, afterbay_offset bigint, afterbay_record bigint)")
	for _, exactly := range []bool{false, true} {
		b.exec("DELETE FROM artifacts")
		options := artifacts(b.url)
		options.ExactlyOnce = exactly
		c := b.claim(b.open(options), 0)
		var records []stream.Record
		for i := range 200 {
			records = append(records, record(int64(i), 1, text(fmt.Sprint("k", i), "body")))
		}
		records[17] = record(17, 1, text("k17", "too long"))
		records[18] = record(18, 1, text("k18", "evil"))
		records[190] = record(190, 1, `{"id":"k190","body":"z\u0000"}`)
		records[191] = record(191, 1, `{"id":"k191"}`)
		o := b.write(c, records...)
		var got []string
		for _, r := range o.Refused {
			got = append(got, fmt.Sprint(r.Index, " ", r.Err))
		}
		for i, want := range []string{"17 ask PostgreSQL: ERROR: value too long", "18 ask PostgreSQL: ERROR: new row", "190 column body: PostgreSQL cannot store", `191 field "body" at byte`} {
			if len(got) != 4 || !strings.HasPrefix(got[i], want) {
				t.Fatalf("refused %q", got)
			}
		}
		b.want("SELECT count(*) FROM artifacts", "196")
	}
}

func TestTableThatDoesNotFitIsSaidExactly(t *testing.T) {
	b := newBase(t)
	b.exec("CREATE EXTENSION vector")
	b.exec("CREATE TABLE artifacts (id text, body integer, embed vector(383), score double precision NOT NULL, other text NOT NULL, afterbay_source bigint)")
	o := artifacts(b.url)
	o.Columns = append(o.Columns, column("embed", "number[384]"), column("score", "optional number"), column("seen", "time"))
	o.Vector = &postgres.Vector{Column: "embed"}
	_, err := b.open(o).Claim(t.Context(), topic, 0)
	if err == nil {
		t.Fatal("the table was taken")
	}
	want := []string{
		`table artifacts, column afterbay_generation: the column is missing, and the sink keeps the event of a row there: ALTER TABLE "artifacts" ADD COLUMN afterbay_generation bigint`,
		`table artifacts, column afterbay_offset: the column is missing, and the sink keeps the event of a row there: ALTER TABLE "artifacts" ADD COLUMN afterbay_offset bigint`,
		`table artifacts, column afterbay_record: the column is missing, and the sink keeps the event of a row there: ALTER TABLE "artifacts" ADD COLUMN afterbay_record bigint`,
		`table artifacts, column afterbay_source: is bigint, and the sink needs text: ALTER TABLE "artifacts" ALTER COLUMN afterbay_source TYPE text USING afterbay_source::text`,
		`table artifacts, column body: is integer, and string is written to it, which needs text: ALTER TABLE "artifacts" ALTER COLUMN "body" TYPE text USING "body"::text`,
		`table artifacts, column embed: is vector(383), and number[384] is written to it, which needs vector(384): ALTER TABLE "artifacts" ALTER COLUMN "embed" TYPE vector(384) USING "embed"::vector(384)`,
		`table artifacts, column id: is not unique, and rows are found by it: ALTER TABLE "artifacts" ADD PRIMARY KEY ("id")`,
		`table artifacts, column other: is NOT NULL without a default, and nothing is written to it: ALTER TABLE "artifacts" ALTER COLUMN "other" DROP NOT NULL`,
		`table artifacts, column score: is NOT NULL, and optional number is written to it: ALTER TABLE "artifacts" ALTER COLUMN "score" DROP NOT NULL`,
		`table artifacts, column seen: the column is missing, and time is written to it: ALTER TABLE "artifacts" ADD COLUMN "seen" timestamp with time zone`,
	}
	got := strings.Split(err.Error(), "\n")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is wrong (-want +got):\n%s", diff)
	}
	for _, line := range got { // what is said is what helps
		_, sql, _ := strings.Cut(line, ": ALTER")
		b.exec("ALTER" + sql)
	}
	b.claim(b.open(o), 0)
}

// kinds is a record of each type that there is, and one without all that may be
// absent.
func TestEveryTypeIsWritten(t *testing.T) {
	b := newBase(t)
	o := artifacts(b.url)
	o.Table, o.Key = "public.kinds", "n"
	o.Columns = []postgres.Column{column("n", "int"), column("yes", "optional bool"), column("score", "optional number"), column("at", "optional time"), column("raw", "optional bytes"), column("Ümlaut \"", "optional string"), column("embed", "optional number[3]"), column("plain", "optional number[2]"), column("words", "optional string[]"), column("ids", "optional int[]"), column("shares", "optional number[]"), column("times", "optional time[]"), column("oks", "optional bool[]"), column("subtrees", "optional raw[]"), column("counts", "optional map of int")}
	o.Vector = &postgres.Vector{Column: "embed", Index: "hnsw"}
	c := b.claim(b.open(o), 0)
	b.write(c, record(0, 1, `{"n":-7,"yes":true,"score":0.1,"at":"2026-11-22T10:00:00.000001Z","raw":"AP8=","Ümlaut \"":"ä","embed":[1,-2.5,3e-5],"plain":[0.1,2],"words":["a","","\"b\\","c,\n{d}"],"ids":[1,-2],"shares":[0.5,1e-9],"times":["2026-11-22T10:00:00.000001Z"],"oks":[true,false],"subtrees":[{"a":["\""]},2],"counts":{"b":2,"a\"":1}}`), record(1, 1, `{"n":8}`))
	b.want(`SELECT n, yes, score, at = '2026-11-22T10:00:00.000001Z', raw, "Ümlaut """, embed::text, plain::text, words::text, ids::text, shares::text, (times)[1] = '2026-11-22T10:00:00.000001Z', oks::text, subtrees::text, counts::text FROM kinds ORDER BY n`,
		`-7 true 0.1 true [0 255] ä [1,-2.5,3e-05] {0.1,2} {a,"","\"b\\","c,`+"\n"+`{d}"} {1,-2} {0.5,1e-09} true {t,f} [{"a": ["\""]}, 2] {"b": 2, "a\"": 1}`, "8"+strings.Repeat(" <nil>", 14))
	for until := time.Now().Add(2 * time.Minute); len(b.rows("SELECT 1 FROM pg_indexes WHERE indexname = 'public_kinds_embed_hnsw'")) == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("there is no index")
		}
	}

	b.exec("CREATE TABLE others (n smallint PRIMARY KEY, plain jsonb, words jsonb, id uuid, afterbay_source text, afterbay_generation bigint, afterbay_offset bigint, afterbay_record bigint)")
	o.Table, o.Vector, o.Columns = "others", nil, []postgres.Column{column("n", "int"), column("plain", "number[2]"), column("id", "string"), column("words", "optional string[]")}
	c = b.claim(b.open(o), 0)
	out := b.write(c, record(0, 1, `{"n":40000,"plain":[1,2],"id":"0b1ab3a2-0000-0000-0000-000000000000"}`), record(1, 1, `{"n":4,"plain":[1,2],"id":"0b1ab3a2-0000-0000-0000-000000000000","words":["a\nb","\"\\"]}`), record(2, 1, `{"n":5,"plain":[1,2],"id":"no"}`))
	b.want("SELECT n, plain::text, id::text, words::text FROM others", `4 [1, 2] 0b1ab3a2-0000-0000-0000-000000000000 ["a\nb", "\"\\"]`)
	if len(out.Refused) != 2 {
		t.Errorf("%+v", out)
	}
}

func TestZombieNeverMovesThePositionBack(t *testing.T) {
	b := newBase(t)
	o := artifacts(b.url)
	o.ExactlyOnce, o.Connections = true, 1
	first, second := b.open(o), b.open(o)
	zombie := b.claim(first, 0)
	b.write(zombie, record(0, 1, text("a", "0")))
	owner := b.claim(second, 0) // of which the log knows no more
	b.write(owner, record(0, 1, text("a", "0")), record(1, 1, text("b", "1")), record(2, 1, text("c", "2")))
	position := "SELECT shard, next, owner FROM afterbay_positions"
	b.want(position, "0 3 2")
	b.exec("DELETE FROM artifacts")
	if _, err := zombie.Write(t.Context(), 0, []stream.Record{record(1, 1, text("b", "1"))}); !errors.Is(err, stream.ErrFenced) {
		t.Errorf("the zombie wrote: %v", err)
	}
	if _, err := zombie.Write(t.Context(), 0, []stream.Record{record(1, 1, text("b", "1"))}); err == nil {
		t.Error("a claim whose write failed wrote")
	}
	b.want(position, "0 3 2")
	b.want("SELECT id FROM artifacts")
	b.write(b.claim(first, 0), record(2, 1, text("c", "2")), record(3, 1, text("d", "3"))) // of which 2 is done
	b.want(position, "0 4 3")
	b.want("SELECT id FROM artifacts", "d")
	if _, err := owner.Write(t.Context(), 0, []stream.Record{record(3, 1, text("d", "3"))}); !errors.Is(err, stream.ErrFenced) {
		t.Errorf("the owner before wrote: %v", err)
	}
}

func TestOtherNumberOfConnectionsWaitsForTheOldOnes(t *testing.T) {
	b := newBase(t)
	o := artifacts(b.url)
	o.ExactlyOnce, o.Connections = true, 2
	b.write(b.claim(b.open(o), 0), record(0, 1, text("a", "0")), record(1, 1, text("b", "1")), record(2, 1, text("c", "2")))
	o.Connections = 3
	other := b.open(o)
	if _, err := other.Claim(t.Context(), topic, 2); err == nil || !strings.Contains(err.Error(), "run it with `concurrency: 2` until it has no lag, and with 3 after that") {
		t.Errorf("claimed: %v", err)
	}
	b.write(b.claim(other, 3), record(3, 1, text("d", "3")))
	b.want("SELECT count(*), max(shards), max(next), max(owner) FROM afterbay_positions", "3 3 4 2")
}

// TestRefusedRecordIsNotForgottenByAPosition has a crash between the rows of a
// batch and the dead letter of one of them.
func TestRefusedRecordIsNotForgottenByAPosition(t *testing.T) {
	b := newBase(t)
	b.exec("CREATE TABLE artifacts (id text PRIMARY KEY, body varchar(5), afterbay_source text, afterbay_generation bigint, afterbay_offset bigint, afterbay_record bigint)")
	o := artifacts(b.url)
	o.ExactlyOnce, o.Connections = true, 1
	s := b.open(o)
	records := []stream.Record{record(0, 1, text("a", "0")), record(1, 1, text("b", "too long")), from("contacts/1", 2, 2, 1, text("a", "2")), record(3, 1, text("d", "3"))}
	for range 3 {
		out := b.write(b.claim(s, 0), records...)
		if len(out.Refused) != 2 || out.Refused[0].Index != 1 || out.Refused[1].Index != 2 || out.Foreign != 1 {
			t.Fatalf("%+v", out)
		}
		b.want("SELECT next, array_to_string(refused, ' ') FROM afterbay_positions", "4 1 2")
	}
	c := b.claim(s, 0)
	if _, err := c.Write(t.Context(), 4, []stream.Record{record(4, 1, text("e", "4"))}); err != nil { // whose dead letters are in the log
		t.Error(err)
	}
	b.want("SELECT next, array_to_string(refused, ' ') FROM afterbay_positions", "5 ")
}

func TestOptionsAreChecked(t *testing.T) {
	good := artifacts("postgres://localhost/x")
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(*postgres.Options){
		"URL":                  func(o *postgres.Options) { o.URL = "localhost" },
		"name of a table":      func(o *postgres.Options) { o.Table = "a.b.c" },
		"sink's own":           func(o *postgres.Options) { o.Columns[1].Column = "afterbay_offset" },
		"two fields":           func(o *postgres.Options) { o.Columns[1].Column = "id" },
		`to a column "nobody"`: func(o *postgres.Options) { o.Key = "nobody" },
		"always there":         func(o *postgres.Options) { o.Columns[0].Type.Optional = true },
		"a vector is":          func(o *postgres.Options) { o.Vector = &postgres.Vector{Column: "body"} },
		"connections":          func(o *postgres.Options) { o.Connections = 65 },
	} {
		o := artifacts("postgres://user:secret@localhost/x")
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestPasswordIsNotSentInPlainText(t *testing.T) {
	url, sent := servertest.WithoutTLS(t)
	s, err := postgres.New(artifacts(url))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if errs := s.Check(t.Context()); len(errs) != 1 || !strings.Contains(errs[0].Error(), "sslmode=disable") || strings.Contains(errs[0].Error(), "secret") {
		t.Errorf("%v", errs)
	}
	select {
	case text := <-sent:
		t.Errorf("a server without TLS got %q", text)
	default:
	}
}

package postgres_test

import (
	"context"
	"fmt"
	"math/rand"
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

// near opens a source of documents, which change may ask for in another way.
func near(t *testing.T, server *servertest.Server, change func(*postgres.NearestOptions)) *postgres.Nearest {
	t.Helper()
	o := postgres.NearestOptions{
		URL: server.URL, Table: "documents", Column: "embedding", Size: 3, Limit: 2, Join: " | ",
		Columns: []postgres.Column{{Name: "body", Text: true}, {Name: "n"}, {Name: postgres.Distance}},
	}
	if change != nil {
		change(&o)
	}
	s, err := postgres.NewNearest(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func query(vector []float64, where ...string) string {
	var texts [][]byte
	for _, text := range where {
		texts = append(texts, []byte(text))
	}
	return lookup.Query(vector, texts)
}

const documents = `create extension vector;
	create table documents (n int primary key, customer varchar(10), body text, embedding vector(3));
	insert into documents values (1, 'ann', 'a "card" <was> lost', '[1,0,0]'), (2, 'bob', 'paid twice', '[0,1,0]'),
		(3, 'ann', null, '[0.9,0.1,0]'), (4, 'ann', 'it hangs', '[0,0,2]'), (5, 'eve', 'nothing', '[0,0,0]'), (6, 'eve', 'not yet', null)`

func TestNearestDocumentsAreJoined(t *testing.T) {
	server := servertest.Postgres(t)
	tell(t, server, documents)
	for name, c := range map[string]struct {
		change func(*postgres.NearestOptions)
		keys   []string
		want   []string
	}{
		"cosine": {nil, []string{query([]float64{5, 0.1, 0}), query([]float64{0.1, 0, 1}), query([]float64{0, 0, 0})},
			[]string{`{"body":"a \"card\" \u003cwas\u003e lost","distance":0.00019994,"n":1}`, `{"body":"it hangs | a \"card\" \u003cwas\u003e lost","distance":0.00496281,"n":4}`, ""}},
		"l2": {func(o *postgres.NearestOptions) { o.Distance = "l2" }, []string{query([]float64{0, 0, 1})},
			[]string{`{"body":"it hangs | nothing","distance":1,"n":4}`}},
		"inner product": {func(o *postgres.NearestOptions) { o.Distance, o.Limit = "inner_product", 1 }, []string{query([]float64{0, 0.5, 1})},
			[]string{`{"body":"it hangs","distance":-2,"n":4}`}},
		"of a customer": {func(o *postgres.NearestOptions) { o.Where = []string{"customer", "n"} },
			[]string{query([]float64{1, 0, 0}, "bob", "2"), query([]float64{1, 0, 0}, "ann", "3"), query([]float64{1, 0, 0}, "annannannann", "1"), query([]float64{1, 0, 0}, "eve", "6")},
			[]string{`{"body":"paid twice","distance":1,"n":2}`, `{"body":null,"distance":0.00611625,"n":3}`, "", ""}},
		"lists": {func(o *postgres.NearestOptions) {
			o.Columns, o.Limit = []postgres.Column{{Name: "n", List: true}, {Name: "body", List: true}}, 3
		}, []string{query([]float64{1, 0.01, 0})}, []string{`{"body":["a \"card\" \u003cwas\u003e lost","","paid twice"],"n":["1","3","2"]}`}},
		"number as a text": {func(o *postgres.NearestOptions) {
			o.Columns = []postgres.Column{{Name: "n", Text: true}}
			o.Table, o.Limit = "public.documents", 3
		}, []string{query([]float64{1, 0.01, 0})}, []string{`{"n":"1 | 3 | 2"}`}},
	} {
		rows, err := near(t, server, c.change).Rows(t.Context(), c.keys)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, want := range c.want {
			if got := rounded(string(rows[i])); got != want {
				t.Errorf("%s: key %d: %s, want %s", name, i, got, want)
			}
		}
	}
}

// rounded writes a row's distance with 8 decimals.
func rounded(row string) string {
	before, rest, found := strings.Cut(row, `"distance":`)
	if !found {
		return row
	}
	var distance float64
	fmt.Sscan(strings.TrimRight(rest[:strings.IndexAny(rest, ",}")], ",}"), &distance)
	return fmt.Sprintf(`%s"distance":%.8g%s`, before, float64(int64(distance*1e8+0.5*sign(distance)))/1e8, rest[strings.IndexAny(rest, ",}"):])
}

func sign(v float64) float64 {
	if v < 0 {
		return -1
	}
	return 1
}

func TestTableThatIsNotAsTheLookupSaysIsNamedAndLookedAtAgain(t *testing.T) {
	server := servertest.Postgres(t)
	tell(t, server, documents)
	keys := []string{query([]float64{1, 0, 0})}
	for want, change := range map[string]func(*postgres.NearestOptions){
		"no table docs: create it":                                           func(o *postgres.NearestOptions) { o.Table = "docs" },
		"no column embeding: it has n, customer, body, embedding":            func(o *postgres.NearestOptions) { o.Column = "embeding" },
		"no column team":                                                     func(o *postgres.NearestOptions) { o.Where = []string{"team"} },
		"no column text":                                                     func(o *postgres.NearestOptions) { o.Columns = []postgres.Column{{Name: "text"}} },
		"column body of table documents is of type text":                     func(o *postgres.NearestOptions) { o.Column = "body" },
		"is of vectors of 3 numbers, those of events have 4: they are of an": func(o *postgres.NearestOptions) { o.Size = 4 },
	} {
		s := near(t, server, change)
		_, err := s.Rows(t.Context(), keys)
		for _, err := range []error{err, s.Check(t.Context())} {
			if err == nil || !strings.Contains(err.Error(), want) || calling.BlameOf(err) != model.BlameWay {
				t.Errorf("%v, blame %v, want %q", err, calling.BlameOf(err), want)
			}
		}
	}
	s := near(t, server, nil)
	if _, err := s.Rows(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	tell(t, server, `truncate documents; alter table documents alter embedding type vector(4); insert into documents values (7, 'ann', 'back', '[1,1,1,1]')`)
	if _, err := s.Rows(t.Context(), keys); err == nil || !strings.Contains(err.Error(), "is of vectors of 4 numbers") || calling.BlameOf(err) != model.BlameWay {
		t.Errorf("after it changed: %v", err)
	}
	tell(t, server, `truncate documents; alter table documents alter embedding type vector(3); insert into documents values (7, 'ann', 'back', '[1,1,1]')`)
	if rows, err := s.Rows(t.Context(), keys); err != nil || !strings.Contains(string(rows[0]), "back") {
		t.Errorf("after it changed back: %s, %v", rows, err)
	}
	s, keys = near(t, server, func(o *postgres.NearestOptions) { o.Where = []string{"n"} }), []string{query([]float64{1, 0, 0}, "7")}
	if _, err := s.Rows(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	tell(t, server, `alter table documents alter n type text`)
	rows, err := s.Rows(t.Context(), keys) // it may say that the query does not fit,
	if err != nil {
		rows, err = s.Rows(t.Context(), keys) // once
	}
	if err != nil || !strings.Contains(string(rows[0]), "back") {
		t.Errorf("after another column changed: %s, %v", rows, err)
	}
}

func TestQueryThatDoesNotFitIsRefusedAlone(t *testing.T) {
	server := servertest.Postgres(t)
	tell(t, server, documents)
	tell(t, server, fmt.Sprintf(`insert into documents values (8, 'max', repeat('x', %d), '[1,1,0]'), (9, 'min', repeat('y', 600000), '[1,1,0]'), (10, 'min', repeat('z', 600000), '[0,1,0]')`, 1<<20))
	f := lookups.New(near(t, server, func(o *postgres.NearestOptions) { o.Where, o.Limit = []string{"n"}, 100 }), lookups.Options{Timeout: time.Minute})
	v := []float64{1, 1, 0}
	found, err := f.Find(t.Context(), []string{query(v, "1"), query(v, "one"), query(v, "8"), query(v, "a\x00b"), query(v, "2"), query(v), `{}`})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"card", "refused", "refused", "refused", "twice", "refused", "refused"} {
		if got := found[i]; want == "refused" != (got.Err != nil && calling.BlameOf(got.Err) == model.BlameRows) || want != "refused" && !strings.Contains(string(got.Row), want) {
			t.Errorf("key %d: %.200s %v, want %s", i, got.Row, got.Err, want)
		}
	}
	if got := found[2].Err; got == nil || !strings.Contains(got.Error(), "keep documents in smaller pieces") {
		t.Error(got)
	}
	rows, err := near(t, server, func(o *postgres.NearestOptions) { o.Where = []string{"customer"} }).Rows(t.Context(), []string{query(v, "min")})
	if err != nil || len(rows[0]) < 600_000 || strings.Contains(string(rows[0]), "z") {
		t.Errorf("%d bytes of two documents that are too much together, %v", len(rows), err)
	}
}

// TestIndexFindsAsManyAsThereAre has an index of which most documents are filtered
// out, and compares with what is found without.
func TestIndexFindsAsManyAsThereAre(t *testing.T) {
	server := servertest.Postgres(t)
	tell(t, server, `create extension vector; create table documents (n int primary key, customer text, body text, embedding vector(16))`)
	random := rand.New(rand.NewSource(7))
	to, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close(context.Background())
	vector := func() []float64 {
		v := make([]float64, 16)
		for i := range v {
			v[i] = float64(random.NormFloat64())
		}
		return v
	}
	batch := &pgx.Batch{}
	for i := range 3000 {
		v := vector()
		batch.Queue(`insert into documents values ($1, $2, $3, $4::text::vector)`, i, fmt.Sprint("c", i%100), fmt.Sprint(i), strings.ReplaceAll(fmt.Sprint(v), " ", ","))
	}
	if err := to.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Fatal(err)
	}
	s := near(t, server, func(o *postgres.NearestOptions) {
		o.Size, o.Limit, o.Where, o.Columns = 16, 5, []string{"customer"}, []postgres.Column{{Name: "body", Text: true}}
	})
	var keys []string
	for i := range 40 {
		keys = append(keys, query(vector(), fmt.Sprint("c", i)))
	}
	exact, err := s.Rows(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	tell(t, server, `create index on documents using hnsw (embedding vector_cosine_ops); analyze documents; alter role postgres set enable_seqscan = off`)
	s = near(t, server, func(o *postgres.NearestOptions) {
		o.Size, o.Limit, o.Where, o.Columns = 16, 5, []string{"customer"}, []postgres.Column{{Name: "body", Text: true}}
	})
	indexed, err := s.Rows(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	same := 0
	for i := range keys {
		if n := strings.Count(string(indexed[i]), "|"); n != 4 {
			t.Errorf("key %d: %d documents by the index: %s", i, n+1, indexed[i])
		}
		a, b := strings.Split(string(exact[i]), " | "), strings.Split(string(indexed[i]), " | ")
		for _, one := range b {
			if slices.Contains(a, one) {
				same++
			}
		}
	}
	s.Close() // what its connections counted is known then
	scans := 0
	for range 100 {
		if err := to.QueryRow(t.Context(), `select idx_scan from pg_stat_user_indexes, pg_sleep(0.05) where indexrelname like '%embedding%'`).Scan(&scans); err != nil || scans > 0 {
			break
		}
	}
	if same < 150 || scans < 40 {
		t.Errorf("%d of 200 documents are the same, %d scans of the index", same, scans)
	}
	t.Logf("%d of 200 documents are the same, by %d scans of the index", same, scans)
}

func TestWrongWaysToFindDocumentsAreRefused(t *testing.T) {
	good := postgres.NearestOptions{URL: "postgres://host/database", Table: "a", Column: "b", Size: 3, Limit: 1}
	for want, change := range map[string]func(*postgres.NearestOptions){
		"no table and column": func(o *postgres.NearestOptions) { o.Table = "" },
		"use cosine, l2":      func(o *postgres.NearestOptions) { o.Distance = "far" },
		"use 1 to 100":        func(o *postgres.NearestOptions) { o.Limit = 101 },
		"vectors of 0":        func(o *postgres.NearestOptions) { o.Size = 0 },
		"the URL is not as":   func(o *postgres.NearestOptions) { o.URL = "mysql://u:hush@h/x" },
	} {
		o := good
		change(&o)
		if _, err := postgres.NewNearest(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// BenchmarkNearest finds the 3 nearest of 10,000 documents by an index of 384
// dimensions, 16 vectors a query.
func BenchmarkNearest(b *testing.B) {
	server := servertest.Postgres(b)
	to, err := pgx.Connect(b.Context(), server.URL)
	if err != nil {
		b.Fatal(err)
	}
	defer to.Close(context.Background())
	for _, statement := range []string{`create extension vector`, `create table documents (body text, embedding vector(384))`,
		`insert into documents select n, (select array_agg(random() - 0.5) from generate_series(1, 384) where n > 0)::vector from generate_series(1, 10000) n`,
		`create index on documents using hnsw (embedding vector_cosine_ops)`, `analyze documents`} {
		if _, err := to.Exec(b.Context(), statement); err != nil {
			b.Fatal(err)
		}
	}
	s, err := postgres.NewNearest(b.Context(), postgres.NearestOptions{
		URL: server.URL, Table: "documents", Column: "embedding", Size: 384, Limit: 3, Columns: []postgres.Column{{Name: "body", Text: true}},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	random := rand.New(rand.NewSource(1))
	keys := make([]string, 16)
	for i := range keys {
		v := make([]float64, 384)
		for k := range v {
			v[k] = float64(random.NormFloat64())
		}
		keys[i] = query(v)
	}
	for b.Loop() {
		if _, err := s.Rows(b.Context(), keys); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(16*float64(b.N)/b.Elapsed().Seconds(), "vectors/s")
}

package e2e_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/internal/test/reference"
	"github.com/afterbay/afterbay/internal/test/servertest"
	"github.com/afterbay/afterbay/model"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/streamtest"
)

// spent is the amount of a click: quarters, of which sums are exact in any order.
func (c *visit) spent() float64 {
	var n int
	_, _ = fmt.Sscanf(c.page, "p%d", &n)
	return float64(n*37%101)/4 - 10
}

func (c *visit) paid(partition int32) stream.Record {
	r := c.record(partition)
	r.Value = fmt.Appendf(nil, `{"user":%q,"at":%d,"page":%q,"amount":%v}`, c.user, c.at, c.page, c.spent())
	return r
}

// spendings puts the clicks of a user together, with aggregates of their amounts.
func (s *sessionsOf) spendings(partitions int32, group steps.Group) lang.Pipeline {
	p := s.pipeline(partitions)
	p.Input.Fields = append(p.Input.Fields, lang.Field{Name: "amount", Type: "number"})
	group.Name, group.By = "w", "user"
	group.Values = []steps.GroupValue{{Name: "n", Count: "count"}, {Name: "spent", Sum: "amount"}, {Name: "mean", Mean: "amount"}, {Name: "least", Min: "amount"}, {Name: "most", Max: "amount - 0.5"}}
	names := []string{"user", "meta.time", "w.count", "w.n", "w.spent", "w.mean", "w.least", "w.most", "page", "w.ended"}
	if group.Every > 0 {
		names = append(names, "w.start", "w.end")
	}
	p.Steps = []lang.Step{&group, &steps.Emit{Topic: "sessions", Names: names}}
	return p
}

// spending is a group of the clicks of a user.
type spending struct {
	start, end, first, count int64
	spent, least, most       float64
}

func (s spending) String() string {
	return fmt.Sprintf("%d to %d, first p%d: %d, %v, %v to %v", s.start, s.end, s.first, s.count, s.spent, s.least, s.most)
}

// spendingsIn reads the groups of each user, in their order.
func spendingsIn(t *testing.T, log stream.Log, partitions int32) map[string][]string {
	t.Helper()
	got := map[string][]string{}
	for i := range partitions {
		for _, r := range readPartition(t, log, stream.Partition{Topic: "sessions", Index: i}) {
			var v struct {
				User  string
				Page  string
				Count int64      `json:"w_count"`
				N     int64      `json:"w_n"`
				Spent float64    `json:"w_spent"`
				Mean  float64    `json:"w_mean"`
				Least float64    `json:"w_least"`
				Most  float64    `json:"w_most"`
				Ended string     `json:"w_ended"`
				Start *time.Time `json:"w_start"`
				End   *time.Time `json:"w_end"`
				Time  time.Time  `json:"meta_time"`
			}
			if err := json.Unmarshal(r.Value, &v); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(v.User, "end-") {
				continue
			}
			if v.N != v.Count || v.Mean != v.Spent/float64(v.N) || v.End != nil && (!v.End.Equal(v.Time) || v.Ended != "window") {
				t.Errorf("%s", r.Value)
			}
			s := spending{end: v.Time.Unix(), count: v.Count, spent: v.Spent, least: v.Least, most: v.Most}
			if v.Start != nil {
				s.start = v.Start.Unix()
			}
			_, _ = fmt.Sscanf(v.Page, "p%d", &s.first)
			got[v.User] = append(got[v.User], s.String())
		}
	}
	return got
}

// spendingOf returns what clicks amount to, by the numbers of their pages.
func (s *sessionsOf) spendingOf(start, end int64, pages []string) string {
	of := spending{start: start, end: end, count: int64(len(pages))}
	var amounts []float64
	for i, page := range pages {
		c := visit{page: page}
		if amounts = append(amounts, c.spent()); i == 0 {
			_, _ = fmt.Sscanf(page, "p%d", &of.first)
		}
	}
	of.spent, of.least, of.most = reference.Sum(amounts...), slices.Min(amounts), slices.Max(amounts)-0.5
	return of.String()
}

// windows is the windows of each user by the reference.
func (s *sessionsOf) windows(every, size int64) map[string][]string {
	members := map[string][]reference.Member{}
	for i, c := range s.clicks {
		members[c.user] = append(members[c.user], reference.Member{Time: c.at, Offset: int64(i), ID: c.page})
	}
	want := map[string][]string{}
	for user, list := range members {
		for _, w := range reference.Windows(list, every, size) {
			var pages []string
			for _, m := range w.Members {
				pages = append(pages, m.ID)
			}
			want[user] = append(want[user], s.spendingOf(w.Start, w.End, pages))
		}
	}
	return want
}

// TestWindowsAreAFunctionOfTheirTimes runs clicks in several orders of arrival, over other
// numbers of partitions and on engines: the windows of each user are those that the
// reference makes of the clicks as a set.
func TestWindowsAreAFunctionOfTheirTimes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i, v := range []variant{
		{"memory", 1000, 1, time.Millisecond}, {"memory", 1, 3, time.Millisecond}, {"memory", 7, 1, time.Second}, {"memory", 64, 4, time.Millisecond},
		{"embedded", 7, 2, time.Millisecond}, {"embedded", 1000, 1, time.Second}, {"kafka", 64, 2, time.Millisecond},
	} {
		t.Run(v.String(), func(t *testing.T) {
			s, rng := clicksOf(seed), rand.New(rand.NewPCG(seed, uint64(i)))
			s.arrive(rng)
			every := int64(1 + rng.IntN(90))
			size := every * int64(1+i%2*rng.IntN(5))
			partitions := []int32{1, 4, 7}[i%3]
			p := s.spendings(partitions, steps.Group{Every: time.Duration(every) * time.Second, Size: time.Duration(size) * time.Second})
			p.Commit.Size, p.Commit.Interval = v.batch, v.interval
			log := runSessions(t, v, p, s.records(func(c visit) stream.Record { return c.paid(stream.ByKey) }))
			if d := diff.Diff(s.windows(every, size), spendingsIn(t, log, partitions)); d != "" {
				t.Errorf("seed %d, every %d s, size %d s, lateness %v: %s", seed, every, size, s.lateness, d)
			}
		})
	}
}

// TestWindowsLeaveTheSameAnswerUnderFaults has commits that are lost and hidden, and members
// that lose their partitions.
func TestWindowsLeaveTheSameAnswerUnderFaults(t *testing.T) {
	s := clicksOf(8)
	s.arrive(rand.New(rand.NewPCG(8, 0)))
	for _, size := range []time.Duration{0, 4 * time.Minute} {
		answers.SameAnswer(t,
			func() stream.Log { return memory.New(memory.Options{RebalanceTimeout: time.Second}) },
			func() (answers.Runner, error) {
				p := s.spendings(4, steps.Group{Every: time.Minute, Size: size})
				p.Commit.Size = 10
				return builtin.New(p, pipeline.Options{Members: 3, Keys: 3})
			}, s.records(func(c visit) stream.Record { return c.paid(stream.ByKey) }), seedsOf(10))
	}
}

// TestSQLCutsTheSameGroups compares sessions and windows with those that DuckDB finds in a
// table of the clicks: sessions as gaps and islands, windows by division. DuckDB is that of
// the interpreter of AFTERBAY_READERS.
func TestSQLCutsTheSameGroups(t *testing.T) {
	python := servertest.Named(t, "AFTERBAY_READERS", "no interpreter, with duckdb")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, c := range []struct {
		name        string
		every, size int64 // seconds; 0 is sessions
	}{{"sessions", 0, 0}, {"tumbling", 45, 45}, {"hopping", 20, 60}} {
		t.Run(c.name, func(t *testing.T) {
			s := clicksOf(seed)
			s.arrive(rand.New(rand.NewPCG(seed, 1)))
			group := steps.Group{Every: time.Duration(c.every) * time.Second, Size: time.Duration(c.size) * time.Second}
			if c.every == 0 {
				group = steps.Group{Idle: s.idle}
			}
			log := runSessions(t, variant{"memory", 64, 2, time.Millisecond}, s.spendings(4, group), s.records(func(c visit) stream.Record { return c.paid(stream.ByKey) }))
			want := s.sql(t, python, c.every, c.size)
			if d := diff.Diff(want, spendingsIn(t, log, 4)); d != "" {
				t.Errorf("seed %d, idle %v, lateness %v: %s", seed, s.idle, s.lateness, d)
			}
			if len(want) != 9 {
				t.Errorf("DuckDB found groups of %d users", len(want))
			}
		})
	}
}

// sql returns the groups of each user as DuckDB finds them.
func (s *sessionsOf) sql(t *testing.T, python string, every, size int64) map[string][]string {
	t.Helper()
	const script = `
import duckdb, json, sys
q = json.load(sys.stdin)
c = duckdb.connect()
c.execute("create table clicks (who text, t bigint, n bigint, page bigint, amount double)")
c.executemany("insert into clicks values (?, ?, ?, ?, ?)", q["clicks"])
report = "first(page order by t, n), count(*), sum(amount), min(amount), max(amount - 0.5)"
if q["every"] == 0: # gaps and islands
    groups = f"""with gaps as (select *, t - lag(t) over (partition by who order by t, n) >= $idle as gap from clicks),
        islands as (select *, sum(coalesce(gap, false)::int) over (partition by who order by t, n rows unbounded preceding) as island from gaps)
      select who, 0, max(t) + $idle as stop, {report} from islands group by who, island"""
    given = {"idle": q["idle"]}
else:
    groups = f"""with ends as (select clicks.*, (t // $every + 1 + i) * $every as stop from clicks, range($size // $every) r(i))
      select who, stop - $size, stop, {report} from ends group by who, stop"""
    given = {"every": q["every"], "size": q["size"]}
print(json.dumps(c.execute(groups + " order by who, stop", given).fetchall()))
`
	type click [5]any
	in := struct {
		Clicks []click `json:"clicks"`
		Idle   int64   `json:"idle"`
		Every  int64   `json:"every"`
		Size   int64   `json:"size"`
	}{Idle: int64(s.idle / time.Second), Every: every, Size: size}
	for i, c := range s.clicks {
		var page int
		_, _ = fmt.Sscanf(c.page, "p%d", &page)
		in.Clicks = append(in.Clicks, click{c.user, c.at, i, page, c.spent()})
	}
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), python, "-c", script)
	command.Stdin = strings.NewReader(string(data))
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, cmp.Or(string(out), "see its standard error"))
	}
	var rows [][]json.RawMessage
	if err := json.Unmarshal(out, &rows); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{}
	for _, row := range rows {
		var user string
		var of spending
		for i, into := range []any{&user, &of.start, &of.end, &of.first, &of.count, &of.spent, &of.least, &of.most} {
			if err := json.Unmarshal(row[i], into); err != nil {
				t.Fatal(err)
			}
		}
		want[user] = append(want[user], of.String())
	}
	return want
}

// TestGroupsWithoutEventsAreQueued has what goes on be scored off the loop, with commits that
// are lost: the rows are those of a model that answers at once. Below windows that overlap no
// event may be queued.
func TestGroupsWithoutEventsAreQueued(t *testing.T) {
	s := clicksOf(9)
	s.arrive(rand.New(rand.NewPCG(9, 0)))
	events := s.records(func(c visit) stream.Record { return c.paid(stream.ByKey) })
	scored := func(group steps.Group, m model.Model, call *lang.Calling) lang.Pipeline {
		p := s.spendings(2, group)
		p.Models = []lang.Model{{Name: "loud", Go: "loud", Version: 1, Outputs: []lang.Field{{Name: "volume", Type: "number"}}, Call: call}}
		p.Code.Models = map[string]model.Model{"loud": m}
		p.Steps = []lang.Step{
			p.Steps[0], &steps.Let{List: []lang.Binding{{Name: "said", Expr: `w.n > 2 ? b"ab" : b"c"`}}},
			&steps.Score{Model: "loud", Inputs: []string{"said"}, Async: call != nil},
			&steps.Emit{Topic: "sessions", Names: []string{"user", "page", "w.count", "w.spent", "w.most", "loud.volume", "meta.id", "meta.time"}},
		}
		return p
	}
	rows := func(p lang.Pipeline, log stream.Log) []string {
		answer, _ := runQueueing(t, log, p, 2, events)
		list := answer.Values("sessions")
		slices.Sort(list)
		return list
	}
	for _, group := range []steps.Group{{Every: time.Minute}, {Idle: s.idle}} {
		want := rows(scored(group, volumeModel{}, nil), memory.New(memory.Options{}))
		if len(want) < 100 {
			t.Fatalf("%d rows", len(want))
		}
		for seed := range uint64(2) {
			sound := memory.New(memory.Options{RebalanceTimeout: time.Second})
			log := inspected{streamtest.NewFaulty(sound, streamtest.FaultyOptions{Seed: seed, Percent: map[streamtest.Fault]int{streamtest.CommitLost: 10, streamtest.CommitHidden: 10}}), sound}
			if d := diff.Diff(want, rows(scored(group, volumeModel{remote: true}, &lang.Calling{Concurrency: 4}), log)); d != "" {
				t.Fatalf("seed %d: %s", seed, d)
			}
		}
	}
	overlap := scored(steps.Group{Every: time.Minute, Size: 2 * time.Minute}, volumeModel{remote: true}, &lang.Calling{})
	if _, err := builtin.New(overlap, pipeline.Options{}); err == nil || !strings.Contains(err.Error(), "it may queue events, and it is below a group with windows that overlap") {
		t.Error(err)
	}
}

package e2e_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/answers"
	"github.com/afterbay/afterbay/internal/test/reference"
	"github.com/afterbay/afterbay/stream"
)

// sessionsOf are what clicks of a seed become: those of each user, in their order.
type sessionsOf struct {
	clicks        []visit
	idle, timeout time.Duration
	lateness      time.Duration
}

type visit struct {
	user   string
	at     int64 // seconds
	source int32
	offset int64 // in the source, in the order of the list
	page   string
}

// clicksOf makes clicks of few users with gaps around idle and with ties, in several
// source partitions.
func clicksOf(seed uint64) *sessionsOf {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := &sessionsOf{idle: time.Duration(20+rng.IntN(40)) * time.Second, timeout: time.Duration(rng.IntN(3)*40) * time.Second, lateness: time.Duration(rng.IntN(200)) * time.Second}
	at := map[string]int64{}
	for i := range 800 {
		user := fmt.Sprint("user-", rng.IntN(9))
		if rng.IntN(3) > 0 {
			at[user] += int64(rng.IntN(int(2 * s.idle / time.Second)))
		}
		s.clicks = append(s.clicks, visit{user: user, at: 1000 + at[user], source: int32(rng.IntN(4)), page: fmt.Sprint("p", i)})
	}
	return s
}

// arrive puts the clicks in an order of arrival that has none late in its source.
func (s *sessionsOf) arrive(rng *rand.Rand) {
	arrival := map[string]int64{}
	for _, c := range s.clicks {
		arrival[c.page] = c.at + rng.Int64N(int64(s.lateness/time.Second)+1)
	}
	slices.SortStableFunc(s.clicks, func(a, b visit) int { return int(arrival[a.page] - arrival[b.page]) })
	next := [4]int64{}
	for i := range s.clicks {
		c := &s.clicks[i]
		c.offset = next[c.source]
		next[c.source]++
	}
}

// want is the sessions of each user by the reference, which looks at the clicks as a
// set. Where sources is false they are all in one.
func (s *sessionsOf) want(sources bool) map[string][]string {
	members, pages := map[string][]reference.Member{}, map[string]string{}
	for i, c := range s.clicks {
		m := reference.Member{Time: c.at * 1e6, Offset: int64(i), ID: c.page}
		if sources {
			m.Source, m.Offset = int64(c.source), c.offset
		}
		members[c.user], pages[c.page] = append(members[c.user], m), c.page
	}
	want := map[string][]string{}
	for user, list := range members {
		for _, g := range reference.CutGroups(list, s.idle.Microseconds(), s.timeout.Microseconds()) {
			end, ended := reference.GroupEnd(g, s.idle.Microseconds(), s.timeout.Microseconds()), "timeout"
			if g[len(g)-1].Time+s.idle.Microseconds() == end {
				ended = "idle"
			}
			var ids []string
			for _, m := range g {
				ids = append(ids, m.ID)
			}
			want[user] = append(want[user], fmt.Sprintf("%s at %d: %s", ended, end/1e6, strings.Join(ids, " ")))
		}
	}
	return want
}

func (s *sessionsOf) pipeline(partitions int32) lang.Pipeline {
	return lang.Pipeline{
		Name: "visits",
		Input: lang.Input{
			Topic: "clicks", Key: "user", Partitions: partitions, Time: lang.EventTime{Field: "at", Unit: "s", Lateness: s.lateness},
			Fields: []lang.Field{{Name: "user", Type: "string"}, {Name: "at", Type: "int"}, {Name: "page", Type: "string"}},
		},
		Steps: []lang.Step{
			&steps.Group{Name: "visit", By: "user", Idle: s.idle, Timeout: s.timeout},
			&steps.Emit{Topic: "sessions", Names: []string{"user", "visit.page", "visit.ended", "meta.time"}},
		},
	}
}

// records are the clicks, and behind them one of another user in each partition, which
// moves the watermark past all of them.
func (s *sessionsOf) records(place func(visit) stream.Record) (records []stream.Record) {
	last := int64(0)
	for _, c := range s.clicks {
		records, last = append(records, place(c)), max(last, c.at)
	}
	for i := range 200 {
		records = append(records, place(visit{user: fmt.Sprint("end-", i), at: last + 10_000, source: int32(i % 4), page: "end"}))
	}
	return records
}

func (c *visit) record(partition int32) stream.Record {
	return stream.Record{
		Partition: stream.Partition{Topic: "clicks", Index: partition}, Time: time.Unix(c.at, 0), Key: []byte(c.user),
		Value: fmt.Appendf(nil, `{"user":%q,"at":%d,"page":%q}`, c.user, c.at, c.page),
	}
}

// sessionsIn reads the sessions of each user, in their order.
func sessionsIn(t *testing.T, log stream.Log, partitions int32) map[string][]string {
	t.Helper()
	got := map[string][]string{}
	for i := range partitions {
		for _, r := range readPartition(t, log, stream.Partition{Topic: "sessions", Index: i}) {
			var v struct {
				User  string    `json:"user"`
				Pages []string  `json:"visit_page"`
				Ended string    `json:"visit_ended"`
				Time  time.Time `json:"meta_time"`
			}
			if err := json.Unmarshal(r.Value, &v); err != nil {
				t.Fatal(err)
			}
			if header.Get(&r, header.ID) == "" {
				t.Errorf("a session without an id: %s", r.Value)
			}
			if !strings.HasPrefix(v.User, "end-") {
				got[v.User] = append(got[v.User], fmt.Sprintf("%s at %d: %s", v.Ended, v.Time.Unix(), strings.Join(v.Pages, " ")))
			}
		}
	}
	return got
}

// TestSessionsAreAFunctionOfTheirTimes runs clicks in several orders of arrival, over
// other numbers of partitions and on engines: the sessions of each user are those that
// the reference makes of the clicks as a set.
func TestSessionsAreAFunctionOfTheirTimes(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i, v := range []variant{
		{"memory", 1000, 1, time.Millisecond}, {"memory", 1, 3, time.Millisecond}, {"memory", 7, 1, time.Second}, {"memory", 64, 4, time.Millisecond},
		{"embedded", 7, 2, time.Millisecond}, {"embedded", 1000, 1, time.Second}, {"kafka", 64, 2, time.Millisecond},
	} {
		t.Run(v.String(), func(t *testing.T) {
			s := clicksOf(seed)
			s.arrive(rand.New(rand.NewPCG(seed, uint64(i))))
			partitions := []int32{1, 4, 7}[i%3]
			p := s.pipeline(partitions)
			p.Commit.Size, p.Commit.Interval = v.batch, v.interval
			log := runSessions(t, v, p, s.records(func(c visit) stream.Record { return c.record(stream.ByKey) }))
			if d := cmp.Diff(s.want(false), sessionsIn(t, log, partitions)); d != "" {
				t.Errorf("seed %d, idle %v, timeout %v, lateness %v: %s", seed, s.idle, s.timeout, s.lateness, d)
			}
		})
	}
}

// TestSessionsOfMergedInputsAreAFunctionOfTheirTimes has the clicks of a user in several
// source partitions, copied by user to others: ties are in the order of their sources.
func TestSessionsOfMergedInputsAreAFunctionOfTheirTimes(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i, v := range []variant{{"memory", 64, 1, time.Millisecond}, {"memory", 7, 3, time.Millisecond}, {"embedded", 1000, 2, time.Millisecond}} {
		t.Run(v.String(), func(t *testing.T) {
			s := clicksOf(seed)
			s.arrive(rand.New(rand.NewPCG(seed, uint64(i))))
			p := s.pipeline(4)
			merged := []int32{1, 4, 3}[i]
			p.Input.Repartition, p.Commit.Size, p.Commit.Interval = merged, v.batch, v.interval
			log := runSessions(t, v, p, s.records(func(c visit) stream.Record {
				r := c.record(c.source)
				r.Key = nil
				return r
			}))
			if d := cmp.Diff(s.want(true), sessionsIn(t, log, merged)); d != "" {
				t.Errorf("seed %d, idle %v, timeout %v, lateness %v: %s", seed, s.idle, s.timeout, s.lateness, d)
			}
		})
	}
}

func runSessions(t *testing.T, v variant, p lang.Pipeline, records []stream.Record) stream.Log {
	t.Helper()
	runner, err := builtin.New(p, pipeline.Options{Members: v.members})
	if err != nil {
		t.Fatal(err)
	}
	log := openLog(t, v.engine, t.TempDir())
	t.Cleanup(func() { closeLog(t, log) })
	if err := runner.CreateTopics(t.Context(), log); err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(records); at += 300 {
		if err := log.Append(t.Context(), slices.Clone(records[at:min(len(records), at+300)])...); err != nil {
			t.Fatal(err)
		}
		runUntilIdle(t, runner, log)
	}
	return log
}

// TestSessionsLeaveTheSameAnswerUnderFaults has commits that are lost and hidden, and
// sessions that lose their partitions.
func TestSessionsLeaveTheSameAnswerUnderFaults(t *testing.T) {
	s := clicksOf(7)
	s.arrive(rand.New(rand.NewPCG(7, 0)))
	answers.SameAnswer(t,
		func() stream.Log { return memory.New(memory.Options{RebalanceTimeout: time.Second}) },
		func() (answers.Runner, error) {
			p := s.pipeline(4)
			p.Commit.Size = 10
			return builtin.New(p, pipeline.Options{Members: 3, Keys: 3})
		}, s.records(func(c visit) stream.Record { return c.record(stream.ByKey) }), seedsOf(20))
}

package builtin_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/log/memory"
	lookuppostgres "github.com/afterbay/afterbay/internal/lookups/postgres"
	lookupredis "github.com/afterbay/afterbay/internal/lookups/redis"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/internal/test/servertest"
	"github.com/afterbay/afterbay/stream"
)

// BenchmarkLookups runs events of 10,000 users through a lookup of each.
func BenchmarkLookups(b *testing.B) {
	const number, people = 50_000, 10_000
	redis, postgres := servertest.Redis(b), servertest.Postgres(b)
	set(b, redis, people)
	to := postgres.Postgres(b)
	if _, err := to.Exec(b.Context(), `create table users as select 'u' || n id, true trusted from generate_series(0, 9999) n; alter table users add primary key (id)`); err != nil {
		b.Fatal(err)
	}
	var records []stream.Record
	for i := range number {
		user := fmt.Sprint("u", i*7919%people)
		records = append(records, stream.Record{
			Partition: stream.Partition{Topic: "posts", Index: stream.ByKey}, Key: []byte(user), Value: fmt.Appendf(nil, `{"user":%q}`, user),
		})
	}
	inRedis := steps.Lookup{Kind: "redis", Config: &lookupredis.Config{URL: redis.URL, Prefix: "user:"}}
	inPostgres := steps.Lookup{Kind: "postgres", Config: &lookuppostgres.Config{URL: postgres.URL, Query: `select id, to_jsonb(users) from users where id = any($1)`}}
	kept, recorded := inRedis, inRedis
	kept.Cache.TTL, recorded.Journal = time.Hour, &lang.Journal{}
	for _, c := range []struct {
		name   string
		lookup steps.Lookup
	}{{"redis", inRedis}, {"redis-kept", kept}, {"redis-recorded", recorded}, {"postgres", inPostgres}} {
		b.Run(c.name, func(b *testing.B) {
			l := c.lookup
			l.Name, l.Key, l.Fields = "profile", "user", []lang.Field{{Name: "trusted", Type: "bool"}}
			p := lang.Pipeline{
				Name:  "bench",
				Input: lang.Input{Topic: "posts", Key: "user", Fields: []lang.Field{{Name: "user", Type: "string"}}},
				Steps: []lang.Step{&l, &steps.Emit{Topic: "seen", Names: []string{"user", "profile.trusted"}}},
			}
			var spent time.Duration
			for b.Loop() {
				spent += runOnce(b, p, records)
			}
			b.ReportMetric(float64(number)*float64(b.N)/spent.Seconds(), "events/s")
		})
	}
}

// runOnce returns how long a pipeline took over records that are there.
func runOnce(b *testing.B, p lang.Pipeline, records []stream.Record) time.Duration {
	b.Helper()
	runner, err := builtin.New(p, pipeline.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer runner.Close()
	log := memory.New(memory.Options{})
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	if err := runner.CreateTopics(ctx, log); err != nil {
		b.Fatal(err)
	}
	if err := log.Append(ctx, records...); err != nil {
		b.Fatal(err)
	}
	start, ended := time.Now(), make(chan error, 1)
	go func() { ended <- runner.Run(ctx, log) }()
	if err := runner.WaitIdle(ctx, log); err != nil {
		b.Fatal(err)
	}
	spent := time.Since(start)
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	if c := runner.Counts(); c.Outputs != uint64(len(records)) {
		b.Fatalf("counts %+v", c)
	}
	return spent
}

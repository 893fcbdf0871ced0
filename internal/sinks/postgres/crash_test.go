package postgres_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/internal/sinks/postgres"
	"github.com/afterbay/afterbay/internal/test/crashtest"
	"github.com/afterbay/afterbay/internal/test/kafkatest"
	"github.com/afterbay/afterbay/internal/test/servertest"
	contract "github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

var (
	crashKills  = flag.Int("sink.kills", 5, "kills of the sink in TestKilledSinksAndDatabasesLoseAndRepeatNoRow")
	crashServer = flag.Int("sink.server", 2, "and of the database")
	crashRows   = flag.Int("sink.rows", 2000, "records of it")
	crashSeed   = flag.Uint64("sink.seed", 1, "seed of it")
	crashKafka  = flag.Bool("sink.kafka", false, "run it on Kafka too")
)

const crashGroup = "support.artifacts"

var crashTopic = stream.Topic{Name: topic.Topic, Partitions: 2}

var (
	server servertest.Shared
	broker = kafkatest.Shared{Options: kafkatest.Options{Settings: []string{"add.partitions.to.txn.retry.backoff.ms=1"}}}
)

func TestMain(m *testing.M) {
	crashtest.Main(crashtest.Children{"sink": runCrashChild})
	os.Exit(server.Run(both{m}))
}

// both are the tests, and then the end of a broker.
type both struct{ m *testing.M }

func (b both) Run() int { return broker.Run(b.m) }

// crashed are the options of the sink that is killed.
func crashed(url string, exactly bool) postgres.Options {
	o := artifacts(url)
	o.Columns, o.ExactlyOnce = append(o.Columns, column("n", "int")), exactly
	return o
}

// runCrashChild delivers until all is delivered, or until it kills itself: folder,
// brokers, URL, whether exactly once, stage and hit.
func runCrashChild(ctx context.Context, arguments string) error {
	var dir, brokers, url, stage string
	var exactly bool
	var hit int
	if _, err := fmt.Sscan(arguments, &dir, &brokers, &url, &exactly, &stage, &hit); err != nil {
		return err
	}
	log, err := crashtest.OpenLog(ctx, dir, brokers)
	if err != nil {
		return err
	}
	sink, err := postgres.New(crashed(url, exactly))
	if err != nil {
		return err
	}
	d, err := sinks.New(log, contract.Service{Many: sink}, sinks.Options{
		Group: crashGroup, Topic: topic.Topic, Batch: 40, Timeout: 5 * time.Second, Fault: crashtest.KillAt(stage, hit),
	}, &sinks.Metrics{})
	if err != nil {
		return err
	}
	err = crashtest.RunUntilRead(ctx, log, crashGroup, crashTopic, d.Run)
	sink.Close()
	return errors.Join(err, log.Close())
}

const (
	crashKeys = 300
	poisoned  = 13 // its row breaks a constraint
)

// fillCrashLog writes records of which each key has several, in the order of n, by
// one partition each.
func fillCrashLog(ctx context.Context, log crashtest.Log, rows int) error {
	if err := log.CreateTopic(ctx, crashTopic); err != nil {
		return err
	}
	var list []stream.Record
	for n := range rows {
		list = append(list, crashRecord(n))
	}
	return log.Append(ctx, list...)
}

func crashRecord(n int) stream.Record {
	id := fmt.Sprint("k", n%crashKeys)
	body := fmt.Sprint("of ", n)
	if n == poisoned {
		body = "poison"
	}
	p := stream.Place([]byte(id), 2)
	return stream.Record{
		Partition: stream.Partition{Topic: topic.Topic, Index: p}, Key: []byte(id), Value: fmt.Appendf(nil, `{"id":%q,"body":%q,"n":%d}`, id, body, n),
		Headers: []stream.Header{
			{Key: header.ID, Value: fmt.Appendf(nil, "e%d", n)}, {Key: header.Position, Value: fmt.Appendf(nil, "contacts/%d@%d", p, n)},
			{Key: header.Pipeline, Value: []byte("support sha256:00 1")},
		},
	}
}

// audited is a table that keeps what was written to it, and refuses what is older
// than what it has.
const audited = `CREATE TABLE artifacts (id text PRIMARY KEY, body text CHECK (body <> 'poison'), n bigint, afterbay_source text, afterbay_generation bigint, afterbay_offset bigint, afterbay_record bigint);
CREATE TABLE audit (id text, n bigint, generation bigint);
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF TG_OP = 'UPDATE' AND (NEW.afterbay_generation, NEW.afterbay_offset) < (OLD.afterbay_generation, OLD.afterbay_offset) THEN
		RAISE 'an older row';
	END IF;
	INSERT INTO audit VALUES (NEW.id, NEW.n, NEW.afterbay_generation);
	RETURN NEW;
END $$;
CREATE TRIGGER audit AFTER INSERT OR UPDATE ON artifacts FOR EACH ROW EXECUTE FUNCTION audit();`

// TestKilledSinksAndDatabasesLoseAndRepeatNoRow kills sinks while they write, and
// the database under them. Each row is that of the newest event, none was written
// twice, and the one that the database refuses is one dead letter.
func TestKilledSinksAndDatabasesLoseAndRepeatNoRow(t *testing.T) {
	for _, engine := range []string{"embedded", "kafka"} {
		for _, exactly := range []bool{false, true} {
			if engine == "kafka" && !*crashKafka {
				continue
			}
			t.Run(fmt.Sprintf("%s/exactly_once=%v", engine, exactly), func(t *testing.T) {
				brokers := crashtest.NoBrokers
				if engine == "kafka" {
					brokers = strings.Join(broker.Get(t).Addresses(), ",")
					broker.Get(t).Empty(t)
				}
				killSinks(t, brokers, exactly)
			})
		}
	}
}

func killSinks(t *testing.T, brokers string, exactly bool) {
	b, dir := newBase(t), t.TempDir()
	b.exec(audited)
	log, err := crashtest.OpenLog(t.Context(), dir, brokers)
	b.ok(err)
	b.ok(errors.Join(fillCrashLog(t.Context(), log, *crashRows), log.Close()))
	rng := rand.New(rand.NewPCG(*crashSeed, 0))
	stages := []string{"any", "call", "answer", "write", "sync", "after"}
	kills, servers := 0, 0
	for n := 0; ; n++ {
		stage, hit := stages[n%len(stages)], 1+rng.IntN(max(2, *crashRows / *crashKills / 40))
		if n >= *crashKills+*crashServer {
			stage = "none"
		}
		var wait sync.WaitGroup
		if n > 0 && servers < *crashServer && n%max(1, *crashKills / *crashServer) == 0 {
			servers++
			stage = "none" // the sink lives through it
			pause := time.Duration(rng.IntN(300)) * time.Millisecond
			wait.Go(func() {
				time.Sleep(pause)
				server.Get(t).Kill()
				time.Sleep(300 * time.Millisecond)
				if err := server.Get(t).Start(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			})
		}
		killed := crashtest.Killed(t, "sink", 0, dir, brokers, b.url, exactly, stage, hit)
		wait.Wait()
		if killed {
			kills++
		} else if stage == "none" && servers == *crashServer {
			break
		}
		if !killed { // all was delivered: there is to be more
			b.ok(more(t.Context(), dir, brokers))
		}
	}
	b.connect()
	checkCrashed(b, dir, brokers)
	if letters := crashtest.Letters(t, dir, brokers, crashGroup); !slices.Equal(letters, []string{fmt.Sprint("e", poisoned)}) {
		t.Errorf("dead letters %v", letters)
	}
	t.Logf("seed %d: %d kills of sinks, %d of the database", *crashSeed, kills, servers)
	if kills < *crashKills/2 {
		t.Errorf("only %d kills", kills)
	}
}

// more has the log hold more records.
func more(ctx context.Context, dir, brokers string) error {
	log, err := crashtest.OpenLog(ctx, dir, brokers)
	if err != nil {
		return err
	}
	n := 0
	for i := range int32(2) {
		_, next, err := log.Offsets(ctx, stream.Partition{Topic: topic.Topic, Index: i})
		if err != nil {
			return err
		}
		n += int(next)
	}
	n -= n % *crashRows // of Kafka some offsets are of no record
	var list []stream.Record
	for i := range *crashRows {
		list = append(list, crashRecord(n+i))
	}
	return errors.Join(log.Append(ctx, list...), log.Close())
}

// checkCrashed compares the table with the log.
func checkCrashed(b *base, dir, brokers string) {
	b.Helper()
	log, err := crashtest.OpenLog(b.Context(), dir, brokers)
	b.ok(err)
	defer log.Close()
	newest, last := map[string]string{}, 0
	for i := range int32(2) {
		p := stream.Partition{Topic: topic.Topic, Index: i}
		_, next, err := log.Offsets(b.Context(), p)
		b.ok(err)
		for r, err := range log.Tail(b.Context(), p, 0) {
			b.ok(err)
			var id, body string
			var n int
			if _, err := fmt.Sscanf(string(r.Value), `{"id":%q,"body":%q,"n":%d}`, &id, &body, &n); err != nil {
				b.Fatal(err)
			}
			if body != "poison" {
				newest[id] = body
			}
			last = max(last, n)
			if next-r.Offset < 10 { // of Kafka the last offset may be of no record
				if _, found, err := log.Peek(b.Context(), p, r.Offset+1); !found {
					b.ok(err)
					break
				}
			}
		}
	}
	rows := b.rows("SELECT id, body FROM artifacts")
	for _, row := range rows {
		if id, body, _ := strings.Cut(row, " "); newest[id] != body {
			b.Errorf("row %s is %q, want %q", id, body, newest[id])
		}
	}
	if len(rows) != len(newest) || len(rows) != crashKeys {
		b.Errorf("%d rows, want %d", len(rows), len(newest))
	}
	b.want("SELECT id, n, count(*) FROM audit GROUP BY id, n, generation HAVING count(*) > 1")
	b.Logf("%d records, %d rows, %s written", last+1, len(rows), b.rows("SELECT count(*) FROM audit")[0])
}

// TestDatabaseThatIsAwayIsWaitedFor kills the database while records come.
func TestDatabaseThatIsAwayIsWaitedFor(t *testing.T) {
	b := newBase(t)
	log, err := embedded.Open(t.TempDir(), embedded.Options{})
	b.ok(err)
	defer log.Close()
	b.ok(fillCrashLog(t.Context(), log, 1000))
	sink := b.open(crashed(b.url, false))
	metrics := &sinks.Metrics{}
	d, err := sinks.New(log, contract.Service{Many: sink}, sinks.Options{Group: crashGroup, Topic: topic.Topic, Timeout: 5 * time.Second}, metrics)
	b.ok(err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	wait := func(what string, until func() bool) {
		t.Helper()
		for deadline := time.Now().Add(5 * time.Minute); !until(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("it takes too long until %s: %d delivered, %d failures", what, metrics.Delivered.Load(), metrics.Failures.Load())
			}
		}
	}
	delivered := func() bool {
		left, err := crashtest.Left(t.Context(), log, crashGroup, crashTopic)
		b.ok(err)
		return left == 0
	}
	wait("all is delivered", delivered)
	server.Get(t).Kill()
	var list []stream.Record
	for n := range 1000 {
		list = append(list, crashRecord(1000+n))
	}
	b.ok(log.Append(t.Context(), list...))
	wait("the sink rests", metrics.Resting.Load)
	if left, err := crashtest.Left(t.Context(), log, crashGroup, crashTopic); left != 1000 || err != nil {
		t.Errorf("%d records are left, %v", left, err)
	}
	b.ok(server.Get(t).Start(t.Context()))
	wait("all is delivered again", delivered)
	stop()
	b.ok(<-done)
	b.connect()
	b.want("SELECT count(*), min(n) FROM artifacts", fmt.Sprint(crashKeys, " ", 2000-crashKeys))
	if metrics.Refused.Load() > 0 || metrics.Failures.Load() == 0 {
		t.Errorf("%d dead letters, %d failures", metrics.Refused.Load(), metrics.Failures.Load())
	}
}

// TestSinksAtOnceAndARangeReadAgainOverwriteNothingNewer has two sinks write the
// same topic, while a third one writes ranges of it again and again, and a fourth
// one what a later generation made of some events.
func TestSinksAtOnceAndARangeReadAgainOverwriteNothingNewer(t *testing.T) {
	b := newBase(t)
	b.exec(audited)
	const seed, rows = 3, 3000
	rng := rand.New(rand.NewPCG(seed, 0))
	var records, again []stream.Record
	want := map[string]string{}
	for n := range rows {
		if n == poisoned {
			continue
		}
		r := crashRecord(n)
		r.Offset = stream.Offset(n)
		records = append(records, r)
		if derived := crashRecord(n); n%crashKeys < 100 && n < rows/2 {
			derived.Headers[2].Value, derived.Offset = []byte("support sha256:11 2"), r.Offset
			again = append(again, derived)
		}
		id := fmt.Sprint("k", n%crashKeys)
		if n%crashKeys >= 100 || n < rows/2 {
			want[id] = fmt.Sprint("of ", n)
		}
	}
	write := func(c contract.Claim, list []stream.Record, size int) error {
		for len(list) > 0 {
			n := min(size, len(list))
			if o, err := c.Write(t.Context(), 0, list[:n]); err != nil || len(o.Refused) > 0 {
				return fmt.Errorf("%w: refused %v", err, o.Refused)
			}
			list = list[n:]
		}
		return nil
	}
	errs, ranges := make([]error, 4), rng.Perm(rows - 200)[:20]
	var wait sync.WaitGroup
	for i := range errs {
		sink := b.open(crashed(b.url, false))
		wait.Go(func() {
			c, err := sink.Claim(t.Context(), topic, 0)
			switch {
			case err != nil:
			case i < 2:
				err = write(c, records, 100+40*i)
			case i == 2:
				for _, from := range ranges {
					err = errors.Join(err, write(c, records[from:from+190], 190))
				}
			default:
				err = write(c, again, 70)
			}
			errs[i] = err
		})
	}
	wait.Wait()
	b.ok(errors.Join(errs...))
	for _, row := range b.rows("SELECT id, body FROM artifacts") {
		if id, body, _ := strings.Cut(row, " "); want[id] != body {
			t.Errorf("seed %d: row %s is %q, want %q", seed, id, body, want[id])
		}
	}
	b.want("SELECT count(*) FROM artifacts", fmt.Sprint(len(want)))
}

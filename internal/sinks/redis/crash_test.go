package redis_test

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
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/internal/sinks/redis"
	"github.com/afterbay/afterbay/internal/test/crashtest"
	"github.com/afterbay/afterbay/internal/test/kafkatest"
	contract "github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

var (
	crashKills  = flag.Int("sink.kills", 5, "kills of the sink in TestKilledSinksAndServersLoseNoKey")
	crashServer = flag.Int("sink.server", 2, "and of Redis")
	crashRows   = flag.Int("sink.rows", 2000, "records of it, and as many more when all are delivered")
	crashSeed   = flag.Uint64("sink.seed", 1, "seed of it")
	crashKafka  = flag.Bool("sink.kafka", false, "run it on Kafka too")
)

const (
	crashGroup = "support.artifacts"
	crashKeys  = 30
	poisoned   = 13 // a record without the field n
)

var (
	crashTopic = stream.Topic{Name: "artifacts", Partitions: 2}
	broker     = kafkatest.Shared{Options: kafkatest.Options{Settings: []string{"add.partitions.to.txn.retry.backoff.ms=1"}}}
)

func TestMain(m *testing.M) {
	crashtest.Main(crashtest.Children{"sink": runCrashChild})
	os.Exit(broker.Run(m))
}

// crashed are the options of the sink that is killed: hashes of keys by one partition
// each, or texts of keys by all of them, with a version.
func crashed(url string, versioned bool) redis.Options {
	o := artifacts(url)
	o.Fields = append(o.Fields, field("n", "int"))
	if o.JSON = versioned; versioned {
		o.Version = version("2 * n + 1", field("n", "int"))
	}
	return o
}

// runCrashChild delivers until all is delivered, or until it kills itself: folder,
// brokers, URL, whether with a version, stage and hit.
func runCrashChild(ctx context.Context, arguments string) error {
	var dir, brokers, url, stage string
	var versioned bool
	var hit int
	if _, err := fmt.Sscan(arguments, &dir, &brokers, &url, &versioned, &stage, &hit); err != nil {
		return err
	}
	log, err := crashtest.OpenLog(ctx, dir, brokers)
	if err != nil {
		return err
	}
	sink, err := redis.New(crashed(url, versioned))
	if err != nil {
		return err
	}
	d, err := sinks.New(log, contract.Service{Many: sink}, sinks.Options{
		Group: crashGroup, Topic: crashTopic.Name, Batch: 40, Timeout: 5 * time.Second, Fault: crashtest.KillAt(stage, hit),
	}, &sinks.Metrics{})
	if err != nil {
		return err
	}
	err = crashtest.RunUntilRead(ctx, log, crashGroup, crashTopic, d.Run)
	sink.Close()
	return errors.Join(err, log.Close())
}

// crashRecord is record n: those of a key are in the order of n, by one partition or,
// with a version, by both.
func crashRecord(n int, versioned bool) stream.Record {
	id := fmt.Sprint("k", n%crashKeys)
	p := stream.Place([]byte(id), 2)
	if versioned {
		p = int32(n / crashKeys % 2)
	}
	text := fmt.Sprintf(`{"id":%q,"body":"of %d","n":%[2]d}`, id, n)
	if n == poisoned {
		text = fmt.Sprintf(`{"id":%q,"body":"poison"}`, id)
	}
	return stream.Record{
		Partition: stream.Partition{Topic: crashTopic.Name, Index: p}, Key: []byte(id), Value: []byte(text),
		Headers: []stream.Header{
			{Key: header.ID, Value: fmt.Appendf(nil, "e%d", n)}, {Key: header.Position, Value: fmt.Appendf(nil, "contacts/%d@%d", p, n)},
			{Key: header.Pipeline, Value: []byte("support sha256:00 1")},
		},
	}
}

// crashes is a log, and a server, under processes that are killed.
type crashes struct {
	*base
	dir, brokers string
	versioned    bool
	written      int // records of the log
}

// more has the log hold more records.
func (c *crashes) more() {
	c.Helper()
	log, err := crashtest.OpenLog(c.Context(), c.dir, c.brokers)
	c.ok(err)
	if c.written == 0 {
		c.ok(log.CreateTopic(c.Context(), crashTopic))
	}
	var list []stream.Record
	for range *crashRows {
		list = append(list, crashRecord(c.written, c.versioned))
		c.written++
	}
	c.ok(errors.Join(log.Append(c.Context(), list...), log.Close()))
}

// TestKilledSinksAndServersLoseNoKey kills sinks while they write, and Redis under
// them. Each key is that of its newest event and never was an older one again, and the
// record that cannot be written is one dead letter.
func TestKilledSinksAndServersLoseNoKey(t *testing.T) {
	for _, engine := range []string{"embedded", "kafka"} {
		for _, versioned := range []bool{false, true} {
			if engine == "kafka" && !*crashKafka {
				continue
			}
			t.Run(fmt.Sprintf("%s/version=%v", engine, versioned), func(t *testing.T) {
				c := &crashes{base: newBase(t), dir: t.TempDir(), brokers: crashtest.NoBrokers, versioned: versioned}
				if engine == "kafka" {
					c.brokers = strings.Join(broker.Get(t).Addresses(), ",")
					broker.Get(t).Empty(t)
				}
				c.run()
			})
		}
	}
}

func (c *crashes) run() {
	c.more()
	stop := c.watch()
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
				c.server.Kill()
				if err := c.server.Start(context.WithoutCancel(c.Context())); err != nil {
					c.Error(err)
				}
			})
		}
		killed := crashtest.Killed(c.T, "sink", 0, c.dir, c.brokers, c.server.URL, c.versioned, stage, hit)
		wait.Wait()
		if killed {
			kills++
		} else if stage == "none" && servers == *crashServer {
			break
		}
		if !killed { // all was delivered: there is to be more
			c.more()
		}
	}
	looks := stop()
	c.check()
	c.Logf("seed %d: %d records, %d keys, %d kills of sinks, %d of Redis, looked at %d times", *crashSeed, c.written, crashKeys, kills, servers, looks)
	if kills < *crashKills/2 || looks == 0 {
		c.Errorf("only %d kills, and %d looks", kills, looks)
	}
}

// look returns n of each key that there is.
func (b *base) look(versioned bool) (map[string]int, error) {
	var calls rueidis.Commands
	for k := range crashKeys {
		if key := fmt.Sprint("artifact:k", k); versioned {
			calls = append(calls, b.client.B().Get().Key(key).Build())
		} else {
			calls = append(calls, b.client.B().Hget().Key(key).Field("body").Build())
		}
	}
	newest := map[string]int{}
	for k, answer := range b.client.DoMulti(b.Context(), calls...) {
		text, err := answer.ToString()
		if rueidis.IsRedisNil(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var n int
		_, body, _ := strings.Cut(text, "of ")
		if _, err := fmt.Sscanf(body, "%d", &n); err != nil {
			return nil, fmt.Errorf("key k%d holds %q: %w", k, text, err)
		}
		newest[fmt.Sprint("k", k)] = n
	}
	return newest, nil
}

// watch sees that no key becomes an older one, until stop, which says how often it
// looked.
func (c *crashes) watch() (stop func() int) {
	over, looks, before := make(chan struct{}), make(chan int, 1), map[string]int{}
	go func() {
		n := 0
		for {
			select {
			case <-over:
				looks <- n
				return
			case <-time.After(5 * time.Millisecond):
			}
			now, err := c.look(c.versioned)
			if err != nil {
				continue // the server is away
			}
			n++
			for key, was := range before {
				if is, ok := now[key]; !ok || is < was {
					c.Errorf("key %s was of %d, and then of %d", key, was, is)
				}
			}
			before = now
		}
	}()
	return func() int { close(over); return <-looks }
}

// check compares the keys with the records, and the dead letters.
func (c *crashes) check() {
	c.Helper()
	want := map[string]int{}
	for n := range c.written {
		if n != poisoned {
			want[fmt.Sprint("k", n%crashKeys)] = n
		}
	}
	c.wantKeys(want, c.versioned)
	if letters := crashtest.Letters(c.T, c.dir, c.brokers, crashGroup); !slices.Equal(letters, []string{fmt.Sprint("e", poisoned)}) {
		c.Errorf("dead letters %v", letters)
	}
}

// wantKeys compares the keys with n of each.
func (b *base) wantKeys(want map[string]int, versioned bool) {
	b.Helper()
	got, err := b.look(versioned)
	b.ok(err)
	for key, n := range want {
		if got[key] != n {
			b.Errorf("key %s is of %d, want %d", key, got[key], n)
		}
	}
	if len(got) != len(want) {
		b.Errorf("%d keys, want %d", len(got), len(want))
	}
}

// TestSinksAtOnceAndARangeReadAgainOverwriteNothingNewer has two sinks write the same
// records, while a third one writes ranges of them again and again, and a fourth one
// what a later generation made of some events.
func TestSinksAtOnceAndARangeReadAgainOverwriteNothingNewer(t *testing.T) {
	for _, versioned := range []bool{false, true} {
		t.Run(fmt.Sprintf("version=%v", versioned), func(t *testing.T) { writeAtOnce(t, versioned) })
	}
}

func writeAtOnce(t *testing.T, versioned bool) {
	c := &crashes{base: newBase(t), versioned: versioned}
	const rows, derivedKeys = 3000, 10
	rng := rand.New(rand.NewPCG(*crashSeed, 1))
	var records, again []stream.Record
	want := map[string]int{}
	for n := range rows {
		if n == poisoned {
			continue
		}
		records = append(records, crashRecord(n, versioned))
		id, derived := fmt.Sprint("k", n%crashKeys), n%crashKeys < derivedKeys
		if derived && n < rows/2 {
			r := crashRecord(n, versioned)
			r.Headers[2].Value = []byte("support sha256:11 2")
			again = append(again, r)
		}
		if versioned || !derived || n < rows/2 { // a version goes before the generation
			want[id] = n
		}
	}
	writers := [][]stream.Record{records, slices.Clone(records), nil, again}
	for _, from := range rng.Perm(rows - 200)[:60] {
		writers[2] = append(writers[2], records[from:from+190]...)
	}
	errs := make([]error, len(writers))
	var wait sync.WaitGroup
	for i, list := range writers {
		claim := c.claim(crashed(c.server.URL, versioned))
		wait.Go(func() {
			for part := range slices.Chunk(list, 70+40*i) {
				if o, err := claim.Write(t.Context(), 0, part); err != nil || len(o.Refused) > 0 {
					errs[i] = fmt.Errorf("%w: refused %v", err, o.Refused)
					return
				}
			}
		})
	}
	wait.Wait()
	c.ok(errors.Join(errs...))
	c.wantKeys(want, versioned)
	if t.Failed() {
		t.Logf("seed %d", *crashSeed)
	}
}

// stuck is a sink whose first write waits until the process wakes up, and is made
// then, whatever became of the call.
type stuck struct {
	contract.Writer
	awake  <-chan struct{}
	late   chan contract.Outcome // of that write
	writes atomic.Int32
}

type stuckClaim struct {
	contract.Claim
	*stuck
}

func (s *stuck) Claim(ctx context.Context, p stream.Partition, next stream.Offset) (contract.Claim, error) {
	c, err := s.Writer.Claim(ctx, p, next)
	return stuckClaim{c, s}, err
}

func (c stuckClaim) Write(ctx context.Context, safe stream.Offset, records []stream.Record) (contract.Outcome, error) {
	if c.writes.Add(1) > 1 {
		return c.Claim.Write(ctx, safe, records)
	}
	<-c.awake
	o, err := c.Claim.Write(context.WithoutCancel(ctx), safe, records)
	c.late <- o
	return o, err
}

// TestZombieOverwritesNothingAndMovesNoPositionBack has a sink fall asleep, with a
// write on its way and before it commits another one, until the log took its partitions
// away and another sink wrote all that there is. Then it wakes up, and goes on.
func TestZombieOverwritesNothingAndMovesNoPositionBack(t *testing.T) {
	b := newBase(t)
	log, err := embedded.Open(t.TempDir(), embedded.Options{RebalanceTimeout: 200 * time.Millisecond})
	b.ok(err)
	defer log.Close()
	b.ok(log.CreateTopic(t.Context(), crashTopic))
	const rows, batch = 40 * crashKeys, 40
	var records []stream.Record
	want := map[string]int{}
	for n := crashKeys; n < crashKeys+rows; n++ { // behind the one that is poisoned
		r := crashRecord(n, false)
		records = append(records, r)
		want[string(r.Key)] = n
	}
	b.ok(log.Append(t.Context(), records...))
	asleep, awake := make(chan struct{}), make(chan struct{})
	late := &stuck{awake: awake, late: make(chan contract.Outcome, 1)}
	start := func(to contract.Writer, fault func(string)) (*sinks.Metrics, func()) {
		metrics := &sinks.Metrics{}
		d, err := sinks.New(log, contract.Service{Many: to}, sinks.Options{Group: crashGroup, Topic: crashTopic.Name, Batch: batch, Fault: fault}, metrics)
		b.ok(err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		return metrics, func() { cancel(); b.ok(<-done) }
	}
	wait := func(what string, until func() bool) {
		t.Helper()
		for deadline := time.Now().Add(5 * time.Minute); !until(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("it takes too long until %s", what)
			}
		}
	}
	delivered := func() bool {
		left, err := crashtest.Left(t.Context(), log, crashGroup, crashTopic)
		b.ok(err)
		return left == 0
	}
	late.Writer = b.sink(crashed(b.server.URL, false))
	var once sync.Once
	zombie, stop := start(late, func(at string) {
		if at == "write" {
			once.Do(func() { close(asleep); <-awake })
		}
	})
	<-asleep
	_, stopOwner := start(b.sink(crashed(b.server.URL, false)), nil)
	wait("the owner wrote all", delivered)
	b.wantKeys(want, false)
	close(awake)
	if o := <-late.late; o.Older != batch || len(o.Refused) > 0 {
		t.Errorf("the late write: %+v, want %d older", o, batch)
	}
	wait("the zombie joins again", func() bool { return zombie.Rejoined.Load() > 0 })
	stop()
	stopOwner()
	if b.wantKeys(want, false); !delivered() {
		t.Error("a position went back")
	}
}

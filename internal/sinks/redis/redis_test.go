package redis_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/sinks"
	"github.com/afterbay/afterbay/internal/sinks/redis"
	"github.com/afterbay/afterbay/internal/sinks/row"
	"github.com/afterbay/afterbay/internal/test/servertest"
	contract "github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

func field(name, of string) redis.Field {
	t, err := value.ReadType(of)
	if err != nil {
		panic(err)
	}
	return redis.Field{Name: name, Field: name, Type: t}
}

// artifacts are options of keys of id and body. A busy machine takes its time to connect.
func artifacts(url string) redis.Options {
	return redis.Options{URL: url + "?dial_timeout=1m", Prefix: "artifact:", Key: "id", Fields: []redis.Field{field("id", "string"), field("body", "string")}}
}

// from is a record of an event of a source.
func from(source string, offset int64, generation int, value string) stream.Record {
	return stream.Record{Partition: stream.Partition{Topic: "artifacts"}, Offset: stream.Offset(offset), Value: []byte(value), Headers: []stream.Header{
		{Key: header.Position, Value: fmt.Appendf(nil, "%s@%d", source, offset)}, {Key: header.Pipeline, Value: fmt.Appendf(nil, "support sha256:00 %d", generation)},
	}}
}

func record(offset int64, generation int, id, body string) stream.Record {
	return from("contacts/0", offset, generation, fmt.Sprintf(`{"id":%q,"body":%q}`, id, body))
}

// version compiles one over fields.
func version(source string, fields ...redis.Field) *row.Version {
	var list []row.Field
	for _, f := range fields {
		list = append(list, row.Field{Name: f.Name, Type: f.Type})
	}
	v, err := row.Compile(source, list, nil)
	if err != nil {
		panic(err)
	}
	return v
}

type base struct {
	*testing.T
	server *servertest.Server
	client rueidis.Client
}

func newBase(t *testing.T) *base {
	server := servertest.Redis(t)
	return &base{T: t, server: server, client: server.Redis(t)}
}

func (b *base) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *base) sink(o redis.Options) *redis.Sink {
	b.Helper()
	s, err := redis.New(o)
	b.ok(err)
	b.Cleanup(s.Close)
	return s
}

func (b *base) claim(o redis.Options) contract.Claim {
	b.Helper()
	s := b.sink(o)
	if errs := s.Check(b.Context()); errs != nil {
		b.Error(errs)
	}
	c, err := s.Claim(b.Context(), stream.Partition{}, 0)
	b.ok(err)
	return c
}

func (b *base) write(c contract.Claim, records ...stream.Record) contract.Outcome {
	b.Helper()
	o, err := c.Write(b.Context(), 0, records)
	b.ok(err)
	return o
}

// do returns the answer to a command.
func (b *base) do(words ...string) string {
	b.Helper()
	answer, err := b.client.Do(b.Context(), b.client.B().Arbitrary(words...).Build()).ToAny()
	if rueidis.IsRedisNil(err) {
		return "nil"
	}
	b.ok(err)
	return fmt.Sprint(answer)
}

func (b *base) want(want string, words ...string) {
	b.Helper()
	if got := b.do(words...); got != want {
		b.Errorf("%v: %q, want %q", words, got, want)
	}
}

func TestNewestHashOfAKeyStaysWhateverComesWhen(t *testing.T) {
	b := newBase(t)
	c := b.claim(artifacts(b.server.URL))
	b.write(c, record(0, 1, "a", "0"), record(1, 1, "b", "1"), record(2, 1, "a", "2"))
	b.want("2", "HGET", "artifact:a", "body")
	if o := b.write(c, record(0, 1, "a", "0"), record(1, 1, "b", "1"), record(2, 1, "a", "2")); o.Older != 3 || len(o.Refused) > 0 {
		t.Errorf("the same again: %+v", o)
	}
	b.write(c, record(0, 2, "a", "again"))
	b.write(c, record(9, 1, "a", "9"))
	b.write(c, record(10, 1, "b", "10"))
	b.want("[again a]", "HMGET", "artifact:a", "body", "id")
	b.want("10", "HGET", "artifact:b", "body")
	o := b.write(c, from("contacts/1", 30, 1, `{"id":"a","body":"of another"}`), record(11, 2, "a", "11"), from("contacts/1", 31, 1, `{"id":"c"}`))
	if o.Foreign != 1 || len(o.Refused) != 2 || o.Refused[0].Index != 0 || o.Refused[1].Index != 2 || !strings.Contains(o.Refused[0].Err.Error(), "`version`") {
		t.Errorf("%+v", o)
	}
	b.want("11", "HGET", "artifact:a", "body")
	b.do("SET", "artifact:text", "of somebody")
	if o := b.write(c, record(12, 2, "text", "x"), record(13, 2, "a", "13")); len(o.Refused) != 1 || !strings.Contains(o.Refused[0].Err.Error(), "holds something that the sink did not write") {
		t.Errorf("%+v", o)
	}
	b.want("13", "HGET", "artifact:a", "body")
}

func TestNewestTextOfAKeyStaysAndGoesInTime(t *testing.T) {
	b := newBase(t)
	o := artifacts(b.server.URL)
	o.JSON, o.TTL, o.Version = true, time.Minute, version("at", field("at", "number"))
	o.Fields = append(o.Fields, field("at", "number"), field("n", "optional int"))
	at := func(source string, offset int64, at float64) stream.Record {
		return from(source, offset, 1, fmt.Sprintf(`{"id":"a","body":"%s \"%d","at":%v}`, source, offset, at))
	}
	writes := []stream.Record{at("x/0", 1, -2.5), at("x/1", 0, -0.5), at("x/0", 2, -3e10), at("x/0", 3, -0.5), at("x/1", 9, -1)}
	for _, order := range [][]int{{0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}, {3, 1, 0, 4, 2}} {
		b.do("FLUSHALL")
		c := b.claim(o)
		for _, i := range order {
			if out := b.write(c, writes[i]); len(out.Refused) > 0 {
				t.Errorf("%+v", out)
			}
		}
		if got := b.do("GET", "artifact:a"); !strings.HasPrefix(got, `{"id":"a","body":"x/1 \"0","at":-0.5,"n":null,"afterbay_source":"x/1","afterbay_stamp":"`) {
			t.Error(got)
		}
	}
	if ttl := b.do("PTTL", "artifact:a"); len(ttl) != 5 {
		t.Errorf("it lives for %s ms", ttl)
	}
}

func TestVersionIsComputedOfWhatIsNotWritten(t *testing.T) {
	b := newBase(t)
	o := artifacts(b.server.URL)
	o.Version = version("(revision ?? 0) - scale", field("revision", "optional int"), field("scale", "int"))
	at := func(source string, offset int64, body, revision string, scale int) stream.Record {
		return from(source, offset, 1, fmt.Sprintf(`{"id":"a","body":%q%s,"scale":%d}`, body, revision, scale))
	}
	writes := []stream.Record{at("x/0", 1, "-5", "", 5), at("x/1", 0, "-1", `,"revision":2`, 3), at("x/0", 2, "-3", `,"revision":-1`, 2), at("x/1", 7, "too low", `,"revision":-9223372036854775808`, 1)}
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}} {
		b.do("FLUSHALL")
		c, refused := b.claim(o), 0
		for _, i := range order {
			for _, r := range b.write(c, writes[i]).Refused {
				if refused++; !strings.HasPrefix(r.Err.Error(), "version: ") {
					t.Error(r.Err)
				}
			}
		}
		b.want("-1", "HGET", "artifact:a", "body")
		b.want("4", "HLEN", "artifact:a")
		if refused != 1 {
			t.Errorf("%d records refused", refused)
		}
	}
}

func TestEveryTypeIsWritten(t *testing.T) {
	b := newBase(t)
	o := artifacts(b.server.URL)
	o.Key, o.Fields = "n", []redis.Field{field("n", "int"), field("yes", "optional bool"), field("at", "optional time"), field("raw", "optional bytes"), field("embed", "optional number[2]"), field("words", "optional string[]")}
	b.write(b.claim(o), from("x/0", 0, 1, `{"n":-7,"yes":true,"at":"2026-11-22T10:00:00Z","raw":"AP8=","embed":[1,-2],"words":["a","b"]}`), from("x/0", 1, 1, `{"n":8}`))
	got := []string{b.do("HMGET", "artifact:-7", "n", "yes", "at", "raw", "embed", "words"), b.do("HKEYS", "artifact:8")}
	want := []string{"[-7 true 2026-11-22T10:00:00.000000Z \x00\xff \x00\x00\x80?\x00\x00\x00\xc0 [\"a\",\"b\"]]", "[n afterbay_source afterbay_stamp]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestServerThatDiesIsWaitedFor kills Redis while records are delivered.
func TestServerThatDiesIsWaitedFor(t *testing.T) {
	b := newBase(t)
	log, err := embedded.Open(t.TempDir(), embedded.Options{})
	b.ok(err)
	defer log.Close()
	b.ok(log.CreateTopic(t.Context(), stream.Topic{Name: "artifacts", Partitions: 1}))
	const rows, keys = 3000, 200
	fill := func(from int) {
		var list []stream.Record
		for n := from; n < from+rows; n++ {
			r := record(int64(n), 1, fmt.Sprint("k", n%keys), fmt.Sprint(n))
			r.Partition, r.Offset = stream.Partition{Topic: "artifacts"}, 0
			list = append(list, r)
		}
		b.ok(log.Append(t.Context(), list...))
	}
	fill(0)
	sink, err := redis.New(artifacts(b.server.URL))
	b.ok(err)
	defer sink.Close()
	metrics := &sinks.Metrics{}
	d, err := sinks.New(log, contract.Service{Many: sink}, sinks.Options{Group: "support.redis", Topic: "artifacts", Timeout: 5 * time.Second, Batch: 100}, metrics)
	b.ok(err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	wait := func(until func() bool) {
		t.Helper()
		for deadline := time.Now().Add(5 * time.Minute); !until(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d delivered, %d failures", metrics.Delivered.Load(), metrics.Failures.Load())
			}
		}
	}
	wait(func() bool { return metrics.Delivered.Load() > 500 })
	b.server.Kill()
	fill(rows)
	wait(metrics.Resting.Load)
	b.ok(b.server.Start(t.Context()))
	wait(func() bool {
		committed, err := log.Committed(t.Context(), "support.redis", stream.Partition{Topic: "artifacts"})
		b.ok(err)
		return committed == 2*rows
	})
	stop()
	b.ok(<-done)
	for k := range keys {
		b.want(fmt.Sprint(2*rows-keys+k), "HGET", fmt.Sprint("artifact:k", k), "body")
	}
	if metrics.Refused.Load() > 0 || metrics.Failures.Load() == 0 {
		t.Errorf("%d dead letters, %d failures", metrics.Refused.Load(), metrics.Failures.Load())
	}
}

func TestOptionsAreChecked(t *testing.T) {
	good := artifacts("redis://localhost:6379/0")
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(*redis.Options){
		"URL":       func(o *redis.Options) { o.URL = "localhost" },
		"key":       func(o *redis.Options) { o.Key = "nobody" },
		"ttl":       func(o *redis.Options) { o.TTL = time.Microsecond },
		"two names": func(o *redis.Options) { o.Fields[1].Field = "id" },
		"own":       func(o *redis.Options) { o.Fields[1].Field = "afterbay_stamp" },
	} {
		o := artifacts("redis://:secret@localhost:6379/0")
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

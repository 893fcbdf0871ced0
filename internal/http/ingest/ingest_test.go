package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/log/memory"
	"github.com/afterbay/afterbay/stream"
)

func newLog(t testing.TB, topics ...stream.Topic) *memory.Log {
	t.Helper()
	log := memory.New(memory.Options{})
	for _, topic := range topics {
		if err := log.CreateTopic(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = log.Close() })
	return log
}

// contents returns what a topic holds as key=value, partition by partition.
func contents(t testing.TB, log *memory.Log, topic string) []string {
	t.Helper()
	topics, err := log.Topics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, tp := range topics {
		for i := range tp.Partitions {
			p := stream.Partition{Topic: topic, Index: i}
			_, next, err := log.Offsets(t.Context(), p)
			if tp.Name != topic || next == 0 {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for r, err := range log.Tail(t.Context(), p, 0) {
				if err != nil {
					t.Fatal(err)
				}
				key := "-"
				if r.Key != nil {
					key = string(r.Key)
				}
				all = append(all, key+"="+string(r.Value))
				if r.Offset+1 == next {
					break
				}
			}
		}
	}
	return all
}

var one = stream.Topic{Name: "in", Partitions: 1}

func TestLinesBecomeRecordsAndNothingIsLost(t *testing.T) {
	const input = "\uFEFF{\"k\":\"a\",\"v\":1}\r\n\n   \t\r\n{\"k\":7}\nnot json\n{\"k\":null}\n{\"k\":\"\"}\n{\"k\":\"x\",\"k\":\"y\"}\n\xff\n{\"k\":\"last\"}"
	want := []string{
		`a={"k":"a","v":1}`, `7={"k":7}`, `-=not json`, `-={"k":null}`, `={"k":""}`,
		`-={"k":"x","k":"y"}`, "-=\xff", `last={"k":"last"}`,
	}
	for name, source := range map[string]io.Reader{
		"whole": strings.NewReader(input), "byte by byte": iotest.OneByteReader(strings.NewReader(input)),
	} {
		log := newLog(t, one)
		done, err := ingest.Publish(t.Context(), log, source, ingest.Options{Topic: "in", Key: "k"})
		if err != nil {
			t.Fatal(name, err)
		}
		if diff := cmp.Diff(want, contents(t, log, "in")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if done.Lines != 10 || done.Appended != 8 || done.Repeated != 0 {
			t.Errorf("%s: %+v", name, done)
		}
	}
}

func TestCSVConversion(t *testing.T) {
	tests := []struct{ name, input, want string }{
		{"numbers keep their digits", "a,b,c\n1.50,-0,1e-7\n", `{"a":1.50,"b":-0,"c":1e-7}`},
		{"what is not JSON number is a string", "a,b,c,d,e\n007,+1,NaN,.5,1.\n", `{"a":"007","b":"+1","c":"NaN","d":".5","e":"1."}`},
		{"words are strings", "a,b,c\ntrue,null,x y\n", `{"a":"true","b":"null","c":"x y"}`},
		{"an empty cell is absent", "a,b,c\n,2,\n", `{"b":2}`},
		{"all cells empty", "a,b\n,\n", `{}`},
		{"a quoted number is a string", "a,b\n\"12\",12\n", `{"a":"12","b":12}`},
		{"a quoted empty cell is an empty string", "a,b\n\"\",1\n", `{"a":"","b":1}`},
		{"quotes, commas and newlines in quotes", "a,b\n\"x \"\"y\"\", z\nw\",1\n", `{"a":"x \"y\", z\u000aw","b":1}`},
		{"escapes", "a\n\\\t\n", `{"a":"\\\u0009"}`},
		{"names are escaped", "\"a\"\"b\",c\n1,2\n", `{"a\"b":1,"c":2}`},
		{"byte order mark, CRLF, blank lines", "\uFEFFa,b\r\n1,2\r\n\r\n3,4", `{"a":1,"b":2}|{"a":3,"b":4}`},
		{"too few and too many cells are kept as they came", "a,b\n1\n1,2,3\n4,5\n", `1|1,2,3|{"a":4,"b":5}`},
		{"a stray quote costs one row", "a,b\nx\"y,1\n2,3\n4,z\"\n5,6\n", `x"y,1|{"a":2,"b":3}|4,z"|{"a":5,"b":6}`},
		{"a quote that never closes costs one row", "a,b\n\"x,1\n2,3\n4,5\n", `"x,1|{"a":2,"b":3}|{"a":4,"b":5}`},
		{"invalid UTF-8 stays for the pipeline to refuse", "a\n\xff\n", "{\"a\":\"\xff\"}"},
		{"header alone", "a,b\n", ``},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			log := newLog(t, one)
			_, err := ingest.Publish(t.Context(), log, strings.NewReader(test.input), ingest.Options{Topic: "in", Format: ingest.CSV})
			if err != nil {
				t.Fatal(err)
			}
			got := strings.ReplaceAll("\x00"+strings.Join(contents(t, log, "in"), "\x00"), "\x00-=", "|")
			if got = strings.Trim(got, "|\x00"); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestRefusedSourcesSayWhatAndWhere(t *testing.T) {
	long := strings.Repeat("x", ingest.LineBytesMax)
	tests := []struct {
		name, input string
		format      ingest.Format
		want        string
		appended    int64
	}{
		{"line too long", "1\n2\n" + long + "y\n4\n", ingest.NDJSON, "in.file:3: the line is longer than 1 MiB", 2},
		{"line much too long", "1\n" + long + long, ingest.NDJSON, "in.file:2: the line is longer than 1 MiB", 1},
		{"CSV line too long", "a\n1\n" + long + "y\n", ingest.CSV, "in.file:3: the line is longer than 1 MiB", 1},
		{"empty CSV", "\n", ingest.CSV, "in.file:1: the file is empty: a CSV file starts with a header", 0},
		{"column twice", "a,b,a\n", ingest.CSV, `in.file:1: the header names column "a" twice`, 0},
		{"column without a name", "a,,b\n", ingest.CSV, "in.file:1: a column of the header has no name", 0},
		{"JSON read as CSV", "{\"a\":1}\n", ingest.CSV, "in.file:1: the header is not CSV", 0},
		{"unknown format", "", "xml", `unknown format "xml": use ndjson or csv`, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			log := newLog(t, one)
			done, err := ingest.Publish(t.Context(), log, strings.NewReader(test.input),
				ingest.Options{Name: "in.file", Topic: "in", Format: test.format})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if done.Appended != test.appended || len(contents(t, log, "in")) != int(test.appended) {
				t.Errorf("%+v appended, want %d", done, test.appended)
			}
		})
	}
	log := newLog(t, one)
	done, err := ingest.Publish(t.Context(), log, strings.NewReader(long+"\r\n"), ingest.Options{Topic: "in"})
	if err != nil || done.Appended != 1 {
		t.Errorf("a line of exactly 1 MiB: %+v, %v", done, err)
	}
}

// killed is a log that fails from some append on, before or after it happened.
type killed struct {
	*memory.Log
	appends int
	after   bool
}

var errKilled = errors.New("killed")

func (k *killed) AppendOnce(ctx context.Context, producer string, first int64, records ...stream.Record) (int, error) {
	k.appends--
	if k.appends < 0 && !k.after {
		return 0, errKilled
	}
	n, err := k.Log.AppendOnce(ctx, producer, first, records...)
	if k.appends < 0 {
		return 0, errKilled
	}
	return n, err
}

func TestRerunAfterAKillRepeatsNothing(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var input strings.Builder
	var want []string
	for i := range 30_000 {
		line := fmt.Sprintf(`{"n":%d}`, i)
		want = append(want, "-="+line)
		input.WriteString(line + strings.Repeat("\n", 1+random.IntN(2)))
	}
	for range 20 {
		log := newLog(t, one)
		o := ingest.Options{Topic: "in", Producer: "p"}
		var appended int64
		for kills := random.IntN(4); kills > 0; kills-- {
			k := &killed{log, random.IntN(8), random.IntN(2) == 0}
			if _, err := ingest.Publish(t.Context(), k, strings.NewReader(input.String()), o); err != nil && !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
		}
		o.Progress = func(p ingest.Progress) { appended = p.Appended }
		done, err := ingest.Publish(t.Context(), log, strings.NewReader(input.String()), o)
		if err != nil {
			t.Fatal(err)
		}
		if done.Appended+done.Repeated != 30_000 || appended != done.Appended {
			t.Errorf("%+v, progress %d", done, appended)
		}
		if diff := cmp.Diff(want, contents(t, log, "in")); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestUnknownTopicIsAnError(t *testing.T) {
	_, err := ingest.Publish(t.Context(), newLog(t), strings.NewReader("{}"), ingest.Options{Topic: "nowhere"})
	if !errors.Is(err, stream.ErrUnknownTopic) || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("error %v", err)
	}
}

func TestFileProducersDiffer(t *testing.T) {
	names := map[string]bool{}
	for _, topic := range []string{"a", "b"} {
		for _, format := range []ingest.Format{ingest.NDJSON, ingest.CSV} {
			names[ingest.FileProducer("00", topic, format)] = true
		}
	}
	if len(names) != 4 || !names[ingest.FileProducer("00", "a", "")] {
		t.Error(names)
	}
}

func FuzzCSVLosesNoRow(f *testing.F) {
	f.Add("a,b\n1,2\n")
	f.Add("a\n\"\n\"\"\nx\"\n")
	f.Fuzz(func(t *testing.T, rows string) {
		if len(rows) > 1000 {
			return
		}
		log := newLog(t, one)
		if _, err := ingest.Publish(t.Context(), log, strings.NewReader("a,b\n"+rows), ingest.Options{Topic: "in", Format: ingest.CSV}); err != nil {
			t.Fatal(err)
		}
		letters := func(s string) (n int) {
			for _, c := range []byte(s) {
				if c >= 'p' && c <= 't' {
					n++
				}
			}
			return n
		}
		got := 0
		for _, r := range contents(t, log, "in") {
			got += letters(r)
		}
		if got < letters(rows) {
			t.Errorf("%d letters of %d arrived", got, letters(rows))
		}
	})
}

func Example() {
	ctx := context.Background()
	log := memory.New(memory.Options{})
	defer log.Close()
	_ = log.CreateTopic(ctx, stream.Topic{Name: "clicks", Partitions: 1, Key: "user"})
	rows := "user,amount,note\nann,12.50,\nbob,7,\"late, again\"\n"
	done, err := ingest.Publish(ctx, log, strings.NewReader(rows), ingest.Options{Topic: "clicks", Key: "user", Format: ingest.CSV})
	fmt.Println(done.Appended, err)
	for r := range log.Tail(ctx, stream.Partition{Topic: "clicks"}, 0) {
		fmt.Printf("%d %s %s\n", r.Offset, r.Key, r.Value)
		if r.Offset == 1 {
			break
		}
	}
	// Output:
	// 2 <nil>
	// 0 ann {"user":"ann","amount":12.50}
	// 1 bob {"user":"bob","amount":7,"note":"late, again"}
}

func TestEachSaysWhereARecordBegins(t *testing.T) {
	for format, c := range map[ingest.Format]struct{ source, want string }{
		ingest.NDJSON: {"\n{\"a\":1}\n\nnot JSON\n", `2 {"a":1} true, 4 not JSON true, `},
		ingest.CSV:    {"a,b\n1,\n\n\"x\ny\",2\n1\n\"\",3", `2 {"a":1,"b":null} true, 4 {"a":"x\u000ay","b":2} true, 6 1 false, 7 {"a":"","b":3} true, `},
	} {
		got := ""
		err := ingest.Each(strings.NewReader(c.source), "s", format, func(line int64, value []byte, whole bool) error {
			got += fmt.Sprintf("%d %s %v, ", line, value, whole)
			return nil
		})
		if err != nil || got != c.want {
			t.Errorf("%s: %s, want %s, %v", format, got, c.want, err)
		}
	}
	stop := errors.New("enough")
	if err := ingest.Each(strings.NewReader("{}\n{}\n"), "s", "", func(int64, []byte, bool) error { return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
}

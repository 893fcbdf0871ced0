package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/stream"
)

// behind makes a data directory in which the pipeline doubles is 2 hours behind,
// and the pipeline counts an hour in one partition and a minute in another.
func behind(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	write(t, "counts.yaml", countsPipeline)
	must(t, numbered(70), "produce", "in", "--partitions", "3", "--key", "k")
	must(t, "", "run", "counts.yaml", "--listen", "none", "--until-idle")
	log, err := embedded.Open("data", embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	at := func(topic string, index int32, ago time.Duration) stream.Record {
		return stream.Record{Partition: stream.Partition{Topic: topic, Index: index}, Time: time.Now().Add(-ago), Value: []byte(`{"k":"x","seen_count_24h":1}`)}
	}
	err = log.Append(t.Context(), at("mid", 1, 2*time.Hour), at("in", 2, time.Hour), at("in", 2, 0), at("in", 0, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
}

func TestLagIsGoldenTheWorstFirst(t *testing.T) {
	behind(t)
	digits := regexp.MustCompile(`\d+(\.\d+)?s|(\d\.\d{3})\d*`) // below the minutes
	tests := []struct{ line, want string }{
		{"lag", `GROUP    TOPIC  PARTITION  COMMITTED  NEXT  RECORDS  BEHIND
doubles  mid    1          30         31    1        2h0m
counts   in     2          30         32    2        1h0m
counts   in     0          10         11    1        1m
counts   in     1          30         30    0        
doubles  mid    0          10         10    0        
doubles  mid    2          30         30    0        
`},
		{"lag doubles", `GROUP    TOPIC  PARTITION  COMMITTED  NEXT  RECORDS  BEHIND
doubles  mid    1          30         31    1        2h0m
doubles  mid    0          10         10    0        
doubles  mid    2          30         30    0        
`},
	}
	for _, c := range tests {
		if diff := cmp.Diff(c.want, digits.ReplaceAllString(must(t, "", fields(c.line)...), "$2")); diff != "" {
			t.Errorf("%s: %s", c.line, diff)
		}
	}
	const wantJSON = `{"lag":[{"group":"doubles","topic":"mid","partition":1,"committed":30,"next":31,"records":1,"seconds":72??},` +
		`{"group":"doubles","topic":"mid","partition":0,"committed":10,"next":10,"records":0,"seconds":0},` +
		`{"group":"doubles","topic":"mid","partition":2,"committed":30,"next":30,"records":0,"seconds":0}]}` + "\n"
	if diff := cmp.Diff(wantJSON, regexp.MustCompile(`72\d\d\.\d+`).ReplaceAllString(must(t, "", "lag", "doubles", "--json"), "72??")); diff != "" {
		t.Error(diff)
	}
	if r := command(t, "", "lag", "nobody"); r.code != exitFailure || !strings.Contains(r.stderr, `unknown pipeline "nobody": there are counts, doubles`) {
		t.Errorf("%+v", r)
	}
	if r := command(t, "", "lag", "--watch"); r.code != exitFailure || !strings.Contains(r.stderr, "no process runs in data") {
		t.Errorf("%+v", r)
	}
}

func TestLagIsWatchedUntilASignal(t *testing.T) {
	behind(t)
	out, _ := background(t, "run", "counts.yaml", "--listen", "127.0.0.1:0")
	out.wait(t, "afterbay tail mid --follow")
	watch, end := background(t, "lag", "counts", "--watch")
	watch.wait(t, "\n\nGROUP")
	if code := end(); code != exitOK {
		t.Errorf("exit %d: %s", code, watch)
	}
	lines, endLines := background(t, "lag", "--json", "--watch")
	lines.wait(t, "}\n{\"lag\":[{")
	lines.wait(t, `"committed":32,"next":32,"records":0,"seconds":0}`) // in/2 is worked off
	if code := endLines(); code != exitOK {
		t.Errorf("exit %d: %s", code, lines)
	}
}

// TestProduceWaitsForAPipelineThatIsBehind sends more than may wait.
func TestProduceWaitsForAPipelineThatIsBehind(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "counts.yaml", strings.Replace(countsPipeline, "partitions: 3", "partitions: 3\n  backlog: {max: 5, high: 4, low: 1}", 1))
	out, _ := background(t, "run", "counts.yaml", "--listen", "127.0.0.1:0")
	out.wait(t, "afterbay tail mid --follow")
	if r := command(t, numbered(8), "produce", "in", "--key", "k"); r.code != exitOK || !strings.Contains(r.stderr, "appended 8 records of 8 lines") {
		t.Fatalf("%+v", r)
	}
	if got := must(t, "", "lag", "counts"); !regexp.MustCompile(`\nPIPELINE +TOPIC +QUEUE +STATE +WAITING +OF +SWITCHES +THROTTLED\ncounts +in +backlog +(full-rate|throttled) +\d +5 +\d +\S+s\n$`).MatchString(got) {
		t.Error(got)
	}
	if got := must(t, "", "lag", "counts", "--json"); !strings.Contains(got, `"sources":[{"pipeline":"counts","topic":"in","queue":"backlog",`) || !strings.Contains(got, `"refused":`) {
		t.Error(got)
	}
}

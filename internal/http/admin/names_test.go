package admin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/internal/gateway/sequence"
	"github.com/afterbay/afterbay/internal/http/access"
	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/process/builtin"
	"github.com/afterbay/afterbay/stream"
)

// reading returns a pipeline that reads a topic.
func reading(t *testing.T, name, topic string) *running.Runner {
	t.Helper()
	runner, err := builtin.New(lang.Pipeline{
		Name: name, Input: lang.Input{Topic: topic, Partitions: 1, Key: "k", Fields: []lang.Field{{Name: "k", Type: "string"}}},
		Steps: []lang.Step{&steps.Emit{Topic: name + "-out", Names: []string{"k"}}},
	}, running.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return runner
}

// commits has a group read a topic of the log.
func commits(t *testing.T, log stream.Log, group, topic string) {
	t.Helper()
	s, err := log.Join(t.Context(), group, topic)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	batch, err := s.Poll(t.Context(), 1)
	if err == nil {
		err = s.Commit(stream.Transaction{Offsets: map[stream.Partition]stream.Offset{batch.Assigned[0].Partition: 1}}).Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTopicsOfOthersWithNamesOfTheEngineTakeRecords has pipelines that read topics which
// are named like the engine's: those that no pipeline and no gateway has take records.
func TestTopicsOfOthersWithNamesOfTheEngineTakeRecords(t *testing.T) {
	log := newLog(t)
	for _, group := range []string{"shop", sequence.Group("chat")} {
		if err := log.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: "one"}, Value: []byte("v")}); err != nil {
			t.Fatal(err)
		}
		commits(t, log, group, "one")
	}
	runners := []*running.Runner{copies(t, log)}
	for name, topic := range map[string]string{"a": "mail.inbox", "b": "orders.dlq", "c": "copy.dlq", "d": "shop.dlq", "e": "chat.results", "f": "chat.sequence.dlq"} {
		runners = append(runners, reading(t, name, topic))
	}
	_, url := start(t, log, admin.Options{Runners: runners})
	for topic, want := range map[string][2]int{
		"mail.inbox": {204, 200}, "orders.dlq": {204, 200}, "other.dlq": {400, 403}, "copy.dlq": {400, 403},
		"shop.dlq": {400, 403}, "chat.results": {400, 403}, "chat.sequence.dlq": {400, 403}, "__topics": {400, 403},
	} {
		put, text := request(t, http.MethodPut, url+"/v1/topics/"+topic, `{"partitions":1}`)
		post, more := request(t, http.MethodPost, url+"/v1/topics/"+topic, `{"k":"a"}`)
		if got := [2]int{put, post}; got != want {
			t.Errorf("%s: %v, want %v: %s, %s", topic, got, want, text, more)
		}
	}
	local := &inspect.Local{Log: log} // of a command
	commits(t, log, "b", "orders.dlq")
	for topic, want := range map[string]bool{"orders.dlq": true, "in": true, "mail.inbox": false, "shop.dlq": false, "shop.g2.out": false, "chat.inbox": false, "__topics": false} {
		if got, err := local.Takes(t.Context(), topic); got != want || err != nil {
			t.Errorf("%s takes records of a command: %v, %v", topic, got, err)
		}
	}
}

// TestDeadLettersOfAGatewayAreNotThoseOfAPipeline deletes the dead letters of a gateway
// that does not run, beside a pipeline of its name.
func TestDeadLettersOfAGatewayAreNotThoseOfAPipeline(t *testing.T) {
	log := newLog(t)
	letters := sequence.DeadTopic("copy")
	for _, topic := range []string{letters, "copy.cards.dlq"} {
		if err := log.CreateTopic(t.Context(), stream.Topic{Name: topic, Partitions: 1}); err != nil {
			t.Fatal(err)
		}
	}
	_, url := start(t, log, admin.Options{Runners: []*running.Runner{copies(t, log)}})
	for topic, want := range map[string]int{letters: 204, "copy.cards.dlq": 409, "copy.dlq": 409} {
		if status, text := request(t, http.MethodDelete, url+"/v1/topics/"+topic, ""); status != want {
			t.Errorf("delete %s: %d %s", topic, status, text)
		}
	}
}

// TestPatternsDoNotCoverTopicsOfTheEngine reads and lists with a pattern that fits them.
func TestPatternsDoNotCoverTopicsOfTheEngine(t *testing.T) {
	log := newLog(t)
	runner := copies(t, log)
	if err := log.CreateTopic(t.Context(), stream.Topic{Name: "copy.g2.out", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	_, url := start(t, log, admin.Options{Token: "root", Runners: []*running.Runner{runner}, Tokens: tokens(t, map[string]access.Roles{
		"pattern": {Read: []string{"*", "copy.*"}, Produce: []string{"*.dlq"}}, "exact": {Read: []string{"copy.dlq"}}, "boss": {Admin: true},
	})})
	for _, c := range []struct {
		token, topic string
		want         int
	}{
		{"pattern", "out", 200}, {"pattern", "copy.dlq", 403}, {"pattern", "copy.g2.out", 403},
		{"exact", "copy.dlq", 200}, {"exact", "copy.g2.out", 403}, {"boss", "copy.dlq", 200},
	} {
		if status, text := get(t, url+"/v1/topics/"+c.topic+"/records", "Authorization", "Bearer "+secret(c.token)); status != c.want {
			t.Errorf("%s by %s: %d %s, want %d", c.topic, c.token, status, text, c.want)
		}
	}
	for token, want := range map[string][2]bool{"pattern": {true, false}, "exact": {false, true}} {
		_, text := get(t, url+"/v1/topics", "Authorization", "Bearer "+secret(token))
		if got := [2]bool{strings.Contains(text, `"out"`), strings.Contains(text, `"copy.dlq"`)}; got != want {
			t.Errorf("%s sees %s", token, text)
		}
	}
}

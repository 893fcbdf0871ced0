package journal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/log/embedded"
	"github.com/afterbay/afterbay/internal/state/journal"
	"github.com/afterbay/afterbay/internal/test/faultserver"
	"github.com/afterbay/afterbay/stream"
)

const (
	childVariable = "AFTERBAY_TEST_JOURNAL" // how to run, of a process that asks

	events      = 2_000
	questions   = 1_500
	concurrency = 8
	chunk       = 64
	kills       = 10
)

func TestMain(m *testing.M) {
	faultserver.Main()
	if text := os.Getenv(childVariable); text != "" {
		if err := runChild(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// asker asks a service about each event of a topic, chunk by chunk, and writes
// its answer: what a pipeline does, and no more.
type asker struct {
	Dir, URL string
	Journal  bool          // else an answer is used without being journalled
	After    time.Duration // from when it is ready until it kills itself; 0 is never

	member  stream.Member
	journal *journal.Journal
	next    stream.Offset
}

var in, out = stream.Partition{Topic: "in"}, stream.Partition{Topic: "out"}

func runChild(text string) error {
	var a asker
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	log, err := embedded.Open(a.Dir, embedded.Options{})
	if err != nil {
		return err
	}
	defer log.Close()
	if a.member, err = log.Join(ctx, "asks", in.Topic); err != nil {
		return err
	}
	for ready := false; a.next < events; {
		batch, err := a.member.Poll(ctx, chunk)
		if err != nil {
			return err
		}
		for _, assigned := range batch.Assigned {
			a.next = assigned.Next
			if a.journal, err = journal.Open(in, assigned.State, journal.Spec{}); err != nil {
				return err
			}
		}
		if !ready && a.After > 0 { // by its own clock: on a busy machine another process would be late
			time.AfterFunc(a.After, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
		}
		ready = true
		if err := a.work(ctx, batch.Records); err != nil {
			return err
		}
	}
	return a.member.Close()
}

// answered is a call that ended.
type answered struct {
	key    journal.Key
	answer []byte
}

// work asks for what a chunk has no answers to, journals those as they come, and
// commits the outputs of all.
func (a *asker) work(ctx context.Context, records []stream.Record) error {
	if len(records) == 0 {
		return nil
	}
	outputs, waiting := make([]stream.Record, len(records)), 0
	answers, slots := make(chan answered, len(records)), make(chan struct{}, concurrency)
	use := func(waiter uint64, answer []byte) {
		r := &records[waiter]
		outputs[waiter] = stream.Record{Partition: out, Key: r.Key, Value: answer, Time: r.Time}
	}
	for i := range records {
		request := journal.Request{Endpoint: a.URL, Body: records[i].Value}
		key := request.Key()
		if !a.Journal {
			key = journal.Key{byte(i)} // each event by itself
		}
		state, answer, err := a.journal.Ask(key, "ask", uint64(i))
		switch {
		case err != nil:
			return err
		case state == journal.Found:
			use(uint64(i), answer)
			continue
		case state == journal.Call:
			go func() { // ends before work does, which takes every answer
				slots <- struct{}{} // a slot is free when the answer is durable
				answers <- answered{key, call(a.URL, records[i].Value)}
			}()
		}
		waiting++
	}
	for waiting > 0 {
		come := []answered{<-answers}
		for len(answers) > 0 {
			come = append(come, <-answers)
		}
		landed, err := a.land(ctx, come)
		if err != nil {
			return err
		}
		for range come {
			<-slots
		}
		for _, l := range landed {
			for _, waiter := range l.Waiters {
				use(waiter, l.Answer)
				waiting--
			}
		}
	}
	a.next = records[len(records)-1].Offset + 1
	step := stream.Transaction{Outputs: outputs, Offsets: map[stream.Partition]stream.Offset{in: a.next}}
	if a.Journal {
		step.Changes = a.journal.Changes()
	}
	if err := a.member.Commit(step).Wait(ctx); err != nil || !a.Journal {
		return err
	}
	a.journal.Committed()
	return nil
}

// land makes answers durable.
func (a *asker) land(ctx context.Context, come []answered) ([]journal.Landed, error) {
	if !a.Journal { // as if they were
		var landed []journal.Landed
		for _, c := range come {
			landed = append(landed, journal.Landed{Answer: c.answer, Waiters: a.journal.Fail(c.key)})
		}
		return landed, nil
	}
	for _, c := range come {
		if _, err := a.journal.Record(c.key, journal.Answer{Model: "ask", Bytes: c.answer, Units: 1}, 0); err != nil {
			return nil, err
		}
	}
	step := stream.Transaction{Changes: a.journal.Changes(), Offsets: map[stream.Partition]stream.Offset{in: a.next}}
	if err := a.member.Commit(step).Wait(ctx); err != nil {
		return nil, err
	}
	return a.journal.Committed(), nil
}

// call calls until there is an answer.
func call(url string, question []byte) []byte {
	for {
		if answer, err := callOnce(url, question); err == nil {
			return answer
		}
	}
}

func callOnce(url string, question []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // an answer that came too late was paid for
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(question))
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	var answer struct{ Score *float32 }
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err == nil && (response.StatusCode != http.StatusOK || answer.Score == nil) {
		err = errors.New(response.Status)
	}
	return text, err
}

// TestPaidCallsAreTheQuestionsAndThoseInFlightAtAKill kills an asker again and
// again, and counts at the service.
func TestPaidCallsAreTheQuestionsAndThoseInFlightAtAKill(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for seconds")
	}
	faults := faultserver.Options{Seed: 1, Takes: 2 * time.Millisecond, Slow: 0.05, Fail: 0.1, Reset: 0.05, Half: 0.05, Wrong: 0.02}
	for _, c := range []struct {
		name    string
		server  faultserver.Options
		journal bool
	}{
		{"journal", faultserver.Options{Takes: 2 * time.Millisecond}, true},
		{"faults", faults, true},
		{"no journal", faultserver.Options{Takes: 2 * time.Millisecond}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, asked := askedOf(t)
			c.server.File = filepath.Join(dir, "calls")
			server := faultserver.Start(t, c.server)
			a := asker{Dir: filepath.Join(dir, "data"), URL: server.URL + "/ask", Journal: c.journal}
			killed := 0
			for random := rand.New(rand.NewSource(1)); killed < kills; killed++ {
				if a.After = time.Duration(10+random.Intn(150)) * time.Millisecond; !start(t, a) {
					break
				}
			}
			a.After = 0
			start(t, a)
			wantAnswers(t, a.Dir, asked)
			calls, err := faultserver.ReadCalls(c.server.File)
			if err != nil {
				t.Fatal(err)
			}
			got := faultserver.Count(calls)
			lost := got.Faults[faultserver.Reset] + got.Faults[faultserver.Half] + got.Faults[faultserver.Wrong]
			most := questions + concurrency*killed + lost
			t.Logf("%d events, %d questions, %d kills: %d paid calls, %d more than questions; answers lost by the service: %d", events, questions, killed, got.Rows, got.Rows-questions, lost)
			if got.Distinct != questions || got.Flying > concurrency+killed*concurrency || killed < 3 {
				t.Errorf("%+v after %d kills", got, killed)
			}
			if c.journal != (got.Rows <= most) {
				t.Errorf("%d calls were paid for; with a journal %d are the most", got.Rows, most)
			}
		})
	}
}

// askedOf makes a log with events in a folder, and returns what each asks.
func askedOf(t *testing.T) (dir string, asked []string) {
	t.Helper()
	dir = t.TempDir()
	log, err := embedded.Open(filepath.Join(dir, "data"), embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for _, p := range []stream.Partition{in, out} {
		if err := log.CreateTopic(t.Context(), stream.Topic{Name: p.Topic, Partitions: 1}); err != nil {
			t.Fatal(err)
		}
	}
	var records []stream.Record
	for i := range events {
		asked = append(asked, fmt.Sprintf("question %d", i*7%questions))
		records = append(records, stream.Record{Partition: in, Key: fmt.Append(nil, i), Value: []byte(asked[i])})
	}
	if err := log.Append(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
	return dir, asked
}

// start runs an asker in a process of its own, and reports whether it killed itself.
func start(t *testing.T, a asker) (killed bool) {
	t.Helper()
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Args[0])
	command.Env, command.Stderr = append(os.Environ(), childVariable+"="+string(text)), os.Stderr
	err = command.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() < 0 && a.After > 0 {
		return true
	}
	if err != nil {
		t.Fatal(err)
	}
	return false
}

// wantAnswers compares the outputs with what the service says: one of each
// event, in order.
func wantAnswers(t *testing.T, dir string, asked []string) {
	t.Helper()
	log, err := embedded.Open(dir, embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, next, err := log.Offsets(t.Context(), out); err != nil || next != stream.Offset(len(asked)) {
		t.Fatalf("%d outputs of %d events, %v", next, len(asked), err)
	}
	i := 0
	for r, err := range log.Tail(t.Context(), out, 0) {
		want, _ := json.Marshal(map[string]float32{"score": faultserver.Score(asked[i])})
		if err != nil || string(r.Key) != fmt.Sprint(i) || string(r.Value) != string(want) {
			t.Fatalf("output %d is %s of event %s, want %s: %v", i, r.Value, r.Key, want, err)
		}
		if i++; i == len(asked) {
			return
		}
	}
}

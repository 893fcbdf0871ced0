package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/afterbay/afterbay/internal/http/admin"
	"github.com/afterbay/afterbay/internal/lab/demo/support"
	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/test/faultserver"
	"github.com/afterbay/afterbay/internal/test/servertest"
)

var (
	supportKills   = flag.Int("support.kills", 3, "kills of the engine in TestKilledEnginesAndDatabasesLoseAndRepeatNoArtifact")
	supportServers = flag.Int("support.servers", 1, "and of the database")
	supportSeed    = flag.Uint64("support.seed", 1, "seed of it")
)

// What the engine is killed at. The first three are seen from outside: some chunks
// of a call are durable, a call of the service is under way, a write waits within
// the database. The others are stages with a step, or a write of the sink, in flight.
const (
	halfACall     = "half a call"
	transcription = "transcription"
	waitingWrite  = "waiting write"
)

var supportStages = []string{halfACall, transcription, "sync", waitingWrite, "read", "write", "after", "call", "answer"}

// killedAt in the environment makes a command kill itself, as kill -9 does, at a hit
// of a stage.
const killedAt = "AFTERBAY_TEST_KILLED_AT"

// runKilled runs a command line that kills itself.
func runKilled(at string) int {
	var hit int64
	stage, number, _ := strings.Cut(at, " ")
	if _, err := fmt.Sscan(number, &hit); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailure
	}
	var hits atomic.Int64
	a := &app{ctx: context.Background(), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, log: slog.New(slog.NewTextHandler(os.Stderr, nil)), fault: func(stands string) {
		if stands == stage && hits.Add(1) == hit {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}}
	return exitCode(a.execute(os.Args[1:]))
}

// TestKilledEnginesAndDatabasesLoseAndRepeatNoArtifact kills examples/support, and
// the database under it, in the middle of everything. The artifacts are those of a
// run that nobody kills, each once, and few calls for a transcription are repeated.
func TestKilledEnginesAndDatabasesLoseAndRepeatNoArtifact(t *testing.T) {
	if apart(t) {
		return
	}
	s := newSupportRun(t)
	s.generate(2 * (*supportKills + *supportServers))
	want := s.undisturbed()
	s.serve("killed")
	s.portions(*supportKills + *supportServers + 1)
	every := *supportKills/max(1, *supportServers) + 1
	for n := range *supportKills + *supportServers {
		s.next()
		if n%every == 1 && s.servers < *supportServers {
			s.killDatabase()
			continue
		}
		s.kill(supportStages[s.rounds%len(supportStages)])
		s.rounds++
	}
	s.next()
	s.finish(s.start("--until-idle"))
	if diff := cmp.Diff(want, s.dump()); diff != "" {
		t.Errorf("seed %d: artifacts beside those of a run that nobody killed: %s", *supportSeed, diff)
	}
	s.checkOnce(len(want))
	s.checkPaid()
	for _, stage := range supportStages[:min(*supportKills, len(supportStages))] {
		t.Logf("killed at %q %d times", stage, s.kills[stage])
		if s.kills[stage] == 0 {
			t.Errorf("seed %d: nothing was killed at %q: more events are needed", *supportSeed, stage)
		}
	}
	t.Logf("seed %d: %d artifacts, %d kills of the database with a write in flight", *supportSeed, len(want), s.servers)
}

// supportRun is examples/support with a service for transcriptions that counts.
type supportRun struct {
	*testing.T
	server  *servertest.Server // of PostgreSQL
	url     string             // of the database
	service *faultserver.Process
	objects string

	rng     *rand.Rand
	lines   [][]byte // of events
	truth   []support.Contact
	cuts    []int           // where the portions end that are produced between kills
	sent    int             // lines
	rounds  int             // in which the engine was to be killed
	servers int             // kills of the database
	kills   map[string]int  // of the engine, by stage
	halves  map[string]bool // calls of which a part was there at a kill
}

func newSupportRun(t *testing.T) *supportRun {
	supportFolder(t)
	s := &supportRun{T: t, server: servertest.Postgres(t), rng: rand.New(rand.NewPCG(*supportSeed, 21)), kills: map[string]int{}, halves: map[string]bool{}}
	var err error
	if s.objects, err = filepath.Abs("objects"); err == nil {
		err = os.Mkdir("objects", 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("OBJECTS", s.objects)
	return s
}

// generate makes the events of complaints, and as many other chats.
func (s *supportRun) generate(complaints int) {
	s.Helper()
	voice := speech(s.T, "my parcel is late and nobody answers the telephone")[44:]
	g, err := support.NewGenerator(support.Options{Seed: *supportSeed, Complaints: complaints, Chats: complaints, Objects: s.objects, Speak: func(_ context.Context, text string, _ int) ([]byte, error) {
		return faultserver.Say(strings.ToLower(strings.ReplaceAll(text, ".", "")), voice[44:]), nil // in which the model of voices hears one
	}})
	for err == nil {
		var line []byte
		if line, err = g.Next(s.Context()); err == nil {
			s.lines = append(s.lines, append(line, '\n'))
		}
	}
	if !errors.Is(err, io.EOF) {
		s.Fatal(err)
	}
	s.truth = g.Truth()
	s.fewScreenshots()
}

// fewScreenshots leaves out most of them: each takes half a second of a processor.
func (s *supportRun) fewScreenshots() {
	s.truth = slices.DeleteFunc(s.truth, func(c support.Contact) bool {
		out := c.Kind == "image" && c.Complaint%4 != 1
		if out {
			s.lines = slices.DeleteFunc(s.lines, func(line []byte) bool { return bytes.Contains(line, []byte(strconv.Quote(c.ID))) })
		}
		return out
	})
}

// serve has a data directory, a database and a service of a name be those that are
// worked with.
func (s *supportRun) serve(name string) {
	s.Helper()
	s.exec(s.server.URL, "CREATE DATABASE "+name)
	s.url = strings.TrimSuffix(s.server.URL, "/postgres") + "/" + name
	s.Setenv("DATABASE_URL", s.url)
	s.service = faultserver.Start(s.T, faultserver.Options{File: filepath.Join(s.TempDir(), "calls"), Takes: 300 * time.Millisecond})
	write(s, "asr.yaml", "model: asr\nversion: 1\nkind: remote\ninputs: {audio: bytes}\noutputs: {text: string}\nlimits: {text: 32MiB}\nremote: {endpoint: '"+s.service.URL+"/v1', api: transcriptions, model: whisper-1}\n")
}

func (s *supportRun) exec(url string, query string) {
	s.Helper()
	conn := s.connect(url)
	defer conn.Close(s.Context())
	if _, err := conn.Exec(s.Context(), query); err != nil {
		s.Fatal(err)
	}
}

func (s *supportRun) connect(url string) *pgx.Conn {
	s.Helper()
	conn, err := pgx.Connect(s.Context(), url)
	if err != nil {
		s.Fatal(err)
	}
	return conn
}

// undisturbed returns the artifacts of a run that nobody kills, which are the truth.
func (s *supportRun) undisturbed() []string {
	s.serve("undisturbed")
	must(s, string(bytes.Join(s.lines, nil)), "produce", "contacts", "--partitions", "4", "--key", "customer", "--data", "undisturbed")
	s.finish(s.start("--until-idle", "--data", "undisturbed"))
	conn := s.connect(s.url)
	defer conn.Close(s.Context())
	checkArtifacts(s.T, conn, s.truth)
	return s.dump()
}

// dump returns the artifacts of the database, sorted.
func (s *supportRun) dump() []string {
	s.Helper()
	conn := s.connect(s.url)
	defer conn.Close(s.Context())
	rows, err := conn.Query(s.Context(), `SELECT concat_ws(E'\t', id, customer, kind, body, embed_vector) FROM artifacts ORDER BY id COLLATE "C"`)
	if err != nil {
		s.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		s.Fatal(err)
	}
	return list
}

// portions cuts the events where, at each cut, chunks of a call are there and others
// are to come.
func (s *supportRun) portions(n int) {
	for i := 1; i < n; i++ {
		at := max(i*len(s.lines)/n, 1)
		for at < len(s.lines) && len(s.open(at)) == 0 {
			at++
		}
		s.cuts = append(s.cuts, at)
	}
	s.cuts = append(s.cuts, len(s.lines))
}

// open returns the calls that have chunks before a line and behind it.
func (s *supportRun) open(at int) (calls []string) {
	chunks := func(lines [][]byte) (seen []string) {
		for _, line := range lines {
			var e struct{ Call string }
			if err := json.Unmarshal(line, &e); err != nil {
				s.Fatal(err)
			}
			if e.Call != "" && !slices.Contains(seen, e.Call) {
				seen = append(seen, e.Call)
			}
		}
		return seen
	}
	later := chunks(s.lines[at:])
	for _, call := range chunks(s.lines[:at]) {
		if slices.Contains(later, call) {
			calls = append(calls, call)
		}
	}
	return calls
}

// next produces the next portion.
func (s *supportRun) next() {
	s.Helper()
	to := s.cuts[0]
	must(s, string(bytes.Join(s.lines[s.sent:to], nil)), "produce", "contacts", "--partitions", "4", "--key", "customer")
	s.cuts, s.sent = s.cuts[1:], to
}

// supportEngine is a process that works.
type supportEngine struct {
	*exec.Cmd
	out  *screen
	done chan error
}

func (s *supportRun) start(arguments ...string) *supportEngine {
	s.Helper()
	e := &supportEngine{done: make(chan error, 1)}
	e.Cmd, e.out = killable(s.T, append([]string{"run", "pipeline.yaml", "--listen", "127.0.0.1:0"}, arguments...)...)
	go func() { e.done <- e.Wait() }()
	return e
}

// finish wants an engine to end by itself.
func (s *supportRun) finish(e *supportEngine) {
	s.Helper()
	if err := <-e.done; err != nil {
		s.Fatalf("seed %d: %v: %s", *supportSeed, err, e.out)
	}
}

// kill kills an engine at a stage, if it comes to that.
func (s *supportRun) kill(stage string) {
	s.Helper()
	var e *supportEngine
	switch stage {
	case halfACall:
		e = s.start()
		s.until(e, func() bool {
			p := s.status(e)
			return p != nil && p.Lag == 0 && p.Queued == 0 && p.Sinks[0].Waiting == 0 && p.Groups[0].Open > 0 && s.tableIsThere()
		})
		for _, call := range s.open(s.sent) {
			s.halves[call] = true
		}
	case transcription:
		e = s.start("--until-idle")
		s.until(e, func() bool { p := s.status(e); return p != nil && p.Endpoints[0].Running > 0 })
	case waitingWrite:
		waits, release := s.lock()
		defer release()
		e = s.start("--until-idle")
		s.until(e, waits)
	default:
		s.Setenv(killedAt, fmt.Sprint(stage, " ", 1+s.rng.IntN(2)))
		e = s.start("--until-idle")
		s.Setenv(killedAt, "")
		s.until(e, func() bool { return false })
	}
	_ = e.Process.Kill() // it may have ended
	err := <-e.done
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		s.kills[stage]++
	} else if err != nil {
		s.Fatalf("seed %d: %v: %s", *supportSeed, err, e.out)
	}
}

// until waits for something, or for the end of an engine.
func (s *supportRun) until(e *supportEngine, is func() bool) {
	s.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for ticker := time.NewTicker(20 * time.Millisecond); !is(); {
		select {
		case err := <-e.done:
			e.done <- err
			return
		case <-ticker.C:
		}
		if time.Now().After(deadline) {
			s.Fatalf("seed %d: the engine hangs: %s", *supportSeed, e.out)
		}
	}
}

// status returns what an engine says, nil where it does not listen.
func (s *supportRun) status(e *supportEngine) *pipeline.Snapshot {
	_, address, _ := strings.Cut(e.out.String(), "listening on ")
	address, _, ok := strings.Cut(address, ": POST")
	if !ok {
		return nil
	}
	request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, address+"/v1/status", nil)
	if err != nil {
		s.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil // it ends
	}
	defer response.Body.Close()
	var status admin.Status
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil || len(status.Pipelines) != 1 {
		return nil
	}
	return &status.Pipelines[0]
}

// tableIsThere reports whether the sink has made its table, which later rounds lock.
func (s *supportRun) tableIsThere() (is bool) {
	s.Helper()
	conn := s.connect(s.url)
	defer conn.Close(s.Context())
	if err := conn.QueryRow(s.Context(), "SELECT to_regclass('artifacts') IS NOT NULL").Scan(&is); err != nil {
		s.Fatal(err)
	}
	return is
}

// lock has writes to the table wait, until it is released or its database is gone.
// waits reports whether one does.
func (s *supportRun) lock() (waits func() bool, release func()) {
	s.Helper()
	holder, watcher := s.connect(s.url), s.connect(s.url)
	if _, err := holder.Exec(s.Context(), "BEGIN; LOCK TABLE artifacts IN EXCLUSIVE MODE"); err != nil {
		s.Fatal(err)
	}
	waits = func() (is bool) {
		if err := watcher.QueryRow(s.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)").Scan(&is); err != nil {
			s.Fatal(err)
		}
		return is
	}
	return waits, func() {
		_ = holder.Close(s.Context())
		_ = watcher.Close(s.Context())
	}
}

// killDatabase kills the database while it writes rows. The engine lives through it.
func (s *supportRun) killDatabase() {
	s.Helper()
	waits, release := s.lock()
	e := s.start("--until-idle")
	s.until(e, waits)
	if !waits() {
		s.Fatalf("seed %d: no row was written in a portion: more events are needed", *supportSeed)
	}
	s.server.Kill()
	release()
	s.servers++
	if err := s.server.Start(s.Context()); err != nil {
		s.Fatal(err)
	}
	s.finish(e)
}

// checkOnce wants each artifact once in its topic, and no dead letter.
func (s *supportRun) checkOnce(artifacts int) {
	s.Helper()
	seen := map[string]int{}
	for line := range strings.Lines(must(s, "", "tail", "artifacts")) {
		var a struct{ ID string }
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			s.Fatal(err)
		}
		if seen[a.ID]++; seen[a.ID] > 1 {
			s.Errorf("seed %d: %s comes again", *supportSeed, a.ID)
		}
	}
	if len(seen) != artifacts {
		s.Errorf("seed %d: %d artifacts are in the topic, %d in the table", *supportSeed, len(seen), artifacts)
	}
	if letters := must(s, "", "tail", "support.dlq", "--headers"); letters != "" {
		s.Errorf("seed %d: dead letters: %s", *supportSeed, letters)
	}
}

// checkPaid wants each call to be transcribed as a whole, and again only where that
// was under way at a kill: where half of a call is waited for nothing is.
func (s *supportRun) checkPaid() {
	s.Helper()
	calls, err := faultserver.ReadCalls(s.service.Options.File)
	if err != nil {
		s.Fatal(err)
	}
	const concurrency = 2
	paid, kills, want := faultserver.Count(calls), -s.kills[halfACall], 0
	for _, n := range s.kills {
		kills += n
	}
	for _, c := range s.truth {
		if c.Kind == "call" {
			want++
		}
	}
	s.Logf("%d calls were paid for, %d are distinct; in flight at kills may be %d; %d calls were half there at a kill", paid.Rows, paid.Distinct, concurrency*kills, len(s.halves))
	if paid.Distinct != want || paid.Rows > want+concurrency*kills {
		s.Errorf("seed %d: %d calls are %d sounds: want %d sounds, and at most %d more calls", *supportSeed, paid.Rows, paid.Distinct, want, concurrency*kills)
	}
	if len(s.halves) == 0 {
		s.Errorf("seed %d: no call was half there", *supportSeed)
	}
}

package sinks_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/log/kafka"
	"github.com/afterbay/afterbay/internal/sinks"
	kafkasink "github.com/afterbay/afterbay/internal/sinks/kafka"
	"github.com/afterbay/afterbay/internal/test/crashtest"
	contract "github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

const copies = "copies" // the topic of the cluster

// runClusterChild writes to a topic of a cluster until all is written, or until it
// kills itself: folder of its log, brokers of the cluster, exactly once, stage and hit.
func runClusterChild(ctx context.Context, arguments string) error {
	var dir, brokers, stage string
	var once bool
	var hit int
	if _, err := fmt.Sscan(arguments, &dir, &brokers, &once, &stage, &hit); err != nil {
		return err
	}
	log, err := crashtest.OpenLog(ctx, dir, crashtest.NoBrokers)
	if err != nil {
		return err
	}
	notes, err := os.OpenFile(filepath.Join(dir, notesFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer notes.Close()
	for i := range int32(2) {
		committed, err := log.Committed(ctx, group, stream.Partition{Topic: "freezes", Index: i})
		if err != nil {
			return err
		}
		fmt.Fprintf(notes, "begun %d %d\n", i, committed)
	}
	sink, err := kafkasink.New(kafkasink.Options{
		Topic: copies, Group: group, ExactlyOnce: once,
		Open: func(ctx context.Context) (kafkasink.Log, error) {
			return kafka.Open(ctx, kafka.Options{Brokers: strings.Split(brokers, ",")})
		},
	})
	if err != nil {
		return err
	}
	d, err := sinks.New(log, contract.Service{Many: noting{sink, notes}}, sinks.Options{
		Group: group, Topic: freezes.Name, Batch: 50, Fault: crashtest.KillAt(stage, hit),
	}, &sinks.Metrics{})
	if err != nil {
		return err
	}
	err = crashtest.RunUntilRead(ctx, log, group, freezes, d.Run)
	sink.Close()
	return errors.Join(err, log.Close())
}

// notesFile is in the folder of the log: what the processes noted, a line each of
// what, a partition and an offset of it. A process that is killed leaves it whole.
const notesFile = "notes"

// noting notes where claims begin, before anything is written by them, and the
// writes that failed.
type noting struct {
	contract.Writer
	file *os.File
}

func (n noting) Claim(ctx context.Context, p stream.Partition, next stream.Offset) (contract.Claim, error) {
	claim, err := n.Writer.Claim(ctx, p, next)
	if err == nil {
		_, err = fmt.Fprintf(n.file, "claim %d %d\n", p.Index, next)
	}
	return notingClaim{claim, n.file}, err
}

type notingClaim struct {
	contract.Claim
	file *os.File
}

func (n notingClaim) Write(ctx context.Context, committed stream.Offset, records []stream.Record) (contract.Outcome, error) {
	outcome, err := n.Claim.Write(ctx, committed, records)
	if err != nil {
		_, noted := fmt.Fprintf(n.file, "failed %d %d\n", records[0].Partition.Index, records[0].Offset)
		err = errors.Join(err, noted)
	}
	return outcome, err
}

// notesOf returns how often each of the records may be written: once by each claim
// that began at it or before it. Claims are made by each process, once for each
// partition from what was committed, and after each write that failed.
func notesOf(t *testing.T, dir string, records, processes int) (most []int, failed int) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, notesFile))
	if err != nil {
		t.Fatal(err)
	}
	most = make([]int, records)
	var committed [2]int
	claims := 0
	for line := range strings.Lines(string(data)) {
		var what string
		var p, at int
		if _, err := fmt.Sscan(line, &what, &p, &at); err != nil {
			t.Fatalf("note %q: %v", line, err)
		}
		switch what {
		case "begun":
			committed[p] = at
		case "failed":
			failed++
		case "claim":
			if claims++; at < committed[p] {
				t.Errorf("a claim begins at %d of partition %d, %d is committed", at, p, committed[p])
			}
			for i := 2*at + p; i < records; i += 2 {
				most[i]++
			}
		}
	}
	if claims > 2*processes+failed {
		t.Errorf("%d claims of %d processes and %d writes that failed", claims, processes, failed)
	}
	return most, failed
}

// TestKilledProcessesWriteToAClusterAgainOnlyWhatWasInFlight kills processes that
// write to a topic of a real Kafka, and counts what a reader of what is committed
// sees: once each with exactly_once, else again what was in flight.
func TestKilledProcessesWriteToAClusterAgainOnlyWhatWasInFlight(t *testing.T) {
	b := broker.Get(t)
	for _, once := range []bool{true, false} {
		t.Run(fmt.Sprint("exactly once ", once), func(t *testing.T) {
			b.Empty(t)
			brokers, dir := strings.Join(b.Addresses(), ","), t.TempDir()
			target, err := kafka.Open(t.Context(), kafka.Options{Brokers: b.Addresses()})
			if err != nil {
				t.Fatal(err)
			}
			defer target.Close()
			if err := target.CreateTopic(t.Context(), stream.Topic{Name: copies, Partitions: 3}); err != nil {
				t.Fatal(err)
			}
			const records = 900
			writeFreezes(t, dir, crashtest.NoBrokers, 0, records)
			kills, stages := 0, []string{"call", "answer", "write", "sync", "after"}
			for killed := true; killed; {
				// The third call is the first write: none before it is answered. All
				// processes make a second commit, as what comes before it is a part.
				stage, hit := "none", 0
				if kills < len(stages) {
					stage, hit = stages[kills], 2
				}
				if stage == "call" || stage == "answer" {
					hit = 3
				}
				if killed = crashtest.Killed(t, "cluster", 0, dir, brokers, once, stage, hit); killed {
					kills++
				}
			}
			most, failed := notesOf(t, dir, records, kills+1)
			seen, order, again := copiesOf(t, target), map[string]int{}, 0
			for i := range records {
				n, limit := len(seen[fmt.Sprint("e", i)]), most[i]
				if once {
					limit = 1
				}
				if again += n - 1; n == 0 || n > limit {
					t.Errorf("e%d is there %d times, %d is the most", i, n, limit)
				}
				key := fmt.Sprintf("k%d", i%300)
				if first := seen[fmt.Sprint("e", i)]; n > 0 && first[0] < order[key] {
					t.Errorf("e%d is before the one before it of its key", i)
				} else if n > 0 {
					order[key] = first[0]
				}
			}
			if kills < 4 || !once && again == 0 {
				t.Errorf("%d kills, %d records again: too few to see anything", kills, again)
			}
			t.Logf("%d kills, %d writes that failed, %d records, %d of them again", kills, failed, records, again)
		})
	}
}

// TestSinksAtOnceWriteNothingTwiceToACluster has two processes write the same records
// of a partition, first in turns, each of which ends what the other one owns, then at
// once: as one that goes on after another took its partition over.
func TestSinksAtOnceWriteNothingTwiceToACluster(t *testing.T) {
	b := broker.Get(t)
	b.Empty(t)
	open := func(ctx context.Context) (kafkasink.Log, error) {
		return kafka.Open(ctx, kafka.Options{Brokers: b.Addresses()})
	}
	target, err := kafka.Open(t.Context(), kafka.Options{Brokers: b.Addresses()})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	if err := target.CreateTopic(t.Context(), stream.Topic{Name: copies, Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	const records, batch, turns = 120, 20, 3
	p := stream.Partition{Topic: "freezes"}
	var list []stream.Record
	for i := range records {
		list = append(list, stream.Record{Partition: p, Offset: stream.Offset(2 * i), Key: fmt.Appendf(nil, "k%d", i%10), Headers: []stream.Header{{Key: header.ID, Value: fmt.Appendf(nil, "e%d", i)}}})
	}
	sinks := make([]*kafkasink.Writer, 2)
	for i := range sinks {
		if sinks[i], err = kafkasink.New(kafkasink.Options{Topic: copies, Group: group, ExactlyOnce: true, Open: open}); err != nil {
			t.Fatal(err)
		}
		defer sinks[i].Close()
	}
	write := func(sink *kafkasink.Writer, list []stream.Record) {
		for t.Context().Err() == nil { // what failed comes again, to another claim
			claim, err := sink.Claim(t.Context(), p, list[0].Offset)
			if err == nil {
				_, err = claim.Write(t.Context(), list[0].Offset, list)
			}
			if err == nil {
				return
			}
			t.Log(err)
		}
	}
	for i := range turns {
		for _, sink := range sinks {
			write(sink, list[i*batch:(i+1)*batch])
		}
	}
	var both sync.WaitGroup
	for _, sink := range sinks {
		both.Go(func() {
			for from := turns * batch; from < records; from += batch {
				write(sink, list[from:from+batch])
			}
		})
	}
	both.Wait()
	seen, order := copiesOf(t, target), map[string]int{}
	for i := range records {
		at, key := seen[fmt.Sprint("e", i)], fmt.Sprintf("k%d", i%10)
		if len(at) != 1 || at[0] < order[key] {
			t.Errorf("e%d is at %v, the one before it of its key at %d", i, at, order[key])
			continue
		}
		order[key] = at[0]
	}
}

// copiesOf returns at which offsets of their partitions the ids are, of what is
// committed. Offsets waits for what is not decided.
func copiesOf(t *testing.T, target *kafka.Log) map[string][]int {
	t.Helper()
	seen := map[string][]int{}
	for i := range int32(3) {
		p := stream.Partition{Topic: copies, Index: i}
		_, next, err := target.Offsets(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if next == 0 {
			continue
		}
		for r, err := range target.Tail(t.Context(), p, 0) {
			if err != nil {
				t.Fatal(err)
			}
			id := header.Get(&r, header.ID)
			seen[id] = append(seen[id], int(r.Offset))
			if r.Offset+1 == next {
				break
			}
		}
	}
	return seen
}

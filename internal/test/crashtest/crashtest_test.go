package crashtest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/afterbay/afterbay/stream"
)

func TestMain(m *testing.M) {
	Main(Children{"read": read, "wait": func(ctx context.Context, _ string) error { <-ctx.Done(); return nil }})
	os.Exit(m.Run())
}

var letters = stream.Topic{Name: "letters", Partitions: 2}

// read reads a topic of a folder, and is killed before the commit of a hit.
func read(ctx context.Context, arguments string) error {
	var dir, stage string
	var hit int
	if _, err := fmt.Sscan(arguments, &dir, &stage, &hit); err != nil {
		return err
	}
	log, err := OpenLog(ctx, dir, NoBrokers)
	if err != nil {
		return err
	}
	defer log.Close()
	fault := KillAt(stage, hit)
	return RunUntilRead(ctx, log, "readers", letters, func(ctx context.Context) error {
		member, err := log.Join(ctx, "readers", letters.Name)
		if err != nil {
			return err
		}
		defer member.Close()
		for ctx.Err() == nil {
			batch, err := member.Poll(ctx, 1)
			for _, r := range batch.Records {
				fault("commit")
				err = member.Commit(stream.Transaction{Offsets: map[stream.Partition]stream.Offset{r.Partition: r.Offset + 1}}).Wait(ctx)
			}
			if err != nil && ctx.Err() == nil {
				return err
			}
		}
		return nil
	})
}

// TestChildrenDieWhereTheyAreTold counts what children that were killed left.
func TestChildrenDieWhereTheyAreTold(t *testing.T) {
	dir := t.TempDir()
	log, err := OpenLog(t.Context(), dir, NoBrokers)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.CreateTopic(t.Context(), letters); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := log.Append(t.Context(), stream.Record{Partition: stream.Partition{Topic: letters.Name, Index: int32(i % 2)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	var killed []bool
	var left []stream.Offset
	for _, stage := range []string{"commit", "any", "none"} {
		killed = append(killed, Killed(t, "read", 0, dir, stage, 4))
		log, err := OpenLog(t.Context(), dir, NoBrokers)
		if err != nil {
			t.Fatal(err)
		}
		n, err := Left(t.Context(), log, "readers", letters)
		if err != nil {
			t.Fatal(err)
		}
		if left = append(left, n); log.Close() != nil {
			t.Fatal("it cannot be closed")
		}
	}
	if !slices.Equal(killed, []bool{true, true, false}) || !slices.Equal(left, []stream.Offset{7, 4, 0}) {
		t.Errorf("killed %v, left %v", killed, left)
	}
}

func TestChildIsKilledAfterAWhile(t *testing.T) {
	if !Killed(t, "wait", 10*time.Millisecond) {
		t.Error("it was not")
	}
}

package sequence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/log/optional"
	"github.com/afterbay/afterbay/stream"
)

// handler processes the records of one member.
type handler interface {
	assign(stream.Assigned) error
	take(*stream.Record, *turn) error
	// due appends the work that is due at now, and returns when to call it again; zero means never.
	due(now time.Time, t *turn) (time.Time, error)
	// settle adds the turn's state changes to its transaction.
	settle(*turn)
	committed()
	revoke(stream.Partition)
}

// turn is a transaction that is being built.
type turn struct {
	stream.Transaction
	bytes    int // size of outputs and changes
	valueMax int // maximum size of an output's value
}

// headersMax exceeds the size of a record without its value: ids of at most 128 bytes, and a
// message.
const headersMax = 8 << 10

func newTurn(pace stream.Pace) *turn {
	return &turn{Transaction: stream.Transaction{Offsets: map[stream.Partition]stream.Offset{}}, valueMax: pace.RecordBytes - headersMax}
}

func (t *turn) output(r stream.Record) {
	t.Outputs = append(t.Outputs, r)
	t.bytes += len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		t.bytes += len(h.Key) + len(h.Value)
	}
}

const (
	pollMax     = 1_024                  // maximum number of records from one Poll
	rejoinAfter = 100 * time.Millisecond // delay before a new member replaces a fenced one
)

// members runs members one after the other, each replacing one that was fenced. It returns on any
// other error, or when ctx is done.
func (s *Sequencer) members(ctx context.Context, group string, topics []string, newHandler func() handler) error {
	for {
		err := s.member(ctx, group, topics, newHandler())
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil || !errors.Is(err, stream.ErrFenced):
			return err
		}
		s.options.Metrics.Rejoined.Add(1)
		s.options.Logger.Info("member was fenced and joins its group again", "group", group, "reason", err)
		select {
		case <-time.After(rejoinAfter):
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *Sequencer) member(ctx context.Context, group string, topics []string, h handler) (err error) {
	member, err := s.log.Join(ctx, group, topics...)
	if err != nil {
		return fmt.Errorf("join %s: %w", group, err)
	}
	defer func() { err = errors.Join(err, member.Close()) }()
	if early, ok := member.(stream.EarlyReader); ok {
		early.ReadEarly(true) // this loop has no side effects outside the log
	}
	timer := time.AfterFunc(time.Hour, member.Wake)
	defer timer.Stop()
	l := loop{member: member, handler: h, timer: timer, pace: optional.Pace(member), fault: func(stage string) {
		s.options.Fault(strings.TrimPrefix(group, s.options.Name+".") + "-" + stage)
	}}
	for err == nil {
		err = l.once(ctx)
	}
	return err
}

// loop turns the records of a member into transactions, one after the other. During a commit the
// log gathers the records of the next transaction. So transactions grow with the latency of the
// log.
type loop struct {
	handler
	member stream.Member
	timer  *time.Timer
	pace   stream.Pace
	fault  func(stage string)
}

func (l *loop) once(ctx context.Context) error {
	batch, err := l.member.Poll(ctx, pollMax)
	if err != nil {
		return fmt.Errorf("poll: %w", err)
	}
	for _, a := range batch.Assigned {
		if err := l.assign(a); err != nil {
			return fmt.Errorf("restore %v: %w", a.Partition, err)
		}
	}
	t := newTurn(l.pace)
	for i := range batch.Records {
		r := &batch.Records[i]
		if err := l.take(r, t); err != nil {
			return fmt.Errorf("%v@%d: %w", r.Partition, r.Offset, err)
		}
		t.Offsets[r.Partition] = r.Offset + 1
		if t.bytes >= l.pace.Bytes {
			if t, err = l.commit(ctx, t); err != nil {
				return err
			}
		}
	}
	now := time.Now()
	next, err := l.due(now, t)
	if err != nil {
		return err
	}
	if _, err := l.commit(ctx, t); err != nil {
		return err
	}
	for _, p := range batch.Revoked {
		l.revoke(p)
	}
	switch {
	case next.After(now):
		l.timer.Reset(next.Sub(now))
	case !next.IsZero():
		l.member.Wake()
	}
	return nil
}

// commit commits the turn and returns an empty one.
func (l *loop) commit(ctx context.Context, t *turn) (*turn, error) {
	l.settle(t)
	if len(t.Offsets) == 0 {
		return t, nil
	}
	l.fault("write")
	commit := l.member.Commit(t.Transaction)
	l.fault("sync")
	if err := commit.Wait(ctx); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	l.fault("after")
	l.committed()
	return newTurn(l.pace), nil
}

package dataset

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/stream"
)

// place is the place of a label: a line of a file, or a record of a topic.
type place struct {
	stream.Partition // of a topic
	file             string
	number           int64 // line, or offset
	table            bool  // the file is CSV
}

// String returns file:line, or topic/partition@offset.
func (p *place) String() string {
	if p.file != "" {
		return fmt.Sprintf("%s:%d", p.file, p.number)
	}
	return fmt.Sprintf("%v@%d", p.Partition, p.number)
}

// wrong describes an invalid label, with its column and field.
func (p *place) wrong(value []byte, err error) string {
	var at *decode.Error
	if !errors.As(err, &at) {
		return fmt.Sprintf("%v: %v", p, err)
	}
	where := p.String()
	if column := columnOf(value, at.Field); p.table && column > 0 {
		where += fmt.Sprintf(": column %d, field %q", column, at.Field)
	} else {
		if !p.table {
			where += fmt.Sprintf(":%d", at.Offset+1)
		}
		if at.Field != "" {
			where += fmt.Sprintf(": field %q", at.Field)
		}
	}
	return where + ": " + at.Reason
}

// columnOf returns the number (from 1) of the member of an object with a name, or 0 if there is no
// such member.
func columnOf(object []byte, name string) int {
	members := decode.Walk(object)
	for n := 1; members.Next(); n++ {
		if string(members.Name) == name {
			return n
		}
	}
	return 0
}

// farthest is a time in microseconds later than that of any label.
const farthest = math.MaxInt64 / 1000

// clocks is how far the clock of a producer may be ahead of the clock of a log.
const clocks = time.Hour

// read sorts the labels by key and time.
func (l *labels) read(ctx context.Context) error {
	err := l.readAll(ctx)
	if err != nil {
		return fmt.Errorf("--labels: %w", err)
	}
	c := l.counts
	switch {
	case c.Records > 0 && c.Records == c.Unreadable:
		return failure.NotValid(fmt.Errorf("--labels %s: no label can be read: the first is %s", l.Source, c.First))
	case !l.known && c.Records == c.Unreadable+c.Ahead:
		first := c.First
		if c.Ahead > 0 {
			first = c.FirstAhead + ", which is of the future"
		}
		if first != "" {
			first = " (" + first + ")"
		}
		return failure.Usage("--labels %s: it has no label that can be used%s: without any, say with --as-of until when labels are known", l.Source, first)
	case l.known:
		c.AsOfFrom = "--as-of"
	default:
		c.AsOfFrom = "the newest label, " + l.newest.String()
	}
	return nil
}

func (l *labels) readAll(ctx context.Context) error {
	topic, logged := strings.CutPrefix(l.Source, "topic:")
	if !logged {
		return l.readFile(ctx)
	}
	directory, end, err := l.open()
	if err != nil {
		return err
	}
	for r, failed := range directory.Records(ctx, inspect.Query{Topic: topic, Partition: inspect.AllPartitions}) {
		if err = failed; err == nil {
			err = l.take(&place{Partition: r.Partition, number: int64(r.Offset)}, r.Value, r.Time.UnixMicro(), nil)
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, end())
}

// errRow is the error for a row of CSV without readable cells.
var errRow = errors.New("not a row with the cells of the header")

func (l *labels) readFile(ctx context.Context) error {
	source, err := l.program.Events(l.Source, "")
	if err != nil {
		return err
	}
	err = ingest.Each(source, source.Name, source.Format, func(line int64, value []byte, whole bool) error {
		var wrong error
		if !whole {
			wrong = errRow
		}
		at := &place{file: source.Name, number: line, table: source.Format == ingest.CSV}
		return errors.Join(ctx.Err(), l.take(at, value, farthest, wrong))
	})
	return errors.Join(err, source.Close())
}

// take adds a label. It counts invalid labels and labels of the future, and leaves them out.
// appended is the time of the append to a topic.
func (l *labels) take(at *place, value []byte, appended int64, wrong error) error {
	c := l.counts
	c.Records++
	known, err := l.scan(value, appended, wrong)
	switch {
	case err != nil:
		if c.Unreadable++; c.First == "" {
			c.First = at.wrong(value, err)
		}
		return nil
	case known > l.bound(appended):
		if c.Ahead++; c.FirstAhead == "" {
			c.FirstAhead = fmt.Sprintf("%v, known %s", at, timeText(time.UnixMicro(known)))
		}
		return nil
	case !l.known && known > l.asOf:
		l.asOf, l.newest = known, *at
	}
	l.taken++
	key := appendSized(l.buffer[:0], l.row.AppendKey(nil, l.key))
	key = appendTime(key, known)
	if at.file != "" {
		key = binary.BigEndian.AppendUint64(key, uint64(l.taken))
	} else {
		key = binary.BigEndian.AppendUint32(key, uint32(at.Index))
		key = binary.BigEndian.AppendUint64(key, uint64(at.number))
	}
	l.buffer, l.bufferText = key, l.bufferText[:0]
	if l.row.Has(l.label) {
		l.bufferText = append(l.bufferText, 1)
		if l.label.Type.Kind.Text() {
			l.bufferText = append(l.bufferText, l.row.Text(l.label)...)
		} else {
			l.bufferText = binary.LittleEndian.AppendUint64(l.bufferText, l.row.Num[l.label.Index])
		}
	}
	return l.sorter.add(l.buffer, l.bufferText)
}

// scan decodes a label into row, and returns the time when it was known.
func (l *labels) scan(value []byte, appended int64, wrong error) (known int64, err error) {
	if wrong != nil {
		return 0, wrong
	}
	l.row.Reset()
	if err := l.scanner.Scan(value, &l.row); err != nil {
		return 0, err
	}
	if name := l.label.Name; !l.row.Has(l.label) && columnOf(value, name) == 0 {
		return 0, &decode.Error{Field: name, Offset: len(value) - 1, Reason: "absent but required: null takes a label back"}
	}
	if !l.at.FromField {
		return appended, nil
	}
	known, err = l.at.Of(&l.row, time.UnixMicro(farthest), nil)
	if err != nil {
		err = fmt.Errorf("field %q: %w", l.at.Slot.Name, err)
	}
	return known, err
}

// bound returns the latest valid time of a label: --as-of or, without it, the present. For a label
// of a topic, the time of its append is also a limit.
func (l *labels) bound(appended int64) int64 {
	if l.known {
		return l.asOf
	}
	return min(l.now, appended+clocks.Microseconds())
}

package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/failure"
	"github.com/afterbay/afterbay/internal/http/ingest"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/stream"
)

const (
	loadEvents = 50_000 // most events to read from a file
	madeUp     = 20_000 // number of synthetic events
	madeUpKeys = 2_000
)

// eventsFor returns a source of events for a load, and a description of them.
func (c *PlacementOptions) eventsFor(ctx context.Context, program *Program, in *lang.Input) (func() *source, string, error) {
	if at := slices.IndexFunc(in.Fields, func(f lang.Field) bool { return f.Path != "" }); at >= 0 {
		return nil, "", failure.Usage("field %s has a path: events of a load are flat", in.Fields[at].Name)
	}
	l := &repeated{key: in.Key, unit: cmp.Or(in.Time.Unit, in.Time.Format)}
	var events []map[string]json.RawMessage
	from := "events made up of the fields of " + in.Topic
	if c.Events == "" {
		var err error
		if events, err = makeUp(in, c.Seed); err != nil {
			return nil, "", failure.Usage("%w: give a file of events with --events", err)
		}
	} else {
		sample, err := program.Events(c.Events, "")
		if err != nil {
			return nil, "", err
		}
		defer sample.Close()
		var read sampled
		_, err = ingest.Publish(ctx, &read, sample, ingest.Options{Name: sample.Name, Format: sample.Format})
		if err != nil && !errors.Is(err, errSampled) {
			return nil, "", err
		}
		if len(read) == 0 {
			return nil, "", failure.Usage("%s has no events", sample.Name)
		}
		events, from = read, fmt.Sprintf("the %d events of %s over and over", len(read), sample.Name)
	}
	for _, e := range events {
		l.events = append(l.events, membersOf(e, in))
	}
	return func() *source { return &source{next: (&repeated{l.key, l.unit, l.events, 0}).next, stop: func() {}} }, from, nil
}

// repeated repeats given events without end. Each copy has the current time and, if the pipeline
// deduplicates, a new id. A repeated event is therefore neither late nor dropped.
type repeated struct {
	key    string
	unit   string
	events [][]member
	made   int
}

// member is a member of an event's JSON.
type member struct {
	name  []byte // with quotes and colon
	value []byte
	fresh byte // replacement for value: 't' is the time; 'n' and 's' are the number of the event, as number or string
}

func membersOf(event map[string]json.RawMessage, in *lang.Input) []member {
	var list []member
	for _, name := range slices.Sorted(maps.Keys(event)) {
		m := member{name: append(strconv.AppendQuote(nil, name), ':'), value: event[name]}
		switch {
		case name == in.Time.Field:
			m.fresh = 't'
		case in.Dedupe == nil || name != in.Dedupe.ID:
		case m.value[0] == '"':
			m.fresh = 's'
		default:
			m.fresh = 'n'
		}
		list = append(list, m)
	}
	return list
}

func (l *repeated) next(dst []byte) (line, key []byte) {
	from := len(dst)
	dst = append(dst, '{')
	for i, m := range l.events[l.made%len(l.events)] {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, m.name...)
		switch m.fresh {
		case 't':
			dst = appendTime(dst, time.Now(), l.unit)
		case 'n':
			dst = strconv.AppendInt(dst, int64(l.made), 10)
		case 's':
			dst = append(strconv.AppendInt(append(dst, '"'), int64(l.made), 10), '"')
		default:
			dst = append(dst, m.value...)
		}
	}
	dst = append(dst, '}')
	l.made++
	key, _ = decode.Key(dst[from:], l.key)
	return dst, key
}

// appendTime appends a time in a unit or layout of the pipeline file.
func appendTime(dst []byte, t time.Time, unit string) []byte {
	switch unit {
	case "s":
		return strconv.AppendInt(dst, t.Unix(), 10)
	case "ms":
		return strconv.AppendInt(dst, t.UnixMilli(), 10)
	case "us":
		return strconv.AppendInt(dst, t.UnixMicro(), 10)
	case "ns":
		return strconv.AppendInt(dst, t.UnixNano(), 10)
	}
	layout := time.RFC3339Nano
	if unit != "rfc3339" {
		layout = unit
	}
	return append(t.UTC().AppendFormat(append(dst, '"'), layout), '"')
}

// sampled is an ingest.Appender that keeps the first events.
type sampled []map[string]json.RawMessage

var errSampled = errors.New("enough events")

// Append implements ingest.Appender.
func (s *sampled) Append(_ context.Context, records ...stream.Record) error {
	for _, r := range records {
		if len(*s) == loadEvents {
			return errSampled
		}
		var event map[string]json.RawMessage
		if err := json.Unmarshal(r.Value, &event); err != nil {
			return fmt.Errorf("event %d is not a JSON object: %w", len(*s)+1, err)
		}
		*s = append(*s, event)
	}
	return nil
}

// AppendOnce implements ingest.Appender.
func (s *sampled) AppendOnce(ctx context.Context, _ string, _ int64, records ...stream.Record) (int, error) {
	return 0, s.Append(ctx, records...)
}

// makeUp generates events with the fields of an input.
func makeUp(in *lang.Input, seed uint64) ([]map[string]json.RawMessage, error) {
	random := rand.New(rand.NewPCG(seed, 0))
	kinds := map[string]value.Kind{}
	for _, f := range in.Fields {
		t, err := value.ReadType(f.Type)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", f.Name, err)
		}
		kinds[f.Name] = t.Kind
	}
	var events []map[string]json.RawMessage
	for range madeUp {
		event := map[string]json.RawMessage{}
		for _, f := range in.Fields { // a fixed order, so that the seed determines the events
			if f.Name == in.Key {
				event[f.Name] = appendMadeUp(nil, kinds[f.Name], random.IntN(madeUpKeys))
			} else {
				event[f.Name] = appendMadeUp(nil, kinds[f.Name], int(random.ExpFloat64()*100))
			}
		}
		events = append(events, event)
	}
	return events, nil
}

// appendMadeUp appends a JSON value of a kind. Each n gives another value.
func appendMadeUp(dst []byte, kind value.Kind, n int) []byte {
	switch kind {
	case value.Bool:
		return strconv.AppendBool(dst, n%2 == 0)
	case value.Int:
		return strconv.AppendInt(dst, int64(n), 10)
	case value.Number:
		return strconv.AppendFloat(dst, float64(n)+0.25, 'f', -1, 64)
	case value.Time:
		return appendTime(dst, time.Unix(int64(n), 0), "rfc3339")
	case value.Bytes:
		return append(dst, `"bWFkZSB1cA=="`...)
	case value.Raw:
		return fmt.Appendf(dst, `{"made":{"up":%d}}`, n)
	}
	switch of := kind.Element(); {
	case kind.IsList():
		return append(appendMadeUp(append(appendMadeUp(append(dst, '['), of, n), ','), of, n+1), ']')
	case kind.IsMap():
		return append(appendMadeUp(append(dst, `{"made":`...), of, n), '}')
	}
	return fmt.Appendf(dst, `"words that are made up %d"`, n)
}

package scenario

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/stream"
)

// event reads an event: a time, attributes, and a JSON object that extends to the end of the line.
func (p *parser) event(c *command) {
	e := &event{partition: stream.ByKey, times: 1}
	c.event = e
	p.inFlight = true
	rest := c.rest
	for rest != "" && rest[0] != '{' {
		word, after, err := nextWord(rest)
		if err == nil {
			err = p.attribute(e, word)
		}
		if err != nil {
			p.fail(c.line, "%v", err)
			return
		}
		rest = strings.TrimSpace(after)
	}
	switch {
	case rest != "" && e.value != nil:
		p.fail(c.line, "an event has one value: value= or a JSON object")
	case rest != "":
		e.value = []byte(rest)
	case e.value == nil:
		p.fail(c.line, "an event has a value: a JSON object, or value=\"...\"")
	}
	if e.at.IsZero() {
		e.at = p.now
	}
	p.now = e.at.Add(time.Duration(e.times-1) * e.every)
	if p.events += e.times; p.events > eventsMax {
		p.fail(c.line, "a scenario has at most %d events", eventsMax)
	}
}

// nextWord cuts the first word off a text. Text in double quotes belongs to the word.
func nextWord(text string) (word, rest string, err error) {
	end := strings.IndexAny(text, " \t\"")
	if end < 0 {
		return text, "", nil
	}
	if text[end] != '"' {
		return text[:end], text[end:], nil
	}
	quoted, err := strconv.QuotedPrefix(text[end:])
	if err != nil {
		return "", "", fmt.Errorf("%s: the text in double quotes does not end, or has an unknown escape", text)
	}
	value, err := strconv.Unquote(quoted)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", quoted, err)
	}
	return text[:end] + value, text[end+len(quoted):], nil
}

func (p *parser) attribute(e *event, word string) (err error) {
	name, value, ok := strings.Cut(word, "=")
	if !ok {
		if !e.at.IsZero() {
			return fmt.Errorf("unexpected %q: an event is a time, attributes as name=value, and a JSON object", word)
		}
		e.timed = true
		e.at, err = p.time(word, p.now)
		return err
	}
	number, numberErr := strconv.Atoi(value)
	switch header, isHeader := strings.CutPrefix(name, "header."); {
	case isHeader && (header == "afterbay-position" || header == "afterbay-source"):
		return fmt.Errorf("header %s is written by pipelines", header)
	case isHeader && header != "":
		e.headers = append(e.headers, stream.Header{Key: header, Value: []byte(value)})
	case name == "topic":
		e.topic = value
	case name == "key":
		e.key = &value
	case name == "value":
		e.value = []byte(value)
	case name == "appended":
		e.appended, err = p.time(value, p.now)
	case name == "partition":
		if e.partition = int32(number); numberErr != nil || number < 0 || number >= partitionsMax {
			return fmt.Errorf("partition %q is not a number from 0", value)
		}
	case name == "times":
		if e.times = number; numberErr != nil || number < 1 || number > eventsMax {
			e.times = 1
			return fmt.Errorf("times %q is not a number from 1 to %d", value, eventsMax)
		}
	case name == "every":
		if e.every, err = time.ParseDuration(value); err != nil || e.every.Abs() > 24*time.Hour {
			return fmt.Errorf("every %q is not a duration up to 24h", value)
		}
	default:
		return fmt.Errorf("unknown attribute %q: use topic, key, partition, appended, times, every, value or header.NAME", name)
	}
	return err
}

// time reads a time: a time of day, a time with a date, or an offset from another time.
func (p *parser) time(text string, from time.Time) (time.Time, error) {
	if text != "" && (text[0] == '+' || text[0] == '-') {
		d, err := time.ParseDuration(text)
		if err != nil || d.Abs() > 100*366*24*time.Hour {
			return time.Time{}, fmt.Errorf("%q is not a distance in time: write it as +7s or -1h30m", text)
		}
		return from.Add(d), nil
	}
	for _, layout := range []string{"15:04:05.999999999", "15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			return day.Add(t.Sub(t.Truncate(24 * time.Hour))), nil
		}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Year() < 1700 || t.Year() > 2200 {
		return time.Time{}, fmt.Errorf("%q is not a time: write it as 10:00:05, +7s or 2026-01-02T10:00:05Z", text)
	}
	return t.UTC(), nil
}

// clock formats a time in the shortest form that can be read back.
func clock(t time.Time) string {
	t = t.UTC()
	if t.IsZero() {
		return "none"
	}
	if t.Truncate(24 * time.Hour).Equal(day) {
		return t.Format("15:04:05.999999")
	}
	return t.Format(time.RFC3339Nano)
}

// record builds the n-th record (from 0) of an event for an input.
func (e *event) record(in *lang.Input, n int) stream.Record {
	at := e.at.Add(time.Duration(n) * e.every)
	appended := at
	if !e.appended.IsZero() {
		appended = e.appended.Add(time.Duration(n) * e.every)
	}
	value := e.value
	if e.times > 1 {
		value = bytes.ReplaceAll(value, []byte("$n"), strconv.AppendInt(nil, int64(n+1), 10))
	}
	fields := map[string]json.RawMessage{}
	object := json.Unmarshal(value, &fields) == nil && fields != nil && in.Time.Field != "" && in.PathOf(in.Time.Field) == in.Time.Field
	if written, ok := fields[in.Time.Field]; ok && !e.timed && e.appended.IsZero() {
		appended = readTime(written, cmp.Or(in.Time.Unit, in.Time.Format), at)
	} else if object && !ok && e.timed {
		value = appendField(value, in.Time.Field, timeText(at, cmp.Or(in.Time.Unit, in.Time.Format)), len(fields) > 0)
	}
	r := stream.Record{
		Partition: stream.Partition{Topic: in.Topic, Index: e.partition},
		Time:      appended, Value: value, Headers: e.headers,
	}
	key := keyText(fields[in.Key])
	if path := in.KeyPath(); path != in.Key {
		at, _ := decode.Key(value, path)
		key = string(at)
	}
	switch {
	case e.key != nil:
		r.Key = []byte(*e.key)
	case key != "":
		r.Key = []byte(key)
	}
	return r
}

// appendField adds a field at the end of a JSON object.
func appendField(object []byte, name, value string, others bool) []byte {
	text := bytes.TrimRight(object, " \t\r\n")
	text = append([]byte{}, text[:len(text)-1]...) // without the closing brace
	if others {
		text = append(text, ", "...)
	}
	return append(append(append(strconv.AppendQuote(text, name), ": "...), value...), '}')
}

func timeText(t time.Time, unit string) string {
	if d, ok := units[unit]; ok {
		return strconv.FormatInt(t.UnixNano()/int64(d), 10)
	}
	layout := time.RFC3339Nano
	if unit != "rfc3339" {
		layout = unit
	}
	return strconv.Quote(t.UTC().Format(layout))
}

// units are the units of times that are whole numbers.
var units = map[string]time.Duration{"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond, "ns": time.Nanosecond}

// readTime reads a time that timeText wrote. It returns otherwise if raw is not a time.
func readTime(raw json.RawMessage, unit string, otherwise time.Time) time.Time {
	var t time.Time
	if unit == "rfc3339" && json.Unmarshal(raw, &t) == nil {
		return t
	}
	d, ok := units[unit]
	if text := ""; !ok && json.Unmarshal(raw, &text) == nil {
		if t, err := time.ParseInLocation(unit, text, time.UTC); err == nil {
			return t
		}
	}
	const most = 200 * 366 * 24 * time.Hour
	n, err := strconv.ParseInt(string(raw), 10, 64)
	f, fraction := strconv.ParseFloat(string(raw), 64)
	switch bound := int64(most) / max(int64(d), 1); {
	case !ok || fraction != nil || math.Abs(f) > float64(bound):
		return otherwise
	case err != nil:
		return time.UnixMicro(int64(math.Round(f * (float64(d) / float64(time.Microsecond)))))
	}
	return time.Unix(0, 0).Add(time.Duration(n) * d)
}

// keyText returns the key that a JSON value stands for: the text of a string, or a number as it is
// written.
func keyText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/afterbay/afterbay/internal/compile"
	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/naming"
	running "github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/internal/state/journal"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// outcome is everything that a run leaves behind.
type outcome struct {
	transcript [][]string          // results of each command
	records    map[string][]string // by output partition and lane
	state      []string
	answers    map[string]string // of the journals, by request
	killed     map[string]int    // number of killed processes, by stage
}

// place is the position of a record in a scenario: the n-th record of a command.
type place struct{ command, n int }

// reading relates the records in the log to the events of a scenario.
type reading struct {
	*run
	topics  map[string]map[int32][]stream.Record
	parents map[string]string   // position of each record -> position of the record that it was made from
	events  map[string]place    // by position
	times   map[place]time.Time // of events, as the first pipeline observed them
	keys    map[string]string   // of records, by position
	told    map[string]bool     // positions of records that are in the transcript
}

// outcome reads the log after the run.
func (r *run) outcome(ctx context.Context) (*outcome, error) {
	read := &reading{
		run: r, topics: map[string]map[int32][]stream.Record{}, parents: map[string]string{},
		events: map[string]place{}, times: map[place]time.Time{}, keys: map[string]string{}, told: map[string]bool{},
	}
	if err := read.all(ctx); err != nil {
		return nil, err
	}
	read.findEvents()
	out := &outcome{records: map[string][]string{}, answers: map[string]string{}, killed: r.killed}
	if err := read.states(ctx, out); err != nil {
		return nil, err
	}
	for topic, partitions := range read.topics {
		for index, records := range partitions {
			for i := range records {
				if header.Value(&records[i], header.Frontier) != nil {
					continue // the number of these records depends on how events are divided into transactions
				}
				name := fmt.Sprintf("%s/%d of %s", topic, index, read.lane(&records[i]))
				out.records[name] = append(out.records[name], describe(&records[i]))
			}
		}
	}
	var err error
	out.transcript, err = read.transcript()
	return out, err
}

// all reads the records of all topics.
func (r *reading) all(ctx context.Context) error {
	topics, err := r.engine.Topics(ctx)
	if err != nil {
		return err
	}
	for _, t := range topics {
		if r.bySteps(t.Name) {
			continue
		}
		r.topics[t.Name] = map[int32][]stream.Record{}
		for i := range t.Partitions {
			p := stream.Partition{Topic: t.Name, Index: i}
			if r.topics[t.Name][i], err = r.partition(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// bySteps reports whether a topic holds order records or watermarks of a pipeline. Their number and
// time depend on how events are divided into transactions.
func (r *reading) bySteps(topic string) bool {
	return slices.ContainsFunc(r.pipelines, func(p pipeline) bool {
		return topic == naming.Of(p.Name, naming.Order) || topic == naming.Of(p.Name, naming.Marks)
	})
}

func (r *reading) partition(ctx context.Context, p stream.Partition) ([]stream.Record, error) {
	first, next, err := r.engine.Offsets(ctx, p)
	if err != nil || first == next {
		return nil, err
	}
	var records []stream.Record
	for record, err := range r.engine.Tail(ctx, p, first) {
		if err != nil {
			return nil, err
		}
		if records = append(records, record); record.Offset == next-1 {
			break
		}
	}
	return records, nil
}

// source returns the position of the source record that a record was made from; "" for an event. If
// the pipeline reads several partitions in time order, the offset is the event's number in the
// order of release.
func source(r *stream.Record) string {
	if from := header.Get(r, header.Source); from != "" {
		return from
	}
	if at := header.Get(r, header.Repartition); at != "" {
		writer, _, _ := strings.Cut(header.Get(r, header.Pipeline), " ")
		return naming.Of(naming.Root(writer), naming.Repartition) + "/" + at
	}
	return header.Get(r, header.Position)
}

// lane names a group of records in an output partition. The order within a group is the same in
// each way of running. By default a group has the records made from events of one partition. If
// events are queued, a group has the records of one key (with `ordered`) or of one event.
func (r *reading) lane(record *stream.Record) string {
	if to := header.Value(record, header.AnswerTo); to != nil {
		return fmt.Sprintf("answers to %q", to) // two stages write such records
	}
	from := source(record)
	partition, _, _ := strings.Cut(from, "@")
	writer, _, _ := strings.Cut(header.Get(record, header.Pipeline), " ")
	for i := range r.pipelines {
		if p := &r.pipelines[i]; p.Name == naming.Root(writer) && slices.Contains(p.runner.Outputs(), record.Partition.Topic) {
			switch p.runner.Ordering(record.Partition.Topic) {
			case compile.OrderedByKey:
				return partition + " by key " + strconv.Quote(r.keys[from])
			case compile.OrderedByEvent:
				return from
			}
		}
	}
	return partition
}

func position(r *stream.Record) string { return fmt.Sprintf("%v@%d", r.Partition, r.Offset) }

// findEvents determines which record is which event. Records that no pipeline wrote are the events:
// each partition holds them in the order of the scenario.
func (r *reading) findEvents() {
	queues := map[stream.Partition][]place{}
	for i, records := range r.records {
		for n := range records {
			p := records[n].Partition
			if p.Index == stream.ByKey {
				p.Index = stream.PlaceRecord(&records[n], r.partitions)
			}
			queues[p] = append(queues[p], place{i, n})
		}
	}
	for _, partitions := range r.topics {
		for _, records := range partitions {
			for i := range records {
				record := &records[i]
				if header.Value(record, header.Order) != nil || header.Value(record, header.Frontier) != nil {
					continue // the event is read at another offset: see sights
				}
				r.keys[position(record)] = string(record.Key)
				if from := source(record); from != "" {
					r.parents[position(record)] = from
				} else if queue := queues[record.Partition]; len(queue) > 0 {
					r.events[position(record)], queues[record.Partition] = queue[0], queue[1:]
				}
			}
		}
	}
	for _, sights := range r.sights {
		for position, s := range sights {
			if s.source != "" {
				r.parents[position], r.keys[position] = s.source, r.keys[s.source]
			}
		}
	}
}

// offsetOf returns the offset of a position, or -1 if the text is not a position.
func offsetOf(position string) int64 {
	_, text, _ := strings.Cut(position, "@")
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	return -1
}

// seen returns the newest position, at or before the given one, where pipeline i observed an event.
// A watermark advances at the position of the next event, and that event may not exist.
func (r *reading) seen(i int, position string) string {
	if !r.own(i, position) {
		return position
	}
	partition, _, _ := strings.Cut(position, "@")
	for at := offsetOf(position); at >= 0; at-- {
		earlier := fmt.Sprintf("%s@%d", partition, at)
		if _, ok := r.sights[r.pipelines[i].Name][earlier]; ok {
			return earlier
		}
	}
	return position
}

// eventOf returns the event that the record at a position was made from, directly or through other
// records.
func (r *reading) eventOf(position string) (place, bool) {
	for range 3 * len(r.topics) { // the longest possible chain
		if at, ok := r.events[position]; ok {
			return at, true
		}
		position = r.parents[position]
	}
	return place{}, false
}

// byMarks are the kinds of state entries that follow the newest watermark broadcast. A partition of
// a stage keyed by another field has them once it has read one. Broadcasts depend on the
// transactions, and the run does not wait for the last ones, so these entries are not compared.
var byMarks = []byte{statekey.Generation, statekey.Source, statekey.Released, statekey.Watermark}

// states reads all state entries of all pipelines.
func (r *reading) states(ctx context.Context, out *outcome) error {
	groups, err := r.engine.Groups(ctx)
	if err != nil {
		return err
	}
	for _, group := range groups {
		if r.isSink(group) {
			continue // the state of a sink depends on when the service answered
		}
		for _, topic := range slices.Sorted(maps.Keys(r.topics)) {
			for i := range int32(len(r.topics[topic])) {
				p := stream.Partition{Topic: topic, Index: i}
				view, err := r.engine.State(ctx, group, p)
				if err != nil {
					return err
				}
				for entry, err := range view.Scan(nil) {
					if err != nil {
						return err
					}
					if naming.IsBy(group) && bytes.IndexByte(byMarks, entry.Key[0]) >= 0 {
						continue
					}
					out.keep(fmt.Sprintf("%s %v %q", group, p, entry.Key), entry)
				}
			}
		}
	}
	return nil
}

// keep records a state entry. Of a journal it keeps only the answers, because only they are the
// same in each way. The journal also numbers answers in their order of arrival, and counts calls.
func (o *outcome) keep(name string, entry stream.Entry) {
	switch value := fmt.Sprintf("%x", entry.Value); {
	case journal.IsAnswer(entry.Key):
		o.answers[name] = value
	case entry.Key[0] != statekey.Journal && entry.Key[0] != statekey.JournalHead:
		o.state = append(o.state, name+" "+value)
	}
}

// isSink reports whether a group belongs to a sink.
func (r *reading) isSink(group string) bool {
	return slices.ContainsFunc(r.pipelines, func(p pipeline) bool {
		return slices.ContainsFunc(p.runner.SinkReads(), func(read running.Read) bool { return read.Group == group })
	})
}

// difference describes the first difference between the records, state and results of two runs, or
// returns "".
func (o *outcome) difference(other *outcome) string {
	names := slices.Sorted(maps.Keys(o.records))
	for name := range other.records {
		if o.records[name] == nil {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if d := firstDifference(o.records[name], other.records[name]); d != "" {
			return name + ":\n" + d
		}
	}
	if d := firstDifference(o.state, other.state); d != "" {
		return "state:\n" + d
	}
	for _, request := range slices.Sorted(maps.Keys(o.answers)) { // one run may have forgotten answers that the other still has
		if answer, ok := other.answers[request]; ok && answer != o.answers[request] {
			return "journal:\n" + firstDifference([]string{request + " " + o.answers[request]}, []string{request + " " + answer})
		}
	}
	for i := range o.transcript { // results that were read during the run
		if d := firstDifference(o.transcript[i], other.transcript[i]); d != "" {
			return d
		}
	}
	return ""
}

func firstDifference(one, other []string) string {
	for i := range max(len(one), len(other)) {
		a, b := "nothing", "nothing"
		if i < len(one) {
			a = one[i]
		}
		if i < len(other) {
			b = other[i]
		}
		if a != b {
			return fmt.Sprintf("- %s\n+ %s", a, b)
		}
	}
	return ""
}

func describe(r *stream.Record) string {
	text := fmt.Sprintf("%q %s %q", r.Key, clock(r.Time), r.Value)
	for _, h := range r.Headers {
		text += fmt.Sprintf(" %s=%q", h.Key, h.Value)
	}
	return text
}

// transcript writes the results of each command in the syntax of a scenario.
func (r *reading) transcript() ([][]string, error) {
	results := make([][]string, len(r.Scenario.commands))
	lines := make([]map[int][]string, len(results)) // of each command, by the number of the event
	for i := range lines {
		lines[i] = map[int][]string{}
	}
	for i := range r.pipelines {
		r.sighted(i, lines)
		for _, topic := range r.pipelines[i].runner.Outputs() {
			if err := r.outputsOf(i, topic, lines); err != nil {
				return nil, err
			}
		}
	}
	if err := r.allTold(); err != nil {
		return nil, err
	}
	for i, c := range r.Scenario.commands {
		switch c.word {
		case "event":
			results[i] = r.summary(lines[i], c.event.times)
		case "watermark":
			results[i] = r.watermarks(i)
		case "counts":
			results[i] = r.counts(i)
		case "state":
			results[i] = r.notes[i]
		}
	}
	return results, nil
}

// summary returns the results of the last of the repeated events, after a line that counts the
// results of the earlier ones.
func (r *reading) summary(lines map[int][]string, times int) []string {
	kinds := map[string]int{}
	for n := range times - 1 {
		for _, line := range lines[n] {
			word, _, _ := strings.Cut(line, " ")
			kinds[word]++
		}
	}
	var texts []string
	for _, word := range slices.Sorted(maps.Keys(kinds)) {
		texts = append(texts, fmt.Sprintf("%d %s", kinds[word], word))
	}
	if texts == nil {
		return lines[times-1]
	}
	return append([]string{"before: " + strings.Join(texts, ", ")}, lines[times-1]...)
}

// sighted writes the facts about events that no record holds: that an event was late or dropped.
func (r *reading) sighted(i int, lines []map[int][]string) {
	prefix := ""
	if len(r.pipelines) > 1 {
		prefix = r.pipelines[i].Name + ": "
	}
	sights := r.sights[r.pipelines[i].Name]
	for _, position := range slices.Sorted(maps.Keys(sights)) {
		s, own := sights[position], r.own(i, position)
		at, ok := r.eventOf(position)
		if !ok {
			continue
		}
		if _, found := r.times[at]; !found && !s.at.IsZero() {
			r.times[at] = s.at
		}
		var words []string
		if s.late && s.stage == "" && own { // for a repartitioned event the watermark of its copy counts
			words = append(words, "late")
		}
		if s.dropped {
			words = append(words, "dropped")
		}
		if r.shown["watermark"] && !s.at.IsZero() && own {
			words = append(words, "watermark "+clock(s.watermark))
		}
		if words != nil {
			lines[at.command][at.n] = append(lines[at.command][at.n], prefix+strings.Join(words, ", "))
		}
	}
}

// own reports whether a position is in the topic that the pipeline itself reads, and not in a topic
// that is copied into that one.
func (r *reading) own(i int, position string) bool {
	reads := r.pipelines[i].runner.Reads()
	return strings.HasPrefix(position, reads[len(reads)-1].Topic+"/")
}

// outputsOf writes the records that pipeline i wrote to a topic. It returns an error if the records
// of a lane are not in the order of their events.
func (r *reading) outputsOf(i int, topic string, lines []map[int][]string) error {
	for index := range int32(len(r.topics[topic])) {
		newest := map[string]int64{} // largest source offset, by lane
		for _, record := range r.topics[topic][index] {
			writer, _, _ := strings.Cut(header.Get(&record, header.Pipeline), " ")
			if naming.Root(writer) != r.pipelines[i].Name {
				continue // an event, or a record of another pipeline
			}
			from := source(&record)
			at, ok := r.eventOf(r.seen(i, from))
			if !ok {
				return fmt.Errorf("%s of %v is made of %q, which is not an event", record.Value, record.Partition, from)
			}
			lane, offset := r.lane(&record), offsetOf(from)
			if offset < newest[lane] {
				return fmt.Errorf("%s of %v comes from %s, but follows an output of offset %d", record.Value, record.Partition, from, newest[lane])
			}
			newest[lane] = offset
			r.told[position(&record)] = true
			lines[at.command][at.n] = append(lines[at.command][at.n], r.line(&record, at))
		}
	}
	return nil
}

// allTold checks that each record in the output topics of the pipelines is either an event or in
// the transcript.
func (r *reading) allTold() error {
	for _, p := range r.pipelines {
		for _, topic := range p.runner.Outputs() {
			for _, records := range r.topics[topic] {
				for i := range records {
					at := position(&records[i])
					if _, event := r.events[at]; !event && !r.told[at] {
						return fmt.Errorf("%s at %s has an unknown writer", records[i].Value, at)
					}
				}
			}
		}
	}
	return nil
}

// line formats a record: its topic, the attributes that differ from the event's, the attributes
// that show names, and its value.
func (r *reading) line(record *stream.Record, at place) string {
	event := &r.records[at.command][at.n]
	words := []string{record.Partition.Topic}
	add := func(name, value string) {
		words = append(words, name+"="+quoted(value))
	}
	if r.shown["partition"] {
		add("partition", strconv.Itoa(int(record.Partition.Index)))
	}
	if r.shown["key"] || string(record.Key) != string(event.Key) {
		add("key", string(record.Key))
	}
	if t, ok := r.times[at]; r.shown["time"] || !record.Time.Equal(t) && (ok || !record.Time.Equal(event.Time)) {
		add("time", clock(record.Time))
	}
	if r.shown["id"] {
		add("id", header.Get(record, header.ID))
	}
	stage := header.Get(record, header.Stage)
	if features := header.Get(record, header.Approximate); features != "" {
		add("approximate", features)
	}
	for _, h := range record.Headers {
		if !strings.HasPrefix(h.Key, "afterbay-") && r.shown["headers"] {
			add("header."+h.Key, string(h.Value))
		}
	}
	if r.shown["row"] && stage != "" {
		words = append(words, "row="+header.Get(record, header.Row))
	}
	if stage != "" {
		words = append(words, stage+": "+oneLine(header.Get(record, header.Error)))
	}
	switch same := string(record.Value) == string(event.Value); {
	case same && stage != "": // usual for dead letters
	case same:
		words = append(words, "unchanged")
	case json.Valid(record.Value) && record.Value[0] == '{':
		words = append(words, string(record.Value))
	default:
		add("value", string(record.Value))
	}
	return strings.Join(words, " ")
}

// oneLine replaces characters that cannot be printed with escapes.
func oneLine(text string) string {
	var b strings.Builder
	for _, c := range text {
		if unicode.IsPrint(c) {
			b.WriteRune(c)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(c), "'"))
		}
	}
	return b.String()
}

// quoted formats a value in the syntax of an attribute's value.
func quoted(text string) string {
	if text == "" || strings.ContainsAny(text, " \t\n\"{") || strconv.Quote(text) != `"`+text+`"` {
		return strconv.Quote(text)
	}
	return text
}

// watermarks writes the watermark of each partition after the partition's newest event before the
// command.
func (r *reading) watermarks(command int) []string {
	i := r.named(r.Scenario.commands[command].args)
	newest := map[string]time.Time{}
	for position, s := range r.sights[r.pipelines[i].Name] {
		at, ok := r.eventOf(position)
		partition, _, _ := strings.Cut(position, "@")
		if ok && r.own(i, position) && at.command < command && s.watermark.After(newest[partition]) {
			newest[partition] = s.watermark
		}
	}
	var lines []string
	for _, partition := range slices.Sorted(maps.Keys(newest)) {
		if lines = append(lines, clock(newest[partition])); r.partitions > 1 {
			lines[len(lines)-1] = partition + " " + clock(newest[partition])
		}
	}
	return lines
}

// counts writes the numbers of events, late, dropped and dead events of a pipeline, over the events
// before the command.
func (r *reading) counts(command int) []string {
	i := r.named(r.Scenario.commands[command].args)
	var events, late, dropped, failed int
	for position, s := range r.sights[r.pipelines[i].Name] {
		if at, ok := r.eventOf(position); !ok || at.command >= command || !r.own(i, position) {
			continue
		}
		events++
		for _, c := range []struct {
			holds bool
			count *int
		}{{s.late, &late}, {s.dropped, &dropped}, {s.stage != "", &failed}} {
			if c.holds {
				*c.count++
			}
		}
	}
	return []string{fmt.Sprintf("events=%d late=%d dropped=%d dead=%d", events, late, dropped, failed)}
}

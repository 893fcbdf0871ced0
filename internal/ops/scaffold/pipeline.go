package scaffold

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/event/value"
)

// Output returns the topic that the pipeline writes its decisions to.
func (f *Findings) Output() string {
	if f.topic != nil {
		return f.pipeline() + "-decisions" // other programs may write to a topic with a common name
	}
	if f.Topic == "decisions" {
		return "decided"
	}
	return "decisions"
}

// KeyPath returns the path of the key in a record, in the form that afterbay produce accepts.
func (f *Findings) KeyPath() string {
	path := f.Key.At()
	if f.Key.Origin == decode.FromEnvelope {
		return path
	}
	if data := f.Envelope.Data(); data != "" {
		path = data + "." + path
	}
	if f.wrapped {
		path = "payload." + path
	}
	return path
}

// Pipeline returns the text of a pipeline file that runs without changes. The same findings always
// produce the same text.
func (f *Findings) Pipeline() []byte {
	w := &writer{Findings: f, names: map[string]bool{}}
	for _, c := range f.Fields {
		w.names[c.Name] = true
	}
	w.windows, w.panes = f.windows()
	for _, c := range f.Kinds {
		w.tables = append(w.tables, w.free(c.Name+"_codes"))
	}
	w.head()
	w.fields()
	w.constants()
	w.steps()
	return w.text.Bytes()
}

// writer writes a pipeline file.
type writer struct {
	*Findings
	text    bytes.Buffer
	names   map[string]bool // names in use
	windows []string
	panes   []string // pane of each window, with its "/"; "" means exact
	tables  []string // names of the tables for Kinds
	recent  []string // names of the windows of Measures
}

const commentColumn = 52

// line writes a line, and its comment if there is one.
func (w *writer) line(text, comment string) {
	if comment != "" {
		text = fmt.Sprintf("%-*s # %s", commentColumn, text, comment)
	}
	w.text.WriteString(text)
	w.text.WriteByte('\n')
}

// free returns an unused name, in the form of emitted names. The name is also not the first part of
// another name.
func (w *writer) free(name string) string {
	taken := func() bool {
		for other := range w.names {
			if other == name || strings.HasPrefix(other, name+"_") {
				return true
			}
		}
		return !usable(name)
	}
	for base, i := name, 2; taken(); i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	w.names[name] = true
	return name
}

var plainWord = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_-]*$`)

// word formats a name so that YAML reads it as a string.
func word(name string) string {
	special := slices.Contains([]string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(name))
	if special || !plainWord.MatchString(name) {
		return strconv.Quote(name)
	}
	return name
}

func (w *writer) head() {
	w.line("# Written by `afterbay init` from "+thousands(w.Events)+" events. It runs as it is, and all of it is", "")
	w.line("# a first guess: change what you know better, then `afterbay lint` it.", "")
	w.line("pipeline: "+word(w.pipeline()), "")
	w.registered()
	w.line("input:", "")
	w.line("  topic: "+scalar(w.Topic), "")
	w.envelope()
	w.source()
	w.format()
	w.line("  key: "+word(w.Key.Name), "the events of one "+w.Key.Name+" share features and order")
	switch t := w.Time; {
	case t == nil:
		w.line("  # time: {field: ..., unit: ms, lateness: 5s, late: include}", cmp.Or(w.OddTime(), "without it, an event happens when it is appended"))
	case t.Disorder > t.Lateness:
		w.line(fmt.Sprintf("  time: {field: %s, %s, lateness: %s, late: include}", word(t.Field.Name), t.words(), span(t.Lateness)),
			fmt.Sprintf("the sample is out of order by up to %v: if it is an export, sort it first", t.Disorder))
	default:
		w.line(fmt.Sprintf("  time: {field: %s, %s, lateness: %s, late: include}", word(t.Field.Name), t.words(), span(t.Lateness)),
			fmt.Sprintf("the sample is out of order by up to %v", t.Disorder))
	}
	if w.ID != nil {
		w.line(fmt.Sprintf("  # dedupe: {id: %s, window: 24h}", word(w.ID.Name)), "ends events whose "+w.ID.Name+" was seen before")
	}
}

// envelope writes the envelope of the events.
func (w *writer) envelope() {
	switch w.Envelope {
	case envelope.Debezium:
		w.line("  envelope: debezium", "fields are columns of the changed row; `from: envelope` is what stands around it")
		w.line("  repartition: 4", "by the key below: the keys of Debezium's records are JSON objects")
	case envelope.CloudEvents:
		w.line("  envelope: cloudevents", "fields are members of data; `from: envelope` is an attribute")
	}
}

// span formats a duration in the syntax of pipeline files: 1h, not 1h0m0s.
func span(d time.Duration) string {
	text := d.String()
	text = strings.TrimSuffix(text, "m0s") + strings.Repeat("m", strings.Count(text, "m0s"))
	return strings.TrimSuffix(text, "h0m") + strings.Repeat("h", strings.Count(text, "h0m"))
}

func (w *writer) fields() {
	w.line("  fields:", "")
	written := 0
	for _, c := range w.Fields {
		if c.Left != "" {
			continue
		}
		if written++; written > fieldsMax && !w.taken(c) && !slices.Contains(w.Measures, c) && !slices.Contains(w.Kinds, c) {
			continue
		}
		w.line("    "+word(c.Name)+": "+w.declared(c), w.about(c))
	}
	if written > fieldsMax {
		w.line(fmt.Sprintf("    # left out: fields beyond the first %d", fieldsMax), "")
	}
	left := 0
	for _, c := range w.Fields {
		if c.Left == "" {
			continue
		}
		if left++; left <= 20 {
			w.line("    # left out: "+quote(c.At()), c.Left)
		}
	}
	if left > 20 {
		w.line(fmt.Sprintf("    # left out: %s more names for such reasons", thousands(left-20)), "")
	}
	if w.More > 0 {
		w.line(fmt.Sprintf("    # left out: names beyond the first %d in the sample", columnsMax), "")
	}
}

// declared returns the declaration of a field in a pipeline file.
func (w *writer) declared(c *Field) string {
	text := w.typeOf(c).String()
	if c.short() {
		return text
	}
	if c.Type.Kind.IsList() {
		text = "'" + text + "'"
	}
	var words []string
	if c.Origin == decode.FromEnvelope {
		words = append(words, "from: envelope")
	}
	if len(c.Path) != 1 || c.Path[0].Name != c.Name {
		words = append(words, "path: "+scalar(c.At()))
	}
	return "{" + strings.Join(append(words, "type: "+text), ", ") + "}"
}

var plainPath = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.-]*$`)

// scalar formats a text as a YAML value.
func scalar(text string) string {
	printable := !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || r == '\'' })
	switch {
	case plainPath.MatchString(text) && word(strings.ReplaceAll(text, ".", "_")) == strings.ReplaceAll(text, ".", "_"):
		return text
	case printable:
		return "'" + text + "'"
	}
	return strconv.Quote(text)
}

// typeOf returns the type of a field in the file. The key and the event time are never optional.
func (f *Findings) typeOf(c *Field) value.Type {
	t := c.Type
	if c == f.Key || f.Time != nil && c == f.Time.Field {
		t.Optional = false
	}
	return t
}

var dateLike = regexp.MustCompile(`^\d{4}-\d\d-\d\d[ T]\d\d:\d\d|^\d\d[/.]\d\d[/.]\d{4} \d\d:\d\d`)

// about returns a comment with the statistics of a field.
func (w *writer) about(c *Field) string {
	var list []string
	switch {
	case c == w.Key:
		list = append(list, fmt.Sprintf("the key, %s values", thousands(c.Distinct)))
	case w.Time != nil && c == w.Time.Field:
		list = append(list, "the event time")
	case c == w.ID && c.Distinct == w.Events:
		list = append(list, "the event's id: each has its own")
	case c == w.ID:
		list = append(list, fmt.Sprintf("the event's id, but %s are repeated", thousands(w.Events-c.Distinct)))
	case c.Present == 0:
		list = append(list, "of the schema: no event of the sample has it")
	case len(c.symbols()) > 0:
		list = append(list, "an enum: "+cut(strings.Join(c.symbols(), ", ")))
	case c.Type.Kind.IsMap():
		list = append(list, "a map")
	case len(c.cells) == 0 && !c.Type.Kind.IsList():
		list = append(list, "such as "+c.Example)
	case c.of != nil:
		list = append(list, "of each object of the list "+cut(decode.PathText(c.Path[:len(c.Path)-2])))
	case c.Type.Kind.IsList():
		list = append(list, "a list, such as "+c.Example)
	case c.Distinct == 1:
		list = append(list, "always "+c.Example)
	case c.Type.Kind == value.Number || c.Type.Kind == value.Int:
		sorted := c.numbers()
		list = append(list, short(sorted[0])+" to "+short(sorted[len(sorted)-1]))
	case c.Type.Kind != value.Bool:
		list = append(list, fmt.Sprintf("%s values, such as %s", thousands(c.Distinct), c.Example))
	}
	if missing := w.Events - c.Present; missing > 0 && c.Present > 0 && w.typeOf(c).Optional {
		list = append(list, "in "+percent(c.Present, w.Events)+" of the events")
	} else if missing > 0 && c.Present > 0 {
		list = append(list, fmt.Sprintf("lacking in %s: dead letters", thousands(missing)))
	}
	if c.Misfits > 0 {
		list = append(list, fmt.Sprintf("of another type in %s: dead letters", thousands(c.Misfits)))
	}
	return strings.Join(list, "; ")
}

// short formats a number with six digits.
func short(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// number formats a number without an exponent.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// percent formats a share. It rounds to 100 % only for all, and to 0 % only for no events.
func percent(n, of int) string {
	share := 100 * float64(n) / float64(of)
	switch {
	case n < of && share > 99.9:
		return "99.9%"
	case n > 0 && share < 0.1:
		return "0.1%"
	}
	return strconv.FormatFloat(math.Round(share*10)/10, 'f', -1, 64) + "%"
}

// constants writes a table of numbers for each string with few values.
func (w *writer) constants() {
	if len(w.Kinds) == 0 {
		return
	}
	w.line("constants:", "numbers for words, as a model takes them; -1 is a new word")
	for i, c := range w.Kinds {
		var pairs []string
		for code, text := range c.coded() {
			pairs = append(pairs, fmt.Sprintf("%s: %d", strconv.Quote(text), code))
		}
		w.line(fmt.Sprintf("  %s: {%s}", w.tables[i], strings.Join(pairs, ", ")), "")
	}
}

// windowSets are the windows to choose from. gap is the longest time between two events of a key
// for a set. panes are for keys with many events.
var windowSets = []struct {
	gap            time.Duration
	windows, panes [3]string
	lengths        [3]time.Duration
}{
	{2 * time.Second, [3]string{"10s", "1m", "10m"}, [3]string{"/1s", "/1s", "/10s"}, [3]time.Duration{10 * time.Second, time.Minute, 10 * time.Minute}},
	{30 * time.Minute, [3]string{"1m", "10m", "1h"}, [3]string{"/1s", "/10s", "/1m"}, [3]time.Duration{time.Minute, 10 * time.Minute, time.Hour}},
	{12 * time.Hour, [3]string{"1h", "1d", "7d"}, [3]string{"/1m", "/30m", "/3h"}, [3]time.Duration{time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}},
	{math.MaxInt64, [3]string{"1d", "7d", "30d"}, [3]string{"/30m", "/3h", "/12h"}, [3]time.Duration{24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour}},
}

const paneEvents = 2000 // a window uses panes if its busiest key has more events

// windows chooses windows by the time between the events of a key.
func (f *Findings) windows() (windows, panes []string) {
	set := windowSets[1]
	panes = make([]string, len(set.windows))
	var gaps []int64
	busiest := 0.0 // events per second
	for _, at := range f.byKey() {
		for i := 1; i < len(at); i++ {
			gaps = append(gaps, at[i]-at[i-1])
		}
		if seconds := float64(at[len(at)-1]-at[0]) / 1e6; len(at) > 10 {
			busiest = max(busiest, float64(len(at))/max(seconds, 1))
		}
	}
	if len(gaps) == 0 {
		return set.windows[:], panes
	}
	slices.Sort(gaps)
	median := time.Duration(gaps[len(gaps)/2]) * time.Microsecond
	for _, s := range slices.Backward(windowSets) {
		if median <= s.gap {
			set = s
		}
	}
	for i, length := range set.lengths {
		if busiest*length.Seconds() > paneEvents {
			panes[i] = set.panes[i]
		}
	}
	return set.windows[:], panes
}

// byKey returns the event times of each key, sorted. It returns nothing if no field has the event
// time.
func (f *Findings) byKey() map[string][]int64 {
	all := map[string][]int64{}
	if f.Time == nil {
		return all
	}
	for _, c := range f.Key.cells {
		if at, ok := f.Time.at[c.event]; ok {
			all[c.text] = append(all[c.text], at)
		}
	}
	for _, at := range all {
		slices.Sort(at)
	}
	return all
}

// busy returns the 99th percentile, at least 2, of the number of events of a key within the first
// window.
func (w *writer) busy() int {
	length := int64(0)
	for _, s := range windowSets {
		if s.windows[0] == w.windows[0] {
			length = s.lengths[0].Microseconds()
		}
	}
	var counts []int
	for _, at := range w.byKey() {
		first := 0
		for i := range at {
			for at[first] <= at[i]-length {
				first++
			}
			counts = append(counts, i-first+1)
		}
	}
	if len(counts) == 0 {
		return 100 // unknown
	}
	slices.Sort(counts)
	return max(2, counts[len(counts)*99/100])
}

func (w *writer) list(withPanes bool) string {
	windows := slices.Clone(w.windows)
	for i := range windows {
		if withPanes {
			windows[i] += w.panes[i]
		}
	}
	return "[" + strings.Join(windows, ", ") + "]"
}

// steps writes the steps let, features, decide and emit.
func (w *writer) steps() {
	w.line("steps:", "")
	if len(w.Kinds) > 0 {
		w.line("  - let:", "")
		for i, c := range w.Kinds {
			text := c.Name
			if c.Type.Optional {
				text = "(" + text + ` ?? "")`
			}
			w.line(fmt.Sprintf("      %s: '%s[%s] ?? -1'", w.free(c.Name+"_code"), w.tables[i], text), "")
		}
	}
	seen, gap, action := w.free("seen"), w.free("gap"), w.free("action")
	w.line("  - features:", "of the key, up to and with this event")
	w.line(fmt.Sprintf("      %s: {windows: %s, aggregates: [count]}", seen, w.list(true)), "")
	w.line(fmt.Sprintf("      %s: {elapsed: true, empty: -1}", gap), "seconds since the key's newest event")
	for _, c := range w.Measures {
		w.measure(c)
	}
	for _, c := range w.Texts {
		w.different(c)
	}
	rule := fmt.Sprintf("%s.count_%s > %d", seen, w.windows[0], w.busy())
	if len(w.Measures) > 0 {
		c := w.Measures[0]
		rule = fmt.Sprintf("%s > %s || %s", w.present(c), w.high(c), rule)
	}
	w.line("  - decide:", "the thresholds are passed by 1 in 100 events of the sample, or so: choose your own")
	w.line(fmt.Sprintf(`      %s: '%s ? "review" : "allow"'`, action, rule), "")
	w.model(seen, gap)
	id := "meta.id"
	if w.ID != nil {
		id = w.ID.Name
	}
	values := []string{word(id), word(w.Key.Name)}
	for _, c := range w.Measures[:min(len(w.Measures), 1)] {
		values = append(values, word(c.Name))
	}
	for _, c := range w.Fields {
		if w.Envelope == envelope.Debezium && c.Origin == decode.FromEnvelope && c.At() == "op" && c.Left == "" {
			values = append(values, word(c.Name)) // the field marks deletions
		}
	}
	values = append(values, seen+".count_"+w.windows[0], action)
	if id == "meta.id" {
		values[0] = id
	}
	w.line(fmt.Sprintf("  - emit: {topic: %s, value: [%s]}", w.Output(), strings.Join(values, ", ")), "")
}

// measure writes the features of a number.
func (w *writer) measure(c *Field) {
	when, decimals := "", ""
	if c.Type.Optional {
		when = ", when: " + c.Name + " != null"
	}
	switch n := c.decimals(); {
	case c.Type.Kind == value.Int:
		decimals = ", decimals: 0"
	case n >= 0:
		decimals = fmt.Sprintf(", decimals: %d", n)
	}
	recent := w.free("recent_" + c.Name)
	w.recent = append(w.recent, recent)
	w.line(fmt.Sprintf("      %s: {value: '%s'%s%s, windows: %s, aggregates: [sum, mean, max]}",
		recent, w.present(c), when, decimals, w.list(true)), "")
	w.line(fmt.Sprintf("      %s: {value: '%s'%s%s, last: 20, aggregates: [mean]}", w.free("usual_"+c.Name), w.present(c), when, decimals), "")
}

// different writes the feature that counts the distinct values of a string.
func (w *writer) different(c *Field) {
	text, when := c.Name, ""
	if c.Type.Optional {
		text, when = "'"+c.Name+` ?? ""'`, ", when: "+c.Name+" != null"
	}
	last := len(w.windows) - 1
	w.line(fmt.Sprintf("      %s: {value: %s%s, windows: [%s], aggregates: [distinct]}", w.free("kinds_of_"+c.Name), text, when, w.windows[last]+w.panes[last]),
		"how many different values")
}

// present returns an expression for a field that always has a value.
func (w *writer) present(c *Field) string {
	if c.Type.Optional {
		return "(" + c.Name + " ?? 0)"
	}
	return c.Name
}

// high returns a value near the 99th percentile that is below the maximum.
func (w *writer) high(c *Field) string {
	sorted := c.numbers()
	greatest := sorted[len(sorted)-1]
	v := sorted[len(sorted)*99/100]
	if i, _ := slices.BinarySearch(sorted, greatest); v == greatest {
		v = sorted[max(i-1, 0)]
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if err == nil && rounded < greatest {
		v = rounded
	}
	return number(v)
}

// model writes comments about how to replace the rule by a model.
func (w *writer) model(seen, gap string) {
	inputs := []string{seen + ".*", gap}
	for i, c := range w.Measures {
		inputs = append(inputs, c.Name, w.recent[i]+".*")
	}
	for _, line := range []string{
		"# With labels, `afterbay dataset` writes the rows to train a model with. Then name it above the steps,",
		"#   models: {risk: {file: risk.ubj, version: 1, outputs: {score: number}}}",
		"# put it before `decide`, and decide by risk.score:",
		"#   - score: {model: risk, inputs: [" + strings.Join(inputs, ", ") + "]}",
	} {
		w.line("  "+line, "")
	}
}

package scaffold

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/internal/event/decode"
	"github.com/afterbay/afterbay/internal/event/envelope"
	"github.com/afterbay/afterbay/internal/event/value"
)

// KeyError means that no field can be the key, or that the requested field cannot.
type KeyError struct {
	Asked      string   // the requested field; "" if the key was to be guessed
	Reason     string   // why it cannot be the key; "" if no field was requested
	Candidates []*Field // possible keys, those with the most repetitions first
	Unnamed    string   // result of Findings.Unnamed
	Events     int
}

// Error returns the reason, and the candidates with their counts.
func (e *KeyError) Error() string {
	text := "no field looks like a key"
	if e.Asked != "" {
		text = fmt.Sprintf("%s cannot be the key: %s", e.Asked, e.Reason)
	}
	if e.Unnamed != "" {
		text += "; " + e.Unnamed
	}
	if len(e.Candidates) == 0 {
		return text + "; no field is a string or int that most events have"
	}
	list := make([]string, len(e.Candidates))
	for i, f := range e.Candidates {
		list[i] = fmt.Sprintf("%s (%s, %s values in %s events)", f.Name, f.Type.Kind, thousands(f.Distinct), thousands(e.Events))
	}
	return text + "; name one with --key: " + strings.Join(list, ", ")
}

// vocabulary splits a text into words. Their order is significant.
func vocabulary(text string) []string { return strings.Fields(text) }

// Words in field names that suggest the meaning of a field. As a key, a person (who) is likelier
// than a device (what), and a device is likelier than a place (where).
var (
	who     = vocabulary("customer client user account acct member player subscriber passenger patient employee driver author owner person buyer sender cardholder citizen student guest uid userid customerid")
	what    = vocabulary("card device sensor machine vehicle meter asset terminal node host station wallet phone imei msisdn iban robot camera gateway unit equipment engine turbine pump deviceid sensorid")
	where   = vocabulary("merchant store shop session sid ip visitor cookie tenant org organization company site room thread instance service")
	idWords = vocabulary("id uid uuid guid key no num number ref hash code src source external ext name")

	eventWords = vocabulary("event tx txn transaction payment order message msg request req post click reading record trace span log invoice booking trip ride comment entry")
	timeWords  = vocabulary("ts timestamp time datetime date at on created occurred observed recorded received event epoch when eventtime")
	otherTimes = vocabulary("end until updated modified valid")
	neverTimes = vocabulary("birth dob birthday birthdate expiry expires expiration expire due")
	amounts    = vocabulary("amount amt price total value cost sum spend pay paid fare charge balance qty quantity temperature temp humidity pressure voltage current power speed vibration rpm level flow load cpu memory duration latency elapsed ms bytes size length count score rating views distance")
	noMeasures = vocabulary("id uid uuid guid key zip postal postcode phone code port year month day hour minute lat latitude lon lng long longitude version number no num ssn pin seq sequence offset index idx epoch ts timestamp hash")
)

const idEnds = 5 // the first words of idWords: endings of an id's name

// guess finds the roles of the fields.
func (f *Findings) guess() error {
	if err := f.guessTime(); err != nil {
		return err
	}
	if err := f.guessKey(); err != nil {
		return err
	}
	f.Keyed = f.topic != nil && f.keyed(f.Key)
	f.guessID()
	f.guessMeasures()
	f.guessTexts()
	for _, c := range f.Fields {
		few := c.Distinct >= 2 && c.Distinct <= kindsMax && kindRepeats*c.Distinct <= len(c.cells) || len(c.symbols()) >= 2 && len(c.symbols()) <= kindsMax
		if c.Left == "" && !f.taken(c) && c.Type.Kind == value.String && few && c.plain && (keyScore(c) == 0 || c.Distinct <= wordsMax) && len(f.Kinds) < 4 &&
			!slices.ContainsFunc(c.coded(), unprintable) {
			f.Kinds = append(f.Kinds, c)
		}
	}
	return nil
}

const (
	kindsMax     = 30 // most values of a string that is mapped to numbers
	kindRepeats  = 3  // least events per value, on average
	wordsMax     = 12 // most values of a string that could also be a key
	kindBytesMax = 40
	measuresMax  = 3
	textsMax     = 2 // most strings with a count of distinct values
)

// unprintable reports whether a text is unsuitable for a table of constants.
func unprintable(text string) bool {
	return len(text) > kindBytesMax || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// taken reports whether the field already has a role.
func (f *Findings) taken(c *Field) bool {
	return c == f.Key || c == f.ID || f.Time != nil && c == f.Time.Field
}

// most reports whether nearly every event has the field with its type.
func (f *Findings) most(c *Field) bool { return float64(len(c.cells)) >= 0.9*float64(f.Events) }

func (f *Findings) field(name string) (*Field, error) {
	i := slices.IndexFunc(f.Fields, func(c *Field) bool { return c.Name == name })
	if i < 0 {
		i = slices.IndexFunc(f.Fields, func(c *Field) bool { return c.At() == name || len(c.Path) == 1 && c.Path[0].Name == name })
	}
	if i < 0 {
		return nil, fmt.Errorf("the sample has no field %s", quote(name))
	}
	if c := f.Fields[i]; c.Left != "" {
		return nil, fmt.Errorf("field %s is left out: %s", quote(name), c.Left)
	}
	return f.Fields[i], nil
}

func (f *Findings) guessTime() error {
	if name := f.options.Time; name != "" {
		c, err := f.field(name)
		if err != nil {
			return err
		}
		if f.Time = f.timeOf(c); f.Time == nil {
			return fmt.Errorf("%s cannot be the event time: its values are not dates, times or numbers of s, ms, us or ns in the years 2000 to 2100%s", name, prefixed(": "+name, c.oddTime()))
		}
		return nil
	}
	best := 0
	for _, c := range f.Fields {
		if c.Left != "" || !f.most(c) {
			continue
		}
		if t := f.timeOf(c); t != nil {
			if score := t.score(); score > best {
				f.Time, best = t, score
			}
		}
	}
	return nil
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// score rates how likely the field is the event time; 0 means that it is not.
func (t *Time) score() int {
	name := words(t.Field.Name)
	score := 0
	if t.Field.Origin == decode.FromEnvelope {
		return 20 // the envelope's time is that of the event; times in the data may not be
	}
	switch {
	case t.Unit == "rfc3339" || t.Format != "":
		score = 2
	case t.Field.Distinct > 1 && t.order() >= 0.9:
		score = 1
	}
	named := 0
	for _, word := range name {
		if slices.Contains(timeWords, word) {
			named++
		}
		if slices.Contains(neverTimes, word) {
			return 0
		}
		if slices.Contains(otherTimes, word) {
			return min(score, 1)
		}
	}
	switch {
	case named > 0 && named == len(name):
		score += 4
	case named > 0:
		score += 2
	case t.Field.Distinct == 1:
		return 0
	}
	if t.order() >= 0.6 {
		score += 2
	}
	return score
}

// order returns the share of events with a time not before that of the previous event.
func (t *Time) order() float64 {
	ordered, previous, partition := 0, int64(math.MinInt64), int32(-1)
	for _, c := range t.Field.cells {
		at, ok := t.at[c.event]
		if !ok {
			continue
		}
		if in := t.in(c.event); at >= previous || in != partition {
			ordered++
			partition = in
		}
		previous = at
	}
	return float64(ordered) / float64(len(t.at))
}

// keyable reports whether a field is allowed as the key.
func (f *Findings) keyable(c *Field) bool {
	return c.Left == "" && (c.Type.Kind == value.String || c.Type.Kind == value.Int) && (f.Time == nil || c != f.Time.Field)
}

func (f *Findings) guessKey() error {
	if name := f.options.Key; name != "" {
		c, err := f.field(name)
		if err == nil && !f.keyable(c) {
			err = fmt.Errorf("it is of type %v, but a key must be a string or int other than the event time", c.Type.Kind)
		}
		if err != nil {
			return &KeyError{Asked: name, Reason: err.Error(), Candidates: f.candidates(), Unnamed: f.Unnamed(), Events: f.Events}
		}
		f.Key = c
		return nil
	}
	best := 0
	for _, c := range f.Fields {
		if !f.keyable(c) || !f.most(c) || c.Distinct < 2 {
			continue
		}
		score := keyScore(c)
		if float64(c.Distinct) <= tells*float64(len(c.cells)) && f.topic != nil && f.keyed(c) {
			score += 100 // the topic is partitioned by this field
		}
		if score > best {
			f.Key, best = c, score
		}
	}
	if f.Key == nil && f.Envelope == envelope.Debezium {
		if c, err := f.field("id"); err == nil && f.keyable(c) && f.most(c) {
			f.Key = c // the id of the row
		}
	}
	if f.Key == nil {
		return &KeyError{Candidates: f.candidates(), Unnamed: f.Unnamed(), Events: f.Events}
	}
	return nil
}

// tells is the share of distinct values above which a field identifies events.
const tells = 0.95

// keyScore rates how likely a field is the key; 0 means that it is not.
func keyScore(c *Field) int {
	if float64(c.Distinct) > tells*float64(len(c.cells)) {
		return 0 // it identifies events
	}
	name := words(c.Name)
	if last := len(name) - 1; last > 0 && name[last] == "value" {
		name = name[:last] // for names such as user_id.value
	}
	score, ids, unknown := 0, 0, 0
	for _, word := range name {
		switch {
		case slices.Contains(who, word):
			score = max(score, 30)
		case slices.Contains(what, word):
			score = max(score, 20)
		case slices.Contains(where, word):
			score = max(score, 10)
		case slices.Contains(idWords, word):
			ids++
		default:
			unknown++
		}
	}
	id := len(name) > 0 && slices.Contains(idWords[:idEnds], name[len(name)-1])
	switch {
	case unknown > 0 && !id: // for example, user_agent is no user
		return 0
	case score == 0 && (!id || 2*c.Distinct > len(c.cells)):
		return 0
	case score == 0:
		return 5
	case unknown > 0 || strings.HasSuffix(c.Name, "name"):
		return score
	}
	return score + 1 + min(ids, 1)
}

// Unnamed lists the fields that are left out only because of their names, and says what to do. It
// returns "" if there are no such fields.
func (f *Findings) Unnamed() string {
	var list []string
	for _, c := range f.Fields {
		if c.unnamed {
			list = append(list, quote(c.At()))
		}
	}
	if len(list) == 0 {
		return ""
	}
	more := ""
	if len(list) > 8 {
		more, list = fmt.Sprintf(" and %d more", len(list)-8), list[:8]
	}
	return "fields are left out because their names have no letters or digits: read " + strings.Join(list, ", ") + more + " by path under names of your own, such as price: {path: '\"\u20ac\"', type: number}"
}

// candidates returns the fields that can be the key, the likeliest first.
func (f *Findings) candidates() []*Field {
	var list []*Field
	for _, c := range f.Fields {
		if f.keyable(c) && 2*len(c.cells) >= f.Events {
			list = append(list, c)
		}
	}
	rank := func(c *Field) int { // prefers fields with values that repeat, but not too often
		if c.Distinct == 1 || 2*c.Distinct > len(c.cells) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(list, func(a, b *Field) int {
		return cmp.Or(rank(a)-rank(b), b.Distinct-a.Distinct)
	})
	return list[:min(len(list), 8)]
}

// guessID finds the field that identifies events.
func (f *Findings) guessID() {
	best := 0
	for _, c := range f.Fields {
		if !f.keyable(c) || c == f.Key || c.Type.Optional || c.Misfits > 0 || float64(c.Distinct) < 0.9*float64(f.Events) {
			continue
		}
		score := 0
		for _, word := range words(c.Name) {
			switch {
			case slices.Contains(eventWords, word):
				score += 4
			case slices.Contains(idWords, word):
				score += 2
			case slices.Contains(who, word), slices.Contains(what, word), slices.Contains(where, word):
				score -= 10
			}
		}
		if score == 0 && c.Type.Kind == value.String && c.Distinct == f.Events && f.Events > 1 && !strings.ContainsAny(c.Example, " ./") {
			score = 1
		}
		if score > best {
			f.ID, best = c, score
		}
	}
}

// guessMeasures finds the numbers that are worth summing.
func (f *Findings) guessMeasures() {
	rank := map[*Field]int{}
	var list []*Field
	for _, c := range f.Fields {
		number := c.Type.Kind == value.Number || c.Type.Kind == value.Int
		if c.Left != "" || f.taken(c) || !number || !c.plain || c.Distinct < 3 || f.timeOf(c) != nil {
			continue
		}
		sorted := c.numbers()
		if math.Abs(sorted[0]) > 1e12 || math.Abs(sorted[len(sorted)-1]) > 1e12 {
			continue
		}
		split := words(c.Name)
		if slices.ContainsFunc(split, func(word string) bool { return slices.Contains(noMeasures, word) }) {
			continue
		}
		r := 4 * len(amounts)
		for _, word := range split {
			if i := slices.Index(amounts, word); i >= 0 {
				r = min(r, i)
			}
		}
		if c.Type.Kind == value.Int {
			r += len(amounts)
		}
		if c.Type.Optional {
			r += 2 * len(amounts)
		}
		rank[c] = r
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b *Field) int { return rank[a] - rank[b] })
	f.Measures = list[:min(len(list), measuresMax)]
}

// guessTexts finds the strings with distinct values that are worth counting.
func (f *Findings) guessTexts() {
	for _, c := range f.Fields {
		repeats := c.Distinct >= 2 && 2*c.Distinct <= len(c.cells)
		if c.Left == "" && !f.taken(c) && c.Type.Kind == value.String && c.Origin == decode.FromData && repeats && c.plain && len(f.Texts) < textsMax &&
			!slices.ContainsFunc(c.common(), func(text string) bool { return len(text) > kindBytesMax }) {
			f.Texts = append(f.Texts, c)
		}
	}
}

package reference

import (
	"encoding/binary"
	"fmt"
	"math"
	"sort"
	"strings"
	"time"
)

// The bounds of dedupe in the file.
const (
	dedupeWindow = 60 * second
	dedupeMax    = 50
)

var transactionFields = []field{
	{name: "tx", kind: "string"}, {name: "terminal", kind: "string"}, {name: "customer", kind: "string"},
	{name: "amount", kind: "number"}, {name: "country", kind: "string"}, {name: "ts", kind: "int"},
}

// Terminals computes one partition of transactions. Like the others it takes
// where the log places a key.
func Terminals(partition []Message, place func(key []byte) int) Made {
	s := newStage("terminals", place)
	type terminal struct {
		newest int64
		shop   counts
		paid   []Entry
	}
	terminals := map[string]*terminal{}
	for i := range partition {
		a := &arrival{Message: partition[i]}
		if !s.admit(a, transactionFields, "terminal", lateness) {
			continue
		}
		if s.repeated(a.text("tx"), a.at, dedupeWindow, dedupeMax) {
			s.made.Repeated++
			continue
		}
		if a.at < s.watermark {
			s.made.Late++
			s.dead(&a.Message, "late", a.at, true)
			continue
		}
		t := terminals[a.text("terminal")]
		if t == nil || quiet(t.newest, s.watermark) {
			t = &terminal{newest: never}
			terminals[a.text("terminal")] = t
		}
		t.newest = max(t.newest, a.at)
		amount := a.number("amount")
		minute, hour := t.shop.add(a.at)
		if amount < 1e6 {
			t.paid = addEntry(t.paid, Entry{a.at, cents(amount)})
		}
		paid := overFlow(t.paid, a.at-3600*second, a.at)
		band, err := bandOf(amount, a.text("country"))
		if err != nil {
			s.dead(&a.Message, "call", a.at, true)
			continue
		}
		var share any
		if amount >= 100 {
			share = amount / float64(hour)
		}
		s.emit(a, "by-customer", []byte(a.text("customer")),
			"tx", a.text("tx"), "terminal", a.text("terminal"), "customer", a.text("customer"), "amount", amount,
			"country", a.text("country"), "ts", a.fields["ts"], "shop_count_60s", minute, "shop_count_1h", hour,
			"paid_sum_1h", paid.sum, "paid_max_1h", paid.max, "band", band, "cents", int64(math.Abs(amount)*100),
			"foreign", a.text("country") != "US", "share", share)
		if minute >= 5 {
			s.emit(a, "busy-terminals", nil, "terminal", a.text("terminal"), "shop_count_60s", minute, "band", band,
				"meta_time", timeText(a.at))
		}
	}
	return s.end(dedupeWindow, dedupeMax)
}

// bandOf is the function band.
func bandOf(amount float64, country string) (string, error) {
	switch {
	case country == "NG" && amount > 150:
		return "", errRefused
	case amount >= 100:
		return "high", nil
	}
	return "low", nil
}

func (a *arrival) text(name string) string    { return a.fields[name].(string) }
func (a *arrival) number(name string) float64 { return a.fields[name].(float64) }

func timeText(us int64) string {
	return time.UnixMicro(us).UTC().Format("2006-01-02T15:04:05.000000Z07:00")
}

// admit reads an event of a topic that is read as it is, moves the watermark and
// fires timers. It reports whether the event goes on.
func (s *stage) admit(a *arrival, fields []field, key string, lateness int64) bool {
	var err error
	if a.fields, err = read(a.Value, fields); err != nil {
		s.dead(&a.Message, "decode", a.Time, false)
		return false
	}
	if key != "" && a.text(key) != string(a.Key) {
		s.dead(&a.Message, "key", a.Time, false)
		return false
	}
	if at, ok := a.fields["at"].(int64); ok {
		a.at = at
		if a.at-a.Time > maxAhead {
			err = errRefused
		}
	} else {
		a.at, err = eventTime(a.fields["ts"].(int64), a.Time)
	}
	if err != nil {
		s.dead(&a.Message, "time", a.Time, false)
		return false
	}
	s.arrive(a.at, lateness)
	s.fire(&a.Message)
	return true
}

var paymentFields = append(transactionFields[:len(transactionFields):len(transactionFields)],
	field{name: "shop_count_60s", kind: "number"}, field{name: "band", kind: "string"}, field{name: "share", kind: "number", optional: true})

// fraud is what Fraud keeps of its partition.
type fraud struct {
	*stage
	keys  *partition
	score func(row []float32) float64
}

// Fraud computes one partition of by-customer.
func Fraud(in []Message, place func(key []byte) int) (Made, error) {
	trees, err := parseModel([]byte(model))
	if err != nil {
		return Made{}, fmt.Errorf("read model: %w", err)
	}
	s := fraud{newStage("fraud", place), &partition{Partition: Partition{Newest: never}, keys: map[string]*Key{}},
		func(row []float32) float64 { return float64(Probability(trees.margin(row))) }}
	s.sessionTimers("sessions")
	s.strikesTimers("sessions")
	for i := range in {
		a := &arrival{Message: in[i]}
		if !s.admit(a, paymentFields, "customer", 10*second) {
			continue
		}
		if a.at < s.watermark {
			s.made.Late++
			s.made.Dropped++
			s.aside(&a.Message, "too-late", a.at)
			continue
		}
		switch stage := s.payment(a); stage {
		case "":
		case "drop":
			s.made.Dropped++
		default:
			s.dead(&a.Message, stage, a.at, true)
		}
	}
	return s.end(0, 0), nil
}

// route is the route of the file, with its nested one.
func (s *fraud) route(a *arrival) (kind string, weight int64, stage string) {
	amount := a.number("amount")
	terminal := []byte(a.text("terminal"))
	switch {
	case a.text("country") == "us":
		return "", 0, "drop"
	case amount < 0 && amount > -60:
		return "refund", 1, ""
	case amount < 0 && amount > -250:
		s.emit(a, "refunds", terminal, "tx", a.text("tx"), "amount", amount, "weight", int64(2),
			"meta_id", s.id(&a.Message), "meta_partition", int64(a.Partition))
		return "refund", 2, ""
	case amount < 0:
		return "", 0, "route"
	case a.number("shop_count_60s") > 12:
		return "", 0, "route"
	case amount > 0:
		return a.text("band"), 0, ""
	}
	s.emit(a, "refunds", nil, "tx", a.text("tx"), "kind", "zero")
	return "zero", 0, ""
}

// payment computes an event that is on time.
func (s *fraud) payment(a *arrival) (stage string) {
	s.keys.Newest = s.watermark + lateness // key takes lateness off again
	k := s.keys.key(a.text("customer"))
	k.Newest = max(k.Newest, a.at)
	where := int64(-1)
	if code, ok := map[string]int64{"US": 0, "GB": 1, "DE": 2, "BR": 3, "NG": 4}[a.text("country")]; ok {
		where = code
	}
	amount, spent := a.number("amount"), a.number("amount")
	if share, ok := a.fields["share"].(float64); ok {
		spent = share
	}
	kind, weight, stage := s.route(a)
	if stage != "" {
		return stage
	}
	f, err := k.features(a.at, amount)
	if err != nil {
		return "features"
	}
	out := map[string]any{}
	if err := s.event("session", a, session(spent, kind, "sessions", "milestones", out)); err != nil {
		return "call"
	}
	score := s.score(f.row(amount, where))
	k.addScore(a.at, score)
	action := "allow"
	switch {
	case score >= 0.9:
		action = "block"
	case score >= 0.5:
		action = "review"
	}
	if err := s.event("strikes", a, strikes(score, action, out)); err != nil {
		return "call"
	}
	s.emit(a, "decisions", nil, "tx", a.text("tx"), "fraud_score", score, "action", action, "where", where, "kind", kind,
		"weight", weight, "session_n", out["session_n"], "session_spent", out["session_spent"], "first_kind", out["first_kind"],
		"strikes", out["strikes"], "spend_sum_3600s", f.spend[2].sum, "flow_count_1h", f.flow[1].count, "gap", f.gap,
		"past_mean", f.past, "hot_count_600s", f.hot)
	if action == "block" {
		s.write(&a.Message, "freezes", nil, a.at, "freeze:"+a.text("tx"), object("tx", a.text("tx"), "customer", a.text("customer")))
	}
	s.emit(a, "by-terminal", []byte(a.text("terminal")), "tx", a.text("tx"), "action", action, "strikes", out["strikes"])
	return ""
}

// The inputs of activity.
var activityInputs = map[string]struct {
	key      string
	lateness int64
	dedupe   string
	fields   []field
}{
	"transactions": {"customer", 5 * second, "tx", []field{
		{name: "tx", kind: "string"}, {name: "customer", kind: "string"}, {name: "amount", kind: "number"}, {name: "ts", kind: "int"}}},
	"logins": {"user", 20 * second, "", []field{
		{name: "user", kind: "string"}, {name: "at", kind: "time"}, {name: "device", kind: "string", optional: true}, {name: "ok", kind: "bool"}}},
}

// Copy computes what is copied of one partition of transactions or logins to
// activity.repartition, but for the marks, which depend on the steps.
func Copy(topic string, in []Message, place func(key []byte) int) Made {
	s := newStage("activity.repartition."+topic, place)
	input, newest := activityInputs[topic], int64(never)
	for i := range in {
		a := &arrival{Message: in[i]}
		if !s.admit(a, input.fields, "", input.lateness) {
			continue
		}
		newest = max(newest, min(a.at, a.Time)) // a clock that is ahead moves nothing
		s.newest = newest
		if input.dedupe != "" && s.repeated(a.text(input.dedupe), a.at, dedupeWindow, dedupeMax) {
			s.made.Repeated++
			continue
		}
		key := []byte(a.text(input.key))
		out := Message{Topic: "activity.repartition", Partition: s.place(key), Time: a.at, Key: key, Value: a.Value, Headers: []Header{
			{"afterbay-source", a.position()},
			{"afterbay-order", orderOf(topic, a.Partition, a.Offset, newest, a.Time, min(a.at, a.Time) < newest-input.lateness)}}}
		if id := a.header("afterbay-id"); id != "" {
			out.Headers = append(out.Headers, Header{"afterbay-id", id})
		}
		out.Headers = append(out.Headers, foreign(a.Headers)...)
		s.made.Outputs = append(s.made.Outputs, out)
	}
	return s.end(dedupeWindow, dedupeMax)
}

// numberOf is the number of a source partition in places.
func numberOf(topic string, partition int) int64 {
	number := int64(partition)
	if topic == "transactions" { // the second of the two in the order of names
		number += 1 << 20
	}
	return number
}

// orderOf is the place of a copy: varints of its time, source and offset, of how much before
// that time it was appended, and whether it is late.
func orderOf(topic string, partition int, offset, at, appended int64, late bool) string {
	var b []byte
	for _, v := range []int64{at, numberOf(topic, partition), offset, at - appended} {
		b = binary.AppendVarint(b, v)
	}
	flags := uint64(0)
	if late {
		flags = 1
	}
	return string(binary.AppendUvarint(b, flags))
}

// visitor is what Activity keeps of a key.
type visitor struct {
	newest  int64
	seen    counts
	refused []Entry
}

// slack is the longest lateness of the inputs of activity: the watermark is so much before
// the place of an event.
const slack = 20 * second

// Activity computes one partition of activity.repartition, of which the sources have
// so many partitions.
func Activity(in []Message, partitions map[string]int, place func(key []byte) int) Made {
	s := newStage("activity", place)
	s.sessionTimers("activity-sessions")
	s.devicesTimers(Places, "activity-sessions")
	visitors := map[string]*visitor{}
	turns, end := inTurn(in, partitions)
	for n, t := range turns {
		a := &arrival{Message: t.Message, at: t.Time}
		a.Offset = int64(n)
		s.pass(t.place.at)
		s.fire(&a.Message)
		a.first = a.header("afterbay-source")
		topic := a.first[:strings.IndexByte(a.first, '/')]
		var err error
		if a.fields, err = read(a.Value, activityInputs[topic].fields); err != nil {
			s.dead(&a.Message, "decode", a.Time, false)
			continue
		}
		if t.late {
			s.made.Late++
			s.made.Dropped++
			s.aside(&a.Message, "activity-late", a.at)
			continue
		}
		v := visitors[string(a.Key)]
		if v == nil || quiet(v.newest, s.watermark) {
			v = &visitor{newest: never}
			visitors[string(a.Key)] = v
		}
		v.newest = max(v.newest, a.at)
		switch stage := s.visit(a, topic, v); stage {
		case "":
		case "drop":
			s.made.Dropped++
		default:
			s.dead(&a.Message, stage, a.at, true)
		}
	}
	if len(in) > 0 {
		s.pass(end.at)
		s.fire(&Message{Topic: in[0].Topic, Partition: in[0].Partition, Offset: int64(len(turns))})
	}
	return s.end(0, 0)
}

// pass moves the watermark to a place in the order.
func (s *stage) pass(at int64) {
	if at != never {
		s.watermark = max(s.watermark, at-slack)
	}
}

// spot is a place in the order: of an event, or one that a source partition has passed.
type spot struct{ at, source, offset int64 }

func (a spot) less(b spot) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	if a.source != b.source {
		return a.source < b.source
	}
	return a.offset < b.offset
}

// turn is a copy with its place.
type turn struct {
	Message
	place spot
	moved int // where it stands, if its own place was over when it came; else -1
	late  bool
}

// inTurn returns the copies of a partition in their order, and the place up to which all
// sources are at the end.
func inTurn(in []Message, partitions map[string]int) (turns []turn, end spot) {
	first := spot{never, never, never}
	told, most := map[int64]spot{}, first
	for topic, n := range partitions {
		for p := range n {
			told[numberOf(topic, p)] = first
		}
	}
	least := func() spot {
		low := spot{math.MaxInt64, math.MaxInt64, math.MaxInt64}
		for _, k := range told {
			if k.less(low) {
				low = k
			}
		}
		return low
	}
	for i, m := range in {
		if marks := m.header("afterbay-frontier"); marks != "" {
			for rest := []byte(marks); len(rest) > 0; {
				k := takeSpot(&rest)
				silent, n := binary.Uvarint(rest) // 0 is none, else a microsecond more
				rest = rest[n:]
				source := k.source
				if most.less(k) {
					most = k
				}
				if by := (spot{int64(silent) - 1, k.source, k.offset}); silent > 0 {
					if most.less(by) {
						by = most
					}
					if k.less(by) {
						k = by
					}
				}
				if told[source].less(k) {
					told[source] = k
				}
			}
			continue
		}
		rest := []byte(m.header("afterbay-order"))
		t := turn{Message: m, place: takeSpot(&rest), moved: -1}
		t.late = rest[len(rest)-1]&1 != 0
		if !told[t.place.source].less(t.place) {
			t.place, t.moved = least(), i
		}
		if most.less(t.place) {
			most = t.place
		}
		turns = append(turns, t)
	}
	sort.SliceStable(turns, func(i, j int) bool {
		a, b := turns[i], turns[j]
		return a.place.less(b.place) || a.place == b.place && a.moved < b.moved
	})
	return turns, least()
}

// takeSpot reads a place, three varints, from the front of a text.
func takeSpot(rest *[]byte) spot {
	var v [3]int64
	for i := range v {
		var n int
		v[i], n = binary.Varint(*rest)
		*rest = (*rest)[n:]
	}
	return spot{v[0], v[1], v[2]}
}

// visit computes an event that is on time.
func (s *stage) visit(a *arrival, topic string, v *visitor) (stage string) {
	minute, hour := v.seen.add(a.at)
	spent, _ := a.fields["amount"].(float64)
	place, ok := a.fields["device"].(string)
	if !ok {
		place = "none"
	}
	granted, login := a.fields["ok"].(bool)
	if login && !granted {
		v.refused = addEntry(v.refused, Entry{a.at, 0})
	}
	refused := overFlow(v.refused, a.at-3600*second, a.at).count
	out := map[string]any{"devices": int64(0)}
	kind := "payment"
	switch {
	case topic == "logins":
		kind = "refused"
		if granted {
			kind = "login"
		}
		if err := s.event("devices", a, devices(place, out)); err != nil {
			return "call"
		}
	case spent == 0:
		return "drop"
	}
	if err := s.event("session", a, session(spent, kind, "activity-sessions", "activity-milestones", out)); err != nil {
		return "call"
	}
	var at any
	if us, ok := a.fields["at"].(int64); ok {
		at = timeText(us)
	}
	s.emit(a, "activities", nil, "kind", kind, "devices", out["devices"], "tx", a.fields["tx"], "device", a.fields["device"],
		"at", at, "session_n", out["session_n"], "session_spent", out["session_spent"], "first_kind", out["first_kind"],
		"seen_count_60s", minute, "seen_count_1h", hour, "refused_count_1h", refused, "meta_topic", topic, "meta_offset", a.firstOffset())
	if out["devices"].(int64) > 0 {
		s.emit(a, "by-device", []byte(place), "place", place, "devices", out["devices"], "user", a.fields["user"])
	}
	return ""
}

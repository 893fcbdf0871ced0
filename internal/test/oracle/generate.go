package oracle

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Generate returns a random pipeline and its events by partition.
func Generate(seed uint64) (*Pipeline, [][]Event) {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 20)), kinds: map[string]Kind{}, loose: map[string]bool{}, topics: map[string]int{}}
	g.pipeline()
	return &g.p, g.events()
}

type generator struct {
	*rand.Rand
	p      Pipeline
	names  []string // that expressions may use, in the order of their introduction
	kinds  map[string]Kind
	loose  map[string]bool // names that only outputs have: optional ones, sums that may round
	made   int
	topics map[string]int // emits to each
	full   bool           // h has the greatest values that nine decimals allow
}

func (g *generator) one(n int) bool { return g.IntN(n) == 0 }

func pick[T any](g *generator, of ...T) T { return of[g.IntN(len(of))] }

func (g *generator) name(prefix string) string {
	g.made++
	return prefix + strconv.Itoa(g.made)
}

func (g *generator) introduce(name string, k Kind, loose bool) {
	g.names = append(g.names, name)
	g.kinds[name], g.loose[name] = k, loose
}

func (g *generator) pipeline() {
	p := &g.p
	p.Name, p.Partitions = "p", 1+g.IntN(3)
	p.Fields = []Field{
		{Name: "k", Kind: pick(g, String, Int)}, {Name: "ts", Kind: Int}, {Name: "id", Kind: String},
		{Name: "a", Kind: Number}, {Name: "b", Kind: Number}, {Name: "w", Kind: Number, Wild: true}, {Name: "h", Kind: Number, Wild: true}, {Name: "i", Kind: Int},
		{Name: "j", Kind: Int, Wild: true}, {Name: "s", Kind: String}, {Name: "f", Kind: Bool},
		{Name: "on", Kind: Number, Optional: true}, {Name: "os", Kind: String, Optional: true}, {Name: "oi", Kind: Int, Optional: true},
	}
	for _, f := range p.Fields {
		g.introduce(f.Name, f.Kind, f.Optional)
	}
	p.Key = "k"
	p.Unit = pick(g, "s", "ms", "us")
	p.Lateness = pick[int64](g, 0, 1, 5, 60) * 1_000_000
	p.Late, p.LateTopic = pick(g, "dlq", "drop", "include", "include", "topic"), "late"
	if g.one(3) {
		p.Dedupe = &Dedupe{ID: "id", Window: pick[int64](g, 1, 10, 3600) * 1_000_000, Max: pick(g, 2, 5, 1000)}
	}
	if g.one(2) {
		p.Steps = append(p.Steps, g.let(false))
	}
	var feedback *Feature
	grouped := p.Late != "include" && g.one(3)
	if !grouped { // features are of the events of the log
		feedback = g.feedback()
	}
	for range 1 + g.IntN(2) {
		step := Step{}
		for range 1 + g.IntN(3) {
			step.Features = append(step.Features, g.feature(""))
		}
		if feedback != nil {
			step.Features = append(step.Features, feedback)
			feedback = nil
		}
		for _, f := range step.Features {
			g.columns(f)
		}
		p.Steps = append(p.Steps, step)
		if g.one(3) {
			p.Steps = append(p.Steps, g.let(false))
		}
		if g.one(3) {
			p.Steps = append(p.Steps, g.route())
		}
	}
	if grouped {
		g.group()
	}
	g.finish()
	for range 1 + g.IntN(3) {
		p.Steps = append(p.Steps, g.emit())
	}
}

// feedback returns a feature over the name "verdict", or nil. finish decides it.
func (g *generator) feedback() *Feature {
	if g.one(2) {
		return nil
	}
	f := g.feature("verdict")
	verdict := name("verdict", Int)
	if !f.Elapsed {
		f.Value = verdict
	}
	if f.Elapsed || g.one(2) {
		f.When = &Expr{Kind: Bool, Op: pick(g, ">", "!="), Args: []*Expr{verdict, g.literal(Int)}}
	}
	return f
}

// finish adds the step that introduces "verdict".
func (g *generator) finish() {
	g.p.Steps = append(g.p.Steps, Step{Decide: g.one(2), Let: []Binding{{"verdict", g.expression(Int, 3)}, {g.name("d"), g.expression(Bool, 2)}}})
	for _, b := range g.p.Steps[len(g.p.Steps)-1].Let {
		g.introduce(b.Name, b.Expr.Kind, false)
	}
}

// group collects events in time. Outputs above it are of its members.
func (g *generator) group() {
	if g.one(2) {
		g.p.Steps = append(g.p.Steps, g.emit())
	}
	group := &Group{Name: "grouped", By: pick(g, "i", "s", "os", "oi")}
	if group.Timeout = pick[int64](g, 0, 5, 60) * 1_000_000; group.Timeout == 0 || g.one(2) {
		group.Idle = pick[int64](g, 1, 5, 60) * 1_000_000
	}
	g.p.Steps = append(g.p.Steps, Step{Group: group})
	g.introduce("grouped.key", String, false)
	g.introduce("grouped.count", Int, false)
	g.introduce("grouped.ended", String, false)
}

func (g *generator) let(decide bool) Step {
	s := Step{Decide: decide}
	for range 1 + g.IntN(3) {
		b := Binding{g.name("x"), g.expression(pick(g, Bool, Int, Number, String), 3)}
		s.Let = append(s.Let, b)
	}
	for _, b := range s.Let {
		g.introduce(b.Name, b.Expr.Kind, false)
	}
	return s
}

// route returns a route. Each of its cases that continues introduces the same name.
func (g *generator) route() Step {
	introduced, kind := g.name("r"), pick(g, Bool, Int, Number, String)
	var s Step
	n := 2 + g.IntN(2)
	for i := range n {
		c := Case{Name: g.name("case")}
		if i < n-1 {
			c.When = g.expression(Bool, 2)
		} else {
			c.Name = "default"
		}
		if c.Then = pick(g, "", "", "", "drop", "dlq"); c.Then == "" || i == 0 {
			c.Then = ""
			c.Steps = []Step{{Let: []Binding{{introduced, g.expression(kind, 2)}}}}
		}
		s.Route = append(s.Route, c)
	}
	g.introduce(introduced, kind, false)
	return s
}

func (g *generator) feature(last string) *Feature {
	f := &Feature{Name: g.name("f"), Decimals: -1, Last: last, Empty: pick(g, 0, 0, -1, 2.5)}
	kind := g.IntN(5)
	if kind == 0 {
		f.Elapsed = true
	} else {
		f.Aggregates = []string{"count", "sum", "mean", "max", "min"}[:1+g.IntN(5)]
		f.Value = pick(g, name("a", Number), name("b", Number), name("w", Number), name("h", Number), name("i", Int), name("j", Int), g.expression(Number, 2))
		if g.one(2) {
			f.Decimals = g.IntN(10)
		}
	}
	switch kind {
	case 0:
	case 1:
		f.Keep = 1 + g.IntN(5)
	default:
		sizes := []Window{
			{"5s", "5s", 5, 0}, {"60s", "60s", 60, 0}, {"1h", "1h", 3600, 0}, {"24h", "24h", 86400, 0},
			{"10s/1s", "10s", 10, 1}, {"60s/5s", "60s", 60, 5}, {"1h/1m", "1h", 3600, 60}, {"24h/1h", "24h", 86400, 3600},
		}
		labels := map[string]bool{}
		for range 1 + g.IntN(3) {
			w := pick(g, sizes...)
			w.Size, w.Pane = w.Size*1_000_000, w.Pane*1_000_000
			if !labels[w.Label] {
				f.Windows = append(f.Windows, w)
			}
			labels[w.Label] = true
		}
	}
	if g.one(3) {
		f.When = g.expression(Bool, 2)
	}
	switch {
	case kind > 0 && g.one(3):
		g.looks(f)
	case kind > 1 && g.one(3):
		g.sketches(f)
	}
	if kind > 0 && g.one(4) {
		g.per(f)
	}
	return f
}

// looks gives a feature aggregates that look at entries, of numbers or of values of another kind.
func (g *generator) looks(f *Feature) {
	g.exact(f)
	any := []string{"first_value", "last_value", "previous", "changes", "distinct"}
	if g.one(3) {
		any, f.Take = append(any, "list"), pick(g, 0, 1, 3)
	}
	g.Shuffle(len(any), func(i, j int) { any[i], any[j] = any[j], any[i] })
	any = any[:1+g.IntN(len(any))]
	if g.one(2) {
		f.Aggregates = append([]string{pick(g, "p50", "p95", "p99")}, any...)
		if f.Decimals >= 0 && !f.many() {
			f.Aggregates = append(f.Aggregates, "variance", "stddev")
		}
		if f.Decimals >= 0 && f.Keep == 0 && g.one(2) {
			f.Aggregates, f.HalfLife = append(f.Aggregates, "ewma"), pick[int64](g, 600_000_000, 3_600_000_000)
		}
		if f.Decimals >= 0 && f.Keep == 0 && !f.many() && g.one(2) {
			f.Aggregates = append(f.Aggregates, "slope")
		}
		g.forget(f)
		return
	}
	if g.one(3) {
		any, f.Take = append(any, "top"), pick(g, 0, 1, 3)
	}
	f.Aggregates, f.AnyKind, f.Decimals, f.Empty = any, true, -1, 0
	g.forget(f)
	f.Value = pick(g, name("s", String), name("i", Int), name("j", Int), name("f", Bool))
}

// sketches gives a feature of windows aggregates that panes have sketches for.
func (g *generator) sketches(f *Feature) {
	if !slices.ContainsFunc(f.Windows, func(w Window) bool { return w.Pane > 0 }) {
		f.Windows = []Window{{"60s/5s", "60s", 60_000_000, 5_000_000}}
	}
	if g.one(3) {
		f.Aggregates, f.AnyKind, f.Decimals, f.Empty = []string{"distinct", "count"}[:1+g.IntN(2)], true, -1, 0
		f.Value = pick(g, name("s", String), name("i", Int), name("j", Int), name("f", Bool))
		return
	}
	f.Aggregates = append(slices.Clone(f.Aggregates), pick(g, []string{"p50"}, []string{"p95", "distinct"}, []string{"p99", "p50"})...)
}

// exact removes windows in panes from a feature.
func (g *generator) exact(f *Feature) {
	f.Windows = slices.DeleteFunc(f.Windows, func(w Window) bool { return w.Pane > 0 })
	if f.Keep == 0 && len(f.Windows) == 0 {
		f.Windows = []Window{{"60s", "60s", 60_000_000, 0}}
	}
}

// forget resets the number of values if the feature has neither list nor top.
func (g *generator) forget(f *Feature) {
	if !f.many() {
		f.Take = 0
	}
}

// per splits a feature. Aggregates of many values cannot be split.
func (g *generator) per(f *Feature) {
	if g.exact(f); f.many() {
		return
	}
	f.Per, f.Take = pick(g, name("s", String), name("i", Int), name("j", Int), name("f", Bool)), pick(g, 0, 0, 1, 3)
}

// columns introduces the columns of a feature. A sum or mean of floats that may round
// is only written, never compared.
func (g *generator) columns(f *Feature) {
	tame := f.Value != nil && f.Value.Op == "name" && (f.Value.Name == "a" || f.Value.Name == "b" || f.Value.Name == "i")
	for _, c := range f.columns() {
		rounds := f.Decimals < 0 && !tame && (strings.Contains(c, ".sum") || strings.Contains(c, ".mean")) || strings.Contains(c, ".variance") || strings.Contains(c, ".stddev") || strings.Contains(c, ".slope") || strings.Contains(c, ".ewma")
		if f.Per != nil || strings.Contains(c, ".list") || strings.Contains(c, ".top") {
			g.introduce(c, Map, true)
			continue
		}
		if f.AnyKind && valued(c) { // it may be absent
			g.introduce(c, f.Value.Kind, true)
			continue
		}
		g.introduce(c, Number, rounds)
	}
}

func (g *generator) emit() Step {
	e := &Emit{Topic: pick(g, "out", "out", "more")}
	if g.topics[e.Topic]++; g.topics[e.Topic] > 1 {
		e.Name = g.name("emit")
	}
	if g.one(3) {
		e.When = g.expression(Bool, 4)
	}
	for _, n := range g.names {
		if !g.one(3) {
			e.Names = append(e.Names, n)
		}
	}
	if len(e.Names) == 0 {
		e.Names = []string{"k"}
	}
	return Step{Emit: e}
}

func (g *generator) literal(k Kind) *Expr {
	v := Value{Kind: k}
	switch k {
	case Bool:
		v.Bool = g.one(2)
	case Int:
		v.Int = pick[int64](g, 0, 1, 2, 3, 10, 1000, 1<<53+1)
	case Number:
		v.Number = pick(g, 0.5, 1.25, 3, 100, 1e-3, 1e300)
	case String:
		v.String = pick(g, "", "a", "US", "é", "x y")
	}
	return &Expr{Kind: k, Op: "literal", Literal: v}
}

// leaf returns a literal, or a name that is there.
func (g *generator) leaf(k Kind) *Expr {
	var names []string
	for _, n := range g.names {
		if g.kinds[n] == k && !g.loose[n] {
			names = append(names, n)
		}
	}
	if len(names) == 0 || g.one(4) {
		return g.literal(k)
	}
	return name(pick(g, names...), k)
}

// expression returns an expression of a kind. At most depth operators are nested.
func (g *generator) expression(k Kind, depth int) *Expr {
	if depth == 0 || g.one(4) {
		return g.leaf(k)
	}
	sub := func(k Kind) *Expr { return g.expression(k, depth-1) }
	if g.one(6) {
		return &Expr{Kind: k, Op: "?:", Args: []*Expr{sub(Bool), sub(k), sub(k)}}
	}
	if optional := map[Kind]string{Int: "oi", Number: "on", String: "os"}[k]; optional != "" && g.one(6) {
		return &Expr{Kind: k, Op: "??", Args: []*Expr{name(optional, k), sub(k)}}
	}
	e := &Expr{Kind: k}
	numeric := func() *Expr { return sub(pick(g, Int, Number)) }
	switch k {
	case Bool:
		switch g.IntN(5) {
		case 0:
			e.Op, e.Args = pick(g, "&&", "||"), []*Expr{sub(Bool), sub(Bool)}
		case 1:
			e.Op, e.Args = "!", []*Expr{sub(Bool)}
		case 2:
			e.Op, e.Args = pick(g, "==", "!=", "<", ">=", "contains", "startsWith", "endsWith"), []*Expr{sub(String), sub(String)}
		case 3:
			kind := pick(g, Int, Number)
			e.Op, e.Args = pick(g, "==", "!=", "<", "<=", ">", ">="), []*Expr{sub(kind), sub(kind)}
		default:
			e.Op, e.Args = pick(g, "<", "<=", ">", ">="), []*Expr{numeric(), numeric()}
		}
	case Int:
		switch g.IntN(4) {
		case 0:
			e.Op, e.Args = pick(g, "neg", "abs"), []*Expr{sub(Int)}
		case 1:
			e.Op, e.Args = "len", []*Expr{sub(String)}
		case 2:
			e.Op, e.Args = "int", []*Expr{sub(Number)}
		default:
			e.Op, e.Args = pick(g, "+", "-", "*", "%", "min", "max"), []*Expr{sub(Int), sub(Int)}
		}
	case Number:
		switch g.IntN(3) {
		case 0:
			e.Op, e.Args = pick(g, "neg", "abs", "floor", "ceil", "round"), []*Expr{sub(Number)}
		case 1:
			e.Op, e.Args = pick(g, "float"), []*Expr{sub(Int)}
		default:
			e.Op, e.Args = pick(g, "+", "-", "*", "/", "min", "max"), []*Expr{sub(Number), numeric()}
		}
	case String:
		switch g.IntN(3) {
		case 0:
			e.Op, e.Args = pick(g, "upper", "lower", "trim"), []*Expr{sub(String)}
		case 1:
			e.Op, e.Args = "string", []*Expr{sub(Int)}
		default:
			e.Op, e.Args = "+", []*Expr{sub(String), sub(String)}
		}
	}
	return e
}

// events returns the events of each partition. A few jump by an hour, a day or a month, many have
// the time of the one before, some are late, some are malformed.
func (g *generator) events() [][]Event {
	parts := make([][]Event, g.p.Partitions)
	unit := map[string]int64{"s": 1_000_000, "ms": 1000, "us": 1}[g.p.Unit]
	keys, now := 1+g.IntN(6), int64(1_750_000_000_000_000)
	n, leaps := 50+g.IntN(150), 60
	if g.one(50) { // enough of the greatest values in a window that a sum of int64 does not hold them
		n, leaps, keys, g.full = 1200+g.IntN(400), 10_000, 1, true
	}
	for range n {
		switch g.IntN(leaps) {
		case 0:
			now += 3600 * 1_000_000
		case 1:
			now += 25 * 3600 * 1_000_000
		case 2:
			now += 31 * 24 * 3600 * 1_000_000
		default:
			now += pick[int64](g, 0, 0, 1000, 500_000, 1_000_000, 5_000_000)
		}
		at := now
		if g.one(5) {
			at -= pick[int64](g, 1_000_000, 5_000_000, 6_000_000, 59_000_000, 61_000_000, 7200_000_000)
		}
		k := g.IntN(keys)
		e := g.event(k, at/unit)
		e.Partition = k % g.p.Partitions
		parts[e.Partition] = append(parts[e.Partition], e)
	}
	return parts
}

var (
	wildNumbers = []string{"1e300", "-1e300", "5e-324", "-5e-324", "2.2e-308", "9007199254740993", "0.1", "-0.3", "1e15", "123456789.123", "0", "-0", "-0.0", "1E2", "90071992547409.92"}
	wildInts    = []string{"0", "-0", "1", "-1", "9007199254740993", "9223372036854775807", "-9223372036854775808", "4611686018427387904"}
	words       = []string{"", "a", "US", "Bé", " x ", "ß", "\U0001f600", "say \"no\"\n", "\u2028", "x y z"}
)

func (g *generator) event(k int, ts int64) Event {
	e := Event{Key: "k" + strconv.Itoa(k)}
	if g.p.Fields[0].Kind == Int {
		e.Key = strconv.Itoa(k)
	}
	var members []string
	for _, f := range g.p.Fields {
		var text string
		switch {
		case f.Name == "k" && f.Kind == Int:
			text = e.Key
		case f.Name == "k":
			text = strconv.Quote(e.Key)
		case f.Name == "ts":
			text = strconv.FormatInt(ts, 10)
		case f.Name == "id":
			text = strconv.Quote("id" + strconv.Itoa(g.IntN(20)))
		default:
			text = g.field(f)
		}
		if f.Optional && g.one(2) {
			if g.one(2) {
				continue
			}
			text = "null"
		}
		members = append(members, strconv.Quote(f.Name)+":"+text)
	}
	g.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	if g.one(25) {
		members = g.breakOne(members, &e)
	}
	e.Value = "{" + strings.Join(members, ",") + "}"
	if g.one(200) {
		e.Value = pick(g, "", "{", "[]", "null", e.Value+"}", strings.Replace(e.Value, ":", ":\xff", 1))
	}
	return e
}

// breakOne makes an event invalid, or gives it a field that only looks valid.
func (g *generator) breakOne(members []string, e *Event) []string {
	i := g.IntN(len(members))
	field, _, _ := strings.Cut(members[i], ":")
	switch g.IntN(8) {
	case 0:
		return append(members[:i], members[i+1:]...)
	case 1:
		members[i] = field + ":null"
	case 2:
		members[i] = field + ":" + pick(g, `"7"`, "true", "[1]", "{}", "1e400", "1.5", "1e2", "-", "01", "92233720368547758080")
	case 3:
		return append(members, members[i])
	case 4:
		e.Key += "x"
	case 5:
		return append(members, fmt.Sprintf(`"extra":{"%s":[1,{"a":null}]}`, strings.Trim(field, `"`)))
	case 6, 7:
		members[i] = `"ts":` + pick(g, "9223372036854775807", "-9223372036854775808", "5000000000000000", "0", "-1")
	}
	return members
}

func (g *generator) field(f Field) string {
	switch {
	case f.Kind == Bool:
		return strconv.FormatBool(g.one(2))
	case f.Kind == Int && f.Wild:
		return pick(g, wildInts...)
	case f.Kind == Int:
		return strconv.Itoa(g.IntN(21) - 10)
	case f.Name == "h" && g.full:
		return pick(g, "9007199.254740992", "9007199.254740992", "9007199.254740992", "-9007199.254740992", "1")
	case f.Name == "h":
		return pick(g, "1e308", "5e307", "1.7e308", "1", "0", "5e-324")
	case f.Kind == Number && f.Wild:
		return pick(g, wildNumbers...)
	case f.Kind == Number:
		return strconv.FormatFloat(float64(g.IntN(1601)-800)/8, 'f', -1, 64)
	}
	text, err := json.Marshal(pick(g, words...))
	if err != nil {
		panic(err)
	}
	return string(text)
}

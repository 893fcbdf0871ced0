package order

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Generate returns the random pipeline of a seed.
func Generate(seed uint64) *Pipeline {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 22)), known: [][]string{{"a", "b"}}}
	g.queues = g.IntN(3) > 0
	g.ordered = g.queues && g.one(2)
	g.careful = g.IntN(4) > 0
	g.strays = g.one(8)
	steps := g.list(3+g.IntN(7), 0, false, nil)
	return &Pipeline{append(steps, Step{Kind: "emit", Name: "out", Uses: []string{"a"}})}
}

type generator struct {
	*rand.Rand
	made    int
	known   [][]string // names that may be read: for each enclosing list of steps, the innermost last
	gone    []string   // names that are out of scope: those of cases and of failure steps
	strays  bool       // steps read names that they do not know: see stray
	queues  bool       // steps may queue events
	ordered bool       // those may be ordered
	careful bool       // few steps are refused
	queued  bool       // a step may queue them
	group   bool       // one is above
}

func (g *generator) one(n int) bool { return g.IntN(n) == 0 }

func (g *generator) name(prefix string) string {
	g.made++
	return fmt.Sprint(prefix, g.made)
}

// read returns one or two names that are known.
func (g *generator) read() []string {
	all := slices.Concat(g.known...)
	pick := func() string {
		if g.one(3) { // the newest are read more often
			return all[len(all)-1]
		}
		return all[g.IntN(len(all))]
	}
	if g.one(2) {
		return []string{pick()}
	}
	return []string{pick(), pick()}
}

// leave ends a list of steps. Its names go out of scope, except those that it introduces for the
// enclosing list.
func (g *generator) leave(common []string) {
	last := len(g.known) - 1
	for _, name := range g.known[last] {
		if !slices.Contains(common, name) {
			g.gone = append(g.gone, name)
		}
	}
	g.known = g.known[:last]
}

// stray returns a step that reads a name out of scope. The compiler refuses it, so no other step
// reads a name that it introduces.
func (g *generator) stray(names []string) Step {
	return Step{Kind: "let", Name: g.name("v"), Uses: []string{g.read()[0], names[g.IntN(len(names))]}, Stray: true}
}

func (g *generator) know(names ...string) {
	last := len(g.known) - 1
	g.known[last] = append(g.known[last], names...)
}

// list returns the steps of a list and, as its last, those that introduce the names that
// it owes: features above wait for them. common is a name that the list introduces for
// the list around it.
func (g *generator) list(n, depth int, async bool, common []string) (steps []Step) {
	owed := slices.Clone(common)
	grouped := g.group
	for range n {
		steps = append(steps, g.step(depth, async, &owed))
	}
	for len(owed) > 0 {
		steps = append(steps, g.makes(owed[0]))
		owed = owed[1:]
	}
	g.group = grouped
	return steps
}

// makes returns a step that introduces a name.
func (g *generator) makes(name string) Step {
	alone := []string{name}
	switch {
	case strings.HasSuffix(name, ".score"):
		return g.score(true, &alone)
	case strings.HasSuffix(name, ".size"):
		return g.fetch(&alone)
	case strings.HasSuffix(name, ".n"):
		return g.lookup(&alone)
	}
	g.know(name)
	return Step{Kind: "let", Name: name, Uses: []string{"a"}, Makes: alone}
}

// take returns a new name, or one that is owed and ends like it: the only one always.
func (g *generator) take(owed *[]string, prefix, suffix string) string {
	i := slices.IndexFunc(*owed, func(name string) bool {
		return strings.HasSuffix(name, suffix) && (suffix != "" || !strings.Contains(name, "."))
	})
	if i < 0 || len(*owed) > 1 && g.one(2) {
		return g.name(prefix)
	}
	name := (*owed)[i]
	*owed = slices.Delete(slices.Clone(*owed), i, i+1)
	return strings.TrimSuffix(name, suffix)
}

// later returns a name that a step below introduces.
func (g *generator) later() string {
	switch g.IntN(6) {
	case 0:
		return g.name("s") + ".score"
	case 1:
		return g.name("l") + ".n"
	case 2:
		if g.queues {
			return g.name("c") + ".size"
		}
	}
	return g.name("w")
}

func (g *generator) step(depth int, async bool, owed *[]string) Step {
	kept := g.keeps()
	if g.strays && len(g.gone) > 0 && g.one(4) {
		return g.stray(g.gone)
	}
	switch r := g.IntN(20); {
	case r < 3:
		return g.let(owed)
	case r < 6 && kept:
		return g.features(owed)
	case r < 8:
		return g.score(async || !kept || g.careful && g.ordered, owed)
	case r == 8 && g.queues:
		return g.fetch(owed)
	case r < 11:
		return g.lookup(owed)
	case r < 13:
		return g.call(kept)
	case r == 13 && g.one(2) && !(g.careful && g.ordered):
		g.group = true
		return Step{Kind: "group", Name: g.name("g"), Uses: []string{"user"}}
	case r < 18 && depth < 2:
		return g.route(depth, async, owed)
	}
	return Step{Kind: "emit", Name: g.name("t"), Uses: g.read(), When: g.one(4)}
}

// keeps reports whether a step may keep something of a key: below a group it is refused, and
// below a step that queues events in any order.
func (g *generator) keeps() bool {
	refused := g.group || g.queued && !g.ordered
	return !refused || !g.careful && g.one(8)
}

// let introduces a name, often one that a feature above waits for.
func (g *generator) let(owed *[]string) Step {
	s := Step{Kind: []string{"let", "let", "decide"}[g.IntN(3)], Uses: g.read(), Name: g.take(owed, "v", "")}
	s.Makes = []string{s.Name}
	g.know(s.Name)
	return s
}

// features returns a step with features. Some of them wait for a name that a step below introduces.
func (g *generator) features(owed *[]string) Step {
	s := Step{Kind: "features"}
	for range 1 + g.IntN(2) {
		f := Feature{Name: g.name("f"), Uses: g.read()}
		switch {
		case len(*owed) > 0 && g.one(4): // two wait for one name
			f.Uses = append(f.Uses, (*owed)[g.IntN(len(*owed))])
		case g.one(3) && !(g.careful && g.queues && !g.ordered):
			later := g.later()
			*owed = append(*owed, later)
			f.Uses = append(f.Uses, later)
		}
		s.Features = append(s.Features, f)
	}
	s.Name = s.Features[0].Name
	if !g.group { // else they are refused
		for _, f := range s.Features {
			g.know(f.Name + ".mean")
		}
	}
	return s
}

func (g *generator) score(async bool, owed *[]string) Step {
	if !async && g.one(8) {
		return g.kept(owed)
	}
	s := Step{Kind: "score", Name: g.take(owed, "s", ".score"), Model: Plain, Uses: []string{g.read()[0], g.read()[0]}, When: g.one(5)}
	g.queued = g.queued || async
	if g.queues && g.one(2) {
		s.Model = []string{Called, Far, Plain}[g.IntN(3)]
		s.Async = s.Model == Plain || g.one(4)
		s.Ordered, g.queued = g.ordered && g.one(2), true
	}
	s.OnFailure = g.failure(s.Name + ".score")
	s.Makes = []string{s.Name + ".score"}
	g.know(s.Makes...)
	return s
}

// kept returns a score by a model with state per key. Below a group the compiler refuses it, so no
// other step reads it.
func (g *generator) kept(owed *[]string) Step {
	if g.group {
		owed = new([]string)
	}
	s := Step{Kind: "score", Name: g.take(owed, "s", ".score"), Model: Kept, Uses: []string{g.read()[0], g.read()[0]}}
	s.OnFailure = g.failure(s.Name + ".score")
	if !g.group {
		s.Makes = []string{s.Name + ".score"}
		g.know(s.Makes...)
	}
	return s
}

func (g *generator) fetch(owed *[]string) Step {
	g.queued = true
	s := Step{Kind: "fetch", Name: g.take(owed, "c", ".size"), Ordered: g.ordered && g.one(2)}
	s.OnFailure = g.failure(s.Name + ".size")
	s.Makes = []string{s.Name + ".size"}
	g.know(s.Makes...)
	return s
}

func (g *generator) lookup(owed *[]string) Step {
	s := Step{Kind: "lookup", Name: g.take(owed, "l", ".n"), Uses: g.read(), When: g.one(4)}
	if g.queues && g.one(2) {
		g.queued = true
		s.Outside, s.Async, s.Ordered = true, g.one(3), g.ordered && g.one(2)
	}
	s.Makes = []string{s.Name + ".n"}
	g.know(s.Makes...)
	return s
}

func (g *generator) call(kept bool) Step {
	s := Step{Kind: "call", Name: g.name("fn"), Uses: g.read(), Keyed: kept && g.one(3)}
	if !s.Keyed || !g.group {
		s.Makes = []string{g.name("o")}
		g.know(s.Makes...)
	}
	return s
}

// failure returns the steps for an event that a step gives up, or nil. Such an event does not have
// the name that the step makes.
func (g *generator) failure(makes string) (steps []Step) {
	if !g.one(3) {
		return nil
	}
	g.known = append(g.known, nil)
	for range 1 + g.IntN(3) {
		switch g.IntN(3) {
		case 0:
			if g.strays && g.one(2) {
				steps = append(steps, g.stray(append(slices.Clone(g.gone), makes)))
				continue
			}
			steps = append(steps, g.let(new([]string)))
		case 1:
			steps = append(steps, g.call(g.keeps()))
		default:
			steps = append(steps, Step{Kind: "emit", Name: g.name("t"), Uses: g.read()})
		}
	}
	g.leave(nil)
	return steps
}

// route returns a route. Some routes introduce a name in all of their cases. It is then known below
// the route, and a feature above may wait for it.
func (g *generator) route(depth int, async bool, owed *[]string) Step {
	s := Step{Kind: "route"}
	switch {
	case len(*owed) > 0 && g.one(3):
		s.Makes = []string{g.take(owed, "r", "")}
	case g.one(3):
		s.Makes = []string{g.name("r")}
	}
	ways := 1 + g.IntN(3)
	for range ways {
		s.Cases = append(s.Cases, Case{Name: g.name("c"), Uses: g.read(), Async: g.queues && g.one(6)})
	}
	for i := range s.Cases {
		way := &s.Cases[i]
		g.known = append(g.known, nil)
		way.Steps = g.list(1+g.IntN(4), depth+1, async || way.Async, s.Makes)
		if ways == 1 { // all events that go on have its names
			s.Makes = slices.Clone(g.known[len(g.known)-1])
		}
		g.leave(s.Makes)
	}
	s.Name = s.Cases[0].Name
	g.know(s.Makes...)
	return s
}

package compile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/task/operator"
)

// TestScheduleIsThatOfTheRule compares the order of random nodes with one that is made
// stage by stage: what stands, and where the waves begin, is looked at for each node.
func TestScheduleIsThatOfTheRule(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	groups, misplaced := 0, 0
	for range 20_000 {
		nodes := randomNodes(rng)
		order, waves, at := schedule(nodes)
		want, from, below := naiveSchedule(nodes)
		if at != below || at < 0 && (!slices.Equal(order, want) || waves != from) {
			t.Fatalf("%s:\n got %v, waves from %d, misplaced %d\nwant %v, %d, %d", drawn(nodes), order, waves, at, want, from, below)
		}
		if at >= 0 {
			misplaced++
		}
		if slices.ContainsFunc(nodes, func(n node) bool { return isA[*operator.Group](n) }) {
			groups++
		}
	}
	if groups < 1000 || misplaced < 1000 || groups-misplaced < 1000 {
		t.Errorf("%d have a group, of which %d are misplaced: too few of one", groups, misplaced)
	}
}

func randomNodes(rng *rand.Rand) (nodes []node) {
	guards := []*operator.Guard{{Case: 0}, {Case: 1}, {Case: 2}}
	around := [][]*operator.Guard{nil, {guards[0]}, {guards[1]}, {guards[0], guards[2]}}
	for range 1 + rng.IntN(8) {
		n := node{guards: around[rng.IntN(len(around))], waves: rng.IntN(6) == 0}
		switch rng.IntN(8) {
		case 0:
			n.op = &operator.Group{}
		case 1:
			n.op = &operator.Emit{}
		case 2, 3:
			for range 1 + rng.IntN(3) {
				m := &madeFeature{}
				if rng.IntN(2) == 0 {
					m.waitsFor = []string{"later"}
				}
				n.features = append(n.features, m)
			}
			n.waves = n.waves && !n.reads()
		case 4:
			n.writes, n.waves = []*madeFeature{{waitsFor: []string{"later"}}}, true
		case 5:
			n.op, n.waves = &operator.Score{}, true
		default:
			n.op = &operator.Let{Kind: "let"}
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func isA[T operator.Operator](n node) bool {
	_, is := n.op.(T)
	return is
}

func drawn(nodes []node) (text string) {
	for i, n := range nodes {
		text += fmt.Sprintf("%d: op %T waves %t guards %d writes %d features", i, n.op, n.waves, len(n.guards), len(n.writes))
		for _, m := range n.features {
			text += fmt.Sprint(" ", m.waitsFor)
		}
		text += "\n"
	}
	return text
}

// naiveSchedule keeps one list of stages. The waves begin at from, -1 for not yet.
func naiveSchedule(nodes []node) (list []placed, from, misplaced int) {
	from = -1
	var reads []placed
	for i := range nodes {
		n := &nodes[i]
		if n.waves && from < 0 {
			from, list = len(list), append(list, reads...)
		}
		if n.features != nil && from < 0 {
			for k, m := range n.features {
				if m.waitsFor != nil {
					reads = append(reads, placed{i, k})
				}
			}
			if n.reads() {
				continue
			}
		}
		if !isA[*operator.Group](*n) || from < 0 {
			list = append(list, placed{i, -1})
			continue
		}
		for at := from; at < len(list); at++ {
			above := &nodes[list[at].node]
			onTheWay := len(above.guards) == 0 || slices.Contains(n.guards, above.guards[len(above.guards)-1])
			if list[at].read >= 0 || above.features != nil && above.reads() || !onTheWay {
				continue
			}
			if above.waves || above.features != nil || above.writes != nil || isA[*operator.Emit](*above) || isA[*operator.Call](*above) {
				return nil, 0, list[at].node
			}
			moved := list[at]
			list = slices.Insert(slices.Delete(list, at, at+1), from, moved)
			from++
		}
		list = slices.Insert(list, from, placed{i, -1})
		from++
	}
	if from < 0 {
		from = len(list)
	}
	return list, from, -1
}

// TestGroupBelowARouteThatIsFedBackIsRefused has a route read a feature that is known
// only in the waves: a group below it would collect the events before that.
func TestGroupBelowARouteThatIsFedBackIsRefused(t *testing.T) {
	p := lang.Pipeline{
		Name:  "p",
		Input: lang.Input{Topic: "in", Key: "user", Fields: []lang.Field{{Name: "user", Type: "string"}, {Name: "n", Type: "number"}}},
		Steps: []lang.Step{
			&lang.Features{List: []lang.Feature{{Name: "past", Value: "twice", Last: 3, Aggregates: []string{"mean"}}}},
			&lang.Route{Cases: []lang.Case{
				{Name: "high", When: "past.mean > 1.0", Steps: []lang.Step{&lang.Group{Name: "all", By: "user", Idle: time.Second}, &lang.Emit{Topic: "out", Names: []string{"all.count"}}}},
				{Name: "default", Then: "drop"},
			}},
			&lang.Let{List: []lang.Binding{{Name: "twice", Expr: "n * 2.0"}}},
		},
	}
	_, err := Compile(p, Options{})
	if want := "steps[1].route.high.steps[0].group: below route: a group is made of events in log order"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Fatalf("%v, want %s", err, want)
	}
	p.Steps[1].(*lang.Route).Cases[0].When = "n > 1.0"
	if _, err := Compile(p, Options{}); err != nil {
		t.Fatal(err)
	}
}

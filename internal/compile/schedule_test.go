package compile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/lang"
	"github.com/afterbay/afterbay/internal/lang/steps"
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
		order, waves, at := scheduled(nodes)
		want, from, below := naiveSchedule(nodes)
		if at != below || at < 0 && (!slices.Equal(order, want) || waves != from) {
			t.Fatalf("%s:\n got %v, waves from %d, misplaced %d\nwant %v, %d, %d", drawn(nodes), order, waves, at, want, from, below)
		}
		if at >= 0 {
			misplaced++
		}
		if slices.ContainsFunc(nodes, func(n lang.Node) bool { return n.Place().Log }) {
			groups++
		}
	}
	if groups < 1000 || misplaced < 1000 || groups-misplaced < 1000 {
		t.Errorf("%d have a group, of which %d are misplaced: too few of one", groups, misplaced)
	}
}

func randomNodes(rng *rand.Rand) (nodes []lang.Node) {
	guards := []*operator.Guard{{Case: 0}, {Case: 1}, {Case: 2}}
	around := [][]*operator.Guard{nil, {guards[0]}, {guards[1]}, {guards[0], guards[2]}}
	for range 1 + rng.IntN(8) {
		place := lang.Place{Waves: rng.IntN(6) == 0}
		switch rng.IntN(8) {
		case 0:
			place.Log = true
		case 1:
			place.Adds = true
		case 2, 3:
			place.Adds = true
			for k := range 1 + rng.IntN(3) {
				if rng.IntN(2) == 0 {
					place.Reads = append(place.Reads, k)
				} else {
					place.Rest = true
				}
			}
			place.Waves = place.Waves && place.Rest
		case 4:
			place.Adds, place.Waves = true, true
		case 5:
			place.Waves = true
		}
		nodes = append(nodes, lang.Node{Bound: lang.Ready(nil, place), Guards: around[rng.IntN(len(around))]})
	}
	return nodes
}

func drawn(nodes []lang.Node) (text string) {
	for i, n := range nodes {
		text += fmt.Sprintf("%d: %+v guards %d\n", i, n.Place(), len(n.Guards))
	}
	return text
}

// naiveSchedule keeps one list of stages. The waves begin at from, -1 for not yet.
func naiveSchedule(nodes []lang.Node) (list []placed, from, misplaced int) {
	from = -1
	var reads []placed
	for i := range nodes {
		n := nodes[i].Place()
		if n.Waves && from < 0 {
			from, list = len(list), append(list, reads...)
		}
		if from < 0 {
			for _, k := range n.Reads {
				reads = append(reads, placed{i, k})
			}
			if len(n.Reads) > 0 && !n.Rest {
				continue
			}
		}
		if !n.Log || from < 0 {
			list = append(list, placed{i, -1})
			continue
		}
		for at := from; at < len(list); at++ {
			above, of := nodes[list[at].node], nodes[list[at].node].Place()
			onTheWay := len(above.Guards) == 0 || slices.Contains(nodes[i].Guards, above.Guards[len(above.Guards)-1])
			if list[at].read >= 0 || len(of.Reads) > 0 && !of.Rest || !onTheWay {
				continue
			}
			if of.Waves || of.Adds {
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
			&steps.Features{List: []steps.Feature{{Name: "past", Value: "twice", Last: 3, Aggregates: []string{"mean"}}}},
			&steps.Route{Cases: []lang.Case{
				{Name: "high", When: "past.mean > 1.0", Steps: []lang.Step{&steps.Group{Name: "all", By: "user", Idle: time.Second}, &steps.Emit{Topic: "out", Names: []string{"all.count"}}}},
				{Name: "default", Then: "drop"},
			}},
			&steps.Let{List: []lang.Binding{{Name: "twice", Expr: "n * 2.0"}}},
		},
	}
	_, err := Compile(p, Options{})
	if want := "steps[1].route.high.steps[0].group: below route: a group reads events in log order"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Fatalf("%v, want %s", err, want)
	}
	p.Steps[1].(*steps.Route).Cases[0].When = "n > 1.0"
	if _, err := Compile(p, Options{}); err != nil {
		t.Fatal(err)
	}
}

package kafka

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// fakeMember is a member of a group that has no brokers.
type fakeMember struct {
	id, process string
	standbys    int
	plain       bool // of a version without standings
	owned       map[int32]bool
	duty        []int32
}

// fakeGroup is a group that reads topic in, and the copies that processes have.
type fakeGroup struct {
	*testing.T
	partitions int32
	generation int32
	members    []*fakeMember
	copies     map[string]map[int32]int64 // by process
	moved      int                        // partitions that were given up
}

// rebalance does what the brokers, the leader and the members do, until nobody
// has to give up anything.
func (g *fakeGroup) rebalance() {
	g.Helper()
	for rounds := 1; g.round(); rounds++ {
		if rounds > 3 {
			g.Fatalf("the group does not come to rest: %v", g.owners())
		}
	}
}

func (g *fakeGroup) round() (again bool) {
	g.Helper()
	g.generation++
	var members []kmsg.JoinGroupResponseMember
	for _, m := range g.members {
		r := kmsg.NewJoinGroupResponseMember()
		r.MemberID = m.id
		r.ProtocolMetadata = kgo.CooperativeStickyBalancer().JoinGroupMetadata([]string{"in"}, map[string][]int32{"in": slices.Sorted(maps.Keys(m.owned))}, g.generation-1)
		if !m.plain {
			r.ProtocolMetadata = standing{m.process, m.standbys, map[string]map[int32]int64{"in": g.copies[m.process]}}.added(r.ProtocolMetadata)
		}
		members = append(members, r)
	}
	slices.SortFunc(members, func(a, b kmsg.JoinGroupResponseMember) int { return strings.Compare(a.MemberID, b.MemberID) })
	given := g.plan(members)
	before := g.owners()
	for _, m := range g.members {
		for _, p := range given[m.id].Topics[0].Partitions {
			if o := before[p]; o != nil && o != m {
				g.Fatalf("partition %d is given to %s before %s gave it up", p, m.id, o.id)
			}
		}
		now := given[m.id]
		for p := range m.owned {
			if !slices.Contains(now.Topics[0].Partitions, p) {
				g.moved++
				again = true
			}
		}
	}
	for _, m := range g.members {
		m.owned, m.duty = map[int32]bool{}, nil
		now := given[m.id]
		for _, t := range now.Topics {
			for _, p := range t.Partitions {
				m.owned[p] = true
			}
		}
		var d duty
		if len(now.UserData) > 0 {
			if err := json.Unmarshal(now.UserData, &d); err != nil {
				g.Fatal(err)
			}
		}
		m.duty = d["in"]
	}
	return again
}

// plan is the leader's, who plans the same each time.
func (g *fakeGroup) plan(members []kmsg.JoinGroupResponseMember) map[string]kmsg.ConsumerMemberAssignment {
	g.Helper()
	var first []kmsg.SyncGroupRequestGroupAssignment
	for range 2 {
		b := &balancer{GroupBalancer: kgo.CooperativeStickyBalancer()}
		planner, _, err := b.MemberBalancer(slices.Clone(members))
		if err != nil {
			g.Fatal(err)
		}
		plan, err := planner.(kgo.GroupMemberBalancerOrError).BalanceOrError(map[string]int32{"in": g.partitions})
		if err != nil {
			g.Fatal(err)
		}
		list := plan.IntoSyncAssignment()
		if first != nil {
			if !reflect.DeepEqual(first, list) {
				g.Fatalf("the leader plans something else: %v, %v", first, list)
			}
		}
		first = list
	}
	given := map[string]kmsg.ConsumerMemberAssignment{}
	for _, a := range first {
		var parsed kmsg.ConsumerMemberAssignment
		if err := parsed.ReadFrom(a.MemberAssignment); err != nil {
			g.Fatal(err)
		}
		if len(parsed.Topics) == 0 {
			parsed.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: "in"}}
		}
		given[a.MemberID] = parsed
	}
	return given
}

func (g *fakeGroup) owners() map[int32]*fakeMember {
	owners := map[int32]*fakeMember{}
	for _, m := range g.members {
		for p := range m.owned {
			if owners[p] != nil {
				g.Fatalf("partition %d has two owners", p)
			}
			owners[p] = m
		}
	}
	return owners
}

// check checks that everything is owned, evenly, and has its standbys.
func (g *fakeGroup) check() {
	g.Helper()
	owners := g.owners()
	if len(owners) != int(g.partitions) {
		g.Fatalf("%d partitions of %d are owned", len(owners), g.partitions)
	}
	least, most := g.partitions, int32(0)
	wanted, processes := 0, map[string]bool{}
	for _, m := range g.members {
		least, most = min(least, int32(len(m.owned))), max(most, int32(len(m.owned)))
		if m.plain {
			continue
		}
		if wanted = max(wanted, m.standbys); m.standbys > 0 {
			processes[m.process] = true
		}
	}
	if most-least > 1 {
		g.Fatalf("members own %d to %d partitions", least, most)
	}
	standbys := map[int32]map[string]bool{}
	for _, m := range g.members {
		for _, p := range m.duty {
			if standbys[p] == nil {
				standbys[p] = map[string]bool{}
			}
			if owners[p].process == m.process || standbys[p][m.process] || m.standbys == 0 || m.plain {
				g.Fatalf("%s is standby of %d of %s; there are %v", m.id, p, owners[p].id, standbys[p])
			}
			standbys[p][m.process] = true
		}
	}
	for p, owner := range owners {
		others := len(processes)
		if processes[owner.process] {
			others--
		}
		if len(standbys[p]) != min(wanted, others) {
			g.Fatalf("partition %d of %s has standbys %v, want %d", p, owner.id, standbys[p], min(wanted, others))
		}
	}
}

// warm lets owners write and standbys follow.
func (g *fakeGroup) warm(to int64) {
	for _, m := range g.members {
		if g.copies[m.process] == nil {
			g.copies[m.process] = map[int32]int64{}
		}
		for p := range m.owned {
			g.copies[m.process][p] = to
		}
		for _, p := range m.duty {
			g.copies[m.process][p] = to - 1
		}
	}
}

// Members come and go, in processes of one or two; at rest the group is even,
// each partition has its owner and its standbys, and moves are no more than it
// takes.
func TestGroupsComeToRestEvenlyWithStandbys(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 60 {
		g := &fakeGroup{T: t, partitions: 1 + rng.Int32N(30), copies: map[string]map[int32]int64{}}
		wanted := rng.IntN(3)
		for i := range 12 {
			if len(g.members) < 2 || rng.IntN(2) == 0 {
				process := fmt.Sprint("p", rng.IntN(5))
				for range 1 + rng.IntN(2) {
					g.members = append(g.members, &fakeMember{id: fmt.Sprint("m", i, "-", rng.Uint32()), process: process, standbys: wanted})
				}
			} else {
				process := g.members[rng.IntN(len(g.members))].process
				g.members = slices.DeleteFunc(g.members, func(m *fakeMember) bool { return m.process == process })
			}
			if len(g.members) == 0 {
				continue
			}
			g.rebalance()
			g.check()
			g.warm(int64(10 * (i + 1)))
			moved := g.moved
			g.rebalance()
			g.check()
			if g.moved != moved {
				t.Fatalf("%d partitions moved although nobody came or went", g.moved-moved)
			}
		}
	}
}

// Versions without standings take part, and so do members that want no copies.
func TestMembersOfOtherVersionsShareAGroup(t *testing.T) {
	g := &fakeGroup{T: t, partitions: 10, copies: map[string]map[int32]int64{}}
	g.members = []*fakeMember{
		{id: "a", process: "a", standbys: 1}, {id: "b", process: "b", plain: true}, {id: "c", process: "c"}, {id: "d", process: "d", standbys: 1},
	}
	g.rebalance()
	g.check()
	g.warm(10)
	g.members = g.members[1:]
	g.rebalance()
	g.check()
}

// Who dies is followed by who has its state: one member may have all of it, up to
// an even share, and the standbys of one owner are spread.
func TestPartitionsOfTheDeadGoToTheirStandbys(t *testing.T) {
	for _, standbys := range []int{1, 2} {
		g := &fakeGroup{T: t, partitions: 12, copies: map[string]map[int32]int64{}}
		for _, id := range []string{"a", "b", "c", "d"} {
			g.members = append(g.members, &fakeMember{id: id, process: id, standbys: standbys})
		}
		g.rebalance()
		g.warm(100)
		dead := g.members[2]
		g.members = slices.Delete(g.members, 2, 3)
		g.rebalance()
		g.check()
		owners := g.owners()
		for p := range dead.owned {
			if to := owners[p]; g.copies[to.process][p] != 99 {
				t.Errorf("%d standbys: partition %d went to %s, which has %v", standbys, p, to.id, g.copies[to.process])
			}
		}
		if g.moved > 0 {
			t.Errorf("%d other partitions moved", g.moved)
		}
		// It comes back with what it had: that is what it gets.
		g.warm(200)
		dead.owned = nil
		g.members = append(g.members, dead)
		g.rebalance()
		g.check()
		for p := range dead.owned {
			if g.copies[dead.process][p] == 0 {
				t.Errorf("partition %d went to a process that has nothing of it", p)
			}
		}
		if len(dead.owned) != 3 || g.moved != 3 {
			t.Errorf("%v after %d moves", dead.owned, g.moved)
		}
	}
}

// What other programs put where standings are is no standing.
func TestStandingsOfOthersAreNone(t *testing.T) {
	whole := standing{Process: "p", Standbys: 1, Copies: map[string]map[int32]int64{"in": {3: 7}}}
	meta := kmsg.NewConsumerMemberMetadata()
	if err := meta.ReadFrom(whole.added(kgo.CooperativeStickyBalancer().JoinGroupMetadata([]string{"in"}, nil, 1))); err != nil {
		t.Fatal(err)
	}
	data := meta.UserData
	if got := standingOf("m", data); got.copied(stream.Partition{Topic: "in", Index: 3}) != 7 || got.Process != "p" {
		t.Fatalf("%+v", got)
	}
	for _, bad := range [][]byte{nil, {}, []byte("x"), []byte(standingMark), append([]byte{255, 255, 255, 255}, standingMark...), append([]byte{0, 0, 0, 0}, standingMark...), data[1 : len(data)-1], data[:len(data)-len(standingMark)]} {
		if got := standingOf("m", bad); got.Process != "m" || got.Standbys != 0 || got.Copies != nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

package kafka

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// balancer is the client library's cooperative-sticky balancer. In addition, the leader knows how
// much of each state each process has:
//
//  1. Each member reports in a standing what its process has.
//  2. An unowned partition goes to the member that has most of its changelog. A
//     partition that must move goes to a member that has some of it. The balance
//     stays as even as before. The library plans the rest.
//  3. Some other processes become standbys of each partition: first those that
//     have a copy, then those with the fewest copies. The leader sends each
//     member its duty with the assignment.
//
// Standings and duties use the user-data fields of the protocol, so members of older versions can
// be in the same group. An older leader sends no duties, and an older member takes none.
type balancer struct {
	kgo.GroupBalancer
	member *member
}

// standing is the report of a member about its process.
type standing struct {
	Process  string                     `json:"process"`
	Standbys int                        `json:"standbys,omitempty"` // wanted standbys per partition; with 0 the process is not a standby itself
	Copies   map[string]map[int32]int64 `json:"copies,omitempty"`   // by topic and partition: the changelog offset of the copy
}

// duty lists the partitions that a member is a standby of, by topic.
type duty map[string][]int32

// standingMark ends the user data of a member with a standing. The standing and its length come
// before it.
const standingMark = "afterbay"

// JoinGroupMetadata implements kgo.GroupBalancer.
func (b *balancer) JoinGroupMetadata(topics []string, current map[string][]int32, generation int32) []byte {
	b.member.joins()
	l := b.member.log
	return standing{l.store.id, l.opts.Standbys, l.store.copies(b.member.group)}.added(b.GroupBalancer.JoinGroupMetadata(topics, current, generation))
}

// added returns the metadata of a member with the standing added.
func (s standing) added(plain []byte) []byte {
	meta := kmsg.NewConsumerMemberMetadata()
	text, err := json.Marshal(s)
	if err != nil || meta.ReadFrom(plain) != nil {
		return plain
	}
	data := append(meta.UserData, text...)
	data = binary.BigEndian.AppendUint32(data, uint32(len(text)))
	meta.UserData = append(data, standingMark...)
	return meta.AppendTo(nil)
}

// standingOf decodes the standing of a member. A member without one has no copies and counts as a
// separate process.
func standingOf(id string, data []byte) (s standing) {
	s.Process = id
	rest, ok := strings.CutSuffix(string(data), standingMark)
	if n := len(rest) - 4; ok && n >= 0 {
		if size := int(binary.BigEndian.Uint32([]byte(rest[n:]))); size <= n {
			_ = json.Unmarshal([]byte(rest[n-size:n]), &s) // another version may add fields, which are ignored
		}
	}
	return s
}

// ParseSyncAssignment implements kgo.GroupBalancer.
func (b *balancer) ParseSyncAssignment(assignment []byte) (map[string][]int32, error) {
	var given kmsg.ConsumerMemberAssignment
	var d duty
	if given.ReadFrom(assignment) == nil && len(given.UserData) > 0 {
		_ = json.Unmarshal(given.UserData, &d)
	}
	b.member.standbys.set(d)
	return b.GroupBalancer.ParseSyncAssignment(assignment)
}

// MemberBalancer implements kgo.GroupBalancer.
func (b *balancer) MemberBalancer(members []kmsg.JoinGroupResponseMember) (kgo.GroupMemberBalancer, map[string]struct{}, error) {
	c, err := kgo.NewConsumerBalancer(b, members)
	return c, c.MemberTopics(), err
}

// Balance implements kgo.ConsumerBalancerBalance.
func (*balancer) Balance(c *kgo.ConsumerBalancer, topics map[string]int32) kgo.IntoSyncAssignment {
	g := newPlanning(c, topics)
	if g.alike {
		g.settle()
	}
	plan, err := g.balance(topics)
	if err != nil {
		c.SetError(err)
		return nil
	}
	owners := map[stream.Partition]string{} // after the rebalance has finished
	for id, topics := range plan.AsMemberIDMap() {
		for topic, indexes := range topics {
			for _, index := range indexes {
				owners[stream.Partition{Topic: topic, Index: index}] = id
			}
		}
	}
	plan.AdjustCooperative(c)
	return &assignment{plan, g.duties(owners)}
}

// assignment is a plan with duties.
type assignment struct {
	*kgo.BalancePlan
	duties map[string]duty // by member
}

// IntoSyncAssignment implements kgo.IntoSyncAssignment.
func (a *assignment) IntoSyncAssignment() []kmsg.SyncGroupRequestGroupAssignment {
	list := a.BalancePlan.IntoSyncAssignment()
	for i := range list {
		d := a.duties[list[i].MemberID]
		var given kmsg.ConsumerMemberAssignment
		if len(d) == 0 || given.ReadFrom(list[i].MemberAssignment) != nil {
			continue
		}
		given.UserData, _ = json.Marshal(d) // cannot fail: it holds only strings and numbers
		list[i].MemberAssignment = given.AppendTo(nil)
	}
	return list
}

// planning is the leader's view of a group.
type planning struct {
	members    []*seat // in the order of the library
	partitions []stream.Partition
	owner      map[stream.Partition]*seat // by the claim with the newest generation
	alike      bool                       // all members read the same topics
}

// seat is a member in the plan.
type seat struct {
	standing
	kmsg.JoinGroupResponseMember
	topics     []string
	generation int32
	claims     map[stream.Partition]bool
	count      int // number of owned partitions
	duties     int
}

func newPlanning(c *kgo.ConsumerBalancer, topics map[string]int32) *planning {
	g := &planning{owner: map[stream.Partition]*seat{}, alike: true}
	c.EachMember(func(m *kmsg.JoinGroupResponseMember, meta *kmsg.ConsumerMemberMetadata) {
		s := &seat{standing: standingOf(m.MemberID, meta.UserData), JoinGroupResponseMember: *m, topics: meta.Topics, generation: meta.Generation, claims: map[stream.Partition]bool{}}
		g.members = append(g.members, s)
		g.alike = g.alike && slices.Equal(s.topics, g.members[0].topics)
		for _, t := range meta.OwnedPartitions {
			for _, index := range t.Partitions {
				p := stream.Partition{Topic: t.Topic, Index: index}
				if index < 0 || index >= topics[t.Topic] {
					continue
				}
				s.claims[p] = true
				if o := g.owner[p]; o == nil || o.generation < s.generation {
					g.owner[p] = s
				}
			}
		}
	})
	for _, s := range g.owner {
		s.count++
	}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		for index := range topics[topic] {
			g.partitions = append(g.partitions, stream.Partition{Topic: topic, Index: index})
		}
	}
	return g
}

// settle gives partitions to members that have copies of their states, as far as an even balance
// allows.
func (g *planning) settle() {
	orphans := 0
	var given []stream.Partition
	for _, p := range g.partitions {
		if g.owner[p] != nil {
			continue
		}
		s := g.warmest(p, g.room)
		if s == nil {
			s = g.shift(p, given)
		}
		if s != nil {
			g.give(p, s)
			given = append(given, p)
		} else {
			orphans++
		}
	}
	for orphans == 0 && g.swap() {
	}
}

// shift frees a place for p at a member that has a copy of p. It moves a partition that settle gave
// to that member to a third member with a copy of it. It returns the first member, or nil.
func (g *planning) shift(p stream.Partition, given []stream.Partition) *seat {
	for _, q := range given {
		if s := g.owner[q]; s.copied(p) > 0 {
			if other := g.warmest(q, g.room); other != nil {
				g.give(q, other)
				return s
			}
		}
	}
	return nil
}

// swap moves a partition from the most loaded member to an underloaded member that already has a
// copy of it. Otherwise the library would move an arbitrary partition there.
func (g *planning) swap() bool {
	least := len(g.partitions) / len(g.members)
	most := slices.MaxFunc(g.members, func(a, b *seat) int { return cmp.Compare(a.count, b.count) }).count
	var best *seat
	var moving stream.Partition
	for _, p := range g.partitions {
		if g.owner[p].count < most || most <= least {
			continue
		}
		s := g.warmest(p, func(s *seat) bool { return s.count < least })
		if s != nil && (best == nil || s.copied(p) > best.copied(moving)) {
			best, moving = s, p
		}
	}
	if best != nil {
		g.give(moving, best)
	}
	return best != nil
}

// room reports whether a member may own one more partition in an even balance. If the numbers do
// not divide evenly, some members own one more than the others.
func (g *planning) room(s *seat) bool {
	least, more := len(g.partitions)/len(g.members), len(g.partitions)%len(g.members)
	for _, other := range g.members {
		if other.count > least {
			more--
		}
	}
	return s.count < least || s.count == least && more > 0
}

// warmest returns the member with the most complete copy of p among those that may accepts. It
// returns nil if none of them has a copy.
func (g *planning) warmest(p stream.Partition, may func(*seat) bool) *seat {
	var best *seat
	for _, s := range g.members {
		if s.copied(p) > 0 && may(s) && (best == nil || cmp.Or(cmp.Compare(s.copied(p), best.copied(p)), cmp.Compare(best.count, s.count)) > 0) {
			best = s
		}
	}
	return best
}

// copied returns the changelog offset of the process's copy of p, or 0 if it has none.
func (s *standing) copied(p stream.Partition) int64 { return s.Copies[p.Topic][p.Index] }

func (g *planning) give(p stream.Partition, s *seat) {
	if o := g.owner[p]; o != nil {
		delete(o.claims, p)
		o.count--
	}
	g.owner[p] = s
	s.claims[p] = true
	s.count++
}

// balance lets the library plan from the claims of the members, including the partitions that
// settle gave. The eager balancer makes the same plan, but ignores that a member must give up a
// partition before another may own it.
func (g *planning) balance(topics map[string]int32) (*kgo.BalancePlan, error) {
	members := make([]kmsg.JoinGroupResponseMember, len(g.members))
	for i, s := range g.members {
		claims := kmsg.NewStickyMemberMetadata()
		claims.Generation = s.generation
		byTopic := duty{}
		for p := range s.claims {
			byTopic[p.Topic] = append(byTopic[p.Topic], p.Index)
		}
		for _, topic := range slices.Sorted(maps.Keys(byTopic)) {
			t := kmsg.NewStickyMemberMetadataCurrentAssignment()
			t.Topic, t.Partitions = topic, slices.Sorted(slices.Values(byTopic[topic]))
			claims.CurrentAssignment = append(claims.CurrentAssignment, t)
		}
		meta := kmsg.NewConsumerMemberMetadata()
		meta.Topics, meta.UserData = s.topics, claims.AppendTo(nil)
		members[i] = s.JoinGroupResponseMember
		members[i].ProtocolMetadata = meta.AppendTo(nil)
	}
	b, _, err := kgo.StickyBalancer().MemberBalancer(members)
	if err != nil {
		return nil, err
	}
	plan, err := b.(*kgo.ConsumerBalancer).BalanceOrError(topics)
	if err != nil {
		return nil, err
	}
	return plan.(*kgo.BalancePlan), nil
}

// duties chooses the standbys of each partition among the processes that do not own it. Processes
// that already hold a copy keep it, up to an even share. Remaining copies go to the processes with
// the fewest copies from the same owner. So if an owner dies, its partitions go to many processes.
func (g *planning) duties(owners map[stream.Partition]string) map[string]duty {
	p := &posting{byProcess: map[string][]*seat{}, load: map[string]int{}, shared: map[[2]string]int{}, duties: map[string]duty{}}
	process := map[string]string{} // by member id
	for _, s := range g.members {
		process[s.MemberID] = s.Process
		if s.Standbys > 0 {
			p.byProcess[s.Process] = append(p.byProcess[s.Process], s)
			p.wanted = max(p.wanted, s.Standbys)
		}
	}
	if len(p.byProcess) == 0 {
		return nil
	}
	most := (len(g.partitions)*p.wanted + len(p.byProcess) - 1) / len(p.byProcess)
	has := make([][]string, len(g.partitions)) // processes, by partition
	for pass := range 2 {
		for i, partition := range g.partitions {
			owner := process[owners[partition]]
			fit := func(name string) bool {
				return name != owner && !slices.Contains(has[i], name) &&
					(pass > 0 || p.byProcess[name][0].copied(partition) > 0 && p.load[name] < most)
			}
			for len(has[i]) < p.wanted {
				name, ok := p.next(owner, fit, func(name string) int64 {
					if pass > 0 { // processes with a copy already have their share
						return 0
					}
					return p.byProcess[name][0].copied(partition)
				})
				if !ok {
					break
				}
				has[i] = append(has[i], name)
				p.post(owner, name, partition)
			}
		}
	}
	return p.duties
}

// posting is the state of duties while it assigns standbys.
type posting struct {
	wanted    int                // standbys per partition
	byProcess map[string][]*seat // members that take duties
	load      map[string]int     // number of duties, by process
	shared    map[[2]string]int  // number of duties, by owner and standby
	duties    map[string]duty
}

// next returns the best process among those that fit accepts.
func (p *posting) next(owner string, fit func(string) bool, copied func(string) int64) (best string, ok bool) {
	for _, name := range slices.Sorted(maps.Keys(p.byProcess)) {
		if !fit(name) {
			continue
		}
		if !ok || cmp.Or(cmp.Compare(copied(best), copied(name)), cmp.Compare(p.shared[[2]string{owner, name}], p.shared[[2]string{owner, best}]), cmp.Compare(p.load[name], p.load[best])) < 0 {
			best, ok = name, true
		}
	}
	return best, ok
}

// post gives a duty to a process. Its member with the fewest duties takes it.
func (p *posting) post(owner, name string, partition stream.Partition) {
	p.load[name]++
	p.shared[[2]string{owner, name}]++
	s := slices.MinFunc(p.byProcess[name], func(a, b *seat) int { return cmp.Compare(a.duties, b.duties) })
	s.duties++
	d := p.duties[s.MemberID]
	if d == nil {
		d = duty{}
		p.duties[s.MemberID] = d
	}
	d[partition.Topic] = append(d[partition.Topic], partition.Index)
}

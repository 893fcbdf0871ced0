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

// balancer is the client library's cooperative-sticky balancer, whose leader
// knows besides which process has how much of which state:
//
//  1. Each member says in a standing what its process has.
//  2. A partition that nobody owns goes to who has most of its changelog, and
//     one that has to move to who has any, as far as the balance is as even as
//     ever. The library does the rest.
//  3. Some other processes are to be standbys of each partition: those that have
//     a copy, else those with the fewest. Members learn it in a duty, which comes
//     with their assignment.
//
// Standings and duties are where the protocol has room for data of users, so
// members of versions without them are in the same group: a leader of such gives
// no duties, and a member of such has none.
type balancer struct {
	kgo.GroupBalancer
	member *member
}

// standing is what a member says of its process.
type standing struct {
	Process  string                     `json:"process"`
	Standbys int                        `json:"standbys,omitempty"` // it wants of each partition; with 0 it is none
	Copies   map[string]map[int32]int64 `json:"copies,omitempty"`   // by topic and partition: the offset in the changelog that each has
}

// duty is the partitions that a member is standby of, by topic.
type duty map[string][]int32

// standingMark ends the data of a member that has a standing: before it come the
// standing's length and the standing.
const standingMark = "afterbay"

// JoinGroupMetadata implements kgo.GroupBalancer.
func (b *balancer) JoinGroupMetadata(topics []string, current map[string][]int32, generation int32) []byte {
	b.member.joins()
	l := b.member.log
	return standing{l.store.id, l.opts.Standbys, l.store.copies(b.member.group)}.added(b.GroupBalancer.JoinGroupMetadata(topics, current, generation))
}

// added returns the metadata of a member with the standing.
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

// standingOf reads what a member said; one that says nothing has nothing, and is
// a process of its own.
func standingOf(id string, data []byte) (s standing) {
	s.Process = id
	rest, ok := strings.CutSuffix(string(data), standingMark)
	if n := len(rest) - 4; ok && n >= 0 {
		if size := int(binary.BigEndian.Uint32([]byte(rest[n:]))); size <= n {
			_ = json.Unmarshal([]byte(rest[n-size:n]), &s) // of another version: what it says counts as far as it is understood
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
	owners := map[stream.Partition]string{} // when the group has come to rest
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
		given.UserData, _ = json.Marshal(d) // it is of strings and numbers
		list[i].MemberAssignment = given.AppendTo(nil)
	}
	return list
}

// planning is what the leader knows of a group.
type planning struct {
	members    []*seat // as the library orders them
	partitions []stream.Partition
	owner      map[stream.Partition]*seat // by the claim of the newest generation
	alike      bool                       // all members read the same topics
}

// seat is a member.
type seat struct {
	standing
	kmsg.JoinGroupResponseMember
	topics     []string
	generation int32
	claims     map[stream.Partition]bool
	count      int // of partitions that it is the owner of
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

// settle gives partitions to who has copies of their states, as far as an even
// balance has room for it.
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

// shift makes room for p at a member that has a copy, by giving what was given to
// it to another that has a copy of that; it returns the member, or nil.
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

// swap moves a partition of who has most to who has too few and a copy of it,
// which else another partition would be moved to.
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

// room reports whether a member may own one more where the balance is even: some
// members have one more than the others where it does not come out.
func (g *planning) room(s *seat) bool {
	least, more := len(g.partitions)/len(g.members), len(g.partitions)%len(g.members)
	for _, other := range g.members {
		if other.count > least {
			more--
		}
	}
	return s.count < least || s.count == least && more > 0
}

// warmest returns the member that has most of the state of p, of those that may
// have it; nil where none has any.
func (g *planning) warmest(p stream.Partition, may func(*seat) bool) *seat {
	var best *seat
	for _, s := range g.members {
		if s.copied(p) > 0 && may(s) && (best == nil || cmp.Or(cmp.Compare(s.copied(p), best.copied(p)), cmp.Compare(best.count, s.count)) > 0) {
			best = s
		}
	}
	return best
}

// copied returns up to which offset of its changelog a process has the state
// beside p.
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

// balance lets the library balance what members claim, given partitions included.
// Its eager balancer plans the same, and does not yet care who has to give up a
// partition before another may have it.
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

// duties chooses the standbys of each partition among the processes that do not
// own it. Who has a copy stays one, up to an even share; who has none comes after,
// first who has fewest of the same owner, so that an owner's partitions go to
// many when it dies.
func (g *planning) duties(owners map[stream.Partition]string) map[string]duty {
	p := &posting{byProcess: map[string][]*seat{}, load: map[string]int{}, shared: map[[2]string]int{}, duties: map[string]duty{}}
	process := map[string]string{} // of members
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
	has := make([][]string, len(g.partitions)) // processes
	for pass := range 2 {
		for i, partition := range g.partitions {
			owner := process[owners[partition]]
			fit := func(name string) bool {
				return name != owner && !slices.Contains(has[i], name) &&
					(pass > 0 || p.byProcess[name][0].copied(partition) > 0 && p.load[name] < most)
			}
			for len(has[i]) < p.wanted {
				name, ok := p.next(owner, fit, func(name string) int64 {
					if pass > 0 { // who has a copy has its share
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

// posting is duties in the making.
type posting struct {
	wanted    int                // of each partition
	byProcess map[string][]*seat // that take duties
	load      map[string]int     // by process
	shared    map[[2]string]int  // by owner and standby
	duties    map[string]duty
}

// next returns the process that comes first among those that fit.
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

// post gives a process a duty, and it to the member that has fewest.
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

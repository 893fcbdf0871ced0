package kafka

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/afterbay/afterbay/stream"
)

// offsets compares the committed offsets of each group with its changelogs.
func (e *examination) offsets(ctx context.Context) bool {
	for _, r := range e.plan.Reads {
		source, known := e.has(r.Topic)
		changelog, made := e.has(r.changelog())
		if !known || !made || len(source.Partitions) != len(changelog.Partitions) || !e.made(offsetsTopic, offsetsFactor) {
			continue // other checks report these cases
		}
		within, cancel := context.WithTimeout(ctx, examineTimeout)
		e.compare(within, r, len(source.Partitions))
		e.members(within, r.Group)
		cancel()
	}
	return true
}

// compare compares them by partition. A running pipeline moves both together. So its offset must
// lie between the position read before and the one read after.
func (e *examination) compare(ctx context.Context, r Reading, partitions int) {
	l := e.log
	about := fmt.Sprintf("group %s in topic %s", r.Group, r.Topic)
	var lines []string
	var deleted, differ []int
	for i := range partitions {
		p := stream.Partition{Topic: r.Topic, Index: int32(i)}
		changelog := changelogOf(r.Group, p)
		before, err := l.reads.positionOf(ctx, changelog)
		var committed, after int64
		if err == nil {
			committed, err = l.offsets.committed(ctx, r.Group, p)
		}
		if err == nil {
			after, err = l.reads.positionOf(ctx, changelog)
		}
		switch {
		case err != nil && lasting(err):
			return // rights reports this
		case err != nil:
			e.find(Warning, about, fmt.Sprintf("its offsets cannot be compared with its state: %v", err), "it is unknown whether the pipeline can continue", "examine again")
			return
		case after < 0 && committed >= 0:
			deleted = append(deleted, i)
		case committed < before || committed > after:
			differ, lines = append(differ, i), append(lines, setLine(p, after))
		}
	}
	if len(deleted) > 0 {
		e.find(Fault, about, fmt.Sprintf("the changelog has no entry for %s %v, but the group committed offsets of them", plural(len(deleted), "partition"), deleted), "the changelog was deleted, so the state is unknown and the pipeline does not start", "restore topic "+r.changelog()+"; or, to compute the state again from the records that the input still has: "+deleteOffsets(e.server, r.Group, r.Topic))
	}
	if len(differ) > 0 {
		e.find(Fault, about, fmt.Sprintf("the offsets of %s %v differ from those of the state, or were forgotten", plural(len(differ), "partition"), differ), "brokers forget the offsets of a group without members after offsets.retention.minutes, and those of a deleted topic; the pipeline does not start",
			"if the topic was not replaced, stop the pipeline and set them again: "+setOffsets(e.server, r.Group, lines)+"; else use another pipeline name to start from the beginning")
	}
	if len(deleted)+len(differ) == 0 {
		e.sound(about, "its offsets match its state")
	}
}

func plural(n int, what string) string {
	if n == 1 {
		return what
	}
	return what + "s"
}

// members reports a group without members, since brokers may forget its offsets.
func (e *examination) members(ctx context.Context, group string) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	resp, err := req.RequestWith(ctx, e.log.client)
	if err != nil || len(resp.Groups) != 1 || resp.Groups[0].ErrorCode != 0 || resp.Groups[0].State != "Empty" {
		return // a group that the brokers assign has another type
	}
	found := "it has no members"
	if v := e.broker["offsets.retention.minutes"]; v != "" {
		found += ", and offsets.retention.minutes=" + v
	}
	e.find(Note, "group "+group, found, "the brokers forget its offsets this long after the last process ended, and the pipeline does not start until they are set again", "start the pipeline before that, or raise offsets.retention.minutes in server.properties of each broker")
}

// quotas looks for quotas that limit the user or the client id of the options.
func (e *examination) quotas(ctx context.Context) bool {
	resp, err := kmsg.NewPtrDescribeClientQuotasRequest().RequestWith(ctx, e.log.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		e.find(Note, "quotas", fmt.Sprintf("they cannot be read: %v", err), "whether the brokers hold clients back is not checked", e.allow("--operation DescribeConfigs --cluster"))
		return true
	}
	for _, entry := range resp.Entries {
		var names, flags []string
		ours := true
		for _, entity := range entry.Entity {
			kind, mine := map[string]string{"user": "users", "client-id": "clients"}[entity.Type], map[string]string{"user": e.log.opts.SASL.User, "client-id": e.log.opts.ClientID}[entity.Type]
			ours = ours && kind != "" && (entity.Name == nil || *entity.Name == mine)
			if entity.Name == nil {
				names, flags = append(names, "every "+entity.Type), append(flags, "--entity-type "+kind+" --entity-default")
			} else {
				names, flags = append(names, entity.Type+" "+*entity.Name), append(flags, "--entity-type "+kind+" --entity-name "+*entity.Name)
			}
		}
		if !ours {
			continue
		}
		slices.SortFunc(entry.Values, func(a, b kmsg.DescribeClientQuotasResponseEntryValue) int { return strings.Compare(a.Key, b.Key) })
		for _, v := range entry.Values {
			e.find(Warning, "quotas", fmt.Sprintf("%s of %s is %g", v.Key, strings.Join(names, " and "), v.Value), "brokers delay the responses to a client above it, so steps take longer and the pipeline falls behind",
				fmt.Sprintf("kafka-configs.sh --bootstrap-server %s --alter %s --delete-config %s", e.server, strings.Join(flags, " "), v.Key))
		}
	}
	if !slices.ContainsFunc(e.findings, func(f Finding) bool { return f.About == "quotas" }) {
		e.sound("quotas", "no quota delays this user or client id")
	}
	return true
}

package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	emptyMax = 5 * time.Minute // members may take one to leave their groups, and a busy machine takes long
	again    = 10 * time.Millisecond
)

// Empty removes all topics and groups, so that a test starts as on a new cluster. The members of
// groups must have left, or be about to leave.
func (c *Cluster) Empty(t testing.TB) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Addresses()...), kgo.MetadataMinAge(again)) // else it remembers topics for 5 s
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), emptyMax)
	defer cancel()
	admin := kadm.NewClient(client)
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		left, err := remove(ctx, admin)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%v do not go", left)
		case <-tick.C:
		}
	}
}

// remove returns the topics that there were, and the groups that are left.
func remove(ctx context.Context, admin *kadm.Client) (left []string, err error) {
	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	if left = topics.Names(); len(left) > 0 {
		if _, err := admin.DeleteTopics(ctx, left...); err != nil {
			return nil, fmt.Errorf("delete topics: %w", err)
		}
	}
	groups, err := admin.ListGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	if len(groups) == 0 {
		return left, nil
	}
	deleted, err := admin.DeleteGroups(ctx, groups.Groups()...)
	if err != nil {
		return nil, fmt.Errorf("delete groups: %w", err)
	}
	for _, g := range deleted {
		if g.Err != nil && !errors.Is(g.Err, kerr.GroupIDNotFound) {
			left = append(left, fmt.Sprintf("group %s: %v", g.Group, g.Err))
		}
	}
	return left, nil
}

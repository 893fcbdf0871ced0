package kafka

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/stream"
)

// TestTailOfATopicThatOthersDeleteEnds has a topic deleted, or deleted and made again, by a client
// that is none of ours, while it is read.
func TestTailOfATopicThatOthersDeleteEnds(t *testing.T) {
	for name, again := range map[string]bool{"deleted": false, "made again": true} {
		t.Run(name, func(t *testing.T) {
			cluster := fakeWith(t)
			l := deleting(t, cluster, 3)
			client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
			must(t, err)
			defer client.Close()
			admin := kadm.NewClient(client)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			p, seen := stream.Partition{Topic: shared.Name}, 0
			for _, err = range l.Tail(ctx, p, 0) {
				if seen++; seen != 3 {
					continue
				}
				_, err := admin.DeleteTopic(ctx, shared.Name)
				must(t, err)
				if again {
					_, err := admin.CreateTopic(ctx, 1, 1, nil, shared.Name)
					must(t, err)
				}
			}
			if !errors.Is(err, stream.ErrUnknownTopic) || seen != 4 {
				t.Errorf("%d records and %v, want 3 and the error of a topic that is not there", seen, err)
			}
		})
	}
}

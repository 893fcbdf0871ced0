package reprocess

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/afterbay/afterbay/internal/state/generation"
	"github.com/afterbay/afterbay/stream"
)

// snapshot returns the group that provides the initial state, and its committed offsets.
func (r *run) snapshot(ctx context.Context, h *generation.History, live string) (group string, start []stream.Offset, err error) {
	switch n, parsed := strconv.ParseUint(r.job.State, 10, 64); {
	case r.job.State == "":
		return "", nil, nil
	case r.job.State == "live":
		group = live
	case parsed != nil:
		return "", nil, fmt.Errorf("state of %q: use live, or the number of a generation from afterbay generations", r.job.State)
	default:
		if _, ok := h.Find(n); !ok {
			return "", nil, fmt.Errorf("state of generation %d: no generation has that number: afterbay generations lists them", n)
		}
		group = h.GroupOf(n)
	}
	for _, p := range r.parts {
		at, err := r.log.Committed(ctx, group, p.Partition)
		if err != nil {
			return "", nil, err
		}
		if at > 0 && at < p.first {
			return "", nil, fmt.Errorf("the state of group %q beside %v has offset %d, but records are retained only from %d on: reprocess without this state", group, p.Partition, at, p.first)
		}
		start = append(start, at)
	}
	return group, start, nil
}

// begins records the generation, and the events that it starts with.
func (r *run) begins(b generation.Begun) {
	r.begun = b
	if generation.Numbered(r.read.Topic) {
		return // Start has offsets of the log, not numbers in an order
	}
	for i := range min(len(r.parts), len(b.Start)) {
		r.parts[i].first = max(r.parts[i].first, b.Start[i])
	}
}

// mayCopy refuses to copy the state of a generation while it runs in this process.
func (r *run) mayCopy(ctx context.Context) error {
	if r.begun.State == "" || r.begun.State != r.begun.Group || r.job.HandOver == nil {
		return nil
	}
	copied, err := generation.Copied(ctx, r.log, r.runner.Name(), r.begun)
	if err == nil && !copied {
		err = errors.New("the live generation runs in this process, and its state can be copied only while it is stopped. Stop the process, run the same command, then start the process again; the same command then reprocesses the newer events")
	}
	return err
}

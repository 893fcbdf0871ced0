package generation

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/afterbay/afterbay/internal/event/header"
	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// View shows a topic as if the newest generation of its pipeline had always been live. It consists
// of the records of Topic, followed by those of the topic itself that Takes accepts. The zero View
// is the unchanged topic.
type View struct {
	Pipeline   string
	Generation uint64
	Topic      string
}

// ViewOf returns the view of a topic. It switches to a generation when that has all partitions and
// has finished all earlier events.
func ViewOf(ctx context.Context, log Log, topic string) (View, error) {
	log = itself(log)
	topics, err := log.Topics(ctx)
	if err != nil {
		return View{}, fmt.Errorf("list topics: %w", err)
	}
	for _, t := range topics {
		pipeline, ok := pipelineOf(t.Name)
		if !ok {
			continue
		}
		h, err := Read(ctx, log, pipeline)
		if err != nil {
			return View{}, err
		}
		for _, b := range slices.Backward(h.Begun) {
			if !slices.Contains(b.Outputs, topic) || !h.Everywhere(b.Generation) {
				continue
			}
			if done, err := h.done(ctx, log, &b); err != nil {
				return View{}, err
			} else if done {
				return View{pipeline, b.Generation, b.TopicOf(topic)}, nil
			}
		}
	}
	return View{}, nil
}

// done reports whether a generation has finished all events from before it is live.
func (h *History) done(ctx context.Context, log Log, b *Begun) (bool, error) {
	for index := range h.Live {
		p := stream.Partition{Topic: b.Input, Index: int32(index)}
		end, _ := h.From(b.Generation, p.Index)
		committed, err := Committed(ctx, log, h.GroupOf(b.Generation), p)
		if err != nil || committed < end {
			return false, err
		}
		if !b.Queues {
			continue
		}
		view, err := log.State(ctx, h.GroupOf(b.Generation), p)
		if err != nil {
			return false, err
		}
		for e, err := range view.Scan([]byte{statekey.Queued}) {
			if err != nil {
				return false, err
			}
			if at, ok := statekey.QueuedOffset(e.Key); ok && stream.Offset(at) < end {
				return false, nil
			}
		}
	}
	return true, nil
}

// Takes reports whether a record of the topic itself is in the view. Such a record is from the
// view's generation, from a later one, or from another writer.
func (v *View) Takes(r *stream.Record) bool {
	pipeline, n := Of(r)
	return pipeline != v.Pipeline || n >= v.Generation
}

// Of returns the pipeline and the generation that wrote a record; "" if no pipeline wrote it.
func Of(r *stream.Record) (pipeline string, n uint64) {
	made := strings.Fields(header.Get(r, header.Pipeline))
	if len(made) != 3 {
		return "", 0
	}
	n, err := strconv.ParseUint(made[2], 10, 64)
	if err != nil {
		return "", 0
	}
	return made[0], n
}

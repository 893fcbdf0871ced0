package inspect

import (
	"context"
	"errors"
	"fmt"

	"github.com/afterbay/afterbay/internal/pipeline"
	"github.com/afterbay/afterbay/stream"
)

// ReadNotes adds to notes the entries of a pipeline's notes topic about the rows that its events
// found. A missing topic adds nothing.
func ReadNotes(ctx context.Context, d Directory, topic string, notes *pipeline.Notes) error {
	if _, err := Find(ctx, d, topic); errors.Is(err, stream.ErrUnknownTopic) {
		return nil
	}
	for r, err := range d.Records(ctx, Query{Topic: topic, Partition: AllPartitions}) {
		if err == nil {
			err = notes.Add(r.Value)
		}
		if err != nil {
			return fmt.Errorf("the note %v@%d: %w", r.Partition, r.Offset, err)
		}
	}
	return nil
}

// NotesFrom returns an error if the notes of a topic start later than the events, as Notes.Whole
// describes.
func NotesFrom(topic string, notes *pipeline.Notes, first map[int32]stream.Offset) error {
	if len(notes.Reads) == 0 {
		return fmt.Errorf("topic %s has no notes about the rows that its events found", topic)
	}
	if home, ok := notes.Whole(first); !ok {
		return fmt.Errorf("the notes in topic %s about the rows that its events found begin after the first event of partition %d", topic, home)
	}
	return nil
}

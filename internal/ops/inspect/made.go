package inspect

import (
	"context"

	"github.com/afterbay/afterbay/stream"
)

// Made is a Directory that creates a topic before its first records. A topic keeps its key field
// for good, so a key that no record has must not create the topic.
type Made struct {
	Directory
	Ready func() error // creates the topic once
}

// Append implements ingest.Appender.
func (m *Made) Append(ctx context.Context, records ...stream.Record) error {
	if err := m.Ready(); err != nil {
		return err
	}
	return m.Directory.Append(ctx, records...)
}

// AppendOnce implements ingest.Appender.
func (m *Made) AppendOnce(ctx context.Context, producer string, first int64, records ...stream.Record) (int, error) {
	if err := m.Ready(); err != nil {
		return 0, err
	}
	return m.Directory.AppendOnce(ctx, producer, first, records...)
}

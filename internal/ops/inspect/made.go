package inspect

import (
	"context"

	"github.com/afterbay/afterbay/stream"
)

// Made is a directory and a topic that is made before its first records: a topic keeps
// its key, so a key that no record has must not make one.
type Made struct {
	Directory
	Ready func() error // makes the topic, or has made it
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

package inspect

import (
	"context"
	"errors"

	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/table"
	"github.com/afterbay/afterbay/stream"
)

// TablesRead returns up to where the partitions of a pipeline have read the tables that it
// looks up as of the event, by their numbers. A pipeline that has committed nothing has read
// nothing.
func TablesRead(ctx context.Context, d Directory, pipeline string) (map[int32]map[stream.Partition]stream.Offset, error) {
	read := map[int32]map[stream.Partition]stream.Offset{}
	for e, err := range d.EntriesOf(ctx, pipeline, statekey.Read) {
		if errors.Is(err, ErrUnknownPipeline) {
			return read, nil
		}
		if err != nil {
			return nil, err
		}
		stored, err := e.Stored()
		if err != nil {
			return nil, err
		}
		if at, next, ok := table.ReadOf(stored, e.Value); ok {
			if read[e.Partition] == nil {
				read[e.Partition] = map[stream.Partition]stream.Offset{}
			}
			read[e.Partition][at] = next
		}
	}
	return read, nil
}

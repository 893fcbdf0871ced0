package inspect

import (
	"context"
	"errors"

	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/internal/task/table"
	"github.com/afterbay/afterbay/stream"
)

// TablesRead returns the offsets that each partition of a pipeline has read in its tables, by
// partition number. With versions it covers tables that are looked up at the time of the event,
// otherwise the other tables. A pipeline without commits has read nothing.
func TablesRead(ctx context.Context, d Directory, pipeline string, versions bool) (map[int32]map[stream.Partition]stream.Offset, error) {
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
		if at, next, of, ok := table.ReadOf(stored, e.Value); ok && of == versions {
			if read[e.Partition] == nil {
				read[e.Partition] = map[stream.Partition]stream.Offset{}
			}
			read[e.Partition][at] = next
		}
	}
	return read, nil
}

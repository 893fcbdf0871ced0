package dedupe

import (
	"fmt"

	"github.com/afterbay/afterbay/internal/state/statekey"
	"github.com/afterbay/afterbay/stream"
)

// Restore returns the Set stored in the state of a partition, or a new Set if the state has none.
func Restore(p stream.Partition, state stream.View, spec Spec) (*Set, error) {
	s := New(spec)
	for entry, err := range state.Scan([]byte{statekey.ID}) {
		if err == nil {
			err = s.Add(entry.Key[1:], entry.Value)
		}
		if err != nil {
			return nil, fmt.Errorf("ids seen in %v: %w", p, err)
		}
	}
	return s, nil
}

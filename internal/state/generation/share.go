package generation

import (
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/afterbay/afterbay/internal/event/hash"
	"github.com/afterbay/afterbay/stream"
)

// Share says which keys a candidate decides in a partition, from an offset on. The live generation
// decides the others. The zero Share has no keys.
type Share struct {
	Candidate  string        `json:"candidate"`  // name@version, which is the salt of the hash
	Generation uint64        `json:"generation"` // of the candidate, at least 1
	Below      int64         `json:"below"`      // it has the keys with a hash below this one, 0 to 2^53: 0 is no key
	Partition  int32         `json:"partition"`
	Offset     stream.Offset `json:"offset"` // first one
	Time       time.Time     `json:"time"`
}

// Limits of shares. They bound what each reader of a history keeps.
const (
	MaxCandidate = 255  // bytes of the name of a candidate
	MaxShares    = 4096 // shares of a partition, in its whole history
)

// ErrShare means that a share is not allowed.
var ErrShare = errors.New("invalid share of a candidate")

// Has reports whether the candidate decides a key. If a share with the same Candidate is larger, it
// has the same keys and more.
func (s *Share) Has(key []byte) bool {
	return s.Below > 0 && hash.Of(key, s.Candidate) < s.Below
}

func (s *Share) check() error {
	switch {
	case s.Candidate == "" || len(s.Candidate) > MaxCandidate:
		return fmt.Errorf("%w: its name has %d bytes: give it 1 to %d", ErrShare, len(s.Candidate), MaxCandidate)
	case s.Generation == 0:
		return fmt.Errorf("%w: %q has generation 0, which is the first group: name that of the candidate", ErrShare, s.Candidate)
	case s.Below < 0 || s.Below > 1<<hash.Bits:
		return fmt.Errorf("%w: %q has the hashes below %d: give it 0 to %d", ErrShare, s.Candidate, s.Below, int64(1)<<hash.Bits)
	case s.Partition < 0 || s.Offset < 0:
		return fmt.Errorf("%w: %q has a share in partition %d from offset %d: give both at least 0", ErrShare, s.Candidate, s.Partition, s.Offset)
	}
	return nil
}

// Shares are the shares of a partition, in the order of their offsets.
type Shares []Share

// Add returns the shares with another one. It returns an error if the share is invalid, begins
// before the newest one, is one too many, or if another candidate still has keys.
func (all Shares) Add(s Share) (Shares, error) {
	if err := s.check(); err != nil {
		return all, err
	}
	if len(all) > 0 {
		switch last := &all[len(all)-1]; {
		case s.Partition != last.Partition:
			return all, fmt.Errorf("%w: %q has a share in partition %d among those of partition %d", ErrShare, s.Candidate, s.Partition, last.Partition)
		case s.Offset < last.Offset:
			return all, fmt.Errorf("%w: %q has a share from offset %d, which is before the newest one, %d", ErrShare, s.Candidate, s.Offset, last.Offset)
		case last.Below > 0 && s.Below > 0 && (s.Candidate != last.Candidate || s.Generation != last.Generation):
			return all, fmt.Errorf("%w: %q of generation %d still has keys: set its share to 0 before %q of generation %d has one", ErrShare, last.Candidate, last.Generation, s.Candidate, s.Generation)
		}
	}
	if len(all) >= MaxShares {
		return all, fmt.Errorf("%w: partition %d has had %d shares, which is the limit: promote or remove %q", ErrShare, s.Partition, len(all), s.Candidate)
	}
	return append(all, s), nil
}

// At returns the share that holds at an offset. If several begin there, the last one holds.
func (all Shares) At(at stream.Offset) Share {
	i := sort.Search(len(all), func(i int) bool { return all[i].Offset > at })
	if i == 0 {
		return Share{}
	}
	return all[i-1]
}

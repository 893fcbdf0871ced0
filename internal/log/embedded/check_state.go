package embedded

import (
	"errors"

	"github.com/afterbay/afterbay/internal/state"
	"github.com/afterbay/afterbay/stream"
)

// checkpoint reads every block of state/ and loads the log's own cells from it.
func (c *checker) checkpoint() error {
	found, err := state.Verify(c.fs, c.path("state"), func(space string, key, value []byte) error {
		if space != metaSpace {
			return nil
		}
		return c.cell(key, value)
	})
	cp := &c.report.Checkpoint
	var bad *state.DamageError
	switch {
	case err == nil:
		*cp = CheckpointReport{Found: found.Found, Sound: found.Found, Applied: found.Applied, Seen: found.Seen, Tables: found.Tables, Bytes: found.Bytes}
	case errors.As(err, &bad):
		*cp = CheckpointReport{Found: true}
		c.cells = newExtents()
		c.damage(Damage{Path: bad.Path, Offset: bad.Offset, What: "the checkpoint cannot be read: " + bad.Reason})
	default:
		return err
	}
	return nil
}

// badState converts damage of the checkpoint to damage of the log.
func (l *Log) badState(err error) error {
	var bad *state.DamageError
	if errors.As(err, &bad) {
		return l.damage(bad.Path, bad.Offset, 0, "the checkpoint cannot be read: "+bad.Reason)
	}
	return err
}

// cell loads the offset of a partition or group.
func (c *checker) cell(key, value []byte) error {
	if len(key) == 0 {
		return errFormat
	}
	k, v := reader{b: key[1:]}, reader{b: value}
	switch key[0] {
	case cellNext:
		p := stream.Partition{Topic: string(k.bytes()), Index: int32(k.uvarint())}
		next := stream.Offset(v.uvarint())
		c.cells.parts[p] = extent{next, next}
	case cellGroup:
		at := groupPlace{group: string(k.bytes())}
		at.partition = stream.Partition{Topic: string(k.bytes()), Index: int32(k.uvarint())}
		c.cells.groups[at] = stream.Offset(v.uvarint())
	case cellTopic:
		_, err := parseTopic(value)
		return err
	}
	if k.bad || v.bad {
		return errFormat
	}
	return nil
}

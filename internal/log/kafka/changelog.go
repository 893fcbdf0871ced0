package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/afterbay/afterbay/internal/naming"
	"github.com/afterbay/afterbay/stream"
)

// The changelog of a group and a topic is compacted and has the topic's partitions. The key of a
// record is a kind byte and a name:
//
//	p              the position: the committed offset, 8 bytes, big endian
//	v key          a value, or no value if the key was deleted; the header
//	               "parts" holds the number of parts of the value
//	c n key part   a part of a value: n bytes of key, and the number of the part
//
// Each transaction writes the position of each of its partitions, and the parts of a value before
// the value. So a changelog that was read to the end of a transaction is complete.
const (
	kindPosition = 'p'
	kindValue    = 'v'
	kindPart     = 'c'
	partsHeader  = "parts"
)

const (
	deleteRetention = 24 * time.Hour // how long compaction keeps deletion markers
)

// changelogOf returns the changelog partition with the state of group for p.
func changelogOf(group string, p stream.Partition) stream.Partition {
	return stream.Partition{Topic: naming.Changelog(safeGroup(group), p.Topic), Index: p.Index}
}

// safeGroup returns a group name that is valid in a topic name. A name that is already valid, such
// as that of a pipeline, is unchanged.
func safeGroup(group string) string {
	if stream.CheckTopic(stream.Topic{Name: group, Partitions: 1}) == nil {
		return group
	}
	return safeName(group)
}

// safeName encodes a name with the characters that ids may have. Different names stay different.
func safeName(name string) string {
	var b strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

// partKey returns the key of a part.
func partKey(b []byte, key []byte, part int) []byte {
	b = append(b, kindPart)
	b = binary.AppendUvarint(b, uint64(len(key)))
	b = append(b, key...)
	return binary.AppendUvarint(b, uint64(part))
}

var errChangelog = errors.New("not a record of a changelog: does another program write to it?")

// replay applies the records of a changelog.
type replay struct {
	apply    func(key, value []byte) // a nil value deletes
	counted  func(key []byte, parts int)
	position int64 // of the newest transaction; -1 before the first
	parts    map[string][][]byte
	held     int64           // offset of the oldest record in parts
	broken   map[string]bool // values with a part that compaction removed; newer ones must follow
}

func newReplay(apply func(key, value []byte)) *replay {
	return &replay{apply: apply, counted: func([]byte, int) {}, position: -1, parts: map[string][][]byte{}, broken: map[string]bool{}}
}

// record processes the next record. apply may keep the record's bytes.
func (c *replay) record(r *kgo.Record) error {
	if r.Attrs.IsControl() {
		return nil
	}
	if len(r.Key) == 0 {
		return errChangelog
	}
	switch key := r.Key[1:]; r.Key[0] {
	case kindPosition:
		if len(r.Value) != 8 {
			return errChangelog
		}
		c.position = int64(binary.BigEndian.Uint64(r.Value))
	case kindPart:
		return c.part(key, r)
	case kindValue:
		c.value(key, r)
	default:
		return errChangelog
	}
	return nil
}

func (c *replay) part(rest []byte, r *kgo.Record) error {
	n, size := binary.Uvarint(rest)
	if size <= 0 || n > uint64(len(rest)-size) {
		return errChangelog
	}
	key := string(rest[size : size+int(n)])
	number, size := binary.Uvarint(rest[size+int(n):])
	if size <= 0 || number > 1<<20 {
		return errChangelog
	}
	if r.Value == nil {
		return nil
	}
	if len(c.parts) == 0 {
		c.held = r.Offset
	}
	parts := c.parts[key]
	for uint64(len(parts)) <= number {
		parts = append(parts, nil)
	}
	parts[number] = r.Value
	c.parts[key] = parts
	return nil
}

func (c *replay) value(key []byte, r *kgo.Record) {
	count := 0
	for _, h := range r.Headers {
		if h.Key == partsHeader {
			n, _ := binary.Uvarint(h.Value)
			count = int(n)
		}
	}
	var parts [][]byte
	if len(c.parts)+len(c.broken) > 0 {
		name := string(key)
		parts = c.parts[name]
		delete(c.parts, name)
		delete(c.broken, name)
	}
	c.counted(key, count)
	if count == 0 {
		c.apply(key, r.Value)
		return
	}
	var value []byte
	for i := range count {
		if i >= len(parts) || parts[i] == nil {
			c.broken[string(key)] = true
			return
		}
		value = append(value, parts[i]...)
	}
	c.apply(key, value)
}

// whole returns the offset at which a reader must continue if it keeps only the applied changes. It
// is before next if values are incomplete: their parts must be read again.
func (c *replay) whole(next int64) int64 {
	if len(c.parts) > 0 {
		return c.held
	}
	return next
}

// end returns an error if a part is missing.
func (c *replay) end() error {
	for key := range c.broken {
		return fmt.Errorf("the changelog lacks a part of the value of %q", key)
	}
	return nil
}

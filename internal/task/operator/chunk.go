package operator

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/afterbay/afterbay/internal/event/expression"
	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/models/text/chunk"
	"github.com/afterbay/afterbay/internal/state/packed"
)

// Chunk splits a text of an event into chunks, and lists the chunks of the previous version of the
// document that are gone. A key is a document. The event time is its version. Of events with equal
// times, the later one in the log is the newer version.
type Chunk struct {
	Name     string
	Text     *expression.Program
	Splitter *chunk.Splitter
	State    *Call      // stores the time and the chunks of the newest version, as a function does
	Chunks   value.Slot // raw[]
	Removed  value.Slot // string[] of ids
}

// Label implements Operator.
func (c *Chunk) Label() (kind, name string) { return "chunk", c.Name }

// Makes implements Operator.
func (c *Chunk) Makes() []value.Slot { return []value.Slot{c.Chunks, c.Removed} }

// Run implements Operator. A version older than the newest one has no chunks and removes none.
func (c *Chunk) Run(e *Event) error {
	text, err := c.Text.Text(e.Row)
	if err != nil {
		return fmt.Errorf("text: %w", err)
	}
	key, state, err := e.Kept.State(e, c.State)
	if err != nil {
		return err
	}
	before, err := parseVersion(state.Values[versionName])
	if err != nil {
		return AsFatal(fmt.Errorf("key %q of chunk %s: %w", key, c.Name, err))
	}
	if before.known && e.Time < before.time {
		return c.store(e.Row, nil, nil)
	}
	chunks, err := c.Splitter.Split(text)
	if err != nil {
		return err
	}
	next := version{known: true, time: e.Time, ids: c.ids(key, chunks)}
	was := map[chunkID]bool{}
	for _, id := range before.ids {
		was[id] = true
	}
	list, object := []byte{}, []byte(nil)
	for i := range chunks {
		object = appendChunk(object[:0], i, &chunks[i], next.ids[i], !was[next.ids[i]])
		if list = value.AppendElement(list, value.Raw, value.Element{Str: value.Text(object)}); len(list) > value.TextMax {
			break // the row refuses a list of this size
		}
	}
	if err = c.store(e.Row, list, before.without(&next)); err != nil {
		return err
	}
	return e.Kept.Keep(e, c.State, next.state(e))
}

// store stores both lists in the row.
func (c *Chunk) store(row *value.Row, chunks, removed []byte) error {
	row.Drop(c.Chunks)
	row.Drop(c.Removed)
	if err := row.Make(&c.Chunks, value.Text(chunks)); err != nil {
		return fmt.Errorf("%s: %w: a chunk has its text, place and id here", c.Chunks.Name, err)
	}
	if err := row.Make(&c.Removed, value.Text(removed)); err != nil {
		row.Drop(c.Chunks)
		return fmt.Errorf("%s: %w", c.Removed.Name, err)
	}
	return nil
}

// appendChunk appends a chunk as a JSON object.
func appendChunk(dst []byte, index int, c *chunk.Chunk, id chunkID, isNew bool) []byte {
	dst = hex.AppendEncode(append(dst, `{"id":"`...), id[:])
	dst = strconv.AppendInt(append(dst, `","index":`...), int64(index), 10)
	dst = expression.AppendElement(append(dst, `,"text":`...), value.String, value.Element{Str: c.Text})
	dst = strconv.AppendInt(append(dst, `,"start":`...), int64(c.Start), 10)
	dst = strconv.AppendInt(append(dst, `,"end":`...), int64(c.End), 10)
	dst = strconv.AppendInt(append(dst, `,"tokens":`...), int64(c.Tokens), 10)
	dst = expression.AppendElement(append(dst, `,"heading":`...), value.String, value.Element{Str: c.Heading})
	return append(strconv.AppendBool(append(dst, `,"new":`...), isNew), '}')
}

// chunkID is the id of a chunk: the first bytes of a SHA-256.
type chunkID [16]byte

// ids returns the ids of the chunks of a document. Each is the hash of the name of the step, the
// key, the text, and the number of earlier chunks with the same text.
func (c *Chunk) ids(key string, chunks []chunk.Chunk) []chunkID {
	ids, same := make([]chunkID, len(chunks)), map[string]int{}
	var named []byte
	for i := range chunks {
		text := chunks[i].Text
		named = packed.AppendText(packed.AppendText(named[:0], c.Name), key)
		named = binary.AppendUvarint(packed.AppendText(named, text), uint64(same[text]))
		same[text]++
		sum := sha256.Sum256(named)
		ids[i] = chunkID(sum[:])
	}
	return ids
}

// version is the stored state of the newest version of a document.
type version struct {
	known bool
	time  int64 // event time, microseconds
	ids   []chunkID
}

// versionName is the name of the version in the state of a key.
const versionName = "version"

// without returns the ids that another version does not have, as a list.
func (v *version) without(o *version) (list []byte) {
	there := map[chunkID]bool{}
	for _, id := range o.ids {
		there[id] = true
	}
	var text [2 * len(chunkID{})]byte
	for _, id := range v.ids {
		if !there[id] {
			hex.Encode(text[:], id[:])
			list = value.AppendElement(list, value.String, value.Element{Str: string(text[:])})
		}
	}
	return list
}

// state returns the state of a key for the version. The state of a version without chunks expires
// with the key. Until then it identifies older versions that come later.
func (v *version) state(e *Event) *State {
	data := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(v.ids)*len(chunkID{})), uint64(v.time))
	for i := range v.ids {
		data = append(data, v.ids[i][:]...)
	}
	state := &State{Values: map[string][]byte{versionName: data}}
	if len(v.ids) == 0 {
		state.Timers = []Timer{{Name: "forget", At: e.Kept.Until(e), After: int64(e.Record.Offset)}}
	}
	return state
}

var errVersion = errors.New("the stored chunks are damaged")

// parseVersion parses the output of state. Empty data means that there is no version.
func parseVersion(data []byte) (v version, err error) {
	if len(data) == 0 {
		return v, nil
	}
	if len(data) < 8 || (len(data)-8)%len(chunkID{}) != 0 {
		return v, errVersion
	}
	v.known, v.time = true, int64(binary.BigEndian.Uint64(data))
	for data = data[8:]; len(data) > 0; data = data[len(chunkID{}):] {
		v.ids = append(v.ids, chunkID(data))
	}
	return v, nil
}

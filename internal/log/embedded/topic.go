package embedded

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/afterbay/afterbay/stream"
)

// topic is a topic and its partitions. Log.mu guards it.
type topic struct {
	stream.Topic
	parts   []*partition
	deleted bool // its partitions only keep their next offsets
}

// catalog holds the topics, groups and producers of the log. Log.mu guards it.
type catalog struct {
	topics    map[string]*topic
	groups    map[string]*group
	producers producers
}

// topic returns a topic, or nil if it does not exist. The caller must hold mu.
func (c *catalog) topic(name string) *topic {
	if t := c.topics[name]; t != nil && !t.deleted {
		return t
	}
	return nil
}

// part returns a partition. The caller must hold mu.
func (c *catalog) part(name string, index int32) (*partition, error) {
	if c.topic(name) == nil {
		return nil, fmt.Errorf("%s/%d: %w", name, index, stream.ErrUnknownTopic)
	}
	return c.anyPart(name, index)
}

// anyPart returns a partition, even of a deleted topic.
func (c *catalog) anyPart(name string, index int32) (*partition, error) {
	if t := c.topics[name]; t != nil && index >= 0 && int(index) < len(t.parts) {
		return t.parts[index], nil
	}
	return nil, fmt.Errorf("%s/%d: %w", name, index, stream.ErrUnknownTopic)
}

func (c *catalog) addTopic(t stream.Topic) {
	made := c.topics[t.Name]
	if made == nil {
		made = &topic{}
		c.topics[t.Name] = made
	}
	made.Topic, made.deleted = t, false
	for i := int32(len(made.parts)); i < t.Partitions; i++ {
		made.parts = append(made.parts, &partition{Partition: stream.Partition{Topic: t.Name, Index: i}})
	}
	for _, p := range made.parts {
		p.deleted = false
	}
}

// dropTopic deletes a topic and its records before ends from memory. It reports whether the log can
// forget the topic.
func (c *catalog) dropTopic(t *topic, ends []stream.Offset) (forgotten bool) {
	forgotten = true
	for i, p := range t.parts {
		p.base, p.deleted, p.spans, p.blocks = ends[i], true, nil, nil
		for _, reader := range p.readers {
			signal(reader.ready)
		}
		forgotten = forgotten && p.base == 0
		for _, g := range c.groups {
			forgotten = forgotten && !(g.everCommitted && g.all[p] != nil)
		}
	}
	if t.deleted = true; !forgotten {
		return false
	}
	delete(c.topics, t.Name)
	for _, p := range t.parts {
		for _, g := range c.groups {
			delete(g.all, p)
		}
	}
	return true
}

// CreateTopic implements stream.Log.
func (l *Log) CreateTopic(ctx context.Context, t stream.Topic) error {
	err := stream.CheckTopic(t)
	made := false
	if err == nil {
		l.mu.Lock()
		made, err = l.mayCreate(t)
		l.mu.Unlock()
	}
	if err == nil && !made {
		err = l.submit(ctx, topicRequest(t))
	}
	if err != nil {
		return fmt.Errorf("create topic %q: %w", t.Name, err)
	}
	return nil
}

// mayCreate reports whether a topic with these settings exists. It returns an error if the topic
// cannot be created. The caller must hold mu.
func (l *Log) mayCreate(t stream.Topic) (made bool, err error) {
	old := l.topics[t.Name]
	if err := l.usable(); err != nil || old == nil {
		return false, cmp.Or(err, l.roomFor(int(t.Partitions)))
	}
	switch {
	case !old.deleted && old.Partitions != t.Partitions:
		return false, fmt.Errorf("it has %d partitions, not %d", old.Partitions, t.Partitions)
	case !old.deleted:
		return old.Key != "" || t.Key == "", nil
	case old.Partitions > t.Partitions:
		return false, fmt.Errorf("it had %d partitions when it was deleted, and offsets continue in each: create it with %d or more", old.Partitions, old.Partitions)
	}
	return false, l.roomFor(int(t.Partitions - old.Partitions))
}

// roomFor returns ErrTooManyPartitions if the log cannot take more partitions.
func (l *Log) roomFor(more int) error {
	all := 0
	for _, t := range l.topics {
		all += len(t.parts)
	}
	if all+more > l.opts.MaxPartitions {
		return fmt.Errorf("%w: the topics have %d together, and at most %d are allowed: delete a topic, or use fewer partitions", stream.ErrTooManyPartitions, all, l.opts.MaxPartitions)
	}
	return nil
}

// DeleteTopic implements stream.Log. Retention frees the disk space of the records when it removes
// their segments.
func (l *Log) DeleteTopic(ctx context.Context, name string) error {
	r := &request{drop: name, bytes: sectionHeader + binary.MaxVarintLen64 + len(name)}
	l.mu.Lock()
	err := l.usable()
	t := l.topic(name)
	if t != nil {
		r.bytes += len(t.parts) * binary.MaxVarintLen64
	}
	l.mu.Unlock()
	switch {
	case err != nil:
	case t == nil:
		err = stream.ErrUnknownTopic
	default:
		if err = r.fits(l); err == nil {
			err = l.submit(ctx, r)
		}
	}
	if err != nil {
		return fmt.Errorf("delete topic %q: %w", name, err)
	}
	return nil
}

// admitDrop returns an error if the topic of r cannot be deleted. Otherwise no later request can
// read or write the topic.
func (w *writer) admitDrop(r *request) error {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	t := w.log.topic(r.drop)
	if t == nil {
		return stream.ErrUnknownTopic
	}
	for _, g := range w.log.groups {
		if len(g.members) > 0 && slices.Contains(g.topics, t.Name) {
			return fmt.Errorf("%w: group %q reads it", stream.ErrTopicInUse, g.name)
		}
	}
	t.deleted = true
	for _, p := range t.parts {
		p.deleted = true
	}
	return nil
}

// addDrop encodes the deletion of a topic: the next offset of each partition, after the records of
// the frame.
func (w *writer) addDrop(r *request) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	r.addSection(sectionDelete, func(b []byte) []byte {
		b = appendBytes(b, r.drop)
		for _, p := range w.log.topics[r.drop].parts {
			b = binary.AppendUvarint(b, uint64(p.built))
		}
		return b
	})
}

// reachable returns ErrUnknownTopic if r writes to a topic that was deleted after r was created. It
// needs no lock, since only the writer deletes and creates topics.
func (r *request) reachable() error {
	for _, p := range r.pieces {
		if p.part.deleted {
			return fmt.Errorf("%v: %w", p.part.Partition, stream.ErrUnknownTopic)
		}
	}
	return nil
}

// Topics implements stream.Log.
func (l *Log) Topics(context.Context) ([]stream.Topic, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(); err != nil {
		return nil, err
	}
	topics := make([]stream.Topic, 0, len(l.topics))
	for _, t := range l.topics {
		if !t.deleted {
			topics = append(topics, t.Topic)
		}
	}
	slices.SortFunc(topics, func(a, b stream.Topic) int { return strings.Compare(a.Name, b.Name) })
	return topics, nil
}

// publishTopic creates a topic. During a redo the topic may already exist, or a later frame may
// have deleted it, if a checkpoint contains this frame.
func (c *catalog) publishTopic(payload []byte, redo bool, metas *pairs) error {
	t, err := parseTopic(payload)
	if err != nil {
		return err
	}
	if !redo {
		return nil
	}
	again := c.topics[t.Name] != nil && c.topics[t.Name].deleted
	c.addTopic(t)
	metas.add(append([]byte{cellTopic}, t.Name...), payload)
	if again {
		metas.add(deletedKey(t.Name), c.topics[t.Name].encodeDeleted())
	}
	return nil
}

// publishDelete deletes a topic. During a redo a checkpoint may already contain the deletion.
func (c *catalog) publishDelete(payload []byte, metas *pairs) error {
	name, ends, err := parseDelete(payload)
	if err != nil {
		return err
	}
	t := c.topics[name]
	if t == nil {
		return nil
	}
	for len(ends) < len(t.parts) { // partitions that were added later
		ends = append(ends, 0)
	}
	if c.dropTopic(t, ends) {
		metas.add(append([]byte{cellTopic}, name...), nil)
		metas.add(deletedKey(name), nil)
		return nil
	}
	metas.add(deletedKey(name), t.encodeDeleted())
	return nil
}

// parseDelete returns the topic that a section deletes, and the offset after the last record of
// each partition.
func parseDelete(payload []byte) (topic string, ends []stream.Offset, err error) {
	r := reader{b: payload}
	topic = string(r.bytes())
	for len(r.b) > 0 && !r.bad {
		ends = append(ends, stream.Offset(r.uvarint()))
	}
	if r.bad || topic == "" {
		return "", nil, fmt.Errorf("section of a deleted topic: %w", errFormat)
	}
	return topic, ends, nil
}

func parseTopic(payload []byte) (stream.Topic, error) {
	r := reader{b: payload}
	t := stream.Topic{Name: string(r.bytes()), Partitions: int32(r.uvarint()), Key: string(r.bytes())}
	if r.bad || t.Partitions < 1 || t.Name == "" {
		return t, fmt.Errorf("section of a topic: %w", errFormat)
	}
	return t, nil
}

func deletedKey(topic string) []byte { return append([]byte{cellDeleted}, topic...) }

// encodeDeleted returns the cell of a topic that was deleted: whether it is still deleted, and for
// each partition the first offset that was not deleted.
func (t *topic) encodeDeleted() []byte {
	b := []byte{0}
	if t.deleted {
		b[0] = 1
	}
	for _, p := range t.parts {
		b = binary.AppendUvarint(b, uint64(p.base))
	}
	return b
}

// loadDeleted decodes the result of encodeDeleted.
func (c *catalog) loadDeleted(name string, value *reader) error {
	t := c.topics[name]
	state := value.take(1)
	if t == nil || state == nil {
		return errFormat
	}
	t.deleted = state[0] == 1
	for _, p := range t.parts {
		p.base, p.deleted = stream.Offset(value.uvarint()), t.deleted
	}
	return nil
}

package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/sink"
	"github.com/afterbay/afterbay/stream"
)

// claim is a claimed partition of the sink's topic.
type claim struct {
	*Sink
	partition stream.Partition
	rows      []value.Row // memory for a batch
	positions []*position // positions of the shards; nil without ExactlyOnce
	broken    bool        // a write failed, and its result is unknown
}

// item is a record that is being written.
type item struct {
	index   int // index in the records of the batch
	offset  stream.Offset
	key     string
	row     *value.Row // only the key is set if deletes is true
	version sink.Version
	deletes bool
}

// newer reports whether i must be written instead of other, an item with the same key.
func (c *claim) newer(i, other *item) bool {
	if c.version >= 0 {
		slot := c.slots[c.version]
		order := 0
		if slot.Type.Kind == value.Number {
			order = cmp.Compare(i.row.Number(slot), other.row.Number(slot))
		} else {
			order = cmp.Compare(i.row.Int(slot), other.row.Int(slot))
		}
		if order = cmp.Or(order, cmp.Compare(i.version.Generation, other.version.Generation), strings.Compare(i.version.Source, other.version.Source)); order != 0 {
			return order > 0
		}
	}
	return i.version.Compare(other.version) >= 0
}

// Write implements sink.Claim.
func (c *claim) Write(ctx context.Context, committed stream.Offset, records []stream.Record) (sink.Outcome, error) {
	if c.broken {
		return sink.Outcome{}, errors.New("a write of this claim failed")
	}
	l, err := c.ready(ctx)
	if err != nil {
		return sink.Outcome{}, err
	}
	var total sink.Outcome
	items := make([][]item, len(c.shards))
	for len(c.rows) < len(records) {
		c.rows = append(c.rows, c.reader.NewRows(len(records))...)
	}
	for i := range records {
		it, err := c.read(i, &records[i])
		if err != nil {
			total.Refused = append(total.Refused, sink.Refusal{Index: i, Err: err})
			continue
		}
		k := stream.Place([]byte(it.key), int32(len(c.shards)))
		if c.positions == nil || c.positions[k].needs(it.offset) {
			items[k] = append(items[k], it)
		}
	}
	next := records[len(records)-1].Offset + 1
	var wait sync.WaitGroup
	results, errs := make([]sink.Outcome, len(c.shards)), make([]error, len(c.shards))
	for k, list := range items {
		if len(list) > 0 {
			wait.Go(func() { results[k], errs[k] = c.writeShard(ctx, l, k, committed, list, next) })
		}
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		c.broken = true
		return sink.Outcome{}, err
	}
	for _, o := range results {
		total.Refused, total.Older, total.Foreign = append(total.Refused, o.Refused...), total.Older+o.Older, total.Foreign+o.Foreign
	}
	slices.SortFunc(total.Refused, func(a, b sink.Refusal) int { return cmp.Compare(a.Index, b.Index) })
	return total, nil
}

// read parses a record into an item.
func (c *claim) read(i int, r *stream.Record) (item, error) {
	row := &c.rows[i]
	if r.Value == nil && c.options.Deletes {
		return c.deletion(i, r)
	}
	if err := c.reader.Read(r.Value, row); err != nil {
		return item{}, err
	}
	for n, slot := range c.slots {
		if slot.Type.Kind == value.String && row.Has(slot) && strings.IndexByte(row.Text(slot), 0) >= 0 {
			return item{}, fmt.Errorf("column %s: PostgreSQL cannot store text with a zero byte", c.options.Columns[n].Column)
		}
	}
	it := item{index: i, offset: r.Offset, row: row, version: sink.VersionOf(r)}
	if slot := c.slots[c.key]; slot.Type.Kind == value.Int {
		it.key = strconv.FormatInt(row.Int(slot), 10)
	} else {
		it.key = row.Text(slot)
	}
	return it, nil
}

// deletion returns the item of a record without a value. The record's key identifies the row.
func (c *claim) deletion(i int, r *stream.Record) (item, error) {
	it := item{index: i, offset: r.Offset, key: string(r.Key), row: &c.rows[i], version: sink.VersionOf(r), deletes: true}
	slot := c.slots[c.key]
	if slot.Type.Kind == value.String {
		it.row.SetText(slot, it.key)
		return it, nil
	}
	key, err := strconv.ParseInt(it.key, 10, 64)
	if err != nil {
		return it, fmt.Errorf("the record has no value, and its key %.60q is not an int", r.Key)
	}
	it.row.SetInt(slot, key)
	return it, nil
}

// shard is a connection. Only one claim uses it at a time.
type shard struct {
	turn     chan struct{} // holds a token; take it to use the shard
	conn     *pgconn.PgConn
	prepared *layout
	arrays   []array // memory for a batch
}

func newShard() *shard {
	sh := &shard{turn: make(chan struct{}, 1)}
	sh.turn <- struct{}{}
	return sh
}

// drop closes the connection.
func (sh *shard) drop() {
	if sh.conn != nil {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // so that Close does not wait for an unresponsive server
		sh.conn.Close(ctx)
		sh.conn, sh.prepared = nil, nil
	}
}

// connect opens and prepares the connection for a layout, if necessary.
func (sh *shard) connect(ctx context.Context, s *Sink, l *layout) error {
	if sh.conn != nil && (sh.conn.IsClosed() || sh.prepared != l) {
		sh.drop()
	}
	if sh.conn == nil {
		conn, err := pgconn.ConnectConfig(ctx, s.server)
		if err != nil {
			return said(err)
		}
		sh.conn = conn
		if err := run(ctx, conn, settings); err != nil {
			return said(err)
		}
		if _, err := conn.Prepare(ctx, upsertName, l.upsert, nil); err != nil {
			return said(err)
		}
		if _, err := conn.Prepare(ctx, foreignName, l.foreign, nil); err != nil {
			return said(err)
		}
		if _, err := conn.Prepare(ctx, removeName, l.remove, nil); err != nil {
			return said(err)
		}
		sh.prepared, sh.arrays = l, make([]array, len(l.elements))
	}
	return nil
}

// settings are the settings of a connection. Commits are synchronous, because offsets move on and a
// server crash must not lose committed rows. Plans are generic, so that they are not made for the
// arrays of each batch. The idle timeout keeps a hanging transaction from blocking the next owner
// of a position.
const settings = `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
	SET plan_cache_mode = force_generic_plan; SET idle_in_transaction_session_timeout = '5s'`

const (
	upsertName  = "upsert"
	foreignName = "foreign"
	removeName  = "remove"
)

// batch is the part of a batch that one shard writes.
type batch struct {
	*claim
	*layout
	*shard
	number   int       // number of the shard
	position *position // nil without ExactlyOnce
	outcome  sink.Outcome
}

// writeShard writes the items of a shard. next is the offset after the batch.
func (c *claim) writeShard(ctx context.Context, l *layout, k int, committed stream.Offset, items []item, next stream.Offset) (sink.Outcome, error) {
	sh := c.shards[k]
	select {
	case <-sh.turn:
	case <-ctx.Done():
		return sink.Outcome{}, ctx.Err()
	}
	defer func() { sh.turn <- struct{}{} }()
	b := &batch{claim: c, layout: l, shard: sh, number: k}
	if c.positions != nil {
		b.position = c.positions[k]
		b.position.forget(committed)
	}
	err := sh.connect(ctx, c.Sink, l)
	if err == nil {
		err = b.write(ctx, items, next)
	}
	if err != nil {
		sh.drop() // a statement may still be running on the connection
		if isOfTable(err) {
			c.forget()
		}
		return sink.Outcome{}, err
	}
	return b.outcome, nil
}

// write writes the newest item of each key. If the server refuses rows, it halves the items to find
// them. Then it continues with items that could not be compared. next is the offset after the
// items.
func (b *batch) write(ctx context.Context, items []item, next stream.Offset) error {
	for len(items) > 0 {
		rows, rest := b.pick(items)
		behind := next
		if len(rest) > 0 {
			behind = rest[0].offset
		}
		err := b.exec(ctx, rows, items, rest, behind)
		switch {
		case err == nil:
		case !isOfRow(err):
			return said(err)
		case len(items) == 1:
			b.refuse(&items[0], said(err))
		default:
			half := len(items) / 2
			if err := b.write(ctx, items[:half], items[half].offset); err != nil {
				return err
			}
			return b.write(ctx, items[half:], next)
		}
		items = rest
	}
	return nil
}

func (b *batch) refuse(i *item, err error) {
	b.outcome.Refused = append(b.outcome.Refused, sink.Refusal{Index: i.index, Err: err})
	if b.position != nil {
		b.position.refuse(i.offset)
	}
}

// pick returns the newest item of each key, sorted by key, so that two sinks cannot deadlock. rest
// holds the items from another source than the first item of their key; they must be written
// afterwards.
func (b *batch) pick(items []item) (rows []*item, rest []item) {
	byKey := make(map[string]int, len(items))
	for i := range items {
		it := &items[i]
		at, ok := byKey[it.key]
		switch {
		case !ok:
			byKey[it.key] = len(rows)
			rows = append(rows, it)
		case b.version < 0 && rows[at].version.Source != it.version.Source:
			rest = append(rest, *it)
		case b.newer(it, rows[at]):
			rows[at] = it
		}
	}
	slices.SortFunc(rows, func(a, b *item) int { return strings.Compare(a.key, b.key) })
	return rows, rest
}

// exec writes rows, all or none. rows are the newest of items, without rest.
func (b *batch) exec(ctx context.Context, rows []*item, items, rest []item, behind stream.Offset) error {
	if b.position != nil {
		if err := b.begin(ctx, behind); err != nil {
			return b.undo(ctx, err)
		}
	}
	before, older := b.outcome, 0
	for _, part := range parts(rows) {
		n, err := b.apply(ctx, part, items, rest)
		if err != nil {
			b.outcome = before // the refused items are written again
			return b.undo(ctx, err)
		}
		older += n
	}
	if b.position != nil {
		if err := b.commit(ctx, len(b.outcome.Refused) > len(before.Refused)); err != nil {
			return err
		}
	}
	b.outcome.Older += older
	return nil
}

// parts separates the rows to write from the rows to delete.
func parts(rows []*item) (parts [][]*item) {
	var written, deleted []*item
	for _, it := range rows {
		if it.deletes {
			deleted = append(deleted, it)
		} else {
			written = append(written, it)
		}
	}
	for _, part := range [][]*item{written, deleted} {
		if len(part) > 0 {
			parts = append(parts, part)
		}
	}
	return parts
}

// apply writes or deletes rows, and returns how many changed nothing.
func (b *batch) apply(ctx context.Context, rows []*item, items, rest []item) (older int, err error) {
	name, values := upsertName, [][]byte(nil)
	if rows[0].deletes {
		name, values = removeName, b.encodeKeys(rows)
	} else {
		values = b.encode(rows)
	}
	result := b.conn.ExecPrepared(ctx, name, values, binaries[:min(1, len(values))], nil).Read()
	if result.Err != nil {
		return 0, result.Err
	}
	older = len(rows) - int(result.CommandTag.RowsAffected())
	if older > 0 && b.version < 0 {
		foreign, err := b.findForeign(ctx, rows, items, rest)
		return older - foreign, err
	}
	return older, nil
}

// undo rolls back a transaction that includes a position.
func (b *batch) undo(ctx context.Context, err error) error {
	if b.position != nil && isOfRow(err) {
		if undone := run(ctx, b.conn, "ROLLBACK"); undone != nil {
			return undone
		}
	}
	return err
}

var binaries = []int16{1}

// encode returns the parameters of the upsert.
func (b *batch) encode(rows []*item) [][]byte {
	own := len(b.slots)
	arrays := b.arrays
	for i := range arrays {
		arrays[i].begin(b.elements[i], len(rows))
	}
	for _, it := range rows {
		for n, slot := range b.slots {
			arrays[n].add(b.forms[n], it.row, slot)
		}
		addVersion(arrays[own:], it)
	}
	var values [][]byte
	for i := range arrays {
		values = append(values, arrays[i].bytes)
	}
	return values
}

// encodeKeys returns the parameters of the deletion: keys and versions.
func (b *batch) encodeKeys(rows []*item) (values [][]byte) {
	own := len(b.slots)
	for _, i := range []int{b.key, own, own + 1, own + 2, own + 3} {
		b.arrays[i].begin(b.elements[i], len(rows))
	}
	for _, it := range rows {
		b.arrays[b.key].add(b.forms[b.key], it.row, b.slots[b.key])
		addVersion(b.arrays[own:], it)
	}
	values = append(values, b.arrays[b.key].bytes)
	for _, a := range b.arrays[own:] {
		values = append(values, a.bytes)
	}
	return values
}

// addVersion appends the version of an item to the sink's own columns.
func addVersion(own []array, it *item) {
	own[0].text(it.version.Source)
	own[1].int64(it.version.Generation)
	own[2].int64(it.version.Offset)
	own[3].int64(it.version.Record)
}

// findForeign refuses the items with a row from another source in the table. It returns how many of
// rows these are.
func (b *batch) findForeign(ctx context.Context, rows []*item, items, rest []item) (int, error) {
	values := [][]byte{b.arrays[b.key].bytes, b.arrays[len(b.slots)].bytes}
	result := b.conn.ExecPrepared(ctx, foreignName, values, binaries, nil).Read()
	if result.Err != nil {
		return 0, result.Err
	}
	for _, r := range result.Rows {
		n, err := strconv.Atoi(string(r[0]))
		if err != nil || n < 1 || n > len(rows) {
			return 0, fmt.Errorf("row %q of %d", r[0], len(rows))
		}
		row := rows[n-1]
		for i := range items {
			it := &items[i]
			if it.key != row.key || it.version.Source != row.version.Source || slices.ContainsFunc(rest, func(r item) bool { return r.index == it.index }) {
				continue
			}
			b.outcome.Foreign++
			b.refuse(it, fmt.Errorf("table %s has %s %q from another source than %s, and their order is unknown: give the sink a `version`, or send all events of a key through one partition", b.options.Table, b.options.Key, it.key, it.version.Source))
		}
	}
	return len(result.Rows), nil
}

// isOfRow reports whether the error is about the written data, not the statement: data,
// constraints, errors of triggers, and sizes.
func isOfRow(err error) bool {
	class := classOf(err)
	return class == "22" || class == "23" || class == "44" || class == "54" || class == "P0"
}

// isOfTable reports whether the error means that the table has changed.
func isOfTable(err error) bool { return classOf(err) == "42" || classOf(err) == "0A" }

func classOf(err error) string {
	var said *pgconn.PgError
	if errors.As(err, &said) && len(said.Code) == 5 {
		return said.Code[:2]
	}
	return ""
}

package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/afterbay/afterbay/stream"
)

// positionsTable stores the position of each shard of a partition.
const positionsTable = `CREATE TABLE IF NOT EXISTS afterbay_positions (
	sink text, partition text, shard int, shards int NOT NULL, owner bigint NOT NULL, next bigint NOT NULL, refused bigint[] NOT NULL,
	PRIMARY KEY (sink, partition, shard))`

// position is the position of a shard of a partition. It is a row in the database, updated in the
// same transactions as the shard's rows.
//
//  1. An update succeeds only from the position that the owner knows, and only while it
//     is the owner. So writes of an earlier owner and repeated writes are rolled back.
//  2. The position may have passed refused records before their dead letters are in the
//     log. refused lists them, so that a crash does not lose them.
type position struct {
	owner   int64
	next    stream.Offset
	refused []stream.Offset
	moved   stream.Offset // new position in the current transaction
}

// needs reports whether the record at an offset must still be written.
func (p *position) needs(at stream.Offset) bool {
	return at >= p.next || slices.Contains(p.refused, at)
}

// refuse adds a record that the database refused.
func (p *position) refuse(at stream.Offset) {
	if !slices.Contains(p.refused, at) {
		p.refused = append(p.refused, at)
	}
}

// forget removes refused records with committed dead letters.
func (p *position) forget(committed stream.Offset) {
	p.refused = slices.DeleteFunc(p.refused, func(at stream.Offset) bool { return at < committed })
}

func (p *position) list() string {
	var texts []string
	for _, at := range p.refused {
		texts = append(texts, strconv.FormatInt(int64(at), 10))
	}
	return "{" + strings.Join(texts, ",") + "}"
}

// own makes the caller the owner of all shards of a partition. If the number of shards has changed,
// the earlier shards must have completed all their writes.
func (c *claim) own(ctx context.Context, next stream.Offset) error {
	conn, err := pgconn.ConnectConfig(ctx, c.server)
	if err != nil {
		return said(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := run(ctx, conn, "BEGIN"); err != nil {
		return said(err)
	}
	sink, partition := c.options.Group, c.partition.String()
	stored, err := ask(ctx, conn, "SELECT max(shards), max(next), count(*), max(owner) FROM (SELECT * FROM afterbay_positions WHERE sink = $1 AND partition = $2 FOR UPDATE) p", sink, partition)
	if err != nil {
		return err
	}
	if n, _ := strconv.Atoi(stored[0][2]); n > 0 && stored[0][0] != strconv.Itoa(len(c.shards)) {
		if reached, _ := strconv.ParseInt(stored[0][1], 10, 64); reached > int64(next) {
			return fmt.Errorf("sink %s, %s: it was written over %s connections, which differ in how far they are: run it with `concurrency: %[3]s` until it has no lag, and with %d after that", sink, partition, stored[0][0], len(c.shards))
		}
		if _, err := ask(ctx, conn, "DELETE FROM afterbay_positions WHERE sink = $1 AND partition = $2", sink, partition); err != nil {
			return err
		}
	}
	rows, err := ask(ctx, conn, `INSERT INTO afterbay_positions AS p (sink, partition, shard, shards, owner, next, refused)
		SELECT $1, $2, shard, $3::int, coalesce($5::bigint, 0) + 1, $4::bigint, '{}' FROM generate_series(0, $3::int - 1) shard ORDER BY shard
		ON CONFLICT (sink, partition, shard) DO UPDATE SET owner = p.owner + 1, next = greatest(p.next, excluded.next)
		RETURNING shard, owner, next, array_to_string(refused, ',')`, sink, partition, strconv.Itoa(len(c.shards)), strconv.FormatInt(int64(next), 10), orZero(stored[0][3]))
	if err != nil {
		return err
	}
	if err := run(ctx, conn, "COMMIT"); err != nil {
		return said(err)
	}
	c.positions = make([]*position, len(c.shards))
	for _, r := range rows {
		k, _ := strconv.Atoi(r[0])
		p := &position{}
		p.owner, _ = strconv.ParseInt(r[1], 10, 64)
		at, _ := strconv.ParseInt(r[2], 10, 64)
		p.next = stream.Offset(at)
		for text := range strings.SplitSeq(r[3], ",") {
			if at, err := strconv.ParseInt(text, 10, 64); err == nil {
				p.refused = append(p.refused, stream.Offset(at))
			}
		}
		c.positions[k] = p
	}
	return nil
}

func orZero(text string) string {
	if text == "" {
		return "0"
	}
	return text
}

// begin starts a transaction and moves the position. It fails with stream.ErrFenced if the position
// or its owner has changed.
func (b *batch) begin(ctx context.Context, behind stream.Offset) error {
	if err := run(ctx, b.conn, "BEGIN"); err != nil {
		return err
	}
	p := b.position
	p.moved = max(p.next, behind)
	result := b.conn.ExecParams(ctx, `UPDATE afterbay_positions SET next = $6, refused = $7::bigint[]
		WHERE sink = $1 AND partition = $2 AND shard = $3 AND owner = $4 AND next = $5`,
		[][]byte{[]byte(b.options.Group), []byte(b.partition.String()), number(int64(b.number)), number(p.owner), number(int64(p.next)), number(int64(p.moved)), []byte(p.list())}, nil, nil, nil).Read()
	if result.Err != nil {
		return result.Err
	}
	if result.CommandTag.RowsAffected() != 1 {
		return fmt.Errorf("owner %d of shard %d of %v at offset %d: %w", p.owner, b.number, b.partition, p.next, stream.ErrFenced)
	}
	return nil
}

func number(v int64) []byte { return strconv.AppendInt(nil, v, 10) }

// commit commits the transaction. It first stores the refused records, if there are new ones.
func (b *batch) commit(ctx context.Context, refused bool) error {
	p := b.position
	if refused {
		result := b.conn.ExecParams(ctx, "UPDATE afterbay_positions SET refused = $4::bigint[] WHERE sink = $1 AND partition = $2 AND shard = $3",
			[][]byte{[]byte(b.options.Group), []byte(b.partition.String()), number(int64(b.number)), []byte(p.list())}, nil, nil, nil).Read()
		if result.Err != nil {
			return result.Err
		}
	}
	if err := run(ctx, b.conn, "COMMIT"); err != nil {
		return err
	}
	p.next = p.moved
	return nil
}

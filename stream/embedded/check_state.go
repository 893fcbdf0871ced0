package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/afterbay/afterbay/internal/vfs"
	"github.com/afterbay/afterbay/stream"
)

// checkpoint reads every block of state/, and takes from it what the log's own
// cells say.
func (c *checker) checkpoint() error {
	if _, err := c.fs.List(c.path("state")); err != nil {
		return ignoreMissing(err)
	}
	logger := &fatalLogger{failed: make(chan error, 1)}
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("panic: %v", p)
			}
		}()
		done <- c.readCheckpoint(logger)
	}()
	var err error
	select {
	case err = <-done:
	case err = <-logger.failed:
	}
	cp := &c.report.Checkpoint
	switch {
	case errors.Is(err, pebble.ErrDBDoesNotExist):
		return nil // nothing was ever checkpointed
	case errors.Is(err, fs.ErrPermission), errors.Is(err, errReadOnly):
		return fmt.Errorf("read state: %w", err)
	case err == nil && cp.Seen < cp.Applied && cp.Seen > 0:
		err = fmt.Errorf("it says that it has all of %d frames and parts of %d", cp.Applied, cp.Seen)
	}
	cp.Found, cp.Sound = true, err == nil
	if err != nil {
		*cp = CheckpointReport{Found: true}
		c.cells = newExtents()
		c.damage(Damage{Path: c.path("state"), What: "the checkpoint cannot be read: " + err.Error()})
	}
	return nil
}

// fatalLogger is Pebble's logger. Pebble expects Fatalf not to return.
type fatalLogger struct{ failed chan error }

func (l *fatalLogger) Infof(string, ...any)  {}
func (l *fatalLogger) Errorf(string, ...any) {}

func (l *fatalLogger) Fatalf(format string, args ...any) {
	select {
	case l.failed <- fmt.Errorf(format, args...):
	default:
	}
	runtime.Goexit()
}

// unlocked is the file system of a database whose folder is locked from above.
type unlocked struct{ vfs.FS }

// Lock does nothing.
func (unlocked) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

func (c *checker) readCheckpoint(logger pebble.Logger) (err error) {
	db, err := pebble.Open(c.path("state"), &pebble.Options{
		FS: unlocked{c.fs}, ReadOnly: true, Logger: logger, FormatMajorVersion: pebble.FormatTableFormatV6,
		EventListener: &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}}, // the read says it too
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	levels, err := db.SSTables()
	if err != nil {
		return err
	}
	var most CheckpointReport
	for _, tables := range levels {
		for _, table := range tables {
			c.report.Checkpoint.Tables++
			c.report.Checkpoint.Bytes += int64(table.Size)
			if err := c.readTable(fmt.Sprintf("%s.sst", table.FileNum), &most); err != nil {
				return err
			}
		}
	}
	if err := c.readCells(db); err != nil {
		return err
	}
	if cp := &c.report.Checkpoint; cp.Applied < most.Applied || cp.Seen < most.Seen {
		return fmt.Errorf("its MANIFEST lacks an end: frames up to %d are in its tables, and it knows those up to %d", max(most.Seen, most.Applied), cp.Seen)
	}
	return nil
}

// readTable compares the checksum of every block, of its filter too.
func (c *checker) readTable(name string, most *CheckpointReport) error {
	path := c.path("state", name)
	f, err := c.fs.Open(path)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	r, err := sstable.NewReader(context.Background(), readable, sstable.ReaderOptions{})
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", path, err), readable.Close())
	}
	err = r.ValidateBlockChecksums()
	if err == nil {
		err = marks(r, most)
	}
	if err := errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// marks raises most to the redo point and mark in a table, whether the database
// still knows that it wrote them or not.
func marks(r *sstable.Reader, most *CheckpointReport) error {
	it, err := r.NewIter(sstable.NoTransforms, []byte(keyApplied), []byte(keySeen+"\x00"), sstable.AssertNoBlobHandles)
	if err != nil {
		return err
	}
	for kv := it.First(); kv != nil; kv = it.Next() {
		value, _, err := kv.Value(nil)
		if err != nil || len(value) != 8 {
			return errors.Join(err, it.Close())
		}
		most.note(string(kv.K.UserKey), value)
	}
	return errors.Join(it.Error(), it.Close())
}

// The store's own keys.
const (
	keyApplied = "\x00\x00applied"
	keySeen    = "\x00\x00seen"
)

// note takes up one of the store's own keys.
func (cp *CheckpointReport) note(key string, value []byte) {
	switch seq := binary.LittleEndian.Uint64(value); key {
	case keyApplied:
		cp.Applied = max(cp.Applied, seq)
	case keySeen:
		cp.Seen = max(cp.Seen, seq)
	}
}

// readCells reads all keys, in the order in which the database has them.
func (c *checker) readCells(db *pebble.DB) error {
	own := append([]byte{0, byte(len(metaSpace))}, metaSpace...)
	it, err := db.NewIter(nil)
	if err != nil {
		return err
	}
	for it.First(); it.Valid(); it.Next() {
		value, valueErr := it.ValueAndErr()
		if err = valueErr; err != nil {
			break
		}
		switch key := it.Key(); {
		case (string(key) == keyApplied || string(key) == keySeen) && len(value) == 8:
			c.report.Checkpoint.note(string(key), value)
		case bytes.HasPrefix(key, own):
			if err = c.cell(key[len(own):], value); err != nil {
				err = fmt.Errorf("cell %q: %w", key, err)
			}
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, it.Error(), it.Close())
}

// cell takes up the offsets of partitions and groups.
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

package state

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/afterbay/afterbay/internal/sys/vfs"
	"github.com/afterbay/afterbay/stream"
)

// DamageError says that a file of the checkpoint is not what was written, in a
// way that no interrupted write explains.
type DamageError struct {
	Path   string // the file, or the folder where nothing tells which
	Offset int64  // in bytes; 0 also where it is unknown
	Reason string
}

// Error says what is damaged and why.
func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged at byte %d: %s", e.Path, e.Offset, e.Reason)
}

// damaged makes a *DamageError of what Pebble says of a store in dir, or of its
// logger, unless a call of the system failed or the store is closed: what is
// left is bytes that it does not understand, and files that are missing.
func damaged(dir string, err, logged error) error {
	var known *DamageError
	var file damage
	var call syscall.Errno
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.As(errors.Join(err, logged), &file):
		return &DamageError{Path: file.info.Path, Reason: file.info.Details.Error()}
	case errors.As(err, &call) && call != syscall.ENOENT, errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrClosed), errors.Is(err, stream.ErrClosed):
		return err
	}
	return &DamageError{Path: dir, Reason: err.Error()}
}

// Contents are what a checkpoint holds.
type Contents struct {
	Found         bool   // there is a checkpoint
	Applied, Seen uint64 // as of the methods of Store
	Tables        int
	Bytes         int64 // of the tables
}

// Verify reads every block of the checkpoint in dir, which no store has open,
// and changes nothing. It hands each value of a space to visit, which must not
// keep the slices. A *DamageError says what is damaged; another error that it
// could not read.
func Verify(files vfs.FS, dir string, visit func(space string, key, value []byte) error) (Contents, error) {
	v := &verifier{files: files, dir: dir, visit: visit}
	if _, err := files.List(dir); errors.Is(err, fs.ErrNotExist) {
		return Contents{}, nil
	}
	broken := newBreaker()
	err := broken.guard(context.Background(), func() error { return v.run(broken) })
	if errors.Is(err, pebble.ErrDBDoesNotExist) {
		return Contents{}, nil
	}
	v.found.Found = true
	if err != nil {
		return Contents{Found: true}, fmt.Errorf("verify state in %s: %w", dir, damaged(dir, err, nil))
	}
	return v.found, nil
}

type verifier struct {
	files vfs.FS
	dir   string
	visit func(space string, key, value []byte) error
	found Contents
	most  Contents // as the tables say, whether the database still knows that it wrote them or not
}

func (v *verifier) run(broken *breaker) (err error) {
	if err := checkManifest(v.files, v.dir); err != nil {
		return err
	}
	db, err := pebble.Open(v.dir, &pebble.Options{
		FS: locked{v.files}, ReadOnly: true, Logger: broken, FormatMajorVersion: formatVersion,
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
	for _, tables := range levels {
		for _, table := range tables {
			v.found.Tables++
			v.found.Bytes += int64(table.Size)
			if err := v.table(fmt.Sprintf("%s.sst", table.FileNum)); err != nil {
				return err
			}
		}
	}
	if err := v.values(db); err != nil {
		return err
	}
	switch f := &v.found; {
	case f.Applied < v.most.Applied || f.Seen < v.most.Seen:
		return fmt.Errorf("frames up to %d are in its tables, and it knows those up to %d", max(v.most.Seen, v.most.Applied), f.Seen)
	case f.Seen < f.Applied && f.Seen > 0:
		return fmt.Errorf("it says that it has all of %d frames and parts of %d", f.Applied, f.Seen)
	}
	return nil
}

// table compares the checksum of every block of a table, of its filter too.
func (v *verifier) table(name string) error {
	path := v.files.PathJoin(v.dir, name)
	f, err := v.files.Open(path)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(context.Background(), readable, sstable.ReaderOptions{})
	if err != nil {
		return damaged(path, errors.Join(err, readable.Close()), nil)
	}
	err = r.ValidateBlockChecksums()
	if err == nil {
		err = v.marks(r)
	}
	return damaged(path, errors.Join(err, r.Close()), nil)
}

// marks reads the store's own keys in a table.
func (v *verifier) marks(r *sstable.Reader) error {
	it, err := r.NewIter(sstable.NoTransforms, keyApplied, append(bytes.Clone(keySeen), 0), sstable.AssertNoBlobHandles)
	if err != nil {
		return err
	}
	for kv := it.First(); kv != nil; kv = it.Next() {
		value, _, err := kv.Value(nil)
		if err != nil {
			return errors.Join(err, it.Close())
		}
		v.most.note(kv.K.UserKey, value)
	}
	return errors.Join(it.Error(), it.Close())
}

// note takes up one of the store's own keys.
func (c *Contents) note(key, value []byte) {
	if len(value) != 8 {
		return
	}
	switch seq := binary.LittleEndian.Uint64(value); {
	case bytes.Equal(key, keyApplied):
		c.Applied = max(c.Applied, seq)
	case bytes.Equal(key, keySeen):
		c.Seen = max(c.Seen, seq)
	}
}

// values reads all keys, in the order in which the database has them.
func (v *verifier) values(db *pebble.DB) error {
	it, err := db.NewIter(nil)
	if err != nil {
		return err
	}
	for it.First(); it.Valid() && err == nil; it.Next() {
		value, valueErr := it.ValueAndErr()
		if err = valueErr; err == nil {
			err = v.value(it.Key(), value)
		}
	}
	return errors.Join(err, it.Error(), it.Close())
}

func (v *verifier) value(key, value []byte) error {
	if bytes.HasPrefix(key, []byte{0, 0}) {
		v.found.note(key, value)
		return nil
	}
	if len(key) < 2 || len(key)-2 < int(binary.BigEndian.Uint16(key)) {
		return fmt.Errorf("key %q is in no space", key)
	}
	name, key := key[2:2+binary.BigEndian.Uint16(key)], key[2+binary.BigEndian.Uint16(key):]
	if err := v.visit(string(name), key, value); err != nil {
		return fmt.Errorf("cell %q: %w", key, err)
	}
	return nil
}

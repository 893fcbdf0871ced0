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

// DamageError means that a checkpoint file differs from the written one in a way that no
// interrupted write explains.
type DamageError struct {
	Path   string // the file, or the folder if the file is unknown
	Offset int64  // in bytes; 0 if unknown
	Reason string
}

// Error says which file is damaged and why.
func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged at byte %d: %s", e.Path, e.Offset, e.Reason)
}

// damaged converts errors of Pebble, or of its logger, to a *DamageError for a store in dir. It
// leaves errors of system calls and of a closed store unchanged. The others mean bytes that Pebble
// does not understand, or missing files.
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

// Contents describes the content of a checkpoint.
type Contents struct {
	Found         bool   // a checkpoint exists
	Applied, Seen uint64 // as returned by the methods of Store
	Tables        int
	Bytes         int64 // of the tables
}

// Verify reads every block of the checkpoint in dir and changes nothing. No store may have it open.
// Verify passes each value of a space to visit, which must not keep the slices. A *DamageError
// describes damage. Any other error means that it could not read.
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
	most  Contents // maximum over all tables, including tables that the database no longer knows
}

func (v *verifier) run(broken *breaker) (err error) {
	if err := checkManifest(v.files, v.dir); err != nil {
		return err
	}
	db, err := pebble.Open(v.dir, &pebble.Options{
		FS: locked{v.files}, ReadOnly: true, Logger: broken, FormatMajorVersion: formatVersion,
		EventListener: &pebble.EventListener{DataCorruption: func(pebble.DataCorruptionInfo) {}}, // the read returns the error too
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
		return fmt.Errorf("frames up to %d are in its tables, but its manifest ends with %d", max(v.most.Seen, v.most.Applied), f.Seen)
	case f.Seen < f.Applied && f.Seen > 0:
		return fmt.Errorf("it claims all of %d frames and parts of %d", f.Applied, f.Seen)
	}
	return nil
}

// table verifies the checksum of every block of a table, including its filter.
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

// note records one of the store's own keys.
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

// values reads all keys in the order of the database.
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

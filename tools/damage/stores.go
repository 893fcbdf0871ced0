package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/dgraph-io/badger/v4"
	"go.etcd.io/bbolt"
	_ "modernc.org/sqlite"

	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/embedded"
)

var topic = stream.Partition{Topic: "events"}

var afterbayStore = store{
	name: "Afterbay",
	write: func(dir string) (func() error, error) {
		l, err := embedded.Open(dir, options())
		if err != nil {
			return nil, err
		}
		ctx := context.Background()
		err = l.CreateTopic(ctx, stream.Topic{Name: topic.Topic, Partitions: 1})
		for c := 0; c < commits && err == nil; c++ {
			batch := make([]stream.Record, records)
			for r := range batch {
				batch[r] = stream.Record{Partition: topic, Key: []byte(key(c, r)), Value: []byte(value(c, r))}
			}
			err = l.Append(ctx, batch...)
		}
		return l.Close, err
	},
	read: func(dir string, seen func(int, int, string)) (bool, error) {
		l, err := embedded.Open(dir, options())
		if err != nil {
			return false, errors.Join(errOpen, err)
		}
		defer l.Close()
		ctx := context.Background()
		_, next, err := l.Offsets(ctx, topic)
		if err != nil || next == 0 {
			return l.Recovery().CutSeq > 0, err
		}
		for rec, err := range l.Tail(ctx, topic, 0) {
			if err != nil {
				return false, err
			}
			see(seen, string(rec.Key), string(rec.Value))
			if rec.Offset == next-1 {
				break
			}
		}
		return l.Recovery().CutSeq > 0, nil
	},
}

func options() embedded.Options {
	return embedded.Options{SegmentBytes: 256 << 10, RingBytes: 1, Logger: slog.New(slog.DiscardHandler)}
}

// see parses a key and passes the record on.
func see(seen func(int, int, string), key, value string) {
	c, r := -1, -1
	_, _ = fmt.Sscanf(key, "%d-%d", &c, &r)
	seen(c, r, value)
}

type silent struct{}

func (silent) Infof(string, ...any)           {}
func (silent) Errorf(string, ...any)          {}
func (silent) Warningf(string, ...any)        {}
func (silent) Debugf(string, ...any)          {}
func (silent) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

var pebbleStore = store{
	name: "Pebble",
	write: func(dir string) (func() error, error) {
		db, err := pebble.Open(dir, &pebble.Options{Logger: silent{}, FormatMajorVersion: pebble.FormatNewest})
		if err != nil {
			return nil, err
		}
		for c := 0; c < commits && err == nil; c++ {
			b := db.NewBatch()
			for r := range records {
				err = errors.Join(err, b.Set([]byte(key(c, r)), []byte(value(c, r)), nil))
			}
			err = errors.Join(err, b.Commit(pebble.Sync))
			if c == commits/2 {
				err = errors.Join(err, db.Flush())
			}
		}
		return db.Close, err
	},
	read: func(dir string, seen func(int, int, string)) (bool, error) {
		db, err := pebble.Open(dir, &pebble.Options{Logger: silent{}, FormatMajorVersion: pebble.FormatNewest, ErrorIfNotExists: true})
		if err != nil {
			return false, errors.Join(errOpen, err)
		}
		it, err := db.NewIter(nil)
		if err != nil {
			return false, err
		}
		for ok := it.First(); ok; ok = it.Next() {
			v, err := it.ValueAndErr()
			if err != nil {
				return false, err
			}
			see(seen, string(it.Key()), string(v))
		}
		return false, it.Error()
	},
}

var badgerStore = store{
	name: "Badger",
	write: func(dir string) (func() error, error) {
		db, err := badger.Open(badger.DefaultOptions(dir).WithSyncWrites(true).WithLogger(nil).WithValueLogFileSize(1 << 20).WithMemTableSize(8 << 20).WithValueThreshold(1 << 10))
		for c := 0; c < commits && err == nil; c++ {
			err = db.Update(func(tx *badger.Txn) (err error) {
				for r := range records {
					err = errors.Join(err, tx.Set([]byte(key(c, r)), []byte(value(c, r))))
				}
				return err
			})
		}
		return func() error { return db.Close() }, err
	},
	read: func(dir string, seen func(int, int, string)) (bool, error) {
		db, err := badger.Open(badger.DefaultOptions(dir).WithSyncWrites(true).WithLogger(nil).WithValueLogFileSize(1 << 20).WithMemTableSize(8 << 20).WithValueThreshold(1 << 10))
		if err != nil {
			return false, errors.Join(errOpen, err)
		}
		err = db.View(func(tx *badger.Txn) error {
			it := tx.NewIterator(badger.DefaultIteratorOptions)
			defer it.Close()
			for it.Rewind(); it.Valid(); it.Next() {
				v, err := it.Item().ValueCopy(nil)
				if err != nil {
					return err
				}
				see(seen, string(it.Item().Key()), string(v))
			}
			return nil
		})
		return false, err
	},
}

var bucket = []byte("b")

var bboltStore = store{
	name: "bbolt",
	write: func(dir string) (func() error, error) {
		db, err := bbolt.Open(filepath.Join(dir, "db"), 0o600, nil)
		for c := 0; c < commits && err == nil; c++ {
			err = db.Update(func(tx *bbolt.Tx) error {
				b, err := tx.CreateBucketIfNotExists(bucket)
				for r := 0; r < records && err == nil; r++ {
					err = b.Put([]byte(key(c, r)), []byte(value(c, r)))
				}
				return err
			})
		}
		return func() error { return db.Close() }, err
	},
	read: func(dir string, seen func(int, int, string)) (bool, error) {
		db, err := bbolt.Open(filepath.Join(dir, "db"), 0o600, nil)
		if err != nil {
			return false, errors.Join(errOpen, err)
		}
		return false, db.View(func(tx *bbolt.Tx) error {
			b := tx.Bucket(bucket)
			if b == nil {
				return nil
			}
			return b.ForEach(func(k, v []byte) error {
				see(seen, string(k), string(v))
				return nil
			})
		})
	},
}

var sqliteStore = store{
	name: "SQLite",
	write: func(dir string) (func() error, error) {
		db, err := sqlite(dir)
		if err == nil {
			_, err = db.Exec("create table t (k text primary key, v text)")
		}
		for c := 0; c < commits && err == nil; c++ {
			var tx *sql.Tx
			if tx, err = db.Begin(); err != nil {
				break
			}
			for r := 0; r < records && err == nil; r++ {
				_, err = tx.Exec("insert into t values (?, ?)", key(c, r), value(c, r))
			}
			err = errors.Join(err, tx.Commit())
		}
		return db.Close, err
	},
	read: func(dir string, seen func(int, int, string)) (bool, error) {
		db, err := sqlite(dir)
		if err != nil {
			return false, errors.Join(errOpen, err)
		}
		rows, err := db.Query("select k, v from t")
		if err != nil {
			return false, err
		}
		for rows.Next() {
			var k, v string
			if err := rows.Scan(&k, &v); err != nil {
				return false, err
			}
			see(seen, k, v)
		}
		return false, rows.Err()
	},
}

func sqlite(dir string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", filepath.Join(dir, "db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, db.Ping()
}

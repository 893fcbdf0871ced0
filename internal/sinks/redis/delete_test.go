package redis_test

import (
	"testing"

	"github.com/afterbay/afterbay/stream"
)

// deletion is a record without a value, of an event of a source.
func deletion(source string, offset int64, generation int, key string) stream.Record {
	r := from(source, offset, generation, "")
	r.Key, r.Value = []byte(key), nil
	return r
}

// TestADeletedKeyStaysDeleted deletes keys as hashes and as texts. What is older than the deletion
// does not make the key again.
func TestADeletedKeyStaysDeleted(t *testing.T) {
	for _, json := range []bool{false, true} {
		b := newBase(t)
		o := artifacts(b.server.URL)
		o.JSON, o.Deletes = json, true
		c := b.claim(o)
		b.write(c, record(0, 1, "a", "0"), record(1, 1, "b", "1"), deletion("contacts/0", 2, 1, "a"), deletion("contacts/0", 3, 1, "never"))
		b.want("0", "EXISTS", "artifact:a")
		b.want("1", "EXISTS", "artifact:b")
		if o := b.write(c, record(0, 1, "a", "0"), deletion("contacts/0", 2, 1, "a"), record(0, 1, "never", "0")); o.Older != 3 || len(o.Refused) > 0 {
			t.Errorf("older ones again: %+v", o)
		}
		b.want("0", "EXISTS", "artifact:a", "artifact:never")
		if o := b.write(c, deletion("contacts/1", 9, 1, "b"), record(4, 1, "a", "again"), from("contacts/1", 10, 1, `{"id":"never","body":"x"}`)); o.Foreign != 2 || len(o.Refused) != 2 {
			t.Errorf("of another source: %+v", o)
		}
		b.want("2", "EXISTS", "artifact:a", "artifact:b")
		b.want("0", "EXISTS", "afterbay_deleted:{artifact:a}artifact:a")
		if o := b.write(c, deletion("contacts/0", 3, 1, "a")); o.Older != 1 {
			t.Errorf("an older deletion: %+v", o)
		}
		b.want("1", "EXISTS", "artifact:a")
		b.write(c, deletion("contacts/0", 0, 2, "a")) // derived again
		b.want("0", "EXISTS", "artifact:a")
		if ttl := b.do("PTTL", "afterbay_deleted:{artifact:a}artifact:a"); len(ttl) != 8 {
			t.Errorf("the mark lives for %s ms", ttl)
		}
		b.write(c, record(11, 1, "x{u}", "1"), deletion("contacts/0", 12, 1, "x{u}"), record(13, 1, "x}", "1"), deletion("contacts/0", 14, 1, "x}"))
		b.want("0", "EXISTS", "artifact:x{u}", "artifact:x}")
		b.want("1", "EXISTS", "afterbay_deleted:{u}artifact:x{u}")
	}
}

// TestARecordWithoutAValueIsRefusedUnlessKeysAreDeleted holds that only a topic of which emits
// delete keys has deletions.
func TestARecordWithoutAValueIsRefusedUnlessKeysAreDeleted(t *testing.T) {
	b := newBase(t)
	c := b.claim(artifacts(b.server.URL))
	b.write(c, record(0, 1, "a", "0"))
	if o := b.write(c, deletion("contacts/0", 1, 1, "a")); len(o.Refused) != 1 {
		t.Errorf("%+v", o)
	}
	b.want("1", "EXISTS", "artifact:a")
}

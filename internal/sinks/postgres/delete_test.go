package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/stream"
)

// deletion is a record without a value, of an event of a source.
func deletion(source string, offset int64, generation int, key string) stream.Record {
	r := from(source, offset, offset, generation, "")
	r.Key, r.Value = []byte(key), nil
	return r
}

func TestARowIsDeletedByTheNewestRecordOfItsKey(t *testing.T) {
	b := newBase(t)
	o := artifacts(b.url)
	o.ExactlyOnce, o.Deletes, o.Connections = true, true, 2
	c := b.claim(b.open(o), 0)
	all := "SELECT id, body FROM artifacts ORDER BY id"
	if o := b.write(c, record(0, 1, text("a", "0")), record(1, 1, text("b", "1")), record(2, 1, text("c", "2")), deletion("contacts/0", 3, 1, "a"), deletion("contacts/0", 4, 1, "none")); o.Older != 2 || len(o.Refused) > 0 { // neither row is there
		t.Errorf("%+v", o)
	}
	b.want(all, "b 1", "c 2")
	if o := b.write(c, deletion("contacts/1", 5, 1, "b"), record(6, 1, text("a", "again")), deletion("contacts/0", 7, 1, "c"), record(8, 1, text("c", "again"))); o.Foreign != 1 || len(o.Refused) != 1 || !strings.Contains(o.Refused[0].Err.Error(), "from another source") {
		t.Errorf("%+v", o)
	}
	b.want(all, "a again", "b 1", "c again")
}

func TestAZombieDoesNotMakeADeletedRowAgain(t *testing.T) {
	b := newBase(t)
	o := artifacts(b.url)
	o.ExactlyOnce, o.Deletes, o.Connections = true, true, 1
	first, second := b.open(o), b.open(o)
	zombie := b.claim(first, 0)
	owner := b.claim(second, 0)
	b.write(owner, record(0, 1, text("a", "0")), deletion("contacts/0", 1, 1, "a"))
	if _, err := zombie.Write(t.Context(), 0, []stream.Record{record(0, 1, text("a", "0"))}); !errors.Is(err, stream.ErrFenced) {
		t.Errorf("the zombie wrote: %v", err)
	}
	b.write(b.claim(second, 0), record(0, 1, text("a", "0")), deletion("contacts/0", 1, 1, "a")) // after a crash
	b.want("SELECT id FROM artifacts")
}

func TestADeletionFindsRowsByAnIntKey(t *testing.T) {
	b := newBase(t)
	o := artifacts(b.url)
	o.ExactlyOnce, o.Deletes, o.Columns[0].Type = true, true, typed("int")
	c := b.claim(b.open(o), 0)
	out := b.write(c, record(0, 1, `{"id":7,"body":"x"}`), record(1, 1, `{"id":8,"body":"y"}`), deletion("contacts/0", 2, 1, "7"), deletion("contacts/0", 3, 1, "seven"))
	if len(out.Refused) != 1 || out.Refused[0].Index != 3 || out.Refused[0].Err.Error() != `the record has no value, and its key "seven" is not an int` {
		t.Errorf("%+v", out)
	}
	b.want("SELECT id FROM artifacts", "8")
}

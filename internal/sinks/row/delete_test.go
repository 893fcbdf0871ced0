package row_test

import (
	"errors"
	"testing"

	"github.com/afterbay/afterbay/internal/sinks/row"
	"github.com/afterbay/afterbay/sink"
)

func TestRowsAreDeletedByTheKeyOfTheirRecords(t *testing.T) {
	topic := sink.Topic{Name: "names", Columns: []sink.Column{{Name: "id", Type: "int"}, {Name: "n", Type: "int"}}, Deletes: true, Keys: []string{"id"}}
	for _, c := range []struct{ key, version, want string }{
		{"id", "", ""},
		{"n", "", `the emits to "names" delete keys, and "n" is not the key of their records`},
		{"id", "n", `the emits to "names" delete keys, and a record without a value has no version`},
	} {
		_, found := row.Map(topic, nil, c.key, c.version)
		if err := errors.Join(found...); err == nil && c.want != "" || err != nil && err.Error() != c.want {
			t.Errorf("key %q, version %q: %v, want %q", c.key, c.version, err, c.want)
		}
	}
}

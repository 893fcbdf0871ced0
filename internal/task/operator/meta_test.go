package operator_test

import (
	"testing"

	"github.com/afterbay/afterbay/internal/event/value"
	"github.com/afterbay/afterbay/internal/task/operator"
	"github.com/afterbay/afterbay/stream"
)

// TestNamesOfHeadersAreAbsentWhereTheyAreNot reads names of clients and of headers.
func TestNamesOfHeadersAreAbsentWhereTheyAreNot(t *testing.T) {
	const absent = "\x00"
	for _, c := range []struct{ name, key, header, want string }{
		{"meta.tenant", "x-client-event", "t/c/e", "t"}, {"meta.client", "x-client-event", "t/c/e", "c"}, {"meta.client", "x-client-event", "t/c/e/f", "c"},
		{"meta.tenant", "x-client-event", "t/c", absent}, {"meta.client", "x-client-event", "", absent}, {"meta.tenant", "other", "t/c/e", absent},
		{"meta.causalId", "x-client-causal", "e0", "e0"}, {"meta.causalId", "x-client-causal", "\xff", absent},
		{"meta.priority", "x-client-priority", "9", "9"}, {"meta.priority", "x-client-priority", "high", absent}, {"meta.priority", "x-client-priority", "", absent},
		{`meta.headers["a"]`, "a", "", ""}, {`meta.headers["a"]`, "a", "b", "b"}, {`meta.headers["a"]`, "A", "b", absent}, {`meta.headers["a"]`, "a", "\xc3", absent},
	} {
		h, ok := operator.HeaderNamed(c.name)
		if !ok {
			t.Fatalf("%s is not a name", c.name)
		}
		schema := &value.Schema{}
		slot, err := schema.Add(c.name, h.Type())
		if err != nil || !slot.Type.Optional {
			t.Fatal(slot, err)
		}
		h.Slot = slot
		row := &schema.NewRows(1)[0]
		h.Set(row, &stream.Record{Headers: []stream.Header{{Key: c.key, Value: []byte(c.header)}, {Key: c.key, Value: []byte("2/2/2")}}})
		got := absent
		switch {
		case row.Has(slot) && slot.Type.Kind == value.Int:
			got = string(row.AppendKey(nil, slot))
		case row.Has(slot):
			got = row.Text(slot)
		}
		if got != c.want {
			t.Errorf("%s of %s: %q is %q, want %q", c.name, c.key, c.header, got, c.want)
		}
	}
	for _, name := range []string{"meta.id", "meta.headers", `meta.headers[""]`, `meta.headers["a b"]`, `meta.headers["ü"]`, `meta.headers["\""]`, `meta.headers[a]`, "client"} {
		if _, ok := operator.HeaderNamed(name); ok {
			t.Errorf("%s is a name", name)
		}
	}
}

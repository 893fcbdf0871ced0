package explain

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/observe"
	"github.com/afterbay/afterbay/internal/ops/inspect"
	"github.com/afterbay/afterbay/stream"
)

// TestTimingsOfADirectoryAreBoundedAndRead has chunks whose events all waited in another way, more
// than a directory keeps.
func TestTimingsOfADirectoryAreBoundedAndRead(t *testing.T) {
	const chunks, each = observe.TurnsMax/1024 + 3, 1024
	var list Timings
	for i := range chunks {
		one := inspect.Timing{Pipeline: "p", Topic: "p.repartition", First: int64(i * each), Next: int64((i + 1) * each), Ordered: true}
		for k := range each {
			one.Turns = append(one.Turns, observe.Waited{Next: one.First + int64(k) + 1, Order: time.Hour + time.Duration(k), For: "a.topic.with.a.long.name.of.many.parts/1234"})
		}
		list = append(list, one)
	}
	list.bound()
	dir, text := t.TempDir(), bytes.Buffer{}
	for encoder := json.NewEncoder(&text); len(list) > 0; list = list[1:] {
		if err := encoder.Encode(list[0]); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(timingsPath(dir), text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	list = ReadTimings(dir)
	if len(list) != chunks {
		t.Fatalf("%d timings are read of %d", len(list), chunks)
	}
	for i, one := range list {
		found, ok := list.Find("p", stream.Partition{Topic: "p.repartition"}, stream.Offset(one.Next-1))
		w, known := found.Turns.At(one.Next - 1)
		if !ok || known != (i >= 3) || known && w.Order != time.Hour+each-1 {
			t.Errorf("timing %d: %v, wait %+v, %v", i, ok, w, known)
		}
	}
}

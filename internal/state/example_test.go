package state_test

import (
	"context"
	"fmt"

	"github.com/afterbay/afterbay/internal/state"
	"github.com/afterbay/afterbay/internal/sys/vfs"
)

// An engine applies the changes of frames that are durable, and makes a
// checkpoint now and then.
func Example() {
	store, err := state.Open(state.Options{Dir: "state", FS: vfs.NewMemory()})
	if err != nil {
		panic(err)
	}
	defer store.Close()

	counts := store.Space("group/events/0")
	counts.Apply(1, func(yield func(key, value []byte) bool) {
		_ = yield([]byte("ada"), []byte("2")) && yield([]byte("bob"), []byte("1"))
	})
	counts.Apply(2, func(yield func(key, value []byte) bool) {
		yield([]byte("bob"), nil) // deletes
	})
	if err := store.Checkpoint(context.Background(), 2, true); err != nil {
		panic(err)
	}
	for entry, err := range counts.Scan(nil) {
		fmt.Printf("%s=%s %v\n", entry.Key, entry.Value, err)
	}
	fmt.Println("redo from frame", store.Applied()+1)
	// Output:
	// ada=2 <nil>
	// redo from frame 3
}

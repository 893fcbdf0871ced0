package state

// arena allocates large pieces of memory outside the garbage-collected heap, if the system can.
// Inside the heap, the collector would let garbage grow to the size of the cells. release frees
// pieces that were not given back.
type arena struct {
	taken map[*byte][]byte
}

// arenaLeast is the smallest size that uses system memory.
const arenaLeast = 64 << 10

// take returns size zero bytes.
func (a *arena) take(size int) []byte {
	if size >= arenaLeast {
		if b, err := systemMemory(size); err == nil {
			a.taken[&b[0]] = b
			return b
		}
	}
	return make([]byte, size)
}

// give gives back memory that take returned.
func (a *arena) give(b []byte) {
	if _, ok := a.taken[&b[0]]; ok {
		delete(a.taken, &b[0])
		returnMemory(b)
	}
}

// release frees all memory.
func (a *arena) release() {
	for _, b := range a.taken {
		returnMemory(b)
	}
}

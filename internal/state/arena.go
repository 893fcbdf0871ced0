package state

// arena gives memory in large pieces that the garbage collector knows nothing
// of, where the system can: else it would let as much garbage grow beside the
// cells as they take. What is not given back goes with release.
type arena struct {
	taken map[*byte][]byte
}

// arenaLeast is the size from which on memory is the system's.
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

// give gives back what take returned.
func (a *arena) give(b []byte) {
	if _, ok := a.taken[&b[0]]; ok {
		delete(a.taken, &b[0])
		returnMemory(b)
	}
}

// release gives back all.
func (a *arena) release() {
	for _, b := range a.taken {
		returnMemory(b)
	}
}

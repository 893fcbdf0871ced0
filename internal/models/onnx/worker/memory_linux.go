package worker

import "golang.org/x/sys/unix"

// limitMemory limits the writable memory of the process: the heaps of Go and of C. It does not
// count reserved address space, because Go and C reserve much.
func limitMemory(bytesMax int64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &limit); err != nil {
		return err
	}
	limit.Cur = min(uint64(bytesMax), limit.Max)
	return unix.Setrlimit(unix.RLIMIT_DATA, &limit)
}

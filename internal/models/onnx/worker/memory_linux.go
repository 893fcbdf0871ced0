package worker

import "golang.org/x/sys/unix"

// limitMemory limits what the process can write to: its heaps, those of Go and
// of C. Address space that is only reserved, of which Go and C take much, does
// not count.
func limitMemory(bytesMax int64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &limit); err != nil {
		return err
	}
	limit.Cur = min(uint64(bytesMax), limit.Max)
	return unix.Setrlimit(unix.RLIMIT_DATA, &limit)
}

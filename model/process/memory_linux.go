package process

import (
	"fmt"
	"os"
)

// resident returns the resident memory of a process in bytes, or 0 where nobody
// can say.
func resident(pid int) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(data), &size, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

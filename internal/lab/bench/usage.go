package bench

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/afterbay/afterbay/internal/sys/procfs"
)

// usageOf is what the process has used.
type usageOf struct {
	at     time.Time
	cpu    time.Duration
	memory runtime.MemStats
}

func usageNow() usageOf {
	var u usageOf
	runtime.ReadMemStats(&u.memory)
	u.cpu = cpuNow()
	u.at = time.Now()
	return u
}

// cpuNow returns the processor time of the process, user and system.
func cpuNow() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// residentBytes returns the memory that the process holds and the most that it
// held, where the system says so.
func residentBytes() (now, peak int64, ok bool) {
	now, errNow := procfs.Memory(os.Getpid(), "VmRSS")
	peak, errPeak := procfs.Memory(os.Getpid(), "VmHWM")
	return now, peak, errNow == nil && errPeak == nil
}

// countFiles returns how many files a folder holds, and their bytes. One that
// goes meanwhile is left out.
func countFiles(dir string) (files, bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil
		}
		if about, err := entry.Info(); err == nil {
			files++
			bytes += about.Size()
		}
		return nil
	})
	return files, bytes
}

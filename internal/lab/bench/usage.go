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

// usageOf is the resource use of the process up to a time.
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

// cpuNow returns the processor time of the process, user and system together.
func cpuNow() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// residentBytes returns the current and the largest memory of the process, in bytes. ok is false if
// the system does not report them.
func residentBytes() (now, peak int64, ok bool) {
	now, errNow := procfs.Memory(os.Getpid(), "VmRSS")
	peak, errPeak := procfs.Memory(os.Getpid(), "VmHWM")
	return now, peak, errNow == nil && errPeak == nil
}

// countFiles returns the number of files in a folder and their total size in bytes. It ignores
// files that are removed meanwhile.
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

// Package procfs reads process data of Linux (proc(5)). On other systems every function fails.
package procfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const tick = 10 * time.Millisecond // the kernel counts CPU time in hundredths of a second

// CPU returns the CPU time of a process and its threads, user and system.
func CPU(pid int) (time.Duration, error) {
	s, err := statOf(pid)
	return time.Duration(s.user+s.system) * tick, err
}

// Memory returns a memory size of a process in bytes, by its name in /proc/PID/status. VmRSS is the
// current resident memory, VmHWM its peak.
func Memory(pid int, name string) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/PID/status lacks %s", name)
}

// ForgetPeak resets the VmHWM of a process to its current resident memory.
func ForgetPeak(pid int) error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// Resident returns the resident memory of a process and all of its descendants in bytes, or 0 if
// the system does not report it.
func Resident(pid int) (bytes int64) {
	paths, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	pages, children := map[int]int64{}, map[int][]int{}
	for _, path := range paths {
		id, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		if s, err := statOf(id); err == nil { // otherwise the process has ended
			pages[id], children[s.parent] = s.pages, append(children[s.parent], id)
		}
	}
	for list := []int{pid}; len(list) > 0; {
		last := list[len(list)-1]
		bytes += pages[last] * int64(os.Getpagesize())
		list = append(list[:len(list)-1], children[last]...)
	}
	return bytes
}

// stat holds the needed fields of /proc/PID/stat.
type stat struct {
	parent       int
	user, system int64 // in ticks
	pages        int64 // resident
}

func statOf(pid int) (s stat, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s, err
	}
	// Count fields after the name. The name is in parentheses and may contain spaces.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 22 {
		return s, errors.New("/proc/PID/stat is short")
	}
	var errs [4]error
	s.parent, errs[0] = strconv.Atoi(fields[1])
	s.user, errs[1] = strconv.ParseInt(fields[11], 10, 64)
	s.system, errs[2] = strconv.ParseInt(fields[12], 10, 64)
	s.pages, errs[3] = strconv.ParseInt(fields[21], 10, 64)
	return s, errors.Join(errs[:]...)
}

package main

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
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
	file, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, 0, false
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			continue
		}
		kib, err := strconv.ParseInt(words[1], 10, 64)
		switch {
		case err != nil:
		case words[0] == "VmRSS:":
			now = kib << 10
		case words[0] == "VmHWM:":
			peak = kib << 10
		}
	}
	return now, peak, now > 0 && peak > 0
}

// residentOf returns the memory that a process holds, with those that it started
// and so on; 0 where the system does not say.
func residentOf(process int) (held int64) {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0
	}
	resident, children := map[int]int64{}, map[int][]int{}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it ended meanwhile
		}
		words := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])) // behind the program's name, which may have spaces
		if len(words) < 22 {
			continue
		}
		id, err1 := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		parent, err2 := strconv.Atoi(words[1])
		pages, err3 := strconv.ParseInt(words[21], 10, 64)
		if err1 == nil && err2 == nil && err3 == nil {
			resident[id], children[parent] = pages*int64(os.Getpagesize()), append(children[parent], id)
		}
	}
	for list := []int{process}; len(list) > 0; {
		last := list[len(list)-1]
		held += resident[last]
		list = append(list[:len(list)-1], children[last]...)
	}
	return held
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

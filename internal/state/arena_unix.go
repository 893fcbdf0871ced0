//go:build unix

package state

import "syscall"

func systemMemory(size int) ([]byte, error) {
	return syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
}

// returnMemory unmaps memory. If the process has too many mappings, the memory stays mapped.
func returnMemory(b []byte) { _ = syscall.Munmap(b) }

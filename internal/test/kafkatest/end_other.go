//go:build !linux

package kafkatest

import "syscall"

// endWithParent leaves a broker behind where a test process is killed: only
// Linux has a way to see to it.
func endWithParent() *syscall.SysProcAttr { return nil }

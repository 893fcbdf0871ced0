//go:build !linux

package kafkatest

import "syscall"

// endWithParent does nothing: if a test process is killed, its broker keeps running. Only Linux can
// prevent that.
func endWithParent() *syscall.SysProcAttr { return nil }

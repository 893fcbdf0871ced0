package kafkatest

import "syscall"

// endWithParent lets the kernel kill a broker when its test process ends, also if that was killed
// or reached go test's timeout.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

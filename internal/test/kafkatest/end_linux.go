package kafkatest

import "syscall"

// endWithParent lets the kernel kill a broker whose test process is gone, also
// where that was killed or ran into go test's timeout.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

package servertest

import (
	"os"
	"os/exec"
	"syscall"
)

// asUser has a program run in a group of its own and, since PostgreSQL refuses
// root, as somebody else where the tests run as root.
func asUser(command *exec.Cmd) *exec.Cmd {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		const anybody = 1000
		command.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		command.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: anybody, HostID: 0, Size: 1}}
		command.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: anybody, HostID: 0, Size: 1}}
	}
	return command
}

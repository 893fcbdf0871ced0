package servertest

import (
	"os"
	"os/exec"
	"syscall"
)

// asUser runs a program in its own process group. If the tests run as root, it runs as another
// user, because PostgreSQL refuses root.
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

//go:build unix

package process

import (
	"os"
	"os/exec"
	"syscall"
)

// apart puts the process into a group of its own: what it starts ends with it,
// and an interrupt at the terminal is not for it.
func apart(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// kill ends a process that is not reaped yet, and its group.
func kill(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

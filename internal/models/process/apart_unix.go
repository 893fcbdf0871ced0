//go:build unix

package process

import (
	"os"
	"os/exec"
	"syscall"
)

// apart puts the process into its own process group. Its children end with it, and an interrupt at
// the terminal does not reach it.
func apart(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// kill kills a process that is not reaped yet, and its group.
func kill(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

//go:build !linux

package servertest

import (
	"os/exec"
	"syscall"
)

// asUser has a program run in a group of its own.
func asUser(command *exec.Cmd) *exec.Cmd {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return command
}

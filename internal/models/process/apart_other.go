//go:build !unix

package process

import (
	"os"
	"os/exec"
)

func apart(*exec.Cmd) {}

func kill(p *os.Process) { _ = p.Kill() }

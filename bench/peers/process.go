package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// process is a running system.
type process struct {
	command *exec.Cmd
	log     string // file with its output
	ended   chan struct{}
}

const stopWait = 15 * time.Second

// begin starts a system, with environment added to that of this process. Its output goes to a file
// in dir.
func begin(dir string, argv, environment []string) (*process, error) {
	log := filepath.Join(dir, "log")
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p := &process{command: exec.Command(argv[0], argv[1:]...), log: log, ended: make(chan struct{})}
	p.command.Stdout, p.command.Stderr = file, file
	p.command.Env = append(os.Environ(), environment...)
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	go func() {
		defer close(p.ended)
		_ = p.command.Wait() // how it ended is in its log
	}()
	return p, nil
}

// stop ends the process and waits for it.
func (p *process) stop() {
	_ = p.command.Process.Signal(syscall.SIGTERM) // it may be gone
	select {
	case <-p.ended:
	case <-time.After(stopWait):
		_ = p.command.Process.Kill()
		<-p.ended
	}
}

// check fails where the process has ended, with the last lines it said.
func (p *process) check(ctx context.Context) error {
	select {
	case <-p.ended:
		said, err := os.ReadFile(p.log)
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		return fmt.Errorf("%s ended: %s", p.command.Path, strings.Join(lines[max(0, len(lines)-20):], "\n"))
	case <-ctx.Done():
		return ctx.Err()
	default:
		return nil
	}
}

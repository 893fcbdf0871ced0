package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/afterbay/afterbay/internal/gateway/auth"
	"github.com/afterbay/afterbay/internal/sys/procfs"
)

// process is a running server. Its address stays the same over restarts.
type process struct {
	address string
	dir     string
	argv    []string
	env     []string

	command *exec.Cmd
	ended   chan struct{}
}

const (
	startTimeout = 30 * time.Second
	stopTimeout  = time.Minute
	serverEnv    = "GATEWAY_LOAD_SERVER" // which server a process of this program is
	addressEnv   = "GATEWAY_LOAD_ADDRESS"
	signingKey   = "the key of the bench that signs tokens"
	cursorKey    = "the key of the bench that signs cursors"
)

// settings configure ours.
type settings struct {
	pipeline string // its text
	limits   string // of the gateway file, without braces
	drain    time.Duration
	files    map[string]string // beside them
}

const decidePipeline = `pipeline: chat
input:
  topic: messages
  partitions: 2
  key: user
  fields: {user: string, text: string}
commit: {interval: 5ms}
steps:
  - decide: {action: 'len(text) > 5000 ? "slow" : "show"'}
  - emit: {topic: decisions, value: [user, text, action]}
`

// startOurs starts pipeline, sequencer and gateway in one process.
func (b *bench) startOurs(s settings) (*process, error) {
	p, err := b.place("ours")
	if err != nil {
		return nil, err
	}
	limits := cmp.Or(s.limits, "pending: 200, tenant: {connections: 20000, rate: 1000000, burst: 1000000}")
	files := map[string]string{
		"pipeline.yaml": s.pipeline,
		"keys.yaml":     "keys: [{id: k1, secret: '${GATEWAY_KEY}', audience: chat}]\n",
		"gateway.yaml": fmt.Sprintf(`gateway: chat
listen: %s
pipeline: {input: messages, outputs: [decisions], dead_letters: [chat.dlq]}
keys: keys.yaml
cursor_key: ${CURSOR_KEY}
partitions: 2
drain: %v
limits: {connections: 20000, address: {connections: 20000, rate: 1000000, burst: 1000000}, %s}
`, p.address, cmp.Or(s.drain, time.Second), limits),
	}
	for _, list := range []map[string]string{files, s.files} {
		for name, text := range list {
			if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
				return nil, err
			}
		}
	}
	p.argv = []string{b.afterbay, "run", "pipeline.yaml", "--gateway", "gateway.yaml", "--listen", "127.0.0.1:0", "--data", "data"}
	p.env = []string{"GATEWAY_KEY=" + signingKey, "CURSOR_KEY=" + cursorKey}
	return p, p.start()
}

// startServer starts this program as one of servers.
func (b *bench) startServer(name string, env []string) (*process, error) {
	p, err := b.place(name)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p.argv = []string{self}
	p.env = append([]string{serverEnv + "=" + name, addressEnv + "=" + p.address}, env...)
	return p, p.start()
}

// place returns a process that is not started yet, with a folder and an address.
func (b *bench) place(name string) (*process, error) {
	b.runs++
	p := &process{dir: filepath.Join(b.dir, fmt.Sprintf("%s-%d", name, b.runs))}
	if err := errors.Join(os.RemoveAll(p.dir), os.MkdirAll(p.dir, 0o755)); err != nil {
		return nil, err
	}
	for range 100 { // below the ports that the system assigns to connections, so it is free again after a kill
		p.address = fmt.Sprint("127.0.0.1:", 10_000+rand.IntN(10_000))
		if l, err := net.Listen("tcp", p.address); err == nil {
			return p, l.Close()
		}
	}
	return nil, errors.New("no free port between 10000 and 20000")
}

// start starts the process and waits until it accepts connections. Its output goes to a file.
func (p *process) start() error {
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	p.command, p.ended = exec.Command(p.argv[0], p.argv[1:]...), make(chan struct{})
	p.command.Dir, p.command.Stdout, p.command.Stderr = p.dir, log, log
	p.command.Env = append(os.Environ(), p.env...)
	if err := p.command.Start(); err != nil {
		return err
	}
	go func(command *exec.Cmd, ended chan struct{}) { // until the process ends
		_ = command.Wait() // how it ended is in its log
		close(ended)
	}(p.command, p.ended)
	for end := time.Now().Add(startTimeout); ; {
		conn, err := net.DialTimeout("tcp", p.address, time.Second)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-p.ended:
			return p.explain(errors.New("it ended"))
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(end) {
			p.kill()
			return p.explain(fmt.Errorf("it takes no connections: %w", err))
		}
	}
}

// stop ends the process and waits for it.
func (p *process) stop() {
	_ = p.command.Process.Signal(syscall.SIGTERM) // it may be gone
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
		p.kill()
	}
}

// gone reports whether the process has ended.
func (p *process) gone() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (p *process) kill() {
	_ = p.command.Process.Kill() // it may be gone
	<-p.ended
}

// explain adds the end of the process's output to an error.
func (p *process) explain(err error) error {
	if err == nil {
		return nil
	}
	said, _ := os.ReadFile(filepath.Join(p.dir, "log"))
	return fmt.Errorf("%w; the log of %s ends with:\n%s", err, filepath.Base(p.dir), said[max(0, len(said)-2000):])
}

// cpu returns the CPU time of the process, or 0 if it is gone.
func (p *process) cpu() time.Duration {
	used, _ := procfs.CPU(p.command.Process.Pid)
	return used
}

const settleMost = 5 * time.Second

// settle waits until the process is nearly idle, for a limited time.
func (p *process) settle(ctx context.Context) {
	for end := time.Now().Add(settleMost); ctx.Err() == nil && time.Now().Before(end); {
		used := p.cpu()
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
		}
		if p.cpu()-used < 25*time.Millisecond {
			return
		}
	}
}

// memory returns a line of the process's status, in MB: VmRSS, or VmHWM, the most
// since forgetPeak.
func (p *process) memory(line string) float64 {
	bytes, _ := procfs.Memory(p.command.Process.Pid, line)
	return float64(bytes) / (1 << 20)
}

func (p *process) forgetPeak() error {
	return procfs.ForgetPeak(p.command.Process.Pid)
}

// tokenOf returns the token of a client.
func tokenOf(tenant, client string) string {
	keys, err := auth.New(auth.Keys{Keys: []auth.Key{{ID: "k1", Secret: signingKey, Audience: "chat"}}}, auth.Options{})
	if err != nil {
		panic(err) // the key is above
	}
	text, err := keys.Issue("k1", auth.Identity{Tenant: tenant, Client: client}, time.Hour)
	if err != nil {
		panic(err) // names are by this program
	}
	return text
}

package kafkatest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	startMax = 5 * time.Minute // a busy machine takes 20 s, and one with 30 at work beside it minutes
	stopMax  = 2 * time.Minute // a busy machine takes long to end it
)

// Broker is one process of Kafka. Its methods are for one goroutine at a time;
// its addresses stay the same over restarts.
type Broker struct {
	Address string // of clients that may do everything, host:port

	// With Options.Secure: user admin, password admin-secret, may do everything,
	// worker, password worker-secret, what ACLs allow, by PLAIN, SCRAM-SHA-256 and
	// SCRAM-SHA-512; OAUTHBEARER takes unsigned tokens.
	SASL   string
	TLS    string // SASL over TLS: Cluster.CertificateFile
	Mutual string // TLS with client certificates (Cluster.ClientFiles): the client may do everything

	Behind []string // where Options.Proxies hand connections on to, one each

	script, dir string
	number      int
	command     *exec.Cmd     // nil before the first start
	ended       chan struct{} // closed when the process is gone and waited for
}

func newBroker(script, dir string, number, port int, secure bool) *Broker {
	at := func(offset int) string { return "127.0.0.1:" + strconv.Itoa(port+offset) }
	b := &Broker{Address: at(0), script: script, dir: dir, number: number}
	if secure {
		b.SASL, b.TLS, b.Mutual = at(2), at(3), at(4)
	}
	return b
}

// Start starts a broker that Kill or Stop ended, on the data it left, and
// returns when it serves.
func (b *Broker) Start(ctx context.Context) error {
	if err := b.begin(); err != nil {
		return err
	}
	return b.await(ctx)
}

// Kill ends the process with SIGKILL, also a paused one; nothing happens where
// it is gone.
func (b *Broker) Kill() error {
	if err := b.signal(syscall.SIGKILL); err != nil {
		return err
	}
	if b.command != nil {
		<-b.ended
	}
	return nil
}

// Stop ends the process with SIGTERM, or with SIGKILL and an error when it is
// still there after two minutes.
func (b *Broker) Stop() error {
	if err := b.signal(syscall.SIGTERM); err != nil || b.command == nil {
		return err
	}
	timer := time.NewTimer(stopMax)
	defer timer.Stop()
	select {
	case <-b.ended:
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("broker %s did not stop within %v", b.Address, stopMax), b.Kill())
	}
}

// Pause stops the process with SIGSTOP: connections stay, nothing answers.
func (b *Broker) Pause() error { return b.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (b *Broker) Resume() error { return b.signal(syscall.SIGCONT) }

func (b *Broker) signal(signal syscall.Signal) error {
	if b.command == nil {
		return nil
	}
	if err := b.command.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %v to broker %s: %w", signal, b.Address, err)
	}
	return nil
}

func (b *Broker) begin() error {
	if b.command != nil {
		select {
		case <-b.ended:
		default:
			return fmt.Errorf("broker %s runs", b.Address)
		}
	}
	// What await looks for is in the log of the process before, too.
	if err := os.Rename(b.logFile(), b.logFile()+".1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	log, err := os.Create(b.logFile())
	if err != nil {
		return err
	}
	defer log.Close()
	command := exec.Command(b.script, "run", "--dir", b.dir, "--node", strconv.Itoa(b.number))
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = endWithParent()
	if err := command.Start(); err != nil {
		return fmt.Errorf("start broker %s: %w", b.Address, err)
	}
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // its log says more
		close(ended)
	}()
	b.command, b.ended = command, ended
	return nil
}

func (b *Broker) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		log, err := os.ReadFile(b.logFile())
		if err != nil {
			return err
		}
		if bytes.Contains(log, []byte("Kafka Server started")) {
			return nil
		}
		select {
		case <-tick.C:
		case <-b.ended:
			return fmt.Errorf("broker %s ended before it served; the end of its log:\n%s", b.Address, b.tail())
		case <-ctx.Done():
			return fmt.Errorf("broker %s does not serve: %w; the end of its log:\n%s", b.Address, ctx.Err(), b.tail())
		}
	}
}

// Logged returns how many lines of its log have the text, since it was started last.
func (b *Broker) Logged(text string) (n int, err error) {
	log, err := os.ReadFile(b.logFile())
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte(text)) {
			n++
		}
	}
	return n, nil
}

func (b *Broker) logFile() string {
	return filepath.Join(b.dir, "n"+strconv.Itoa(b.number), "log")
}

func (b *Broker) tail() string {
	log, err := os.ReadFile(b.logFile())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// Package servertest starts real servers of Redis, PostgreSQL and S3 for tests, each
// a process of its own on this machine.
package servertest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Password is that of the servers; the user of PostgreSQL is postgres.
const Password = "told to nobody"

const startMax = 3 * time.Minute // a busy machine takes seconds

// Server is a process of a server. Its address stays the same over restarts. Its
// methods are for one goroutine at a time.
type Server struct {
	URL string // with the password

	program     string
	arguments   []string
	environment []string // beside that of the test
	ready       func(ctx context.Context) error
	command     *exec.Cmd
	said        bytes.Buffer
}

// Redis starts a server that ends with the test. AFTERBAY_REDIS is the program,
// redis-server of version 6 or later: without it the test is skipped.
func Redis(t testing.TB) *Server {
	t.Helper()
	program := Named(t, "AFTERBAY_REDIS", "no program redis-server")
	port := freePort(t)
	s := &Server{
		URL: fmt.Sprintf("redis://:%s@127.0.0.1:%s/0", "told%20to%20nobody", port), program: program,
		arguments: []string{"--bind", "127.0.0.1", "--port", port, "--requirepass", Password, "--save", "", "--appendonly", "yes", "--appendfsync", "always", "--dir", t.TempDir()},
	}
	s.ready = func(ctx context.Context) error {
		to, err := (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+port)
		if err != nil {
			return err
		}
		defer to.Close()
		if deadline, ok := ctx.Deadline(); ok {
			to.SetDeadline(deadline)
		}
		fmt.Fprintf(to, "*2\r\n$4\r\nAUTH\r\n$%d\r\n%s\r\n", len(Password), Password)
		answer := make([]byte, 3)
		if _, err := to.Read(answer); err != nil || string(answer) != "+OK" {
			return fmt.Errorf("answer %q: %v", answer, err)
		}
		return nil
	}
	s.run(t)
	return s
}

// Postgres starts a server with an empty database that ends with the test.
// AFTERBAY_POSTGRES is the folder with initdb, postgres and pg_isready: without it
// the test is skipped.
func Postgres(t testing.TB) *Server {
	t.Helper()
	s, err := newPostgres(Named(t, "AFTERBAY_POSTGRES", withoutPostgres), t.TempDir(), freePort(t))
	if err != nil {
		t.Fatal(err)
	}
	s.run(t)
	return s
}

const withoutPostgres = "no folder with initdb and postgres"

// Shared is a PostgreSQL that the tests of a package have in common, since making
// one takes a second or two: its first test starts it.
//
//	var postgres servertest.Shared
//
//	func TestMain(m *testing.M) { os.Exit(postgres.Run(m)) }
type Shared struct {
	mu     sync.Mutex // guards the rest
	tried  bool
	dir    string
	server *Server
	err    error
}

// Get returns the server, which serves unless a test ended it. Without one the test
// is skipped, as Postgres says.
func (s *Shared) Get(t testing.TB) *Server {
	t.Helper()
	folder := Named(t, "AFTERBAY_POSTGRES", withoutPostgres)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.tried {
		s.tried = true
		if s.dir, s.err = os.MkdirTemp("", "postgres"); s.err == nil {
			s.server, s.err = newPostgres(folder, s.dir, freePort(t))
		}
		if s.err == nil {
			s.err = s.server.Start(context.Background())
		}
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.server
}

// Run runs the tests, ends the server and returns the code to exit with.
func (s *Shared) Run(m interface{ Run() int }) int {
	code := m.Run()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		s.server.Kill()
	}
	if s.dir != "" {
		if err := os.RemoveAll(s.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return code
}

// newPostgres creates a server with its data in dir. It does not start it.
func newPostgres(folder, dir, port string) (*Server, error) {
	secret, data := filepath.Join(dir, "password"), filepath.Join(dir, "data")
	if err := os.WriteFile(secret, []byte(Password), 0o600); err != nil {
		return nil, err
	}
	made := asUser(exec.Command(filepath.Join(folder, "initdb"), "-D", data, "-U", "postgres", "-A", "scram-sha-256", "--pwfile", secret, "-E", "UTF8", "--no-locale", "--no-sync"))
	if said, err := made.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, said)
	}
	s := &Server{
		URL:     fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%s/postgres", "told%20to%20nobody", port),
		program: filepath.Join(folder, "postgres"),
		// Sockets in the file system are off: their paths would be too long.
		arguments: []string{"-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off"},
	}
	s.ready = func(ctx context.Context) error {
		return exec.CommandContext(ctx, filepath.Join(folder, "pg_isready"), "-h", "127.0.0.1", "-p", port).Run()
	}
	return s, nil
}

// Named returns the value of an environment variable. Without it the test is skipped, or fails if
// all tests are required; without describes the variable.
func Named(t testing.TB, variable, without string) string {
	t.Helper()
	value := os.Getenv(variable)
	if value == "" {
		if os.Getenv("AFTERBAY_FULL") == "1" {
			t.Fatalf("AFTERBAY_FULL=1 but %s names %s", variable, without)
		}
		t.Skipf("NOT RUN: %s names %s", variable, without)
	}
	return value
}

// claims are listeners beside the ports that this process was given.
var claims struct {
	sync.Mutex
	list []net.Listener
}

// FreePorts returns ports for servers that need fixed ports; the port after each is reserved too.
// The ports are below those that systems assign to connections, so no other program takes them
// while a server is down. They are above those of kafkatest. The process listens on a third port,
// which claims both among tests of other processes.
func FreePorts(t testing.TB, n int) (ports []int) {
	t.Helper()
	for tries := 0; len(ports) < n; tries++ {
		port := 30_000 + 3*rand.IntN(900)
		claim, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port+2))
		if err == nil {
			if err = free(port, port+1); err == nil {
				claims.Lock()
				claims.list = append(claims.list, claim)
				claims.Unlock()
				ports = append(ports, port)
				continue
			}
			_ = claim.Close()
		}
		if tries > 1000 {
			t.Fatal(err)
		}
	}
	return ports
}

// free returns an error if something listens on one of the ports.
func free(ports ...int) error {
	for _, port := range ports {
		listener, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			return err
		}
		_ = listener.Close()
	}
	return nil
}

func freePort(t testing.TB) string { return strconv.Itoa(FreePorts(t, 1)[0]) }

func (s *Server) run(t testing.TB) {
	t.Helper()
	t.Cleanup(s.Kill)
	if err := s.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// Start starts the server, on the data it left, and returns when it serves.
func (s *Server) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startMax)
	defer cancel()
	s.said.Reset()
	s.command = asUser(exec.Command(s.program, s.arguments...))
	s.command.Env = append(os.Environ(), s.environment...)
	s.command.Stdout, s.command.Stderr, s.command.WaitDelay = &s.said, &s.said, time.Second
	if err := s.command.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.program, err)
	}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := s.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			s.Kill()
			return fmt.Errorf("start %s: %w, it said:\n%s", s.program, err, s.said.Bytes())
		}
	}
}

// Pid is the number of the process.
func (s *Server) Pid() int { return s.command.Process.Pid }

// Kill ends the process, also a paused one. Its connections break.
func (s *Server) Kill() {
	if s.command == nil || s.command.Process == nil {
		return
	}
	s.signal(syscall.SIGKILL)
	s.command.Wait()
	s.command = nil
}

// Pause stops the process: connections stay, and nothing is answered. Those that
// PostgreSQL has accepted are other processes, which go on.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(signal syscall.Signal) { syscall.Kill(-s.command.Process.Pid, signal) }

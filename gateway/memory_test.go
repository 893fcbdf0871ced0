package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/afterbay/afterbay/gateway"
	"github.com/afterbay/afterbay/gateway/wire"
	"github.com/afterbay/afterbay/stream"
	"github.com/afterbay/afterbay/stream/memory"
)

const serverEnv = "AFTERBAY_GATEWAY_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serverEnv) != "" {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serve is a process that serves a gateway until its input ends, and says how much
// memory it has when nothing is garbage.
func serve() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	log := memory.New(memory.Options{})
	for _, topic := range []string{"inbox", "results"} {
		if err := log.CreateTopic(ctx, stream.Topic{Name: topic, Partitions: partitions}); err != nil {
			return err
		}
	}
	g, err := gateway.New(ctx, log, tokens{}, gateway.Options{CursorKey: make([]byte, 32), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	go func() { _ = g.Run(ctx) }()
	mux := http.NewServeMux()
	mux.Handle("/", g.Handler())
	mux.HandleFunc("/resident", func(w http.ResponseWriter, _ *http.Request) {
		debug.FreeOSMemory()
		status, _ := os.ReadFile("/proc/self/status")
		_, rest, _ := strings.Cut(string(status), "VmRSS:")
		fmt.Fprint(w, strings.Fields(rest)[0])
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() { _ = http.Serve(l, mux) }() //nolint:gosec // a test's
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// TestIdleConnectionTakesLittleMemory connects clients to another process, and
// divides what it has more by their number.
func TestIdleConnectionTakesLittleMemory(t *testing.T) {
	clients := 1000
	if os.Getenv("AFTERBAY_FULL") != "" {
		clients = 5000
	}
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), serverEnv+"=1")
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stdin.Close()
		if err := child.Wait(); err != nil {
			t.Error(err)
		}
	}()
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address = strings.TrimSpace(address)
	connect := func(n int) {
		for i := range n {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			c, _, err := dialRaw(conn, offered, fmt.Sprint("Authorization: Bearer acme.c", i))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.send(&wire.Connect{}); err != nil {
				t.Fatal(err)
			}
			if f, err := c.receive(); err != nil {
				t.Fatalf("%+v, %v", f, err)
			}
		}
	}
	resident := func() (kilobytes int) {
		r, err := http.Get("http://" + address + "/resident") //nolint:noctx // a test's
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Body.Close() }()
		if _, err := fmt.Fscan(r.Body, &kilobytes); err != nil {
			t.Fatal(err)
		}
		return kilobytes
	}
	connect(100) // what is made once is there
	before := resident()
	connect(clients)
	each := float64(resident()-before) / float64(clients)
	t.Logf("%.1f KB for each of %d idle connections", each, clients)
	if each > 16 {
		t.Errorf("%.1f KB for an idle connection, want 16 at most", each)
	}
}

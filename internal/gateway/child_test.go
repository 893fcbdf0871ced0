package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lxzan/gws"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/gateway/wire"
	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/internal/sys/procfs"
	"github.com/afterbay/afterbay/internal/test/kafkatest"
)

const serverEnv = "AFTERBAY_GATEWAY_TEST_SERVER"

var broker kafkatest.Shared

func TestMain(m *testing.M) {
	if os.Getenv(serverEnv) != "" {
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(broker.Run(m))
}

// serve is a process that serves a gateway, on an instant log, until its input ends.
// It tells how much it uses.
func serve() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	log := newInstant()
	g, err := gateway.New(ctx, log, tokens{}, gateway.Options{CursorKey: make([]byte, 32), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	go func() { _ = g.Run(ctx) }()
	mux := http.NewServeMux()
	server := g.Server(server.Options{Handler: mux})
	mux.Handle("/v1/", g.Handler())
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("/resident", func(w http.ResponseWriter, _ *http.Request) {
		debug.FreeOSMemory()
		_ = procfs.ForgetPeak(os.Getpid())
		fmt.Fprint(w, kilobytes("VmRSS"))
	})
	mux.HandleFunc("/peak", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, kilobytes("VmHWM")) })
	mux.HandleFunc("/sent", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, g.Metrics().Results.Load()) })
	mux.HandleFunc("/cpu", func(w http.ResponseWriter, _ *http.Request) {
		var used syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
		fmt.Fprint(w, used.Utime.Nano()+used.Stime.Nano())
	})
	mux.HandleFunc("/results", func(w http.ResponseWriter, r *http.Request) {
		if err := results(r, log); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() { _ = server.Serve(narrow{l}) }()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// narrow gives connections little room in the network, so that one that is not read
// stands still soon.
type narrow struct{ net.Listener }

func (n narrow) Accept() (net.Conn, error) {
	conn, err := n.Listener.Accept()
	if err == nil {
		err = conn.(*net.TCPConn).SetWriteBuffer(32 << 10)
	}
	return conn, err
}

// kilobytes returns a size of the process.
func kilobytes(name string) int64 {
	bytes, _ := procfs.Memory(os.Getpid(), name)
	return bytes >> 10
}

// results appends results of a client: from number first, n of them, of so many
// bytes.
func results(r *http.Request, log *instant) error {
	var first, n, size int
	query := r.URL.Query()
	client := query.Get("client")
	if _, err := fmt.Sscan(query.Get("first")+" "+query.Get("n")+" "+query.Get("bytes"), &first, &n, &size); err != nil {
		return err
	}
	payload := json.RawMessage(strconv.Quote(strings.Repeat("x", size)))
	for i := first; i < first+n; i++ {
		result := wire.Result{Tenant: client, Client: client, Seq: uint64(i), Event: fmt.Sprint("e", i), Status: wire.StatusOK, Payload: payload}
		if err := log.Append(r.Context(), wire.ResultRecord("results", &result)); err != nil {
			return err
		}
	}
	return nil
}

// echo answers a message by as many, as long, as an event is answered by: an
// accepted and a result. It does so by the library alone, and reads nothing of what
// comes.
func echo(w http.ResponseWriter, r *http.Request) {
	conn, err := gws.NewUpgrader(echoes{}, &gws.ServerOption{CheckUtf8Enabled: true}).Upgrade(w, r)
	if err == nil {
		go conn.ReadLoop()
	}
}

type echoes struct{ gws.BuiltinEventHandler }

func (echoes) OnMessage(c *gws.Conn, m *gws.Message) {
	_ = c.WriteMessage(m.Opcode, answers[:acceptedBytes])
	_ = c.WriteMessage(m.Opcode, answers[:resultBytes])
	_ = m.Close()
}

// What answers an event of submissions, in bytes.
const acceptedBytes, resultBytes = 89, 220

var answers = bytes.Repeat([]byte("x"), resultBytes)

// child is such a process.
type child struct {
	testing.TB
	address string
}

func startChild(t testing.TB) *child {
	t.Helper()
	command := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	command.Env = append(os.Environ(), serverEnv+"=1")
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // behind those of connections
		_ = stdin.Close()
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
	})
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return &child{t, strings.TrimSpace(address)}
}

// ask returns the number that a path says.
func (c *child) ask(path string) (n int64) {
	c.Helper()
	r, err := http.Get("http://" + c.address + path) //nolint:noctx // a test's
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		c.Fatalf("%s: %s %s, %v", path, r.Status, body, err)
	}
	if len(body) > 0 {
		if _, err := fmt.Sscan(string(body), &n); err != nil {
			c.Fatal(err)
		}
	}
	return n
}

// dial returns a connection to a path that is upgraded, of a client that is a tenant
// of its own; its end is the test's.
func (c *child) dial(path, client string, buffer int) *raw {
	c.Helper()
	conn, err := (&net.Dialer{}).DialContext(c.Context(), "tcp", c.address)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = conn.Close() })
	if buffer > 0 {
		if err := conn.(*net.TCPConn).SetReadBuffer(buffer); err != nil {
			c.Fatal(err)
		}
	}
	w, _, err := dialPath(conn, path, offered, "Authorization: Bearer "+client+"."+client)
	if err != nil {
		c.Fatal(err)
	}
	return w
}

// connect returns a connection of a client that is connected.
func (c *child) connect(client string, resume *wire.Resume, buffer int) (*raw, *wire.Connected) {
	c.Helper()
	w := c.dial("/v1/stream", client, buffer)
	if err := w.send(&wire.Connect{Resume: resume}); err != nil {
		c.Fatal(err)
	}
	f, err := w.receive()
	connected, ok := f.(*wire.Connected)
	if err != nil || !ok {
		c.Fatalf("%+v, %v", f, err)
	}
	return w, connected
}

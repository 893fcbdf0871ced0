package gateway_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/afterbay/afterbay/internal/gateway"
	"github.com/afterbay/afterbay/internal/http/server"
)

// TestPeersOfOthersAreServed has clients as people install them connect, send, get
// results, and go on after a cut: PyPI's websockets and cloudevents, npm's ws and
// eventsource. PyPI's schemathesis makes requests up.
func TestPeersOfOthersAreServed(t *testing.T) {
	python := os.Getenv("AFTERBAY_CLIENTS")
	if python == "" {
		if os.Getenv("AFTERBAY_FULL") == "1" {
			t.Fatal("AFTERBAY_FULL=1 but AFTERBAY_CLIENTS names no interpreter that has the clients: make deps installs one")
		}
		t.Skip("AFTERBAY_CLIENTS names no interpreter that has the clients")
	}
	modules := filepath.Join(filepath.Dir(python), "..", "node_modules")
	w := newWorld(t, gateway.Options{})
	defer w.close()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	w.ok(err)
	server := w.gateway.Server(server.Options{})
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()
	host, examples, seed := l.Addr().String(), "8", "1"
	if strict() {
		examples, seed = "100", fmt.Sprint(rand.IntN(1e9))
	}
	for name, command := range map[string][]string{
		"websockets":   {python, "testdata/peers.py", "ws://" + host},
		"ws":           {"node", "testdata/peers.mjs", "ws", "http://" + host, modules},
		"eventsource":  {"node", "testdata/peers.mjs", "eventsource", "http://" + host, modules},
		"cloudevents":  {python, "testdata/cloud.py", "http://" + host},
		"schemathesis": {python, "testdata/fuzz.py", "http://" + host, examples, seed},
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
				t.Errorf("%q: %v\n%s", command, err, out)
			}
		})
	}
}

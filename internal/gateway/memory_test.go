package gateway_test

import (
	"fmt"
	"os"
	"testing"
)

// TestIdleConnectionTakesLittleMemory connects clients to another process, and
// divides what it has more by their number.
func TestIdleConnectionTakesLittleMemory(t *testing.T) {
	clients := 1000
	if os.Getenv("AFTERBAY_FULL") != "" {
		clients = 5000
	}
	c := startChild(t)
	connect := func(n int) {
		for i := range n {
			c.connect(fmt.Sprint("c", i), nil, 0)
		}
	}
	connect(100) // what is made once is there
	before := c.ask("/resident")
	connect(clients)
	each := float64(c.ask("/resident")-before) / float64(clients)
	t.Logf("%.1f KB for each of %d idle connections", each, clients)
	if each > 16 {
		t.Errorf("%.1f KB for an idle connection, want 16 at most", each)
	}
}

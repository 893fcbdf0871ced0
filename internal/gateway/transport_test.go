package gateway

import (
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// halves is a connection in memory whose sides end one by one, as those of TCP do.
type halves struct{ net.Conn }

func (halves) CloseWrite() error { return nil }

// TestConnectionThatEndsWaitsForItsClient sees that it does not wait for longer than it
// may, whatever still comes.
func TestConnectionThatEndsWaitsForItsClient(t *testing.T) {
	for _, c := range []struct{ after, want time.Duration }{{0, 0}, {time.Second, time.Second}, {time.Hour, lingerMost}} {
		synctest.Test(t, func(t *testing.T) {
			client, server := net.Pipe()
			end := time.Now().Add(c.after)
			var sender sync.WaitGroup
			sender.Go(func() { // it sends until it closes its side, or cannot
				for err := error(nil); err == nil && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
					_, err = client.Write([]byte("more"))
				}
				_ = client.Close()
			})
			conn := &transport{Conn: halves{server}}
			synctest.Wait()
			began := time.Now()
			conn.finish()
			if took := time.Since(began); took != c.want {
				t.Errorf("a client that goes on for %v: %v, want %v", c.after, took, c.want)
			}
			if _, err := server.Write(nil); err == nil {
				t.Errorf("a client that goes on for %v: the connection is open", c.after)
			}
			sender.Wait()
		})
	}
}

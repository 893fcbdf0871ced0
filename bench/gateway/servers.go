package main

import (
	"net"
	"net/http"
	"os"

	"github.com/lxzan/gws"

	"github.com/afterbay/afterbay/internal/gateway/wire"
)

// Names of the servers that this program can run as when it starts itself.
const (
	echoServer   = "echo"
	naiveServer  = "naive"
	workerServer = "worker"
)

var servers = map[string]func() error{echoServer: serveEcho, naiveServer: serveNaive, workerServer: serveWorker}

func serveAt(handler http.Handler) error {
	l, err := net.Listen("tcp", os.Getenv(addressEnv))
	if err != nil {
		return err
	}
	return http.Serve(l, handler) //nolint:gosec // a bench's
}

// socketOptions are those of the gateway.
func socketOptions() *gws.ServerOption {
	return &gws.ServerOption{CheckUtf8Enabled: true, SubProtocols: []string{wire.Protocol}}
}

// serveEcho sends back what comes, by the library alone.
func serveEcho() error {
	return serveAt(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := gws.NewUpgrader(echoes{}, socketOptions()).Upgrade(w, r)
		if err == nil {
			go conn.ReadLoop() // until the connection ends
		}
	}))
}

type echoes struct{ gws.BuiltinEventHandler }

// OnMessage implements gws.Event.
func (echoes) OnMessage(c *gws.Conn, m *gws.Message) {
	_ = c.WriteMessage(m.Opcode, m.Bytes()) // the client sees its end
	_ = m.Close()
}

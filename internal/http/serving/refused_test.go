package serving_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/http/serving"
)

// TestRefusedRequestsDoNotWaitForTheirBodies sends heads of requests, each with a body
// that never comes.
func TestRefusedRequestsDoNotWaitForTheirBodies(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{Token: "secret"})
	address := strings.TrimPrefix(url, "http://")
	for _, path := range []string{streamPath, "/v2/models/sum/infer", "/v1/moderations", "/inference.GRPCInferenceService/ModelStreamInfer", "/nothing"} {
		for _, token := range []string{"wrong", "secret"} {
			if token == "secret" && path != "/nothing" {
				continue
			}
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(time.Minute)) // without an end the test would hang
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\nContent-Type: application/x-ndjson\r\nContent-Length: 100\r\n\r\n{", path, token)
			reply, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			if _, err := io.Copy(io.Discard, reply.Body); err != nil || reply.StatusCode/100 != 4 || !reply.Close {
				t.Errorf("%s: %s, closes %v, %v", path, reply.Status, reply.Close, err)
			}
			if n, err := conn.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("%s: %d bytes more, %v", path, n, err)
			}
		}
	}
}

package serving_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/afterbay/afterbay/internal/http/serving"
)

// TestClientsOfOthersWorkUnchanged runs clients as people install them: those that
// read nothing before they have sent everything, those of the Open Inference
// Protocol and of OpenAI, and a fuzzer of the OpenAPI document. Each has a process
// of its own, since two of them cannot share one.
func TestClientsOfOthersWorkUnchanged(t *testing.T) {
	python := os.Getenv("AFTERBAY_CLIENTS")
	if python == "" {
		if os.Getenv("AFTERBAY_FULL") == "1" {
			t.Fatal("AFTERBAY_FULL=1 but AFTERBAY_CLIENTS names no interpreter that has the clients: make deps installs one")
		}
		t.Skip("AFTERBAY_CLIENTS names no interpreter that has the clients")
	}
	url := start(t, models(), serving.ServerOptions{})
	for _, client := range []string{
		"stream_http_client", "stream_requests", "stream_httpx", "stream_aiohttp", "stream_curl", "stream_node",
		"tritonclient_http", "tritonclient_grpc", "kserve_clients", "openai_client", "schemathesis",
	} {
		t.Run(client, func(t *testing.T) {
			if out, err := exec.CommandContext(t.Context(), python, "testdata/clients.py", url, client, "20").CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

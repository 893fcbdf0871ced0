package serving_test

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/afterbay/afterbay/internal/http/serving"
	"github.com/afterbay/afterbay/internal/models/oip"
)

// TestMessagesOfAStreamGiveTheirMemoryBack sends compressed messages. Each needs
// 48 KiB more than its text.
func TestMessagesOfAStreamGiveTheirMemoryBack(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{})
	stream, err := dial(t, url).NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/inference.GRPCInferenceService/ModelStreamInfer",
		grpc.ForceCodecV2(oip.Codec{}), grpc.UseCompressor("gzip"))
	if err != nil {
		t.Fatal(err)
	}
	ask100 := func() string {
		t.Helper()
		message := inferRequest(true, "FP32", 1, 2, 3, 4)
		for range 100 {
			var reply []byte
			if err := stream.SendMsg(message); err != nil {
				t.Fatal(err)
			}
			if err := stream.RecvMsg(&reply); err != nil {
				t.Fatal(err)
			}
		}
		_, text := ask(t, http.MethodGet, url+"/metrics", "")
		return lines(text, "afterbay_http_memory_bytes ")
	}
	if before, after := ask100(), ask100(); before != after || !strings.Contains(before, " ") {
		t.Errorf("after 100 messages %q, after 200 %q", before, after)
	}
}

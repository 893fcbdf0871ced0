package serving_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/afterbay/afterbay/internal/http/serving"
)

func dial(t *testing.T, url string) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient(strings.TrimPrefix(url, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

func TestHealthOfGRPCNeedsNoToken(t *testing.T) {
	client := grpc_health_v1.NewHealthClient(dial(t, start(t, models(), serving.ServerOptions{Token: "secret"})))
	for _, name := range []string{"", "inference.GRPCInferenceService"} {
		reply, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name})
		if err != nil || reply.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v, %v", name, reply, err)
		}
	}
	if _, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "other"}); status.Code(err) != codes.NotFound {
		t.Errorf("a service that is not there: %v", err)
	}
	watch, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if reply, err := watch.Recv(); err != nil || reply.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("watched: %v, %v", reply, err)
	}
}

// TestWatchersLeaveThePlacesOfStreams watches health without a token, as often as the
// server lets it.
func TestWatchersLeaveThePlacesOfStreams(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{Token: "secret"})
	client := grpc_health_v1.NewHealthClient(dial(t, url))
	watched := 0
	for ; watched <= 100; watched++ {
		watch, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err == nil {
			_, err = watch.Recv()
		}
		if err != nil {
			break
		}
	}
	if watched == 0 || watched > 16 {
		t.Errorf("%d watchers have a place", watched)
	}
	if _, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
}

func TestReflectionDescribesTheProtocol(t *testing.T) {
	stream, err := reflection.NewServerReflectionClient(dial(t, start(t, models(), serving.ServerOptions{}))).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(r *reflection.ServerReflectionRequest) *reflection.ServerReflectionResponse {
		t.Helper()
		if err := stream.Send(r); err != nil {
			t.Fatal(err)
		}
		reply, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	var names []string
	for _, s := range ask(&reflection.ServerReflectionRequest{MessageRequest: &reflection.ServerReflectionRequest_ListServices{}}).GetListServicesResponse().GetService() {
		names = append(names, s.Name)
	}
	if !slices.Contains(names, "inference.GRPCInferenceService") || !slices.Contains(names, "grpc.health.v1.Health") {
		t.Errorf("services: %v", names)
	}
	for _, symbol := range []string{"inference.GRPCInferenceService", "inference.ModelInferRequest.InferInputTensor", "grpc.health.v1.Health"} {
		files := ask(&reflection.ServerReflectionRequest{MessageRequest: &reflection.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: symbol}}).GetFileDescriptorResponse().GetFileDescriptorProto()
		var file descriptorpb.FileDescriptorProto
		if len(files) == 0 || proto.Unmarshal(files[0], &file) != nil || len(file.Service) == 0 && len(file.MessageType) == 0 {
			t.Errorf("%s: %d files, %v", symbol, len(files), &file)
		}
	}
}

func TestRequestsAreMeasuredByCallModelAndCode(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{})
	ask(t, http.MethodPost, url+"/v1/models/sum:predict-stream", "[1,2,3,4]\n", "Content-Type", ndjson)
	ask(t, http.MethodGet, url+"/v2/models/none", "")
	ask(t, http.MethodPost, url+"/v1/embeddings", `{"model":"vector","input":["two words","three more words"]}`, "Content-Type", "application/json")
	connection := dial(t, url)
	_ = connection.Invoke(t.Context(), "/inference.GRPCInferenceService/ModelReady", &grpc_health_v1.HealthCheckRequest{Service: "sum"}, &grpc_health_v1.HealthCheckRequest{})
	_ = connection.Invoke(t.Context(), "/inference.GRPCInferenceService/ModelReady", &grpc_health_v1.HealthCheckRequest{Service: "none"}, &grpc_health_v1.HealthCheckRequest{})
	_, text := ask(t, http.MethodGet, url+"/metrics", "")
	for _, want := range []string{
		`afterbay_serve_requests_total{call="POST /v1/models/{call}",code="200",model="sum@7"} 1`,
		`afterbay_serve_requests_total{call="GET /v2/models/{name}",code="404",model="none"} 1`,
		`afterbay_serve_requests_total{call="grpc ModelReady",code="NotFound",model="none"} 1`,
		`afterbay_serve_requests_total{call="grpc ModelReady",code="OK",model="sum@7"} 1`,
		`afterbay_serve_request_seconds_count{call="POST /v1/embeddings",model="vector@1"} 1`,
		`afterbay_serve_request_seconds_bucket{call="POST /v1/embeddings",model="vector@1",le="30"} 1`,
		`afterbay_serve_tokens_total{model="vector@1"} 5`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%s is missing:\n%s", want, lines(text, "afterbay_serve_requests"))
		}
	}
}

// lines returns those of a text that begin so.
func lines(text, prefix string) string {
	var list []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, prefix) {
			list = append(list, line)
		}
	}
	return strings.Join(list, "\n")
}

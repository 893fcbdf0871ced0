package remote

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/afterbay/afterbay/internal/models/oip"
	"github.com/afterbay/afterbay/model"
)

// readyServer answers the questions whether a model is ready, and no other.
type readyServer struct {
	asked, metadata atomic.Int32 // statuses of the two questions; 0 is no answer
	scored          atomic.Int32
}

// ServeHTTP implements http.Handler.
func (s *readyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	code := s.asked.Load()
	switch {
	case r.Method == http.MethodPost:
		s.scored.Add(1)
	case strings.HasPrefix(r.URL.Path, "/v2/") && !strings.HasSuffix(r.URL.Path, "/ready"):
		code = s.metadata.Load()
	}
	if code == 0 {
		<-r.Context().Done()
		return
	}
	w.WriteHeader(int(code))
	if r.Method == http.MethodGet {
		fmt.Fprint(w, `{}`)
	}
}

// TestModelSaysWhetherItIsReady asks servers of each API. Nothing is scored.
func TestModelSaysWhetherItIsReady(t *testing.T) {
	text := []model.Input{{Name: "text", Type: model.String}}
	score := []model.Output{{Name: "sum", Size: 1}}
	for name, c := range map[string]struct {
		o    Options
		also []int32 // statuses of a server that is there
	}{
		"binary":         {Options{}, nil},
		"json":           {Options{JSON: true, Version: "1"}, nil},
		"chat":           {Options{API: Chat, Chat: ChatConfig{Prompt: "{text}"}, Inputs: text, Outputs: score}, []int32{404, 405}},
		"moderations":    {Options{API: Moderations, Inputs: text, Outputs: score}, []int32{404}},
		"transcriptions": {Options{API: Transcriptions, Inputs: []model.Input{{Name: "sound", Type: model.Bytes}}, Outputs: []model.Output{{Name: "text", Size: 1, Type: model.String}}}, nil},
		"http":           {Options{API: HTTP, Mapping: Mapping{Results: "predictions", Rows: "instances"}}, []int32{400, 404, 405, 501}},
	} {
		s := &readyServer{}
		server := httptest.NewServer(s)
		t.Cleanup(server.Close)
		o := c.o
		o.URL, o.Model, o.Timeout = server.URL, "m", 20*time.Second
		if o.Inputs == nil {
			o.Inputs, o.Outputs = twoNumbers, score
		}
		m, err := Open(o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		t.Cleanup(func() { m.Close() })
		ready := func(code, metadata int32) error {
			s.asked.Store(code)
			s.metadata.Store(metadata)
			return m.Ready(t.Context())
		}
		for _, code := range append(c.also, 200) {
			if err := ready(code, 500); err != nil {
				t.Errorf("%s: status %d: %v", name, code, err)
			}
		}
		for _, code := range []int32{401, 429, 500, 503} {
			if err := ready(code, 200); err == nil {
				t.Errorf("%s: ready by status %d", name, code)
			}
		}
		if o.API == OpenInference {
			if err := ready(400, 200); err == nil { // as Triton says of a model that is not loaded
				t.Errorf("%s: ready by status 400", name)
			}
			if err := ready(404, 200); err != nil {
				t.Errorf("%s: a server without the call: %v", name, err)
			}
			if err := ready(404, 404); err == nil {
				t.Errorf("%s: a server without the model is ready", name)
			}
		}
		s.asked.Store(0)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if err := m.Ready(ctx); err == nil {
			t.Errorf("%s: ready without an answer", name)
		}
		if server.Close(); m.Ready(t.Context()) == nil || s.scored.Load() > 0 {
			t.Errorf("%s: ready without a server, or %d rows were scored", name, s.scored.Load())
		}
	}
}

// TestModelSaysWhetherItIsReadyByGRPC asks a server that answers as it is told.
func TestModelSaysWhetherItIsReadyByGRPC(t *testing.T) {
	answers := map[string]error{}
	var said []byte
	server := grpc.NewServer(grpc.ForceServerCodecV2(oip.Codec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		method = strings.TrimPrefix(method, service)
		var request []byte
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		if name, version, err := oip.ParseMetadataRequest(request); err != nil || name != "m" || version != "1" {
			return status.Errorf(codes.InvalidArgument, "%q@%q: %v", name, version, err)
		}
		if err := answers[method]; err != nil {
			return err
		}
		if method == "ModelReady" {
			return stream.SendMsg(said)
		}
		return stream.SendMsg([]byte{})
	}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	o := Options{URL: "grpc://"}.at(listener.Addr().String(), "m")
	o.Version = "1"
	m, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	for _, c := range []struct {
		name            string
		said            []byte
		ready, metadata error
		want            bool
	}{
		{"ready", []byte{8, 1}, nil, nil, true},
		{"not ready", []byte{8, 0}, nil, nil, false},
		{"not ready, the default of the field", nil, nil, nil, false},
		{"no such call", nil, status.Error(codes.Unimplemented, ""), nil, true},
		{"no such call, no such model", nil, status.Error(codes.Unimplemented, ""), status.Error(codes.NotFound, ""), false},
		{"unavailable", nil, status.Error(codes.Unavailable, ""), nil, false},
		{"internal", nil, status.Error(codes.Internal, ""), nil, false},
		{"unauthenticated", nil, status.Error(codes.Unauthenticated, ""), nil, false},
		{"no message", []byte{8}, nil, nil, false},
	} {
		said, answers["ModelReady"], answers["ModelMetadata"] = c.said, c.ready, c.metadata
		if err := m.Ready(t.Context()); (err == nil) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if server.Stop(); m.Ready(t.Context()) == nil {
		t.Error("ready without a server")
	}
}

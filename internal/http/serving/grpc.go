package serving

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // tritonclient can be configured to compress
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/internal/models/oip"
)

const replyBytes = 1 << 10 // size of a reply without its outputs

const (
	service    = "inference.GRPCInferenceService"
	streamCall = "ModelStreamInfer"
)

// grpcService serves the Open Inference Protocol over gRPC, plus health and reflection. Its calls
// share the HTTP listener, with the same TLS and tokens; its gRPC servers do not listen.
type grpcService struct {
	ctx      context.Context // ends streams when it is done
	options  *Options
	models   *registry
	measures *measures
	calls    *grpc.Server
	about    *grpc.Server
}

func newGRPC(ctx context.Context, o *Options, models *registry, measures *measures) (s *grpcService, err error) {
	s = &grpcService{ctx: ctx, options: o, models: models, measures: measures}
	s.calls = s.newCalls()
	s.about, err = newAbout(ctx)
	return s, err
}

// newCalls returns the server for the protocol's calls.
func (s *grpcService) newCalls() *grpc.Server {
	described := &grpc.ServiceDesc{
		ServiceName: service, HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: streamCall, Handler: s.streamInfer, ServerStreams: true, ClientStreams: true}},
	}
	for name, answer := range map[string]func(context.Context, []byte) ([]byte, error){
		"ServerLive":     func(context.Context, []byte) ([]byte, error) { return yes(true), nil },
		"ServerReady":    func(context.Context, []byte) ([]byte, error) { return yes(s.ctx.Err() == nil), nil },
		"ServerMetadata": s.describeServer,
		"ModelReady":     s.modelIsReady,
		"ModelMetadata":  s.describeModel,
		"ModelInfer":     s.infer,
	} {
		described.Methods = append(described.Methods, grpc.MethodDesc{MethodName: name, Handler: s.unary(name, answer)})
	}
	calls := grpc.NewServer(grpc.ForceServerCodecV2(oip.Codec{}), grpc.MaxRecvMsgSize(int(s.options.BodyBytesMax)))
	calls.RegisterService(described, nil)
	return calls
}

// errEnding tells the client of a stream to reconnect, elsewhere or later.
var errEnding = status.Error(codes.Unavailable, "the process is ending")

// call serves a call. Streams have no timeout, and end with the handler.
func (s *grpcService) call(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/"+streamCall) {
		control := http.NewResponseController(w)
		_ = errors.Join(control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Time{}))
		stop := context.AfterFunc(s.ctx, func() { _ = control.SetReadDeadline(time.Now()) })
		defer stop()
	}
	s.calls.ServeHTTP(w, framed(s.ctx, r, s.options.BodyBytesMax))
}

// unary returns the handler of a call with one request and one reply.
func (s *grpcService) unary(name string, answer func(context.Context, []byte) ([]byte, error)) grpc.MethodHandler {
	return func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var reply []byte
		err := s.measures.call(ctx, "grpc "+name, func(ctx context.Context) error {
			var message []byte
			if err := unread(ctx, decode(&message)); err != nil {
				return err
			}
			var err error
			reply, err = answer(ctx, message)
			return grpcError(ctx, err)
		})
		return reply, err
	}
}

// streamInfer answers requests in order. An invalid request gets an error as its answer, and the
// stream continues.
func (s *grpcService) streamInfer(_ any, stream grpc.ServerStream) error {
	ctx := stream.Context()
	for {
		var message []byte
		err := unread(ctx, stream.RecvMsg(&message))
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case s.ctx.Err() != nil:
			return errEnding
		case err != nil:
			return err
		}
		var reply []byte
		_ = s.measures.call(ctx, "grpc "+streamCall, func(ctx context.Context) error {
			reply, err = s.infer(ctx, message)
			return grpcError(ctx, err)
		})
		answer := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), reply)
		if err != nil {
			answer = protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), err.Error())
		}
		if err := stream.SendMsg(answer); err != nil {
			return err
		}
		answered(ctx)
	}
}

// yes returns a message with a boolean as its first field.
func yes(so bool) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), protowire.EncodeBool(so))
}

func (s *grpcService) describeServer(context.Context, []byte) ([]byte, error) {
	// A ServerMetadataResponse has the fields of a ModelMetadataRequest, plus extensions.
	reply := oip.AppendMetadataRequest(nil, "afterbay", s.options.Version)
	for _, name := range extensions {
		reply = protowire.AppendString(protowire.AppendTag(reply, 3, protowire.BytesType), name)
	}
	return reply, nil
}

// named returns the model that a request names.
func (s *grpcService) named(ctx context.Context, message []byte) (*served, error) {
	name, version, err := oip.ParseMetadataRequest(message)
	if err != nil {
		return nil, err
	}
	return s.models.ask(ctx, name, version)
}

func (s *grpcService) modelIsReady(ctx context.Context, message []byte) ([]byte, error) {
	_, err := s.named(ctx, message)
	return yes(true), err
}

func (s *grpcService) describeModel(ctx context.Context, message []byte) ([]byte, error) {
	m, err := s.named(ctx, message)
	if err != nil {
		return nil, err
	}
	reply := oip.Metadata{Name: m.Name, Versions: s.models.versions(m.Name), Platform: m.platform()}
	inputs, outputs := m.tensors()
	for _, d := range inputs {
		reply.Inputs = append(reply.Inputs, oip.Tensor{Name: d.Name, Datatype: d.Datatype, Shape: d.Shape})
	}
	for _, d := range outputs {
		reply.Outputs = append(reply.Outputs, oip.Tensor{Name: d.Name, Datatype: d.Datatype, Shape: d.Shape})
	}
	return reply.Append(nil), nil
}

func (s *grpcService) infer(ctx context.Context, message []byte) ([]byte, error) {
	room := server.RoomOf(ctx)
	defer room.Close()
	if err := room.Work(); err != nil {
		return nil, err
	}
	m, err := s.named(ctx, message) // an inference request names its model in the same fields
	if err != nil {
		return nil, err
	}
	asked, err := oip.ParseRequestWithin(message, oip.Limits{Inputs: max(len(m.inputs), 1), Outputs: len(m.outputs), Grow: room.Grow})
	if err != nil {
		return nil, err
	}
	in := &request{outputs: asked.Outputs}
	for i := range asked.Inputs {
		t, err := unpack(&asked.Inputs[i], room)
		if err != nil {
			return nil, err
		}
		in.inputs = append(in.inputs, t)
	}
	answers, err := m.infer(ctx, in, room)
	if err != nil {
		return nil, err
	}
	reply := oip.Response{Model: m.Name, Version: m.Version, ID: asked.ID}
	size := 0
	for _, a := range answers {
		raw, err := a.appendRaw(nil, room)
		if err != nil {
			return nil, err
		}
		size += len(raw)
		reply.Outputs = append(reply.Outputs, oip.Tensor{Name: a.name, Datatype: a.datatype(), Shape: a.shape, Raw: raw})
	}
	dst, err := room.Grow(nil, size+replyBytes)
	if err != nil {
		return nil, err
	}
	return reply.Append(dst), nil
}

// grpcError converts an error to a gRPC status.
func grpcError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	}
	bad := asRefusal(err, false)
	code, ok := map[int]codes.Code{
		http.StatusNotFound: codes.NotFound, http.StatusForbidden: codes.PermissionDenied, http.StatusTooManyRequests: codes.ResourceExhausted, http.StatusServiceUnavailable: codes.Unavailable, http.StatusRequestTimeout: codes.DeadlineExceeded, http.StatusUnsupportedMediaType: codes.Unimplemented, http.StatusRequestEntityTooLarge: codes.ResourceExhausted, http.StatusInternalServerError: codes.Internal,
	}[bad.status]
	if !ok {
		code = codes.InvalidArgument
	}
	return status.Error(code, bad.message)
}

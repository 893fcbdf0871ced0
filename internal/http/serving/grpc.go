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
	_ "google.golang.org/grpc/encoding/gzip" // tritonclient can be told to compress
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/afterbay/afterbay/internal/http/server"
	"github.com/afterbay/afterbay/internal/models/oip"
)

const replyBytes = 1 << 10 // of a reply beside its outputs

const (
	service    = "inference.GRPCInferenceService"
	streamCall = "ModelStreamInfer"
)

// newGRPC returns a server that has no address: its calls come with those of HTTP,
// behind the same TLS and token.
func (h *Handler) newGRPC() *grpc.Server {
	described := &grpc.ServiceDesc{
		ServiceName: service, HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: streamCall, Handler: h.streamInfer, ServerStreams: true, ClientStreams: true}},
	}
	for name, answer := range map[string]func(context.Context, []byte) ([]byte, error){
		"ServerLive":     func(context.Context, []byte) ([]byte, error) { return yes(true), nil },
		"ServerReady":    func(context.Context, []byte) ([]byte, error) { return yes(h.ctx.Err() == nil), nil },
		"ServerMetadata": h.describeServer,
		"ModelReady":     h.modelIsReady,
		"ModelMetadata":  h.describeModel,
		"ModelInfer":     h.infer,
	} {
		described.Methods = append(described.Methods, grpc.MethodDesc{MethodName: name, Handler: h.unary(name, answer)})
	}
	s := grpc.NewServer(grpc.ForceServerCodecV2(oip.Codec{}), grpc.MaxRecvMsgSize(int(h.options.BodyBytesMax)))
	s.RegisterService(described, nil)
	return s
}

// errEnding tells the client of a stream to connect again, elsewhere or later.
var errEnding = status.Error(codes.Unavailable, "the process is ending")

// callGRPC answers a call. A stream has no time-out and ends with the handler.
func (h *Handler) callGRPC(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/"+streamCall) {
		control := http.NewResponseController(w)
		_ = errors.Join(control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Time{}))
		stop := context.AfterFunc(h.ctx, func() { _ = control.SetReadDeadline(time.Now()) })
		defer stop()
	}
	h.grpc.ServeHTTP(w, h.framed(r))
}

// unary returns a call of one request and one reply.
func (h *Handler) unary(name string, answer func(context.Context, []byte) ([]byte, error)) grpc.MethodHandler {
	return func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var reply []byte
		err := h.measuredCall(ctx, "grpc "+name, func(ctx context.Context) error {
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

// streamInfer answers requests in their order. One that is wrong has an answer that
// says so, and the stream goes on.
func (h *Handler) streamInfer(_ any, stream grpc.ServerStream) error {
	ctx := stream.Context()
	for {
		var message []byte
		err := unread(ctx, stream.RecvMsg(&message))
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case h.ctx.Err() != nil:
			return errEnding
		case err != nil:
			return err
		}
		var reply []byte
		_ = h.measuredCall(ctx, "grpc "+streamCall, func(ctx context.Context) error {
			reply, err = h.infer(ctx, message)
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

// yes is a message whose first field says so.
func yes(so bool) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), protowire.EncodeBool(so))
}

func (h *Handler) describeServer(context.Context, []byte) ([]byte, error) {
	// A ServerMetadataResponse has the fields of a ModelMetadataRequest, and extensions.
	reply := oip.AppendMetadataRequest(nil, "afterbay", h.options.Version)
	for _, name := range extensions {
		reply = protowire.AppendString(protowire.AppendTag(reply, 3, protowire.BytesType), name)
	}
	return reply, nil
}

// named finds the model that a request about one names.
func (h *Handler) named(ctx context.Context, message []byte) (*served, error) {
	name, version, err := oip.ParseMetadataRequest(message)
	if err != nil {
		return nil, err
	}
	return h.find(ctx, name, version)
}

func (h *Handler) modelIsReady(ctx context.Context, message []byte) ([]byte, error) {
	_, err := h.named(ctx, message)
	return yes(true), err
}

func (h *Handler) describeModel(ctx context.Context, message []byte) ([]byte, error) {
	m, err := h.named(ctx, message)
	if err != nil {
		return nil, err
	}
	reply := oip.Metadata{Name: m.Name, Versions: h.models.versions(m.Name), Platform: m.platform()}
	inputs, outputs := m.tensors()
	for _, d := range inputs {
		reply.Inputs = append(reply.Inputs, oip.Tensor{Name: d.Name, Datatype: d.Datatype, Shape: d.Shape})
	}
	for _, d := range outputs {
		reply.Outputs = append(reply.Outputs, oip.Tensor{Name: d.Name, Datatype: d.Datatype, Shape: d.Shape})
	}
	return reply.Append(nil), nil
}

func (h *Handler) infer(ctx context.Context, message []byte) ([]byte, error) {
	room := server.RoomOf(ctx)
	defer room.Close()
	if err := room.Work(); err != nil {
		return nil, err
	}
	m, err := h.named(ctx, message) // a request for an inference names its model as one for metadata does
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

// grpcError returns an error as gRPC has it.
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

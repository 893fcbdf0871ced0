package remote

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/afterbay/afterbay/internal/models/oip"
)

const service = "/inference.GRPCInferenceService/"

// grpcCaller calls over gRPC, with one connection for all calls.
type grpcCaller struct {
	connection *grpc.ClientConn
	model      string
	version    string
	secret     secret
}

// newGRPC returns a client that connects at its first call. It reconnects a lost connection soon.
// It sends keepalives on a silent connection, because a host that vanished closes nothing.
func newGRPC(o *Options, to *url.URL) (*grpcCaller, error) {
	secrecy := insecure.NewCredentials()
	if to.Scheme == "grpcs" {
		secrecy = credentials.NewTLS(o.TLS)
	}
	connection, err := grpc.NewClient("dns:///"+to.Host, // a host may be named like a URL scheme
		grpc.WithTransportCredentials(secrecy),
		grpc.WithUserAgent("afterbay"),
		grpc.WithDisableServiceConfig(), // a service config might enable retries
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(oip.Codec{})),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: o.Timeout,
		}),
	)
	return &grpcCaller{connection: connection, model: o.Model, version: o.Version, secret: newSecret(o)}, err
}

func (g *grpcCaller) close() { _ = g.connection.Close() }

func (g *grpcCaller) metadata(ctx context.Context) (oip.Metadata, error) {
	answer, err := g.call(ctx, "ModelMetadata", oip.AppendMetadataRequest(nil, g.model, g.version), metadataBytesMax)
	if err != nil {
		return oip.Metadata{}, err
	}
	metadata, err := oip.ParseMetadata(answer)
	if err != nil {
		return metadata, fault(Malformed, "metadata: %w", err)
	}
	return metadata, nil
}

func (g *grpcCaller) isReady(ctx context.Context) error {
	answer, err := g.call(ctx, "ModelReady", oip.AppendMetadataRequest(nil, g.model, g.version), metadataBytesMax)
	var failed *Error
	switch {
	case errors.As(err, &failed) && failed.Fault == Denied && !failed.outage: // also if the server does not have the call
		return errUnknown
	case err != nil:
		return err
	}
	ready, err := oip.ParseReady(answer)
	switch {
	case err != nil:
		return fault(Malformed, "whether the model is ready: %w", err)
	case !ready:
		return fault(Unreachable, "the model is not ready")
	}
	return nil
}

func (g *grpcCaller) infer(ctx context.Context, r *oip.Request, answerBytesMax int64) (oip.Response, error) {
	message := r.Append(nil)
	key, _ := idempotencyKey(ctx, g.connection.Target(), message)
	answer, err := g.call(metadata.AppendToOutgoingContext(ctx, strings.ToLower(idempotencyHeader), key), "ModelInfer", message, answerBytesMax)
	if err != nil {
		return oip.Response{}, err
	}
	response, err := oip.ParseResponse(answer)
	if err != nil {
		return response, &Error{Fault: Malformed, Err: err}
	}
	return response, nil
}

func (g *grpcCaller) call(ctx context.Context, method string, message []byte, answerBytesMax int64) ([]byte, error) {
	name, token, err := g.secret.header()
	if err != nil {
		return nil, err
	}
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, strings.ToLower(name), token)
	}
	var answer []byte
	err = g.connection.Invoke(ctx, service+method, message, &answer, grpc.MaxCallRecvMsgSize(int(answerBytesMax)))
	if err == nil {
		return answer, nil
	}
	said := status.Convert(err)
	if said.Code() == codes.ResourceExhausted && strings.Contains(said.Message(), "eceived message larger than max") {
		if strings.Contains(said.Message(), fmt.Sprintf("vs. %d)", answerBytesMax)) { // the client reports the size limit
			return nil, fault(Malformed, "an answer of more than %d bytes", answerBytesMax)
		}
		return nil, &Error{Fault: Refused, Err: errors.New(brief(said.Message())), large: true}
	}
	return nil, grpcFault(said)
}

func grpcFault(s *status.Status) error {
	kind := Failed
	switch s.Code() {
	case codes.InvalidArgument, codes.OutOfRange:
		kind = Refused
	case codes.DeadlineExceeded:
		kind = Late
	case codes.Canceled, codes.ResourceExhausted, codes.Unavailable:
		kind = Unreachable
	case codes.Unauthenticated, codes.PermissionDenied, codes.NotFound, codes.Unimplemented:
		kind = Denied
	}
	err := fmt.Errorf("gRPC status %v: %s", s.Code(), brief(s.Message()))
	return &Error{Fault: kind, Err: err, busy: s.Code() == codes.ResourceExhausted || s.Code() == codes.Unavailable, outage: s.Code() == codes.Unauthenticated}
}

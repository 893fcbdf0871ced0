package serving

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/bufbuild/protocompile"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/afterbay/afterbay/internal/models/oip"
)

const (
	healthService    = "grpc.health.v1.Health"
	reflectService   = "grpc.reflection.v1.ServerReflection"
	reflectService1a = "grpc.reflection.v1alpha.ServerReflection"
)

const aboutBytesMax = 64 << 10 // limit for all messages of one such call: gRPC buffers everything that it can read

// newAbout returns a gRPC server with the health and reflection services. They describe the main
// server: its health, services and messages. It uses the standard protobuf messages.
func newAbout(ctx context.Context) (*grpc.Server, error) {
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(map[string]string{oip.ProtoName: oip.Proto})}}
	described, err := compiler.Compile(ctx, oip.ProtoName)
	if err != nil {
		return nil, fmt.Errorf("describe the protocol: %w", err)
	}
	s := grpc.NewServer(grpc.MaxRecvMsgSize(aboutBytesMax))
	states := health.NewServer()
	states.SetServingStatus(service, grpc_health_v1.HealthCheckResponse_SERVING)
	context.AfterFunc(ctx, states.Shutdown)
	grpc_health_v1.RegisterHealthServer(s, states)
	options := reflection.ServerOptions{Services: services{}, DescriptorResolver: resolver{described.AsResolver()}}
	reflectionv1.RegisterServerReflectionServer(s, reflection.NewServerV1(options))
	reflectionv1alpha.RegisterServerReflectionServer(s, reflection.NewServer(options))
	return s, nil
}

// services lists the names for reflection.
type services struct{}

// GetServiceInfo implements reflection.ServiceInfoProvider.
func (services) GetServiceInfo() map[string]grpc.ServiceInfo {
	return map[string]grpc.ServiceInfo{service: {}, healthService: {}, reflectService: {}, reflectService1a: {}}
}

// resolver finds the descriptors of the protocol and of the program.
type resolver struct{ own protodesc.Resolver }

// FindFileByPath implements protodesc.Resolver.
func (r resolver) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	if file, err := r.own.FindFileByPath(path); err == nil {
		return file, nil
	}
	return protoregistry.GlobalFiles.FindFileByPath(path)
}

// FindDescriptorByName implements protodesc.Resolver.
func (r resolver) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	if found, err := r.own.FindDescriptorByName(name); err == nil {
		return found, nil
	}
	return protoregistry.GlobalFiles.FindDescriptorByName(name)
}

// callAbout serves a health or reflection call. Streams have no timeout, and end with the handler.
func (s *grpcService) callAbout(w http.ResponseWriter, r *http.Request) {
	if lastsAbout(r) {
		control := http.NewResponseController(w)
		_ = errors.Join(control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Time{}))
		stop := context.AfterFunc(s.ctx, func() { _ = control.SetReadDeadline(time.Now()) })
		defer stop()
	}
	r.Body = http.MaxBytesReader(w, r.Body, aboutBytesMax)
	s.about.ServeHTTP(w, r)
}

// lastsAbout reports whether such a call is a stream.
func lastsAbout(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/Watch") || strings.HasSuffix(r.URL.Path, "/ServerReflectionInfo")
}

package serving_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/afterbay/afterbay/internal/http/serving"
	"github.com/afterbay/afterbay/internal/models/oip"
	"github.com/afterbay/afterbay/internal/models/remote"
	"github.com/afterbay/afterbay/model"
)

// TestModelsServedHereCanBeAskedAsRemoteModels asks in each encoding of the protocol
// that package internal/models/remote speaks.
func TestModelsServedHereCanBeAskedAsRemoteModels(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{Token: "secret"})
	address := strings.TrimPrefix(url, "http://")
	for _, o := range []remote.Options{{URL: "grpc://" + address}, {URL: url}, {URL: url, JSON: true}} {
		o.Model, o.Inputs, o.Bearer = "sum", newSum().Info().Inputs, "secret"
		m, err := remote.Load(t.Context(), o)
		if err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		rows := model.Rows{Width: 4, Values: []float64{1, 2, 3, 4, 0.1, 0, 1e30, 7}, N: 2}
		if !o.JSON { // which has no missing values
			rows.Values[3] = float64(math.NaN())
		}
		want, got := make([]float32, 2), make([]float32, 2)
		if err := newSum().Predict(t.Context(), rows, want); err != nil {
			t.Fatal(err)
		}
		if err := m.Predict(t.Context(), rows, got); err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v: %v, %v; want %v", o, got, err, want)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTextsScoredHereCanBeAskedByCallsOfOpenAI asks by the calls that package
// internal/models/remote speaks too.
func TestTextsScoredHereCanBeAskedByCallsOfOpenAI(t *testing.T) {
	url := start(t, models(), serving.ServerOptions{Token: "secret"})
	rows := model.Rows{BytesWidth: 1, Bytes: [][]byte{[]byte("!!!a"), []byte("a")}}
	for _, c := range []struct {
		api    remote.API
		model  string
		output model.Output
		want   []float32
	}{
		{remote.Moderations, "spam", model.Output{Name: "spam", Size: 1}, []float32{0.75, 0}},
		{remote.Moderations, "spam", model.Output{Name: "flagged", Size: 1}, []float32{1, 0}},
		{remote.Embeddings, "vector", model.Output{Name: "embedding", Size: 3}, []float32{4, 0.5, -1, 1, 0.5, -1}},
	} {
		m, err := remote.Load(t.Context(), remote.Options{
			URL: url, API: c.api, Model: c.model, Bearer: "secret", Inputs: []model.Input{{Name: "text", Type: model.String}}, Outputs: []model.Output{c.output},
		})
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, len(c.want))
		if err := m.Predict(t.Context(), rows, got); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s of %s: %v, %v", c.output.Name, c.model, got, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	_, err := remote.Load(t.Context(), remote.Options{
		URL: url, API: remote.Embeddings, Model: "vector", Inputs: []model.Input{{Name: "text", Type: model.String}}, Outputs: []model.Output{{Size: 3}},
	})
	var failed *remote.Error
	if !errors.As(err, &failed) || failed.Fault != remote.Denied {
		t.Errorf("without the token: %v", err)
	}
}

// TestStreamsOfGRPCEndWithTheServer holds a stream open that says nothing.
func TestStreamsOfGRPCEndWithTheServer(t *testing.T) {
	url, end := startUntil(t, models(), serving.ServerOptions{})
	connection, err := grpc.NewClient(strings.TrimPrefix(url, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(oip.Codec{}), grpc.UseCompressor("gzip")))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/inference.GRPCInferenceService/ModelStreamInfer")
	if err != nil {
		t.Fatal(err)
	}
	var reply []byte
	if err := errors.Join(stream.SendMsg(inferRequest(true, "FP32", 1, 2, 3, 4)), stream.RecvMsg(&reply)); err != nil || len(reply) == 0 {
		t.Fatalf("%q, %v", reply, err)
	}
	end()
	if err := stream.RecvMsg(&reply); status.Code(err) != codes.Unavailable || status.Convert(err).Message() != "the process is ending" {
		t.Errorf("%v", err) // a server that gives up on requests says nothing
	}
}

package remote

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/afterbay/afterbay/internal/models/oip"
)

const serverVariable = "AFTERBAY_TEST_SERVER"

// TestMain makes a model server of the test's own binary.
func TestMain(m *testing.M) {
	if host := os.Getenv(serverVariable); host != "" {
		listener, err := net.Listen("tcp", host)
		if err != nil {
			panic(err)
		}
		go func() { // ends with the test, however that ends
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(0)
		}()
		fmt.Println(listener.Addr())
		panic(fakeServer().Serve(listener))
	}
	os.Exit(m.Run())
}

// StartFake is startFake for tests outside the package.
func StartFake(t testing.TB) string { return startFake(t) }

// SetTimeout has calls of a model take so long at most, as tests outside the package want.
func SetTimeout(m *Model, timeout time.Duration) { m.options.Timeout = timeout }

// startFake starts a server in a process of its own and returns its host and port.
func startFake(t testing.TB) string {
	host, _ := startFakeAt(t, "127.0.0.1:0")
	return host
}

// startFakeAt starts it at a host and port, and also returns what ends it.
func startFakeAt(t testing.TB, at string) (host string, end func()) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program)
	command.Env, command.Stderr = append(os.Environ(), serverVariable+"="+at), os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		stdin.Close()
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	t.Cleanup(end)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), end
}

// fakeServer speaks all forms of the protocol. A model's name is the fault that
// its answers have; "sum" has none and adds up the numbers of a row and the
// lengths of its texts.
func fakeServer() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	protocols.SetHTTP2(true)
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+service+"{method}", serveGRPC)
	for _, version := range []string{"", "/versions/{version}"} {
		mux.HandleFunc("GET /v2/models/{model}"+version, func(w http.ResponseWriter, r *http.Request) {
			if r.PathValue("model") == "mute" {
				<-r.Context().Done()
			}
			if admit(w, r) {
				serveMetadata(w, r.PathValue("model"))
			}
		})
		mux.HandleFunc("POST /v2/models/{model}"+version+"/infer", func(w http.ResponseWriter, r *http.Request) {
			if admit(w, r) {
				serveREST(w, r)
			}
		})
	}
	return &http.Server{Handler: mux, Protocols: protocols}
}

// admit lets nobody in who has another token than "open".
func admit(w http.ResponseWriter, r *http.Request) bool {
	if token := r.Header.Get("Authorization"); token != "" && token != "Bearer open" {
		http.Error(w, `{"error": "who are you?"}`, http.StatusUnauthorized)
		return false
	}
	return true
}

// metadataOf is empty for most models, as MLServer's is.
func metadataOf(name string) oip.Metadata {
	m := oip.Metadata{Name: name, Platform: "fake"}
	if name == "described" {
		m.Versions = []string{"1", "2"}
		m.Inputs = []oip.Tensor{{Name: "a", Datatype: "FP32", Shape: []int64{-1}}, {Name: "b", Datatype: "INT64", Shape: []int64{-1, 1}}}
		m.Outputs = []oip.Tensor{{Name: "sum", Datatype: "FP64", Shape: []int64{-1, 1}}}
	}
	return m
}

// respond computes the answer, and does what a model's name says.
func respond(r *oip.Request, gone <-chan struct{}) oip.Response {
	response := oip.Response{Model: r.Model, Version: r.Version}
	var sums []float32
	for i := range r.Inputs {
		t := &r.Inputs[i]
		rows := int(t.Shape[0])
		sums = append(sums, make([]float32, rows-len(sums))...)
		n, _ := oip.Elements(t.Shape)
		values := make([]float32, n)
		if t.Datatype == "BYTES" {
			list, err := t.Split()
			if err != nil {
				panic(err)
			}
			for j := range list {
				values[j] = float32(len(list[j]))
			}
		} else if err := oip.Floats(t, values); err != nil {
			panic(err)
		}
		for j, value := range values {
			if value == value { // a missing value counts nothing
				sums[j*rows/n] += value
			}
		}
	}
	switch r.Model {
	case "never":
		<-gone
	case "shape":
		sums = append(sums, 0)
	case "nan":
		sums[0] = float32(math.NaN())
	case "version":
		response.Version = "9"
	}
	out := oip.Tensor{Name: "sum", Datatype: "FP64", Shape: []int64{int64(len(sums)), 1}}
	for _, sum := range sums {
		out.Raw = oip.AppendNumber(out.Raw, "FP64", float64(sum))
	}
	if r.Model == "name" {
		out.Name = "other"
	}
	label := oip.Tensor{Name: "label", Datatype: "BYTES", Shape: []int64{int64(len(sums))}}
	for _, sum := range sums {
		label.Raw = oip.AppendBytes(label.Raw, fmt.Append(nil, "\u20ac ", sum))
	}
	response.Outputs = []oip.Tensor{label, out}
	return response
}

func serveGRPC(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/grpc")
	status := func(code int, message string) {
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(code))
		w.Header().Set(http.TrailerPrefix+"Grpc-Message", message)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || len(body) < 5 || int(binary.BigEndian.Uint32(body[1:])) != len(body)-5 || r.Header.Get("Te") != "trailers" {
		status(13, "no message")
		return
	}
	if token := r.Header.Get("Authorization"); token != "" && token != "Bearer open" {
		status(16, "who are you%3F")
		return
	}
	var answer []byte
	if r.PathValue("method") == "ModelMetadata" {
		name, _, _ := oip.ParseMetadataRequest(body[5:])
		if name == "absent" {
			status(5, "no model %22absent%22")
			return
		}
		if name == "mute" {
			<-r.Context().Done()
		}
		metadata := metadataOf(name)
		answer = metadata.Append(nil)
	} else {
		request, err := oip.ParseRequest(body[5:])
		if err != nil {
			status(13, err.Error())
			return
		}
		switch request.Model {
		case "500":
			status(2, "division by zero")
			return
		case "refuse":
			status(3, "rows are too odd")
			return
		case "busy":
			status(14, "loading")
			return
		case "small":
			if request.Inputs[0].Shape[0] > 10 {
				status(8, "Received message larger than max (900 vs. 800)")
				return
			}
		}
		response := respond(&request, r.Context().Done())
		answer = response.Append(nil)
		if request.Model == "garbage" {
			answer = []byte{0xff, 0xff}
		}
		if request.Model == "huge" {
			answer = make([]byte, 32<<20)
		}
		if request.Model == "half" {
			_, _ = w.Write(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(answer))))
			_, _ = w.Write(answer[:len(answer)/2])
			_ = http.NewResponseController(w).Flush()
			os.Exit(0)
		}
	}
	_, _ = w.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(answer))), answer...))
	status(0, "")
}

func serveMetadata(w http.ResponseWriter, name string) {
	if name == "absent" {
		http.Error(w, `{"error": "no model \"absent\""}`, http.StatusNotFound)
		return
	}
	m := metadataOf(name)
	tensors := func(list []oip.Tensor) []tensorJSON {
		out := []tensorJSON{}
		for _, t := range list {
			out = append(out, tensorJSON{Name: t.Name, Datatype: t.Datatype, Shape: t.Shape})
		}
		return out
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"name": m.Name, "platform": m.Platform, "versions": m.Versions, "inputs": tensors(m.Inputs), "outputs": tensors(m.Outputs),
	})
}

func serveREST(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("model")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	switch name {
	case "500":
		http.Error(w, "division by zero", http.StatusInternalServerError)
		return
	case "refuse":
		http.Error(w, `{"error": "rows are too odd"}`, http.StatusUnprocessableEntity)
		return
	case "busy":
		http.Error(w, "loading", http.StatusServiceUnavailable)
		return
	case "moved":
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		return
	}
	length := r.Header.Get(lengthHeader)
	inputs, err := decodeInputs(body, length)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if name == "small" && inputs[0].Shape[0] > 10 {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	response := respond(&oip.Request{Model: name, Version: r.PathValue("version"), Inputs: inputs}, r.Context().Done())
	answer, head := encodeResponse(&response, length != "")
	switch name {
	case "garbage":
		answer = []byte("<html>")
	case "huge":
		answer = make([]byte, 32<<20)
	case "half":
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		answer = answer[:len(answer)/2]
	}
	if length != "" && name != "garbage" {
		w.Header().Set(lengthHeader, strconv.Itoa(head))
	}
	_, _ = w.Write(answer)
}

func decodeInputs(body []byte, length string) ([]oip.Tensor, error) {
	head, binaries, err := split(body, length)
	if err != nil {
		return nil, err
	}
	var request struct{ Inputs []readJSON }
	if err := json.Unmarshal(head, &request); err != nil {
		return nil, err
	}
	return tensorsOf(request.Inputs, binaries)
}

// encodeResponse returns a body and the length of its JSON.
func encodeResponse(response *oip.Response, binaries bool) ([]byte, int) {
	var tensors []tensorJSON
	var raw []byte
	for _, out := range response.Outputs {
		t := tensorJSON{Name: out.Name, Datatype: out.Datatype, Shape: out.Shape}
		if binaries {
			t.Parameters = map[string]any{"binary_data_size": len(out.Raw)}
			raw = append(raw, out.Raw...)
		} else if values, err := text(&out); err != nil {
			t.Data = []byte(`[null]`)
		} else {
			t.Data = values
		}
		tensors = append(tensors, t)
	}
	head, err := json.Marshal(map[string]any{"model_name": response.Model, "model_version": response.Version, "outputs": tensors})
	if err != nil {
		panic(err)
	}
	return append(head, raw...), len(head)
}

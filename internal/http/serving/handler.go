package serving

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/http/server"
)

// Options configures a Handler. The zero value is a good default.
type Options struct {
	RecordBytesMax int           // size of a record in a stream; 0 is 1 MiB
	BodyBytesMax   int64         // size of a request that is not a stream, decompressed; 0 is 64 MiB
	RatioMax       int64         // maximum ratio of a body's decompressed to its compressed size, beyond 1 MiB; 0 is 200
	IdleTimeout    time.Duration // for a stream that sends nothing; 0 is 45 s
	SpillDir       string        // folder for answers that clients have not read; "" is the system's folder for temporary files
	SpillBytesEach int64         // limit of these answers for one stream; 0 is 256 MiB
	SpillBytesAll  int64         // the same for all streams; 0 is 2 GiB
	Version        string        // reported to clients
}

// Validate returns an error if the options are invalid.
func (o Options) Validate() error {
	var errs []error
	for name, v := range map[string]int64{
		"RecordBytesMax": int64(o.RecordBytesMax), "BodyBytesMax": o.BodyBytesMax,
		"RatioMax": o.RatioMax, "IdleTimeout": int64(o.IdleTimeout), "SpillBytesEach": o.SpillBytesEach, "SpillBytesAll": o.SpillBytesAll,
	} {
		if v < 0 {
			errs = append(errs, fmt.Errorf("%s is %d: use a number above 0, or 0 for the default", name, v))
		}
	}
	return errors.Join(errs...)
}

func (o Options) orDefaults() Options {
	o.RecordBytesMax = cmp.Or(o.RecordBytesMax, 1<<20)
	o.BodyBytesMax = cmp.Or(o.BodyBytesMax, 64<<20)
	o.RatioMax = cmp.Or(o.RatioMax, 200)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 45*time.Second)
	o.SpillDir = cmp.Or(o.SpillDir, os.TempDir())
	o.SpillBytesEach = cmp.Or(o.SpillBytesEach, 256<<20)
	o.SpillBytesAll = cmp.Or(o.SpillBytesAll, 2<<30)
	o.Version = cmp.Or(o.Version, "unknown")
	return o
}

// Handler serves models. Create one with New.
type Handler struct {
	options Options
	ctx     context.Context
	models  *registry
	spills  *spillPool
	stats   stats
	grpc    *grpcService
	mux     *http.ServeMux

	measures *measures
}

// New returns a handler for models. A request without a version gets the last model of that name.
// When ctx is done, streams end with a last line that says so. The handler does not check tokens:
// see Server.
func New(ctx context.Context, models []Named, o Options) (*Handler, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	registry, err := newRegistry(models)
	if err != nil {
		return nil, err
	}
	o = o.orDefaults()
	h := &Handler{
		options: o, ctx: ctx, models: registry, mux: http.NewServeMux(),
		spills: &spillPool{dir: o.SpillDir, each: o.SpillBytesEach, all: o.SpillBytesAll}, measures: newMeasures(),
	}
	if h.grpc, err = newGRPC(ctx, &h.options, registry, h.measures); err != nil {
		return nil, err
	}
	for _, e := range h.Endpoints() {
		h.mux.HandleFunc(e.Method+" "+e.Pattern, e.Handler)
	}
	h.mux.HandleFunc("/", h.unknown)
	return h, nil
}

// ServeHTTP serves a request of any caller: see Server for tokens.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

const correlation = "X-Correlation-Id"

// callModel serves a call on a model. The name of the call follows the last colon.
func (h *Handler) callModel(w http.ResponseWriter, r *http.Request) {
	name, version := r.PathValue("name"), r.PathValue("version")
	if call := r.PathValue("call"); call != "" {
		called, ok := strings.CutSuffix(call, ":predict-stream")
		if !ok {
			h.unknown(w, r)
			return
		}
		if name == "" {
			name = called
		} else {
			version = called
		}
	}
	if m, ok := h.model(w, r, name, version); ok {
		h.predictStream(w, r, m)
	}
}

// model returns a model, or sends an error reply.
func (h *Handler) model(w http.ResponseWriter, r *http.Request, name, version string) (*served, bool) {
	m, err := h.models.ask(r.Context(), name, version)
	if err != nil {
		asRefusal(err, isInference(r)).write(w)
	}
	return m, err == nil
}

// refuseAs sends a refusal of the server, in the format of the called API.
func (h *Handler) refuseAs(w http.ResponseWriter, r *http.Request, why *server.Refusal) {
	why.SetHeader(w.Header())
	h.refusal(r, why.Status, why.Code, "%s", why.Error()).write(w)
}

//go:embed openapi.json
var openAPI string

// document returns the OpenAPI document with the names of the models that the caller may use.
func (h *Handler) document(ctx context.Context) []byte {
	names, versions := []string{}, []string{}
	for _, m := range h.models.order {
		if allowed(ctx, m.Name) == nil {
			names, versions = append(names, m.Name), append(versions, m.Version)
		}
	}
	distinct := func(list []string) string {
		slices.Sort(list)
		return string(appendJSON(nil, slices.Compact(list)))
	}
	return []byte(strings.NewReplacer(`["{models}"]`, distinct(names), `["{versions}"]`, distinct(versions)).Replace(openAPI))
}

func (h *Handler) showDocument(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(h.document(r.Context())) // an error means that the client has disconnected
}

func (h *Handler) unknown(w http.ResponseWriter, r *http.Request) {
	h.refusal(r, http.StatusNotFound, "not_found", "404: %s %s is not an endpoint: see GET /openapi.json", r.Method, r.URL.Path).write(w)
}

// refusal is an error reply.
type refusal struct {
	status  int
	code    string
	message string
	plain   bool // in the error format of the Open Inference Protocol
}

// Error returns the message.
func (r *refusal) Error() string { return r.message }

func refuse(status int, code, format string, args ...any) *refusal {
	return &refusal{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

func isInference(r *http.Request) bool {
	return r.URL.Path == "/v2" || strings.HasPrefix(r.URL.Path, "/v2/")
}

// refusal returns a refusal in the format of the called API.
func (h *Handler) refusal(r *http.Request, status int, code, format string, args ...any) *refusal {
	bad := refuse(status, code, format, args...)
	bad.plain = isInference(r)
	return bad
}

// write sends the refusal. For the Open Inference Protocol it has only the message, otherwise the
// object that OpenAI clients expect.
func (r *refusal) write(w http.ResponseWriter) {
	if r.status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	if r.plain {
		writeJSON(w, r.status, map[string]string{"error": r.message})
		return
	}
	kind := "invalid_request_error"
	if r.status >= http.StatusInternalServerError {
		kind = "server_error"
	}
	retryable := r.status >= http.StatusInternalServerError || r.status == http.StatusTooManyRequests
	writeJSON(w, r.status, map[string]any{"error": map[string]any{
		"message": r.message, "type": kind, "param": nil, "code": r.code, "retryable": retryable,
	}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	text := append(appendJSON(nil, v), '\n')
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text) // an error means that the client has disconnected
}

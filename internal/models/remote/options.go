package remote

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/models/oip"
	"github.com/afterbay/afterbay/internal/sys/httpclient"
	"github.com/afterbay/afterbay/model"
)

const (
	callsMax   = 4096
	answerRoom = 1 << 20 // bytes of an answer in addition to its scores and texts
	textRoom   = 1 << 20 // bytes of a text of an answer
)

// roomFor returns the most bytes of an answer to rows.
func roomFor(into model.Answer) int64 {
	return answerRoom + 64*int64(len(into.Scores)) + textRoom*int64(len(into.Texts))
}

// API is the API of a server.
type API string

// The APIs. Many servers implement those of OpenAI.
const (
	OpenInference  API = ""               // the Open Inference Protocol, version 2
	Embeddings     API = "embeddings"     // OpenAI's: the scores of a text are the numbers of its embedding
	Moderations    API = "moderations"    // OpenAI's: a text has a score per category, and outputs have the names of categories; "flagged" is 0 or 1, and a text output has the flagged categories
	Chat           API = "chat"           // OpenAI's chat completions: Options.Chat is the question, and the answer is one text, or JSON with a number or text for each output
	Transcriptions API = "transcriptions" // OpenAI's: the answer to a sound is its text
	HTTP           API = "http"           // JSON by POST, described by Options.Mapping
)

var apis = []API{OpenInference, Embeddings, Moderations, Chat, Transcriptions, HTTP}

// Options say which model to call and how. URL, Model and Inputs are required.
type Options struct {
	// URL is the address of the server: grpc://host:port, grpcs://host:port for TLS,
	// http://host:port or https://host:port. A path, if any, precedes /v2. Prefer gRPC: its
	// messages are the smallest, and every server of the protocol accepts its raw tensors. APIs of
	// OpenAI take http or https, with the path up to the name of the call; without a path it is
	// /v1. API HTTP uses the URL unchanged.
	URL string
	// API is the API of the server.
	API API
	// JSON sends numbers over HTTP as text, for servers without the extension for binary tensors.
	// Text has no missing values and no infinities: Check refuses rows with them.
	JSON bool

	// Model is the server's name for the model. API HTTP needs none.
	Model string
	// Version is the version to request; "" leaves the choice to the server. APIs other than
	// OpenInference have no versions.
	Version string

	// Inputs are the columns of a row, in order. They must agree with the server's metadata, if it
	// has any. Embeddings and Moderations take one text, Transcriptions one input of bytes.
	Inputs []model.Input
	// Outputs are the tensors with the scores, in order. If Outputs is empty, they are the outputs
	// that metadata declares with a size. If no output has a size, the score is one number of the
	// first output. Other APIs require Outputs, except Transcriptions.
	Outputs []model.Output
	// Tensor is the name of the single tensor with all numbers, if the server has no metadata. ""
	// means "input".
	Tensor string
	// Columns sends a tensor for each input if the server has no metadata. A single value has shape
	// [rows].
	Columns bool
	// Chat is the question, for API Chat.
	Chat ChatConfig
	// Mapping is the JSON of API HTTP.
	Mapping Mapping

	// Timeout bounds a call, in addition to the deadline of its context. 0 means 3 s, or one minute
	// for Chat and Transcriptions.
	Timeout time.Duration
	// Calls is the number of concurrent calls, each with its own connection over HTTP/1. 0 means
	// 16; at most 4,096. Further calls wait.
	Calls int

	// TLS is for grpcs and https; nil trusts the roots of the system.
	TLS *tls.Config
	// Bearer is a token for the header Authorization; "" sends no token. Without TLS it is sent
	// only to this machine.
	Bearer string
	// BearerFile is a file with the token, instead of Bearer. It is read at each call, so that the
	// token can be replaced.
	BearerFile string
	// Header is the header with the token, if it is not Authorization. The token is sent without a
	// prefix.
	Header string
}

// Validate returns all errors of the options.
func (o Options) Validate() error {
	var list []error
	check := func(wrong bool, format string, args ...any) {
		if wrong {
			list = append(list, fmt.Errorf(format, args...))
		}
	}
	check(!slices.Contains(apis, o.API), "API %q is not one of %q", o.API, apis)
	check(o.Model == "" && o.API != HTTP, "no model: it is the server's name for it")
	check(o.Timeout < 0, "a timeout of %v is negative", o.Timeout)
	check(o.Calls < 0 || o.Calls > callsMax, "%d calls at a time: 1 to %d are possible", o.Calls, callsMax)
	check(o.Columns && o.Tensor != "", "columns, and a tensor %q for all numbers: choose one", o.Tensor)
	check(o.Bearer != "" && o.BearerFile != "", "a token, and a file of one: choose one")
	check(!headerName(o.Header), "header %q: write a name such as X-API-Key", o.Header)
	if o.API == OpenInference {
		check(!reflect.ValueOf(o.Chat).IsZero(), "what to ask belongs to API %s", Chat)
		check(!reflect.ValueOf(o.Mapping).IsZero(), "a mapping belongs to API %s", HTTP)
	} else {
		list = append(list, o.checkService()...)
	}
	list = append(list, oip.CheckInputs(o.Inputs), oip.CheckOutputs(o.Outputs))
	to, err := url.Parse(o.URL)
	if err != nil {
		return errors.Join(append(list, errors.New("the URL is not valid: use grpc://HOST:PORT, grpcs://, http:// or https://"))...)
	}
	scheme := to.Scheme
	plain := scheme == "grpc" || scheme == "http"
	check(!plain && scheme != "grpcs" && scheme != "https" || to.Host == "" || to.Opaque != "",
		"%q is not a valid URL: use grpc://HOST:PORT, grpcs://, http:// or https://", httpclient.Shown(to))
	check(to.User != nil || to.RawQuery != "" || to.Fragment != "", "URL %q has a user, query or fragment: a token goes into Bearer", httpclient.Shown(to))
	check(strings.HasPrefix(scheme, "grpc") && strings.Trim(to.Path, "/") != "", "URL %q has a path, which gRPC has no place for", httpclient.Shown(to))
	check(strings.HasPrefix(scheme, "grpc") && to.Port() == "", "URL %q has no port", httpclient.Shown(to))
	check(strings.HasPrefix(scheme, "grpc") && o.JSON, "JSON over gRPC: it takes http or https")
	check(plain && o.TLS != nil, "TLS for %s: it takes %ss", scheme, scheme)
	check(strings.HasPrefix(scheme, "grpc") && o.API != OpenInference, "API %s takes http or https", o.API)
	check(plain && (o.Bearer != "" || o.BearerFile != "") && !httpclient.Loopback(to.Hostname()), "a bearer token would pass %s in the clear: use %ss", to.Hostname(), scheme)
	check(strings.ContainsAny(o.Bearer, "\r\n"), "the bearer token has a line break")
	if o.JSON {
		for _, in := range o.Inputs {
			check(in.Type == model.Bytes, "input %q has bytes, which JSON has no place for", in.Name)
		}
	}
	return errors.Join(list...)
}

// checkService returns the errors for an API other than OpenInference.
func (o *Options) checkService() (list []error) {
	check := func(wrong bool, format string, args ...any) {
		if wrong {
			list = append(list, fmt.Errorf(format, args...))
		}
	}
	check(o.Version != "", "a version: API %s has none", o.API)
	check(o.JSON || o.Columns || o.Tensor != "", "JSON, columns or a tensor: API %s has no tensors", o.API)
	check(o.API != Chat && !reflect.ValueOf(o.Chat).IsZero(), "what to ask belongs to API %s", Chat)
	check(o.API != HTTP && !reflect.ValueOf(o.Mapping).IsZero(), "a mapping belongs to API %s", HTTP)
	check(len(o.Outputs) == 0 && o.API != Transcriptions, "no outputs: API %s does not describe its outputs", o.API)
	one := func(kind model.Type) {
		check(len(o.Inputs) != 1 || o.Inputs[0].Type != kind || o.Inputs[0].Shape != nil, "API %s takes one input, of type %s", o.API, kind)
	}
	switch o.API {
	case Embeddings:
		one(model.String)
		check(len(o.Outputs) > 1 || len(o.Outputs) == 1 && o.Outputs[0].Text(), "%d outputs: an embedding is one, of many numbers", len(o.Outputs))
	case Moderations:
		one(model.String)
		check(model.Info{Outputs: o.Outputs}.Texts() > 1, "several texts: API %s has one, of the categories that are flagged", o.API)
		list = append(list, singles(o)...)
	case Transcriptions:
		one(model.Bytes)
		check(len(o.Outputs) > 1 || len(o.Outputs) == 1 && !o.Outputs[0].Text(), "%d outputs: API %s answers with one text", len(o.Outputs), o.API)
	case Chat:
		check(o.Chat.Answer < 0 || o.Chat.Tokens < 0, "a number of tokens is negative")
		list = append(list, singles(o)...)
		if _, err := parseTemplate(o.Chat.Prompt, o.Inputs); err != nil {
			list = append(list, err)
		}
	case HTTP:
		if _, err := newMapping(o); err != nil {
			list = append(list, err)
		}
	}
	return list
}

// singles returns an error for each output that is not a named single number or text.
func singles(o *Options) (list []error) {
	for i, out := range o.Outputs {
		if out.Size != 1 || out.Name == "" {
			list = append(list, fmt.Errorf("output %d: API %s has single numbers and texts with names", i, o.API))
		}
	}
	return list
}

// headerName reports whether text is a valid header name, or "".
func headerName(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// request returns the parts that are equal in each request, in a fixed order. It omits parts that
// do not change an answer, such as the host.
func (o *Options) request() string {
	chat, path := o.Chat, ""
	chat.Tokens = 0
	if to, err := url.Parse(o.URL); err == nil {
		path = to.EscapedPath()
	}
	return fmt.Sprintf("%q %q %q %q %q %v %+v %+v", path, o.API, o.Model, o.Version, o.Tensor, o.Columns, chat, o.Mapping)
}

func (o Options) withDefaults() Options {
	if o.Timeout == 0 {
		o.Timeout = 3 * time.Second
		if o.API == Chat || o.API == Transcriptions {
			o.Timeout = time.Minute
		}
	}
	if o.Calls == 0 {
		o.Calls = 16
	}
	if o.Tensor == "" {
		o.Tensor = "input"
	}
	if o.API == Transcriptions && len(o.Outputs) == 0 {
		o.Outputs = []model.Output{{Name: "text", Size: 1, Type: model.String}}
	}
	if o.Chat.Answer == 0 {
		o.Chat.Answer = 64
		if (model.Info{Outputs: o.Outputs}).Texts() > 0 {
			o.Chat.Answer = 1024
		}
	}
	if o.Chat.Tokens == 0 {
		o.Chat.Tokens = 100_000
	}
	return o
}

package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/afterbay/afterbay/internal/spec"
	"github.com/afterbay/afterbay/model"
)

// Kind is a model of a server.
var Kind = model.Kind{
	Name:    "remote",
	Help:    "the server that has a model of kind remote",
	Example: "{endpoint: grpc://models:8081}",
	NoFile:  true,
	New:     func() model.Config { return &Config{} },
}

// Config asks the model of a server. Inputs and outputs have the names of the server's model.
type Config struct {
	Endpoint  string        // grpc://host:port, grpcs:// for TLS, http:// or https://; of OpenAI's calls up to /v1
	API       string        // what the server speaks; "" is the Open Inference Protocol
	Model     string        // the server's name for the model
	Version   string        // to ask the server for; "" leaves it to the server
	JSON      bool          // sends JSON over HTTP, for servers without binary tensors; rows with missing numbers cannot be scored
	Chat      *ChatConfig   // of api chat
	Mapping   *Mapping      // of api http
	Timeout   time.Duration // most that a call may take; 0 is 3s, of api chat 1m
	Calls     int           // that may be under way; 0 is 16, or what a pipeline says for queued events
	Token     string        // variable of the environment that holds a token; "" is none
	TokenFile string        // file that holds a token, relative to the manifest, read at each call; "" is none
	Header    string        // header that the token is sent in; "" is Authorization, behind the word Bearer
}

// ChatConfig is what a chat model is asked: a row is a question, and the answer is JSON
// with a number for each output.
type ChatConfig struct {
	System  string // what the model is told first; "" is nothing
	Prompt  string // the question, with {name} for the value of an input
	Answer  int    // most tokens of an answer, with those of thinking; 0 is 64
	Tokens  int    // most tokens of calls under way, questions taken as a token for 4 bytes; 0 is 100000
	Reasons bool   // the model thinks before it answers, as OpenAI's since o1: it takes max_completion_tokens instead of max_tokens, and no temperature of 0
}

// Mapping says which JSON is sent for rows, and where their scores are in the
// answer. Places are names with points between them, of which a number counts in
// a list from 0.
type Mapping struct {
	Rows    string  // place of the list with an object for each row in what is sent; "" is a call for each row: its object is the whole body
	Results string  // place of the list with the result of each row in the answer; "" is the answer itself
	Send    []Place // places of inputs in the object of a row; the others stand in it by their names
	Read    []Place // places of outputs in the result of a row; the others stand in it by their names, or are all of it if it is no object
}

// Place is where an input or output is in JSON.
type Place struct {
	Name  string
	Place string
}

var configFields = []spec.Field[Config]{
	{Name: "endpoint", Affects: spec.Outputs, Required: true, Form: spec.Into(func(m *Config) *string { return &m.Endpoint }, spec.PathOf(spec.ReadURL)), Example: "grpc://models:8081"},
	{Name: "api", Affects: spec.Outputs, Form: spec.Into(func(m *Config) *string { return &m.API }, spec.Choice[string]("embeddings", "moderations", "chat", "transcriptions", "http")), Example: "embeddings"},
	{Name: "model", Affects: spec.Outputs, Form: spec.Into(func(m *Config) *string { return &m.Model }, spec.ReadName), Example: "fraud", Absent: "the name of the manifest"},
	{Name: "version", Affects: spec.Outputs, Form: spec.Into(func(m *Config) *string { return &m.Version }, spec.ReadName), Example: "v1.0"},
	{Name: "json", Affects: spec.Outputs, Form: spec.Into(func(m *Config) *bool { return &m.JSON }, spec.OnlyTrue()), Example: "true", Absent: "binary tensors"},
	{Name: "timeout", Affects: spec.Nothing, Form: spec.Into(func(m *Config) *time.Duration { return &m.Timeout }, spec.Span(time.Millisecond, time.Hour)), Example: "500ms"},
	{Name: "calls", Affects: spec.Nothing, Form: spec.Into(func(m *Config) *int { return &m.Calls }, spec.Whole[int](1, 4096)), Example: "32"},
	{Name: "token", Affects: spec.Nothing, Or: "token_file", Form: spec.Into(func(m *Config) *string { return &m.Token }, spec.ReadName), Example: "MODELS_TOKEN"},
	{Name: "token_file", Affects: spec.Nothing, Form: spec.Into(func(m *Config) *string { return &m.TokenFile }, spec.ReadPath), Example: "/run/secrets/models"},
	{Name: "header", Affects: spec.Nothing, Form: spec.Into(func(m *Config) *string { return &m.Header }, spec.ReadName), Example: "X-API-Key"},
	{Name: "chat", Affects: spec.Outputs, Form: spec.Optional(func(m *Config) **ChatConfig { return &m.Chat }, spec.MappingOf(chatFields)),
		Example: "{prompt: 'How angry is this, from 0 to 1? {text}'}", Absent: "required with api chat", Help: "what a chat model is asked"},
	{Name: "mapping", Affects: spec.Outputs, Form: spec.Optional(func(m *Config) **Mapping { return &m.Mapping }, spec.MappingOf(mappingFields)),
		Example: "{rows: instances, results: predictions}", Absent: "as below", Help: "the JSON of api http"},
}

var chatFields = []spec.Field[ChatConfig]{
	{Name: "prompt", Affects: spec.Outputs, Required: true, Form: spec.Into(func(c *ChatConfig) *string { return &c.Prompt }, spec.TextOf("a question")), Example: "'How angry is this, from 0 to 1? {text}'"},
	{Name: "system", Affects: spec.Outputs, Form: spec.Into(func(c *ChatConfig) *string { return &c.System }, spec.TextOf("a text")), Example: "You rate posts."},
	{Name: "answer", Affects: spec.Outputs, Form: spec.Into(func(c *ChatConfig) *int { return &c.Answer }, spec.Whole[int](1, 1<<20).Default(64)), Example: "32"},
	{Name: "tokens", Affects: spec.Nothing, Form: spec.Into(func(c *ChatConfig) *int { return &c.Tokens }, spec.Whole[int](1, 1<<30)), Example: "20000"},
	{Name: "reasons", Affects: spec.Outputs, Form: spec.Into(func(c *ChatConfig) *bool { return &c.Reasons }, spec.OnlyTrue()), Example: "true", Absent: "max_tokens, and a temperature of 0"},
}

var mappingFields = []spec.Field[Mapping]{
	{Name: "rows", Affects: spec.Outputs, Form: spec.Into(func(m *Mapping) *string { return &m.Rows }, spec.ReadName), Example: "instances"},
	{Name: "results", Affects: spec.Outputs, Form: spec.Into(func(m *Mapping) *string { return &m.Results }, spec.ReadName), Example: "predictions"},
	{Name: "send", Affects: spec.Outputs, Form: spec.Into(func(m *Mapping) *[]Place { return &m.Send }, readPlaces), Example: "{amount: transaction.amount}", Absent: "by their names"},
	{Name: "read", Affects: spec.Outputs, Form: spec.Into(func(m *Mapping) *[]Place { return &m.Read }, readPlaces), Example: "{score: risk.0}", Absent: "by their names"},
}

var readPlaces = spec.Named(func(p *Place) *string { return &p.Name }, spec.Into(func(p *Place) *string { return &p.Place }, spec.ReadName))

// FieldTable implements spec.Tabled.
func (c *Config) FieldTable() spec.Table { return spec.Fields(configFields) }

// Check implements model.Config. Options have the rest.
func (c *Config) Check(*model.Manifest) []error {
	if c.Endpoint == "" {
		return []error{errors.New("a model of kind remote needs remote: {endpoint: grpc://host:port}")}
	}
	return nil
}

// Open implements model.Config.
func (c *Config) Open(_ context.Context, m *model.Manifest) (model.Model, error) {
	options := Options{
		URL: c.Endpoint, API: API(c.API), JSON: c.JSON, Model: cmp.Or(c.Model, m.Name), Version: c.Version,
		Inputs: m.Described(), Outputs: m.Outputs, Timeout: c.Timeout, Calls: c.Calls, BearerFile: c.TokenFile, Header: c.Header,
	}
	if c.Chat != nil {
		options.Chat = *c.Chat
	}
	if c.Mapping != nil {
		options.Mapping = *c.Mapping
	}
	if c.Token != "" {
		if options.Bearer = os.Getenv(c.Token); options.Bearer == "" {
			return nil, fmt.Errorf("the variable %s of the environment has no token", c.Token)
		}
	}
	return Open(options)
}

// Describe implements model.Config.
func (c *Config) Describe() string { return c.Endpoint }

// Service implements model.Server.
func (c *Config) Service(m *model.Manifest) (url, service string) {
	return c.Endpoint, cmp.Or(c.Model, m.Name) + "@" + c.Version
}

// Inline implements model.Inliner: the last name of the URL's path is the model's.
func (c *Config) Inline(m model.Inline) (model.Config, bool, error) {
	if m.URL == "" {
		return nil, false, nil
	}
	to, err := url.Parse(m.URL)
	if err != nil {
		return nil, true, errors.New("the URL is not valid: use grpc://HOST:PORT/MODEL, grpcs://, http:// or https://")
	}
	said := &Config{Version: strconv.Itoa(m.Version), Timeout: m.Timeout, Calls: m.Calls}
	if name := path.Base(to.Path); name != "." && name != "/" {
		said.Model, to.Path = name, strings.TrimSuffix(path.Dir(to.Path), "/")
	}
	said.Endpoint = to.String()
	return said, true, nil
}

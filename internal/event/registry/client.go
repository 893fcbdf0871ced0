// Package registry reads and writes records with schemas in a schema registry that implements
// Confluent's API. A record begins with a byte 0 and the id of the schema that it was written with.
package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/afterbay/afterbay/internal/event/avro"
	"github.com/afterbay/afterbay/internal/event/jsonschema"
	"github.com/afterbay/afterbay/internal/event/protobuf"
	"github.com/afterbay/afterbay/internal/sys/httpclient"
)

// Limits of requests.
const (
	answerMax    = 4 << 20 // bytes of a response: the largest schema, as a JSON string
	callMax      = 10 * time.Second
	referenceMax = 256 // schemas that a schema references
)

// Options say where a registry is and how to authenticate. The operator chooses the address, so no
// network is refused. The client does not follow redirects.
type Options struct {
	URL            string // http or https; http sends credentials only to this machine
	User, Password string // for basic authentication; "" sends none
	Token          string // for the header Authorization: Bearer; "" sends none
	TokenFile      string // file with the token, read for each request; "" if not used

	Now func() time.Time // nil is time.Now
}

// Validate returns the errors in the options.
func (o *Options) Validate() error {
	to, err := url.Parse(o.URL)
	credentials := o.User != "" || o.Password != "" || o.Token != "" || o.TokenFile != ""
	switch {
	case err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Hostname() == "":
		return fmt.Errorf("%q is not a valid URL: use https://HOST:PORT", httpclient.ShownText(o.URL))
	case to.User != nil:
		return errors.New("a password has no place in the URL, which errors would show: use user and password")
	case to.RawQuery != "" || to.Fragment != "":
		return fmt.Errorf("the URL has a query: use %s", httpclient.Shown(&url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}))
	case (o.User == "") != (o.Password == ""):
		return errors.New("user and password go together")
	case o.User != "" && (o.Token != "" || o.TokenFile != ""), o.Token != "" && o.TokenFile != "":
		return errors.New("there are several credentials: use user and password, token or token_file")
	case credentials && to.Scheme == "http" && !httpclient.Loopback(to.Hostname()):
		return fmt.Errorf("credentials would pass %s in the clear: use https", to.Hostname())
	}
	return nil
}

// newClient returns a client that sends the credentials of the options.
func newClient(o *Options) (*sr.Client, *http.Client, error) {
	if err := o.Validate(); err != nil {
		return nil, nil, err
	}
	plain := httpclient.NoRedirects(&bounded{&http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: callMax, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
	}})
	client, err := sr.NewClient(sr.URLs(strings.TrimSuffix(o.URL, "/")), sr.HTTPClient(plain), sr.UserAgent("afterbay"), sr.PreReq(func(request *http.Request) error {
		if o.User != "" {
			request.SetBasicAuth(o.User, o.Password)
			return nil
		}
		token, err := httpclient.Bearer(o.Token, o.TokenFile)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		return err
	}))
	return client, plain, err
}

// bounded refuses responses that are too large.
type bounded struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.Transport.RoundTrip(request)
	if err == nil {
		response.Body = &body{response.Body, answerMax}
	}
	return response, err
}

type body struct {
	io.ReadCloser
	left int
}

var errTooLarge = fmt.Errorf("the answer of the registry has more than %d bytes", answerMax)

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// answer is the registry's answer about an id. It holds a schema, the id of the previous version,
// or neither.
type answer struct {
	avro     *avro.Schema
	protobuf *protobuf.File
	json     *jsonschema.Schema
	before   int // id of the previous version, or 0

	err   error     // reason why there is no schema
	until time.Time // when to ask again, because the answer may change; zero means never
}

// awayError is the error of an attempt that will be retried: the id is still unknown.
type awayError struct{ err error }

func (e *awayError) Error() string { return e.err.Error() }

// refusal returns the error code of a 404 response from the registry itself, or 0.
func refusal(err error) int {
	var said *sr.ResponseError
	if errors.As(err, &said) && said.StatusCode == http.StatusNotFound {
		return said.ErrorCode
	}
	return 0
}

// away wraps the error of a request that failed because of the registry, the network or
// credentials.
func away(err error) error {
	var said *sr.ResponseError
	if errors.As(err, &said) {
		return &awayError{fmt.Errorf("%d %s: %.200s", said.StatusCode, http.StatusText(said.StatusCode), cmp.Or(said.Message, string(said.Raw)))}
	}
	return &awayError{httpclient.Bare(err)}
}

// ask asks the registry about an id. Its error is an *awayError.
func (r *Registry) ask(ctx context.Context, of question) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	if of.before {
		return r.askBefore(ctx, of.id)
	}
	schema, err := r.client.SchemaByID(ctx, of.id)
	if err == nil {
		return r.parse(ctx, schema)
	}
	return r.judge(err, "the registry does not know it", sr.ErrSchemaNotFound)
}

// judge decides what an error means for an id: an answer, or an *awayError.
func (r *Registry) judge(err error, unknown string, codes ...*sr.Error) (*answer, error) {
	switch code := refusal(err); {
	case errors.Is(err, errTooLarge):
		return &answer{err: errTooLarge}, nil
	case slices.ContainsFunc(codes, func(e *sr.Error) bool { return e.Code == code }):
		return &answer{err: errors.New(unknown), until: r.now().Add(unknownFor)}, nil
	}
	return nil, away(err)
}

// askBefore asks for the id of the version before a schema. It uses the first subject of the schema
// that has such a version.
func (r *Registry) askBefore(ctx context.Context, id int) (*answer, error) {
	versions, err := r.client.SchemaVersionsByID(ctx, id)
	slices.SortFunc(versions, func(a, b sr.SubjectVersion) int {
		return cmp.Or(strings.Compare(a.Subject, b.Subject), cmp.Compare(a.Version, b.Version))
	})
	i := slices.IndexFunc(versions, func(v sr.SubjectVersion) bool { return v.Version > 1 })
	var before sr.SubjectSchema
	if err == nil && i >= 0 {
		before, err = r.client.SchemaByVersion(ctx, versions[i].Subject, versions[i].Version-1)
	}
	var said *sr.ResponseError
	if err == nil || errors.As(err, &said) && said.StatusCode < http.StatusInternalServerError && said.StatusCode != http.StatusTooManyRequests {
		return &answer{before: before.ID}, nil // without a previous version, the known reason stands alone
	}
	return nil, away(err)
}

// parse reads a schema and the schemas that it references.
func (r *Registry) parse(ctx context.Context, schema sr.Schema) (*answer, error) {
	if schema.Type == sr.TypeJSON {
		read, err := jsonschema.Parse(schema.Schema)
		if err != nil {
			read = &jsonschema.Schema{} // JSON records are read by names, with or without a schema
		}
		return &answer{json: read}, nil
	}
	used := references{registry: r, seen: map[string]bool{}}
	if known, err := used.add(ctx, schema.References); known != nil || err != nil {
		return known, err
	}
	made := &answer{}
	if schema.Type == sr.TypeProtobuf {
		made.protobuf, made.err = protobuf.Parse(rootFile, used.opener(schema.Schema))
	} else {
		made.avro, made.err = avro.Parse(schema.Schema, used.texts...)
	}
	return made, nil
}

// references are the schemas that a schema references. Each follows those that it references
// itself.
type references struct {
	registry *Registry
	seen     map[string]bool
	names    []string
	texts    []string
	bytes    int
}

// add fetches references. If it cannot, it returns the answer with the reason, or an *awayError.
func (u *references) add(ctx context.Context, list []sr.SchemaReference) (*answer, error) {
	for _, one := range list {
		if u.seen[one.Name] {
			continue
		}
		if u.seen[one.Name] = true; len(u.seen) > referenceMax {
			return &answer{err: fmt.Errorf("it uses more than %d other schemas", referenceMax)}, nil
		}
		found, err := u.registry.client.SchemaByVersion(ctx, one.Subject, one.Version)
		if err != nil {
			return u.registry.judge(err, "it uses version "+strconv.Itoa(one.Version)+" of "+one.Subject+", which the registry does not know",
				sr.ErrSubjectNotFound, sr.ErrVersionNotFound, sr.ErrSchemaNotFound)
		}
		if u.bytes += len(found.Schema.Schema); u.bytes > avro.SchemaMax {
			return &answer{err: fmt.Errorf("the schemas that it uses have more than %d bytes", avro.SchemaMax)}, nil
		}
		if known, err := u.add(ctx, found.References); known != nil || err != nil {
			return known, err
		}
		u.names, u.texts = append(u.names, one.Name), append(u.texts, found.Schema.Schema)
	}
	return nil, nil
}

// rootFile is the Protobuf file name of a schema that no file imports.
const rootFile = "the schema"

// opener opens a schema and its references as .proto files.
func (u *references) opener(root string) func(name string) (io.ReadCloser, error) {
	return func(name string) (io.ReadCloser, error) {
		if name == rootFile {
			return io.NopCloser(strings.NewReader(root)), nil
		}
		if i := slices.Index(u.names, name); i >= 0 {
			return io.NopCloser(strings.NewReader(u.texts[i])), nil
		}
		return nil, fmt.Errorf("%s is not one of its references", name)
	}
}

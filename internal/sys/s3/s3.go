// Package s3 sends signed requests to S3 servers over HTTP. The caller decides which data it reads
// and writes, and how much.
package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Options holds the server and the credentials. The zero value is Amazon's server with the
// credentials of the environment.
type Options struct {
	Endpoint    string // http or https URL of another server, with buckets in its paths; "" is AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or Amazon's of the region
	Region      string // "" is AWS_REGION, AWS_DEFAULT_REGION, or us-east-1
	Credentials string // a file in the format of ~/.aws/credentials; "" is where Amazon's own tools look: environment variables, web identity, shared files, the role of the container or machine
	Profile     string // profile in the file; "" is AWS_PROFILE, or default
	Client      *http.Client
	Now         func() time.Time // nil is time.Now
}

// Client sends requests to a server. It is safe for concurrent use.
type Client struct {
	options     Options
	endpoint    *url.URL // nil is Amazon's
	signer      *v4.Signer
	credentials credentials
}

// New returns a client. It sends no request. Options.Client is required.
func New(o Options) (*Client, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	first := func(text *string, names ...string) {
		for _, name := range names {
			if *text == "" {
				*text = os.Getenv(name)
			}
		}
	}
	first(&o.Endpoint, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
	first(&o.Region, "AWS_REGION", "AWS_DEFAULT_REGION")
	if o.Region == "" {
		o.Region = "us-east-1"
	}
	c := &Client{options: o, signer: v4.NewSigner(func(s *v4.SignerOptions) { s.DisableURIPathEscaping = true })}
	c.credentials.options = &c.options
	if o.Endpoint == "" {
		return c, nil
	}
	var err error
	if c.endpoint, err = url.Parse(strings.TrimSuffix(o.Endpoint, "/")); err != nil {
		return nil, errors.New("endpoint of S3: the URL is not valid: use https://HOST:PORT")
	}
	if to := c.endpoint; to.Scheme != "http" && to.Scheme != "https" || to.Host == "" || to.User != nil || to.RawQuery != "" {
		return nil, errors.New("endpoint of S3: the URL is not valid: use https://HOST:PORT, without user and query")
	}
	return c, nil
}

// Close ends idle connections.
func (c *Client) Close() { c.options.Client.CloseIdleConnections() }

// Where returns the URL of an object, for messages.
func (c *Client) Where(bucket, key string) string { return c.address(bucket, key).String() }

// address returns the URL of an object, or of a bucket if the key is "".
func (c *Client) address(bucket, key string) *url.URL {
	to := url.URL{Scheme: "https", Path: "/" + key}
	switch {
	case c.endpoint != nil:
		to = *c.endpoint
		to.Path += "/" + bucket
		if key != "" {
			to.Path += "/" + key
		}
	case strings.Contains(bucket, "."): // no certificate is valid for such a host name
		to.Host, to.Path = "s3."+c.options.Region+".amazonaws.com", "/"+bucket+"/"+key
	default:
		to.Host = bucket + ".s3." + c.options.Region + ".amazonaws.com"
	}
	to.RawPath = escape(to.Path)
	return &to
}

// escape escapes a path as signatures require.
func escape(path string) string {
	var b strings.Builder
	for i := range len(path) {
		switch c := path[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~/", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// CheckKey returns an error for an invalid object key. Servers and proxies resolve "." and ".." in
// a path as folders, so such a key may lead to another object or bucket.
func CheckKey(key string) error {
	for part := range strings.SplitSeq(key, "/") {
		if part == "." || part == ".." {
			return fmt.Errorf("the key %q has %q as a part, which may lead to another object", key, part)
		}
	}
	return nil
}

// Do sends a signed request for an object, or for a bucket if the key is "". headers may be nil. It
// returns a response with a status below 300, and the caller must close its body. Any other status
// is an *Error. Other errors mean that the server did not answer or that there are no credentials.
func (c *Client) Do(ctx context.Context, method, bucket, key string, headers http.Header, body []byte) (*http.Response, error) {
	return c.Send(ctx, method, bucket, key, headers, Body{
		Open: func() io.Reader { return bytes.NewReader(body) }, Size: int64(len(body)), Sum: sha256.Sum256(body),
	})
}

// Body is the body of a request. Open is called again if the connection broke before a response
// arrived.
type Body struct {
	Open func() io.Reader
	Size int64
	Sum  [sha256.Size]byte
}

// Send is Do with a body that is not in memory.
func (c *Client) Send(ctx context.Context, method, bucket, key string, headers http.Header, body Body) (*http.Response, error) {
	if err := errors.Join(CheckKey(bucket), CheckKey(key)); err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://bucket/", http.NoBody)
	if err != nil {
		return nil, err
	}
	if body.Size > 0 {
		request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(body.Open()), nil }
		request.Body, request.ContentLength = io.NopCloser(body.Open()), body.Size
	}
	request.URL = c.address(bucket, key)
	request.Host = request.URL.Host
	for name, values := range headers {
		request.Header[name] = values
	}
	who, err := c.credentials.get(ctx)
	if err != nil {
		return nil, err
	}
	hash := hex.EncodeToString(body.Sum[:])
	request.Header.Set("X-Amz-Content-Sha256", hash)
	if err := c.signer.SignHTTP(ctx, who, request, hash, "s3", c.options.Region, c.options.Now()); err != nil {
		return nil, fmt.Errorf("sign a request of S3: %w", err)
	}
	response, err := c.options.Client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < 300 {
		return response, nil
	}
	defer response.Body.Close()
	return nil, refused(response)
}

// Error is an error response of a server.
type Error struct {
	Status  int
	Code    string // such as NoSuchKey; "" if the server sends none
	Message string
}

// Error returns status, code and message of the response.
func (e *Error) Error() string {
	text := fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status))
	for _, part := range []string{e.Code, e.Message} {
		if part != "" {
			text += ": " + part
		}
	}
	return text
}

const errorBytesMax = 16 << 10

func refused(response *http.Response) error {
	e := &Error{Status: response.StatusCode}
	said, err := io.ReadAll(io.LimitReader(response.Body, errorBytesMax))
	if err == nil {
		var text struct{ Code, Message string }
		if xml.Unmarshal(said, &text) == nil {
			e.Code, e.Message = text.Code, strings.ToValidUTF8(text.Message[:min(len(text.Message), 200)], "?")
		}
	}
	if region := response.Header.Get("X-Amz-Bucket-Region"); region != "" && (e.Status == http.StatusMovedPermanently || e.Status == http.StatusBadRequest) {
		e.Message = strings.TrimSpace(e.Message + " The bucket is in region " + region + ": set it.")
	}
	return e
}

// OfAccount reports whether the error concerns the account or the signature, and not the object.
func (e *Error) OfAccount() bool {
	switch e.Code {
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired", "RequestTimeTooSkewed", "AuthorizationHeaderMalformed", "InvalidSecurity", "AccountProblem", "NotSignedUp", "RequestExpired":
		return true
	}
	return e.Status == http.StatusUnauthorized
}

package httpclient

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"

	"github.com/afterbay/afterbay/stream"
)

const shownMax = 300 // limit for a URL in a message, in bytes

// Shown returns a URL for messages, at most 300 bytes. It removes user, query and fragment, which
// may hold secrets.
func Shown(u *url.URL) string { return shown(u, u.EscapedPath()) }

// ShownOrigin is Shown without the path. The path of many webhooks is a secret.
func ShownOrigin(u *url.URL) string {
	if strings.Trim(u.Path, "/") == "" {
		return Shown(u)
	}
	return shown(u, "/...")
}

func shown(u *url.URL, path string) string {
	text := u.Scheme + "://" + u.Host + path
	text = text[:min(len(text), shownMax)]
	if u.RawQuery != "" {
		text += "?..."
	}
	return text
}

// ShownText is Shown for a text that may be an invalid URL.
func ShownText(text string) string {
	text, _, cut := strings.Cut(text, "?")
	text, _, _ = strings.Cut(text, "#")
	before, rest, _ := strings.Cut(text, "//")
	host, path, slash := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		if text = before + "//" + host[at+1:]; slash {
			text += "/" + path
		}
	}
	text = text[:min(len(text), shownMax)]
	if cut {
		text += "?..."
	}
	return text
}

// Place returns a URL without user, query and fragment, as the name of a service. It returns "" for
// an invalid URL.
func Place(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "" // the caller that opens the URL reports the error
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// Loopback reports whether the host of a URL is this machine.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Bare returns the error of a request without its URL.
func Bare(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

var secretName = regexp.MustCompile(`(?i)token|secret|passw|pwd|credential|signature|jwt|api[_-]?key|access[_-]?key|^(key|sig|auth|authorization|code)$`)

// SecretIn returns the name of the first query parameter of a URL that looks like a secret, or "".
// A value with the placeholder {key} is not a secret.
func SecretIn(u *url.URL) string {
	for _, pair := range strings.FieldsFunc(u.RawQuery, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if value != "" && !strings.Contains(value, "{key}") && secretName.MatchString(name) {
			return name
		}
	}
	return ""
}

// Warnings returns warnings about the field `url` of a sink or a lookup: a secret in its query. It
// ignores an invalid URL, since opening that returns an error.
func Warnings(text string) []error {
	u, err := url.Parse(text)
	if err != nil {
		return nil
	}
	if name := SecretIn(u); name != "" {
		err := fmt.Errorf("the parameter %s of the query holds a secret, by its name: logs of proxies and servers keep queries. Use a token, a header or a password before the @ if the service accepts one", name)
		return []error{&stream.Mistake{Field: "url", Err: err}}
	}
	return nil
}
